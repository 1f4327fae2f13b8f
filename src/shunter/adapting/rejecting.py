"""AutoSched's tuner: another search proposes settings, and a causal model rejects those that promise nothing.

Settings that promise no gain are frozen: proposals take them from the best ones so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shunter.adapting.causal import CausalModel, CausalSamples, learned_graph
from shunter.adapting.fci import fci_graph
from shunter.tuning.sampling import DrawnSettings, SettingSearch
from shunter.tuning.spaces import PolicySpace
from shunter.world import F64

MODEL_SHARE = 0.8  # of proposals that the model judges
LEAST_REWARD = 0.95  # of the best one, below which a proposal is rejected
WORTH = 0.01  # part of the best reward that a setting must promise to stay free
FEWEST_RUNS, MOST_RUNS = 30, 400  # that a model is fitted to
REFIT = 8  # runs after which it is fitted again
GRAPHS = {"layers": learned_graph, "fci": fci_graph}  # how the graph is learned
THAW = 10  # proposals after which all settings are free again
SWEEP = 9  # values of a setting at which the model is evaluated


@dataclass
class TriedSettings:
    """Runs of one space so far, over several searches.

    Rewards, and what happens in between, are relative to the settings in use on the same hour: hours differ by far more
    than settings do.
    """

    points: list[F64] = field(default_factory=list)
    middle: list[Sequence[float]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    method: str = "layers"  # how the graph is learned

    def add(self, point: F64, middle: Sequence[float], reward: float) -> None:
        """One more; the oldest goes."""
        self.points.append(point)
        self.middle.append(middle)
        self.rewards.append(reward)
        for values in (self.points, self.middle, self.rewards):
            del values[:-MOST_RUNS]

    def model(self, names: Sequence[str], between: Sequence[str]) -> CausalModel | None:
        """The model of these; None: there are too few."""
        if len(self.rewards) < FEWEST_RUNS:
            return None
        inputs, middle = np.array(self.points), np.array(self.middle, np.float64)
        samples = CausalSamples(tuple(names), tuple(between), inputs, middle, np.array(self.rewards))
        return CausalModel(samples, GRAPHS[self.method](samples))


class RejectingSearch(SettingSearch):
    """Passes on what another search proposes, unless the model expects too little of it.

    A rejected proposal uses up a part of the budget, but is not run.
    """

    def __init__(
        self, inner: SettingSearch, tried: TriedSettings, measured: Mapping[str, Sequence[float]],
        between: Sequence[str], base: str, seed: int,
    ) -> None:  # fmt: skip
        super().__init__(inner.spaces, inner.budget, seed)
        self.inner, self.tried, self.measured, self.between, self.base = inner, tried, measured, between, base
        self.seen = inner.seen  # one record for both
        self.names = coordinates(inner.spaces[0])
        self.model = tried.model(self.names, between)
        self.reasons: list[str] = []  # why proposals were rejected, and settings frozen
        self.rejected, self._told, self._rounds = 0, 0, 0
        self._frozen: dict[int, float] = {}
        self._learned: set[str] = set()

    def ask(self) -> list[DrawnSettings]:
        """The proposals that are worth a run."""
        self._rounds += 1
        if self._rounds % THAW == 0:
            self._frozen = {}
        proposed = [self._with_frozen(each) for each in self.inner.ask()]
        if all(each.text in self.seen for each in proposed):  # nothing new is left with what is frozen
            self._frozen = {}
        kept = [each for each in proposed if not self._rejects(each)]
        self.rejected += len(proposed) - len(kept)
        self.budget = max(self.inner.budget - self.rejected, 1)
        return kept

    def tell(self, candidates: Sequence[DrawnSettings], values: Sequence[float]) -> None:
        """Learn from runs, and pass them on to the other search."""
        self.inner.tell(candidates, values)
        base, usual = self.seen.get(self.base, math.nan), self.measured.get(self.base, ())
        for each, value in zip(candidates, values, strict=True):
            known = each.text in self.measured and each.text not in self._learned and bool(usual)
            if known and value > 0 and math.isfinite(value) and math.isfinite(base):
                self._learned.add(each.text)
                middle = [a - b for a, b in zip(self.measured[each.text], usual, strict=True)]
                self.tried.add(each.point, middle, base / value)
                self._told += 1
        if self._told >= REFIT:
            self._told, self.model = 0, self.tried.model(self.names, self.between)
            self._freeze()

    def _best(self) -> tuple[float, F64] | None:
        """The best reward of this search, and where it was."""
        base = self.seen.get(self.base, math.nan)
        found = [(base / value, each.point) for value, each in self.inner.results if 0 < value < math.inf]
        return max(found, key=lambda each: each[0], default=None)

    def _rejects(self, proposed: DrawnSettings) -> bool:
        best = self._best()
        if self.model is None or best is None or not proposed.text or proposed.text in self.seen:
            return False
        if self.draws.random() > MODEL_SHARE:
            return False
        expected = float(self.model.predicted(proposed.point[None])[0])
        if expected > LEAST_REWARD * best[0]:
            return False
        self.reasons.append(f"rejected {proposed.text}: expected {expected:.3f} times as good, best {best[0]:.3f}")
        return True

    def _freeze(self) -> None:
        """Freeze each setting of which no value promises more than the best has; one at least stays free."""
        best = self._best()
        if self.model is None or best is None:
            return
        reward, point = best
        promise = np.array([self._promise(point, at) for at in range(len(point))])
        free = promise > reward * (1 + WORTH)
        free[int(np.argmax(promise))] = True
        self._frozen = {at: float(point[at]) for at in np.flatnonzero(~free).tolist()}
        self.reasons += [
            f"frozen {self.names[at]}: at most {promise[at]:.3f} expected, best {reward:.3f}"
            if self.model.graph.acts(self.names[at])
            else f"frozen {self.names[at]}: no effect on anything that was measured"
            for at in self._frozen
        ]

    def _promise(self, point: F64, at: int) -> float:
        """The most that the model expects of any value of one coordinate."""
        assert self.model is not None
        swept = np.tile(point, (SWEEP, 1))
        swept[:, at] = (np.arange(SWEEP) + 0.5) / SWEEP
        return float(self.model.predicted(swept).max())

    def _with_frozen(self, proposed: DrawnSettings) -> DrawnSettings:
        if not self._frozen:
            return proposed
        point = proposed.point.copy()
        for at, value in self._frozen.items():
            point[at] = value
        return self.candidate(proposed.space, point)


def coordinates(space: PolicySpace) -> list[str]:
    """A name for each coordinate of a space."""
    return [
        each.key if len(each.categories) == 1 else f"{each.key}.{at}"
        for each in space.dimensions
        for at in range(len(each.categories))
    ]

"""What came of windows: a few numbers of each, and differences between entrants on the same windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shunter.learning import episodes as e
from shunter.learning.engine import EpisodeEngine, LearnedOrder, LearningGround, new_record
from shunter.learning.outcomes import runs_in, scores
from shunter.learning.training import order, parts_of, spaced
from shunter.model import GPU
from shunter.policies.scored.models import ScoreModel
from shunter.report.bootstrap import RESAMPLES, Estimate, estimate
from shunter.reproduce.rltune.design import VISIBLE, Entrant, Panel
from shunter.seeding import rng
from shunter.world import F64, I64

MEASURES = {
    "wait": "mean wait", "bsld": "mean bounded slowdown", "jct": "mean JCT", "p99": "P99 of the wait",
    "utilization": "GPUs in use",
}  # fmt: skip


def windows_of(panel: Panel, ground: LearningGround, asked: int) -> tuple[int, I64]:
    """The length of its windows, and the jobs with which they begin: as far apart as they can be, none overlaps."""
    count, jobs = panel.windows or asked, len(ground.trace)
    judged_on = len(parts_of(ground)[2]) + ground.length - 1
    begin = 0 if panel.whole else jobs - judged_on
    length = min(panel.jobs, (jobs - begin) // count)
    return length, spaced(np.arange(begin, jobs - length + 1), count)


def measured(ground: LearningGround, firsts: I64, waits: F64) -> F64:
    """The measures of each window (measures, windows), from how long each of its jobs waited (windows, jobs)."""
    length = ground.length
    runs = runs_in(ground.run_times, firsts, length)
    submit = runs_in(ground.trace.submit / 1000.0, firsts, length)
    work = runs * runs_in(ground.trace.gpus / GPU, firsts, length)
    span = (submit + waits + runs).max(1) - submit[:, 0]
    used = work.sum(1) / (ground.cluster.gpus * span)
    return np.array([*(scores(name, waits, runs) for name in ("wait", "bsld", "jct", "p99")), used])


def waits_of(entrant: Entrant, ground: LearningGround, firsts: I64, models: Sequence[ScoreModel]) -> list[F64]:
    """How long jobs wait under an entrant: once, or under each of its models."""
    if not entrant.agent:
        return [EpisodeEngine(ground, order(entrant.policy)).waits(firsts)]
    inner = order(entrant.policy)
    found = []
    for model in models:
        if model.asks == "skip":
            engine = EpisodeEngine(ground, inner, watched=model, mode=e.INSPECT)
            found.append(engine.play(firsts, firsts, new_record(1, 1, 1, 0.0), greedy=True)[0])
        else:
            placement = "weighed" if entrant.solver else inner.placement
            learned = LearnedOrder(given=model, backfill=inner.backfill, placement=placement, visible=VISIBLE)
            found.append(EpisodeEngine(ground, learned).waits(firsts))
    return found


@dataclass(frozen=True, eq=False)
class PanelResult:
    """A table: the measures of each entrant, (trainings, measures, windows), each the mean over draws."""

    panel: Panel
    data: str
    information: str
    length: int  # jobs of a window
    values: Mapping[Entrant, F64]
    seed: int

    @property
    def windows(self) -> int:
        """How many there are."""
        return int(next(iter(self.values.values())).shape[2])

    def of(self, entrant: Entrant, measure: str) -> float:
        """A number, mean over windows and trainings."""
        return float(self._drawn(entrant, measure)[0])

    def change(self, entrant: Entrant, base: Entrant, measure: str) -> Estimate:
        """By which part a number is above (below: negative) that of another entrant on the same windows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: F64 = self._drawn(entrant, measure) / self._drawn(base, measure) - 1
        return estimate(shares, self.windows)

    def factor(self, base: Entrant, entrant: Entrant, measure: str) -> Estimate:
        """How many times as large a number is under the first."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return estimate(self._drawn(base, measure) / self._drawn(entrant, measure), self.windows)

    def _drawn(self, entrant: Entrant, measure: str) -> F64:
        """The mean, and after it those of windows and trainings drawn again and again, windows the same for all."""
        values = self.values[entrant][:, list(MEASURES).index(measure)]
        trainings, windows = values.shape
        each = _weights(windows, self.seed, "windows")
        own = _weights(trainings, self.seed, f"trainings of {entrant.label}")
        found: F64 = np.einsum("rt,tw,rw->r", own, values, each)
        return found


def _weights(count: int, seed: int, name: str) -> F64:
    """How much each counts: first all alike, then as often as it was drawn (1 + draws, count)."""
    drawn = rng(seed, name).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    return np.vstack([np.ones(count), drawn]) / count


def shown(change: Estimate) -> bool:
    """Whether all of the interval is on one side of 0."""
    return bool(np.isfinite(change.low) and not change.low <= 0 <= change.high)

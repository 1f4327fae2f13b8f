"""Searches that draw settings, one batch after the other: ``ask`` for candidates, ``tell`` what they gave.

``random`` draws anywhere, drops the worse half of the policies now and then, and refines the best settings found.
``bluefin`` is the search of SelfTune: it moves a centre by the differences between pairs of settings around it, and
learns categories by exponential weights; ``bluefin-one`` tries one setting at a time.  ``tpe`` and ``cmaes`` are
Optuna's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shunter import extras
from shunter.errors import RunError, did_you_mean
from shunter.seeding import rng
from shunter.tuning.spaces import PolicySpace, category
from shunter.world import F64

METHODS = ("random", "bluefin", "bluefin-one", "tpe", "cmaes")
BATCH = 8  # settings that are run at the same time
FRUITLESS = 50  # batches in a row, none of them new and free of contradictions, after which all settings count as tried
EXPLORED = 0.5  # part of the budget after which the best settings are refined
WIDEST, NARROWEST = 0.3, 0.03  # how far they are varied, at first and in the end
REFINED = 3  # settings that are varied
ANYWHERE = 0.2  # part of the draws that are drawn anywhere nevertheless

Evaluate = Callable[[Sequence[str]], Sequence[float]]  # what policies give, smaller is better; infinite: abandoned


@dataclass(frozen=True, eq=False)
class DrawnSettings:
    """Settings to try: a point of a space, as a policy."""

    space: int
    point: F64
    text: str


class SettingSearch(ABC):
    """A search through several spaces."""

    def __init__(self, spaces: Sequence[PolicySpace], budget: int, seed: int) -> None:
        self.spaces, self.budget, self.draws = spaces, budget, rng(seed, "tuning")
        self.seen: dict[str, float] = {}
        self.results: list[tuple[float, DrawnSettings]] = []

    @property
    def used(self) -> float:
        """The part of the budget that is used."""
        return len(self.seen) / self.budget

    @abstractmethod
    def ask(self) -> list[DrawnSettings]:
        """Settings to try next; some may have been tried before, or contradict themselves."""

    def tell(self, candidates: Sequence[DrawnSettings], values: Sequence[float]) -> None:
        """What they gave; infinity: settings that contradict each other, or were abandoned."""
        for each, value in zip(candidates, values, strict=True):
            if each.text:
                self.seen.setdefault(each.text, value)
                self.results.append((value, each))

    def candidate(self, space: int, point: F64) -> DrawnSettings:
        """A point as a candidate."""
        return DrawnSettings(space, point, self.spaces[space].text(point))


def sampled(search: SettingSearch, begin: Sequence[str], evaluate: Evaluate) -> str:
    """Try ``begin``, then what the search asks for, until its budget or the space is used up; returns the best."""
    found = dict(zip(begin, evaluate(begin), strict=True))
    search.seen.update(found)
    fruitless = 0
    while (left := search.budget - len(search.seen)) > 0 and fruitless < FRUITLESS:
        asked = search.ask()
        new = list(dict.fromkeys(each.text for each in asked if each.text and each.text not in search.seen))[:left]
        fruitless = 0 if new else fruitless + 1
        values = dict(zip(new, evaluate(new), strict=True)) if new else {}
        known = [each for each in asked if not each.text or each.text in values or each.text in search.seen]
        search.tell(known, [values.get(each.text, search.seen.get(each.text, math.inf)) for each in known])
    return min(search.seen, key=lambda text: search.seen[text])


class RefiningSearch(SettingSearch):
    """Draws anywhere, among fewer and fewer policies; then varies the best settings."""

    def ask(self) -> list[DrawnSettings]:
        """A batch that depends on how much of the budget is used; anything, where that has nothing new."""
        asked = self._explored() if self.used < EXPLORED or not self.results else self._refined()
        if all(not each.text or each.text in self.seen for each in asked):  # policies with few settings are used up
            return [self._drawn(self._varied[int(self.draws.integers(len(self._varied)))]) for _ in range(BATCH)]
        return asked

    def _explored(self) -> list[DrawnSettings]:
        alive = self._alive()
        return [self._drawn(alive[at % len(alive)]) for at in range(len(self.seen), len(self.seen) + BATCH)]

    def _drawn(self, space: int) -> DrawnSettings:
        return self.candidate(space, self.spaces[space].drawn(self.draws))

    def _refined(self) -> list[DrawnSettings]:
        best = sorted(self.results, key=lambda each: each[0])
        firsts: dict[str, DrawnSettings] = {}
        for _, each in best:
            firsts.setdefault(each.text, each)
        share = (self.used - EXPLORED) / (1 - EXPLORED)
        width = WIDEST * (NARROWEST / WIDEST) ** share
        return [self._near(list(firsts.values())[:REFINED], width) for _ in range(BATCH)]

    @cached_property
    def _varied(self) -> list[int]:
        """The policies that have anything to search."""
        return [at for at, space in enumerate(self.spaces) if space.dimensions]

    def _alive(self) -> list[int]:
        """The policies that are left: half of them after each of equal parts of the exploring."""
        rounds = max(math.ceil(math.log2(len(self._varied))), 1)
        left = max(len(self._varied) // 2 ** int(rounds * self.used / EXPLORED), 1)
        return sorted(self._varied, key=self._best_of)[:left]

    def _best_of(self, space: int) -> float:
        begun = (self.spaces[space].policy, *self.spaces[space].also)
        found = [value for value, each in self.results if each.space == space]
        return min([*found, *(self.seen.get(text, math.inf) for text in begun)])

    def _near(self, parents: Sequence[DrawnSettings], width: float) -> DrawnSettings:
        parent = parents[int(self.draws.integers(len(parents)))]
        space = self.spaces[parent.space]
        anywhere = self.draws.random() < ANYWHERE
        return self.candidate(
            parent.space, space.drawn(self.draws) if anywhere else space.near(parent.point, width, self.draws)
        )


class ExponentialWeights:
    """Which of several categories to take, learned from rewards of those that were taken (OPPerTune)."""

    def __init__(self, count: int) -> None:
        self.odds, self.rounds, self.least = np.full(count, 1 / count), 0, 0.0

    def chances(self) -> F64:
        """How likely each is to be taken: by what is known, mixed with an equal chance, less so with time."""
        count = len(self.odds)
        mixed = min(1.0, math.sqrt(count / max(self.rounds, 1)))
        chances: F64 = (1 - mixed) * self.odds + mixed / count
        return chances

    def draw(self, draws: np.random.Generator) -> int:
        """One of them."""
        return int(draws.choice(len(self.odds), p=self.chances()))

    def reward(self, taken: int, reward: float) -> None:
        """The one that was taken gave this."""
        chance, count = self.chances()[taken], len(self.odds)
        self.rounds, self.least = self.rounds + 1, min(self.least, reward)
        rate = math.sqrt(math.log(count) / (count * self.rounds)) / max(1.0, abs(self.least)) if count > 1 else 0.0
        self.odds[taken] *= math.exp(min(rate * reward / chance, 50.0))
        self.odds /= self.odds.sum()


class BlueFinSearch(SettingSearch):
    """SelfTune's BlueFin: pairs of settings on both sides of a centre, which moves by what their rewards differ.

    Centres stay ``RADIUS`` away from the ends of every range, so that what is tried is always within it (projection).
    Rewards are the best value so far over the value, so that they are positive.
    """

    RADIUS, RATE = 0.1, 0.01

    def __init__(self, spaces: Sequence[PolicySpace], budget: int, seed: int) -> None:
        super().__init__(spaces, budget, seed)
        self.centres = [np.full(len(space.categories), 0.5) for space in spaces]
        self.policies = ExponentialWeights(len(spaces))
        self.kinds = [[ExponentialWeights(max(count, 1)) for count in space.categories] for space in spaces]
        self.direction = np.zeros(0)

    def ask(self) -> list[DrawnSettings]:
        """Two settings with the same categories."""
        space = self.policies.draw(self.draws)
        counts = np.array(self.spaces[space].categories)
        numbers = counts == 0
        direction = np.where(numbers, self.draws.standard_normal(len(counts)), 0.0)
        length = float(np.linalg.norm(direction))
        self.direction = direction / length if length else direction
        taken = [weights.draw(self.draws) for weights in self.kinds[space]]
        kinds = (np.array(taken) + 0.5) / np.maximum(counts, 1)
        offsets = (self.RADIUS * self.direction, -self.RADIUS * self.direction)
        return [self.candidate(space, np.where(numbers, self.centres[space] + each, kinds)) for each in offsets]

    def tell(self, candidates: Sequence[DrawnSettings], values: Sequence[float]) -> None:
        """Move the centre towards the better one of a pair, and reward the categories."""
        super().tell(candidates, values)
        if not candidates:
            return
        reference = min((value for value in self.seen.values() if math.isfinite(value)), default=1.0)
        rewards = [reference / value if value > 0 else 1.0 for value in values]
        space, reward = candidates[0].space, float(np.mean(rewards))
        self.policies.reward(space, reward)
        for weights, count, at in zip(
            self.kinds[space], self.spaces[space].categories, candidates[0].point.tolist(), strict=True
        ):
            if count:
                weights.reward(min(int(at * count), count - 1), reward)
        if len(candidates) == 2:
            self._move(space, rewards[0], rewards[1])

    def _move(self, space: int, ahead: float, behind: float) -> None:
        self._step(space, (ahead - behind) / max(abs(ahead), abs(behind), 1e-12), 2 * self.RADIUS)

    def _step(self, space: int, reward: float, width: float) -> None:
        """Move the centre along the direction that was tried."""
        numbers = int(np.count_nonzero(self.direction)) or 1
        moved = self.centres[space] + self.RATE * numbers * reward * self.direction / width
        self.centres[space] = np.clip(moved, self.RADIUS, 1 - self.RADIUS)


class OnePointBlueFin(BlueFinSearch):
    """BlueFin with one setting at a time: the centre moves towards it by its reward."""

    def ask(self) -> list[DrawnSettings]:
        """One setting beside the centre."""
        return super().ask()[:1]

    def tell(self, candidates: Sequence[DrawnSettings], values: Sequence[float]) -> None:
        """Reward the categories, and move the centre."""
        super().tell(candidates, values)
        if candidates and candidates[0].text:
            best = min((value for value in self.seen.values() if math.isfinite(value)), default=1.0)
            self._step(candidates[0].space, best / values[0] if values[0] > 0 else 1.0, self.RADIUS)


class OptunaSearch(SettingSearch):
    """A sampler of Optuna: the policy is one more category, and the settings of each are parameters of their own."""

    def __init__(self, spaces: Sequence[PolicySpace], budget: int, seed: int, sampler: str) -> None:
        super().__init__(spaces, budget, seed)
        optuna = extras.load("optuna", f"--search {sampler}")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if sampler == "cmaes":
            extras.require("cmaes", f"--search {sampler}")
            made = optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        else:
            made = optuna.samplers.TPESampler(seed=seed, multivariate=False)
        self._optuna, self._study = optuna, optuna.create_study(sampler=made)
        self._trials: dict[DrawnSettings, Any] = {}  # of proposals that have no value yet

    def ask(self) -> list[DrawnSettings]:
        """One; a sampler learns from each."""
        trial = self._study.ask()
        space = trial.suggest_categorical("policy", list(range(len(self.spaces))))
        point = []
        for at, count in enumerate(self.spaces[space].categories):
            name = f"{space}.{at}"
            value = (
                trial.suggest_float(name, 0, 1) if not count else trial.suggest_categorical(name, list(range(count)))
            )
            point.append((value + 0.5) / count if count else value)
        found = self.candidate(space, np.array(point))
        self._trials[found] = trial
        return [found]

    def tell(self, candidates: Sequence[DrawnSettings], values: Sequence[float]) -> None:
        """Optuna has no infinite values: what was abandoned is as bad as the worst."""
        super().tell(candidates, values)
        worst = max((value for value in self.seen.values() if math.isfinite(value)), default=1.0)
        for each, value in zip(candidates, values, strict=True):
            found = value if math.isfinite(value) else worst
            trial = self._trials.pop(each, None)
            if trial is None:  # a proposal that was changed before it was run
                self._study.add_trial(self._completed(each, found))
            else:
                self._study.tell(trial, found)

    def _completed(self, settings: DrawnSettings, value: float) -> Any:
        """A trial of settings that the sampler did not propose."""
        distributions = self._optuna.distributions
        params: dict[str, Any] = {"policy": settings.space}
        ranges: dict[str, Any] = {"policy": distributions.CategoricalDistribution(range(len(self.spaces)))}
        for at, count in enumerate(self.spaces[settings.space].categories):
            name, coordinate = f"{settings.space}.{at}", float(settings.point[at])
            params[name] = category(coordinate, count) if count else min(max(coordinate, 0.0), 1.0)
            ranges[name] = (
                distributions.CategoricalDistribution(range(count)) if count else distributions.FloatDistribution(0, 1)
            )
        return self._optuna.trial.create_trial(params=params, distributions=ranges, value=value)


def search_named(method: str, spaces: Sequence[PolicySpace], budget: int, seed: int) -> SettingSearch:
    """The search of this name."""
    match method:
        case "random":
            return RefiningSearch(spaces, budget, seed)
        case "bluefin":
            return BlueFinSearch(spaces, budget, seed)
        case "bluefin-one":
            return OnePointBlueFin(spaces, budget, seed)
        case "tpe" | "cmaes":
            return OptunaSearch(spaces, budget, seed, method)
    raise RunError(f"there is no search '{method}'; {did_you_mean(method, METHODS)}")

"""The search for settings: on an outlook, again and again, or once on a whole trace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from shunter import registry
from shunter.adapting.abandoning import AHEAD, most_decisions
from shunter.adapting.aggregating import aggregated
from shunter.adapting.objectives import BETWEEN, look_ahead_value, middle_of, run_value
from shunter.adapting.rejecting import RejectingSearch, TriedSettings
from shunter.errors import AbandonedError, PolicyError
from shunter.generating.known_jobs import HOUR
from shunter.protocols import Memory, Policy
from shunter.sim.engine import Simulator
from shunter.tuning.halving import HALVING, drawn_settings, halved
from shunter.tuning.sampling import SettingSearch, sampled, search_named
from shunter.tuning.spaces import PolicySpace
from shunter.world import F64

HORIZON = 24 * HOUR  # to which an outlook is simulated at most
ROUND = 200  # evaluations of one search for fixed settings; the next one begins with its best ...
ENOUGH = 0.001  # ... unless it improved by less than this part
WHOLE = "random"  # how fixed settings are drawn, whatever searches on the way: no other search found better ones


@dataclass(frozen=True)
class SettingSpace:
    """What is searched, and how."""

    spaces: tuple[PolicySpace, ...]
    budget: int = 40  # evaluations of one search
    method: str = "random"
    objective: str = "jct"
    threads: int = 1
    causal: str = ""  # how the graph of a model is learned that rejects settings before they are run; "": none
    aggregate: bool = False  # jobs that are alike are merged


@dataclass(frozen=True)
class FoundSettings:
    """The best settings of a search."""

    policy: str
    value: float  # its objective
    present: float  # that of the first candidate, the settings in use
    evaluations: int
    seconds: float
    reasons: tuple[str, ...] = ()  # why settings were rejected or frozen without a run


def search_on(
    outlook: Simulator,
    now: int,
    memory: Memory,
    space: SettingSpace,
    candidates: Sequence[str],
    seed: int,
    tried: TriedSettings | None = None,
) -> FoundSettings:
    """The best settings for an outlook; of equals the first candidate, which are the settings in use.

    ``tried`` are the runs of searches before, from which a causal model learns; None: there is no such model.
    """
    begun = time.perf_counter()
    ahead = LookAhead(outlook, memory, now, space.objective)
    if space.aggregate:
        merged, weights = aggregated(outlook, now)
        ahead = LookAhead(merged, None, now, space.objective, weights)
    if space.method == HALVING:
        best, seen = search_halving(ahead, space, candidates, seed)
        return FoundSettings(best, seen[best], seen[candidates[0]], len(seen), time.perf_counter() - begun)
    middle: dict[str, list[float]] = {}

    def value(text: str) -> float:
        course = ahead.begun(text)
        found = course.value_at(now + HORIZON)
        if tried is not None and not course.failed:
            middle[text] = middle_of(course.twin)
        return found

    search = search_named(space.method, space.spaces, space.budget, seed)
    if tried is not None:
        search = RejectingSearch(search, tried, middle, BETWEEN, candidates[0], seed)
    return _searched(search, list(candidates), partial(_values, value, space.threads), begun)


@dataclass(frozen=True, eq=False)
class LookAhead:
    """What settings are tried on."""

    outlook: Simulator
    memory: Memory  # of the settings in use; None: jobs were merged, and nothing is known of them
    now: int
    objective: str
    weights: F64 | None = None  # jobs that each row stands for

    def begun(self, text: str) -> LookAheadCourse:
        """A run with these settings, before its first event."""
        policy, twin = registry.policy(text), self.outlook.fork()
        return LookAheadCourse(self, policy, twin, policy.start(twin.cluster, self.memory))


class LookAheadCourse:
    """One run ahead, which may be judged on the way."""

    def __init__(self, ahead: LookAhead, policy: Policy, twin: Simulator, memory: Memory) -> None:
        self.twin, self.failed = twin, False
        self._ahead, self._policy, self._memory = ahead, policy, memory
        self._left = most_decisions(len(twin.trace), AHEAD)

    def value_at(self, horizon: int) -> float:
        """The objective with what has ended by then; infinite: it was abandoned."""
        try:
            if not self.failed:
                self._memory = self.twin.run(self._policy, memory=self._memory, until=horizon, budget=self._left)
        except PolicyError:
            self.failed = True
        self.failed = self.failed or self.twin.exhausted
        ahead = self._ahead
        return (
            math.inf if self.failed else look_ahead_value(self.twin, ahead.objective, ahead.now, horizon, ahead.weights)
        )


def search_halving(
    ahead: LookAhead, space: SettingSpace, candidates: Sequence[str], seed: int
) -> tuple[str, dict[str, float]]:
    """Successive halving on an outlook: the best, and the values of those that were run to the end."""
    courses: dict[str, LookAheadCourse] = {}

    def values_at(texts: Sequence[str], part: float) -> list[float]:
        for gone in courses.keys() - set(texts):
            del courses[gone]
        courses.update({text: ahead.begun(text) for text in texts if text not in courses})
        horizon = ahead.now + round(HORIZON * part)
        return _values(lambda text: courses[text].value_at(horizon), space.threads, texts)

    texts = drawn_settings(space.spaces, candidates, space.budget, seed)
    values = halved(texts, candidates, values_at)
    for best in sorted(values, key=values.__getitem__):  # in parts, a run has more decisions than at once
        values[best] = ahead.begun(best).value_at(ahead.now + HORIZON)
        if math.isfinite(values[best]):
            break
    return best, values


def search_whole(
    simulator: Simulator, memory: Memory, space: SettingSpace, given: str, most: int, enough: float = ENOUGH
) -> FoundSettings:
    """The best settings for a whole trace, from its first event; in rounds, until one gains no more than ``enough``."""
    begun, limit = time.perf_counter(), most_decisions(len(simulator.trace))

    def value(text: str) -> float:
        policy, twin = registry.policy(text), simulator.fork()
        try:
            twin.run(policy, memory=policy.start(twin.cluster, memory), budget=limit)
        except (AbandonedError, PolicyError):
            return math.inf
        return math.inf if twin.exhausted else run_value(twin, space.objective)

    best, evaluations, present = given, 0, math.nan
    while evaluations < most:
        budget = min(ROUND, most - evaluations)
        begin = list(dict.fromkeys((best, given)))[:budget]
        search = search_named(WHOLE, space.spaces, budget, evaluations)
        found = _searched(search, begin, partial(_values, value, space.threads), begun)
        present = found.present if evaluations == 0 else present
        better, best = found.present - found.value > enough * abs(found.present), found.policy
        evaluations += found.evaluations
        if not better:
            break
    return FoundSettings(best, found.value, present, evaluations, time.perf_counter() - begun)


def _searched(
    search: SettingSearch, candidates: list[str], values: Callable[[Sequence[str]], list[float]], begun: float
) -> FoundSettings:
    best = sampled(search, list(dict.fromkeys(candidates))[: search.budget], values)
    seen = search.seen
    reasons = tuple(search.reasons) if isinstance(search, RejectingSearch) else ()
    return FoundSettings(best, seen[best], seen[candidates[0]], len(seen), time.perf_counter() - begun, reasons)


def _values(value: Callable[[str], float], threads: int, texts: Sequence[str]) -> list[float]:
    """One after the other, or several at the same time: kernels release the GIL."""
    if threads == 1 or len(texts) == 1:
        return [value(text) for text in texts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(value, texts))

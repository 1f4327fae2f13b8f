"""The search for settings: on an outlook, again and again, or once on a whole trace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from shunter import registry
from shunter.adapting.objectives import BETWEEN, look_ahead_value, middle_of, run_value
from shunter.adapting.rejecting import RejectingSearch, TriedSettings
from shunter.errors import AbandonedError, PolicyError
from shunter.generating.known_jobs import HOUR
from shunter.protocols import Memory
from shunter.sim.engine import Simulator
from shunter.tuning.sampling import SettingSearch, sampled, search_named
from shunter.tuning.spaces import PolicySpace

HORIZON = 24 * HOUR  # to which an outlook is simulated at most
DECISIONS_PER_JOB = 100  # after which an evaluation is abandoned, and ...
DECISIONS_AHEAD, DECISIONS_WHOLE = 5_000, 20_000  # ... as many more in a look ahead, and on a whole trace
ROUND = 200  # evaluations of one search for fixed settings; the next one begins with its best ...
ENOUGH = 0.001  # ... unless it improved by less than this part


@dataclass(frozen=True)
class SettingSpace:
    """What is searched, and how."""

    spaces: tuple[PolicySpace, ...]
    budget: int = 40  # evaluations of one search
    method: str = "random"
    objective: str = "jct"
    threads: int = 1
    causal: str = ""  # how the graph of a model is learned that rejects settings before they are run; "": none


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
    middle: dict[str, list[float]] = {}
    horizon, limit = now + HORIZON, DECISIONS_PER_JOB * len(outlook.trace) + DECISIONS_AHEAD

    def value(text: str) -> float:
        policy, twin = registry.policy(text), outlook.fork()
        try:
            twin.run(policy, memory=policy.start(twin.cluster, memory), until=horizon, budget=limit)
        except PolicyError:
            return math.inf
        if tried is not None:
            middle[text] = middle_of(twin)
        return math.inf if twin.exhausted else look_ahead_value(twin, space.objective, now, horizon)

    search = search_named(space.method, space.spaces, space.budget, seed)
    if tried is not None:
        search = RejectingSearch(search, tried, middle, BETWEEN, candidates[0], seed)
    return _searched(search, list(candidates), partial(_values, value, space.threads), begun)


def search_whole(simulator: Simulator, memory: Memory, space: SettingSpace, given: str, most: int) -> FoundSettings:
    """The best settings for a whole trace, from its first event on; in rounds, until one brings no more."""
    begun, limit = time.perf_counter(), DECISIONS_PER_JOB * len(simulator.trace) + DECISIONS_WHOLE

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
        search = search_named(space.method, space.spaces, budget, evaluations)
        found = _searched(search, begin, partial(_values, value, space.threads), begun)
        present = found.present if evaluations == 0 else present
        better, best = found.present - found.value > ENOUGH * abs(found.present), found.policy
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

"""What successive halving saves in ``shunter tune``: ``python -m benchmarks.halving [DATA ...]``.

Settings of Tiresias are searched on the two weeks before a window of ``reproduce autosched``, by ``random`` and by
``halving``, with three seeds.  Regret: by how much the mean JCT of what is found is worse than that of the best that
any search found, on these weeks and on the two weeks after them, which no search saw.  A run on a part of the jobs
counts as that part of an evaluation.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from shunter import registry
from shunter.adapting.objectives import run_value
from shunter.generating.known_jobs import DAY
from shunter.model import Trace
from shunter.reproduce.autosched.design import DAYS, setup_of
from shunter.setup import Setup
from shunter.sim.engine import Simulator
from shunter.sim.feasibility import unfit
from shunter.tuning.evaluating import DECISIONS_PER_JOB
from shunter.tuning.halving import drawn_settings, halved
from shunter.tuning.sampling import sampled, search_named
from shunter.tuning.spaces import spaces_of

POLICY, SEEDS, BUDGETS = "tiresias", 3, (10, 20)


def values(jobs: Trace, setup: Setup) -> Callable[[Sequence[str]], list[float]]:
    """Mean JCTs of policies on these jobs."""
    begin = Simulator(jobs, setup.cluster)

    def value(text: str) -> float:
        twin = begin.fork()
        twin.run(registry.policy(text), budget=DECISIONS_PER_JOB * len(jobs) + 100_000)
        return float("inf") if twin.exhausted else run_value(twin, "jct")

    return lambda texts: [value(text) for text in texts]


def searched(way: str, budget: int, seed: int, jobs: Trace, setup: Setup) -> tuple[str, float, float]:
    """The best settings, evaluations, and CPU seconds."""
    begun, spaces, counted = time.process_time(), spaces_of(POLICY), 0.0
    on_all = values(jobs, setup)
    if way == "random":
        search = search_named(way, spaces, budget, seed)
        return sampled(search, [POLICY], on_all), float(len(search.seen)), time.process_time() - begun
    span = int(jobs.submit[-1] - jobs.submit[0])

    def values_at(texts: Sequence[str], part: float) -> list[float]:
        nonlocal counted
        counted += part * len(texts)
        first = jobs.select(jobs.submit <= int(jobs.submit[0]) + round(part * span))
        return (on_all if part == 1 else values(first, setup))(texts)

    found = halved(drawn_settings(spaces, [POLICY], budget, seed), [POLICY], values_at)
    return min(found, key=found.__getitem__), counted, time.process_time() - begun


def main(*data: str) -> None:
    """A table per trace."""
    for name in data or ("venus", "pai"):
        setup, _ = setup_of(name, DAYS, 0)
        assert setup.history is not None
        recent = setup.history.submit >= int(setup.trace.submit[0]) - DAYS * DAY
        past = setup.history.select(recent & ~unfit(setup.history, setup.cluster, registry.policy(POLICY)))
        later = values(setup.trace, setup)
        print(f"{name}: {len(past):,} jobs to search on, {len(setup.trace):,} later ones")  # noqa: T201
        rows = {}
        for way in ("random", "halving"):
            for budget in BUDGETS:
                found = [searched(way, budget, seed, past, setup) for seed in range(SEEDS)]
                texts = [text for text, *_ in found]
                costs = np.mean([cost for _, *cost in found], axis=0)
                rows[way, budget] = (costs, np.array([values(past, setup)(texts), later(texts)]))
        best = np.min([table.min(axis=1) for _, table in rows.values()], axis=0)
        print(f"{'search':10}{'budget':>8}{'evaluations':>13}{'CPU s':>8}{'regret %':>10}{'later %':>9}")  # noqa: T201
        for (way, budget), ((evaluations, took), table) in rows.items():
            here, after = 100 * (table.mean(axis=1) / best - 1)
            print(f"{way:10}{budget:8}{evaluations:13.1f}{took:8.1f}{here:10.2f}{after:9.2f}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

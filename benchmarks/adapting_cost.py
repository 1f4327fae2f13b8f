"""What a search costs: ``python -m benchmarks.adapting_cost [DATA] [POLICY ...] [--whole]``.

A two-week window of ``reproduce autosched`` (``venus``, ``philly`` or ``pai``) is played with the policy as given.  At
several hours, settings are searched on a generated hour and the unfinished jobs, 40 evaluations each.  Printed are the
CPU seconds of making the hour and of the search.  With ``--whole``, all hours are searched, as AutoSched does: the CPU
time of a whole run.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from shunter import registry
from shunter.adapting.searching import search_on
from shunter.adapting.study import AUTOSCHED, Adapting
from shunter.generating.known_jobs import HOUR
from shunter.reproduce.autosched.design import DAYS, AutoschedPart, setup_of

HOURS = (24, 96, 168, 240, 312)


def timed(do: Any) -> tuple[float, Any]:
    """CPU seconds, and what came out."""
    begun = time.process_time()
    found = do()
    return time.process_time() - begun, found


def adapting(data: str, policy: str) -> Adapting:
    """The study of a policy on a window, with the predictor that needs no library."""
    setup, _ = setup_of(data, DAYS, 0)
    return Adapting(setup, dataclasses.replace(AutoschedPart().options(policy), predictor="past"))


def plain(work: Adapting) -> None:
    """How fast the policy as given is, over all jobs."""
    policy = registry.policy(work.given)
    for _ in range(2):  # the first time compiles
        simulator, memory = work.simulator(), work.memory(work.given)
        took, _ = timed(lambda simulator=simulator, memory=memory: simulator.run(policy, memory=memory))
    print(f"{work.given:10} as given: {len(simulator.trace) / took:,.0f} jobs/s", flush=True)  # noqa: T201


class Search(NamedTuple):
    """What the search of one hour cost, in CPU seconds."""

    hour: int
    jobs: int
    outlook: float  # to make the generated hour
    seconds: float
    evaluations: int


def searches(work: Adapting, hours: Sequence[int] = HOURS) -> Iterator[Search]:
    """At each of these hours one search."""
    simulator, memory = work.simulator(), work.memory(work.given)
    policy, source = registry.policy(work.given), work.source(AUTOSCHED)
    begin = int(simulator.trace.submit[0])
    for hour in hours:
        at = begin + hour * HOUR
        memory = simulator.run(policy, until=at, memory=memory)
        for _ in range(2):  # the first time compiles, or fits a model
            made, outlook = timed(lambda at=at: source.outlook(simulator, at))
        search_on(outlook, at, memory, dataclasses.replace(work.space, budget=8), [work.given], 0)
        took, found = timed(
            lambda at=at, outlook=outlook, memory=memory: search_on(outlook, at, memory, work.space, [work.given], 0)
        )
        yield Search(hour, len(outlook.trace), made, took, found.evaluations)


def print_searches(work: Adapting) -> None:
    """A row per hour."""
    plain(work)
    for found in searches(work):
        each = 1000 * found.seconds / found.evaluations
        row = f"{work.given:10}{found.hour:6}{found.jobs:8,}{found.outlook:9.3f}{found.seconds:9.2f}{each:9.1f}"
        print(row, flush=True)  # noqa: T201


def whole(work: Adapting) -> None:
    """A run that adapts every hour."""
    took, run = timed(lambda: work.adapted(AUTOSCHED, work.given))
    mean, slowest = (f(each.seconds for each in run.searches) for f in (lambda x: np.mean(list(x)), max))
    print(  # noqa: T201
        f"{work.given:10} whole: {took / 60:.1f} minutes of CPU, {run.evaluations:,} evaluations in {len(run.searches)}"
        f" searches of {mean:.2f} s (the slowest {slowest:.2f}), mean JCT {np.nanmean(run.jct) / 3600:.3f} h,"
        f" {len(run.switches)} switches",
        flush=True,
    )


def main(arguments: list[str]) -> None:
    """Print rows for each policy."""
    names = [each for each in arguments if each != "--whole"]
    data, policies = (names[0] if names else "venus"), names[1:] or ["tiresias", "themis", "lucid"]
    print(f"{data}; policy, hour, jobs, s for the hour, s for 40 evaluations, ms each; CPU time")  # noqa: T201
    for policy in policies:
        work = adapting(data, policy)
        (whole if "--whole" in arguments else print_searches)(work)


if __name__ == "__main__":
    main(sys.argv[1:])

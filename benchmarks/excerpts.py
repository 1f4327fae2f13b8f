"""What a look into the next hour costs: ``python -m benchmarks.excerpts TRACE CLUSTER [HOURS]``.

At several hours of a trace, the next hour is simulated until all unfinished jobs have ended, once in a fork with a new
form of the policy and once in an excerpt.  Both give the same completion times.  Seconds are CPU time; the median of
the hours is printed, for hours with fewer and with more unfinished jobs than half of them.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from shunter import registry, world
from shunter.setup import Setup, set_up
from shunter.sim.engine import Simulator
from shunter.simulation import Draw, simulator_for

HOUR = 3_600_000
POLICIES = ("fifo", "sjf:estimate=oracle", "las", "tiresias", "themis", "dally", "lucid:refit=0")
REPEATS = 3


def timed(do: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU time of some repetitions, and what came out."""
    took, found = [], None
    for _ in range(REPEATS):
        begun = time.process_time()
        found = do()
        took.append(time.process_time() - begun)
    return min(took), found


def forked(simulator: Simulator, policy: Any, memory: Any, end: int) -> Any:
    """The ends of all jobs that arrive before ``end``, in a fork; the rest of the trace arrives, too."""
    twin = simulator.fork()
    twin.run(policy, memory=policy.start(twin.cluster, memory), until=end)
    return twin


def excerpted(simulator: Simulator, policy: Any, memory: Any, end: int) -> Any:
    """The same in an excerpt."""
    coming = simulator.coming
    twin = simulator.excerpt(coming[simulator.trace.submit[coming] <= end])
    twin.run(policy, memory=policy.start(twin.cluster, memory), until=end)
    return twin


def measured(setup: Setup, text: str, hours: int) -> list[tuple[int, float, float]]:
    """Of each hour: unfinished jobs, seconds in a fork, seconds in an excerpt."""
    policy, trace = registry.policy(text), setup.trace
    simulator, memory, found = simulator_for(Draw(setup), policy)[0], None, []
    first, last = int(trace.submit[len(trace) // 2]), int(trace.submit[-1])
    for at in np.linspace(first, last - HOUR, hours).astype(int).tolist():
        memory = simulator.run(policy, until=at, memory=memory)
        states = simulator.world.jobs[world.STATE]
        unfinished = int(((states > world.FUTURE) & (states < world.DONE)).sum())
        asked = (simulator, policy, memory, at + HOUR)
        fork, whole = timed(partial(forked, *asked))
        part, small = timed(partial(excerpted, *asked))
        ended = small.world.jobs[world.ENDED_AT]
        real = np.setdiff1d(np.arange(len(ended)), small.rows.standing)
        assert (ended[real] == whole.world.jobs[world.ENDED_AT, small.rows.taken[real]]).all()
        found.append((unfinished, fork, part))
    return found


def main(source: str, machines: str, hours: int = 12) -> None:
    """Print a row per policy."""
    setup = set_up(source, machines)
    print(f"{len(setup.trace):,} jobs on {setup.cluster.gpus} GPUs, {hours} hours; ms of CPU time for the next hour")  # noqa: T201
    print(f"{'policy':24}{'hours':8}{'unfinished':>12}{'fork':>10}{'excerpt':>10}{'times':>8}")  # noqa: T201
    for text in POLICIES:
        rows = sorted(measured(setup, text, hours))
        for name, part in (("calm", rows[: len(rows) // 2]), ("busy", rows[len(rows) // 2 :])):
            jobs, fork, excerpt = (statistics.median(column) for column in zip(*part, strict=True))
            print(f"{text:24}{name:8}{jobs:12,.0f}{1000 * fork:10.2f}{1000 * excerpt:10.2f}{fork / excerpt:8.1f}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4]))

"""The least that a stop and the start after it cost: ``python -m benchmarks.exchanges``.

A policy without order and heaps exchanges jobs of one GPU, or of ``--gpus``, with those that wait, as many in one plan
as Gandiva's turns do.  What is left is the engine: checking the plan, moving jobs and events, the log.

With ``--quanta 60 300`` also turns of these lengths under Gandiva, on the Philly file: how often they stop a job, what
a stop costs, how many jobs a second that leaves, and how time and stops grow with four times the jobs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numba import typeof, types
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.measures import best_of, one_core, simulated, warm
from shunter import world as w
from shunter.arrays import Variables, type_of
from shunter.capabilities import Compilable, Compiled
from shunter.cluster import Cluster
from shunter.compiled import kernel, pointer
from shunter.model import GPU, NOTHING, Plan, Trace, View
from shunter.scheduling.placing import add_other, add_start, held
from shunter.sim import Simulator
from shunter.world import Decision, World

MOST = 64  # exchanges in one plan
QUANTUM = 5_000  # ms


class Turns(Variables):
    """When jobs took turns."""

    turned: int = -1


@kernel
def decide(world: World, turns: Turns, parts: int, plan: Decision) -> None:
    """Fill free GPUs; at every quantum, put waiting jobs in the places of as many running ones."""
    waiting, now, size = world.clock[w.N_PENDING], world.clock[w.NOW], world.jobs[w.GPUS, 0]
    for gpu in range(0, world.gpus.shape[1], size):
        if waiting > 0 and world.gpus[w.TENANTS, gpu] == 0 and plan.counts[0] < MOST:
            waiting -= 1
            ids = plan.gpu_ids[plan.counts[1] : plan.counts[1] + size]
            for at in range(size):
                ids[at] = gpu + at
            add_start(plan, world.lists[w.L_PENDING, waiting], ids, w.NEVER)
    if plan.counts[0] > 0 or waiting == 0:
        return
    if now % QUANTUM == 0 and turns.turned != now:
        turns.turned = now
        for at in range(min(MOST, world.clock[w.N_RUNNING], waiting)):
            job = world.lists[w.L_RUNNING, at]
            ids = plan.gpu_ids[plan.counts[1] : plan.counts[1] + size]
            held(world, job, ids)
            add_other(plan, w.A_PREEMPT, job, 1)
            add_start(plan, world.lists[w.L_PENDING, at], ids, w.NEVER)
        return
    add_other(plan, w.A_TIMER, 0, (now // QUANTUM + 1) * QUANTUM)


@dataclass(frozen=True)
class Exchanging(Compilable):
    """The cheapest policy that takes turns."""

    needs = frozenset[str]()

    def start(self, cluster: Cluster, previous: None = None) -> Turns:
        """No turn was taken yet."""
        return Turns()

    def decide(self, view: View, memory: Turns) -> Plan:
        """Only the compiled form is measured."""
        return NOTHING

    def compiled(self, view: View, memory: Turns) -> Compiled:
        """The kernel above."""
        return Compiled(form(), memory, 0)


@cache
def form() -> Any:
    """The kernel as a pointer, compiled once."""
    return pointer(decide, types.void(type_of(World), type_of(Turns), typeof(0), type_of(Decision)))


def equal_jobs(count: int, gpus: int) -> Trace:
    """Jobs that all wait from the beginning, each for so many GPUs for an hour."""
    hour = np.full(count, 3_600_000)
    names = [str(row) for row in range(count)]
    return Trace.of(
        "exchanges", names, submit=np.zeros(count, np.int64), duration=hour, gpus=np.full(count, gpus * GPU)
    )


def measured(count: int, gpus: int) -> tuple[int, float]:
    """How often jobs were stopped in a run, and the seconds of CPU of that."""
    simulator = Simulator(equal_jobs(count, gpus), workload.cluster())
    begun = time.process_time()
    with one_core():
        simulator.run(Exchanging())
    return int(simulator.world.jobs[w.PREEMPTIONS].sum()), time.process_time() - begun


def turns(policy: str, counts: Sequence[int], repeats: int) -> list[tuple[int, float]]:
    """Stops and the least seconds of CPU of a policy on the first jobs of the Philly file, for each count of them."""
    trace, _ = workload.jobs()
    warm(trace, policy)
    found = []
    for some in (trace.select(np.arange(min(count, len(trace)))) for count in counts):
        took = best_of(repeats, lambda some=some: simulated(some, policy)).cpu  # type: ignore[misc]
        found.append((int(simulated(some, policy).world.jobs[w.PREEMPTIONS].sum()), took))
    return found


def table(quanta: Sequence[float], jobs: int, repeats: int) -> Table:
    """A row for each length of a turn, with packing and without."""
    made = Table("turn, s", "packing", "stops a job", "ns a stop", "jobs/s", "4 x jobs: time", "stops")
    for quantum, packing in product(quanta, ("false", "true")):
        policy = f"gandiva:slicing=true,packing={packing},look_again={quantum:g}"
        (few, short), (stops, took) = turns(policy, (jobs // 4, jobs), repeats)
        grown = (f"{took / short:.1f}x", f"{stops / max(few, 1):.1f}x")
        cells = (f"{stops / jobs:.1f}", f"{took / max(stops, 1) * 1e9:,.0f}", f"{jobs / took:,.0f}", *grown)
        made.add_row(f"{quantum:g}", packing, *cells)
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exchanges", description=__doc__.partition(":")[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--gpus", type=int, default=1, help="of each job: 1, 2, 4 or 8")
    parser.add_argument("--repeats", type=int, default=5, help="the best of this many")
    parser.add_argument("--quanta", type=float, nargs="+", default=[], help="lengths of Gandiva's turns, in seconds")
    chosen = parser.parse_args()
    measured(1_000, chosen.gpus)  # compiles
    stops, took = min((measured(chosen.jobs, chosen.gpus) for _ in range(chosen.repeats)), key=lambda found: found[1])
    Console().print(
        f"{stops:,} stops in {took:.2f} s of CPU: {took / stops * 1e9:.0f} ns for a stop and the start after it"
    )
    if chosen.quanta:
        Console(width=120).print(table(chosen.quanta, chosen.jobs, chosen.repeats))


if __name__ == "__main__":
    main()

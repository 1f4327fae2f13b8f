"""What a few jobs without deadlines can do to those that have one: ``python -m benchmarks.jobs_beside_deadlines``.

Synthetic jobs with deadlines and ranges on 64 GPUs, and beside them jobs that could be unfair to them, or the other way
round.  ``elastic`` as it is, with its rule for jobs that wait too long switched off (``patience=10000``), and
``saf:backfill=easy``: the deadlines met, and how long the added jobs wait.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.undated_waits import Place, places
from shunter import registry
from shunter import world as w
from shunter.model import GPU, Trace
from shunter.sim import Fault, Scenario, Simulator

POLICIES = ("elastic", "elastic:patience=10000", "saf:backfill=easy")
LOADS, SEEDS, JOBS = (0.8, 1.0, 1.6), (910, 911, 912, 913), 1200
MINUTE, HOUR = 60_000, 3_600_000


class Added(NamedTuple):
    """Jobs without deadlines that come beside the others, in a row from a quarter of the time on."""

    what: str
    number: int  # 0: over all of the time
    every: int  # ms from one to the next
    gpus: int
    work: int  # ms
    declared: int
    node_down: bool = False  # from when they come


CASES = (
    Added("a job of a second on 1 GPU", 1, 1, 1, 1000, 1000),
    Added("jobs of 10 minutes on 1 GPU, on 5 % of the GPUs in the mean", 0, 3 * MINUTE, 1, 10 * MINUTE, 10 * MINUTE),
    Added("1,000 jobs of a minute on 64 GPUs within 17 minutes", 1000, 1000, 64, MINUTE, MINUTE),
    Added("3,000 jobs of 10 minutes on 1 GPU within 50 minutes", 3000, 1000, 1, 10 * MINUTE, 10 * MINUTE),
    Added("a job of 72 hours on 64 GPUs that declares 5 minutes", 1, 1, 64, 72 * HOUR, 5 * MINUTE),
    Added("5 jobs of 2 hours on 64 GPUs", 5, 1, 64, 2 * HOUR, 2 * HOUR),
    Added("300 jobs of a second on 1 GPU that declare a millisecond", 300, 1, 1, 1000, 1),
    Added("300 jobs of a second on 1 GPU that declare an hour", 300, 1, 1, 1000, HOUR),
    Added("a job of 30 minutes on 64 GPUs, one node down", 1, 1, 64, HOUR // 2, HOUR // 2, node_down=True),
)


def beside(dated: Trace, added: Added) -> tuple[Trace, tuple[Fault, ...]]:
    """The jobs with deadlines, those beside them, of a user of their own, and what fails."""
    begin, span = int(dated.submit[0]), int(dated.submit[-1] - dated.submit[0])
    first = begin + span // 4 if added.number else begin
    count = added.number or span // added.every
    ones = np.ones(count, np.int64)
    columns = {
        "submit": first + added.every * np.arange(count),
        "duration": added.work * ones,
        "declared": added.declared * ones,
        "gpus": added.gpus * GPU * ones,
        "deadline": 0 * ones,
        "user": len(dated.users) * ones,
        "min_gpus": 0 * ones,
        "max_gpus": 0 * ones,
    }
    joined = {name: np.concatenate([getattr(dated, name), values]) for name, values in columns.items()}
    order = np.argsort(joined["submit"], kind="stable")
    names = [f"j{at}" for at in range(len(order))]
    users = (*dated.users, "beside")
    trace = Trace.of("beside", names, **{name: values[order] for name, values in joined.items()}, users=users)
    return trace, (Fault(first, 0, first + 2 * span),) if added.node_down else ()


def row(place: Place, added: Added, load: float, policy: str) -> tuple[list[float], list[float]]:
    """By seed: the share of deadlines met, and P99 of the waits of the added jobs, in hours."""
    met, waits = [], []
    for seed in SEEDS:
        trace, faults = beside(place.jobs(load, seed, JOBS), added)
        simulator = Simulator(trace, place.cluster, seed=seed, scenario=Scenario(scaling=place.scaling, faults=faults))
        simulator.run(registry.policy(policy))
        jobs, dated = simulator.world.jobs, trace.deadline > 0
        met.append(float((jobs[w.ENDED_AT] - jobs[w.SUBMIT] <= trace.deadline)[dated].mean()))
        waits.append(float(np.quantile(jobs[w.WAITED][~dated] / HOUR, 0.99)))
    return met, waits


def main() -> None:
    """Print a row for each kind of jobs, load and policy: the range over seeds."""
    head = "beside", "load", "policy", "deadlines met", "P99 of the added jobs' waits, h"
    sys.stdout.write(f"| {' | '.join(head)} |\n" + "|---" * len(head) + "|\n")
    place = places()["64 GPUs"]
    for added, load, policy in product(CASES, LOADS, POLICIES):
        met, waits = row(place, added, load, policy)
        spread = f"{min(met):.1%} to {max(met):.1%}", f"{min(waits):.1f} to {max(waits):.1f}"
        sys.stdout.write(f"| {added.what} | {load:g} | `{policy}` | {' | '.join(spread)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

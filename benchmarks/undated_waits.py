"""What jobs without deadlines pay: ``python -m benchmarks.undated_waits [SEEDS] [FIRST_SEED] [JOBS] [EVERY]``.

Of the workloads of ``shunter reproduce qoredl`` every second job (or: only every EVERY-th) has a deadline. So has every
second job of synthetic traces on 64 GPUs, which can run on half to twice the GPUs that they ask for, or on these alone.
The waits of the others under ``elastic``, in all and also after stops, are compared with those under
``saf:backfill=easy``, on the same jobs, run by run and for the jobs of all seeds together. A P99 below a minute counts
as a minute. The aim is a ratio of P99 of at most 1.2.

How much of a single run is chance? ``saf`` runs again with every arrival moved by up to 30 seconds, and is compared
with itself.  And where ``elastic`` is above the aim, both run again with the same moved arrivals.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from shunter import clusters, registry
from shunter import world as w
from shunter.cluster import Cluster
from shunter.model import GPU, Trace
from shunter.reproduce.qoredl.design import GRACE_S, LOADS, SLACK, TESTBEDS, workload
from shunter.scaling.curves import Scaling
from shunter.seeding import rng
from shunter.setup import JITTER_MS, read_trace
from shunter.sim import Scenario, Simulator
from shunter.world import F64

OURS, BASE = "elastic", "saf:backfill=easy"
SEEDS, JOBS, EVERY = 10, 120, 2
MOVES = 8  # of the arrivals, where ours is above the aim
AIM = 1.2
LEAST_S = 60.0
OVERSTATED = (1.0, 2.0)  # declared over true work of synthetic jobs


class Waits(NamedTuple):
    """The waits of jobs without deadlines, in seconds, and the share of deadlines met."""

    waited: F64
    met: float

    @property
    def p99(self) -> float:
        """The 99th percentile of the waits."""
        return float(np.quantile(self.waited, 0.99))


class Place(NamedTuple):
    """Machines, and jobs for them by load, seed and number."""

    cluster: Cluster
    scaling: Scaling
    jobs: Callable[[float, int, int], Trace]


def places() -> dict[str, Place]:
    """The testbeds, and a cluster of 64 GPUs with and without ranges."""
    found = {}
    for name, bed in TESTBEDS.items():
        cluster = bed.cluster
        found[name] = Place(cluster, bed.scaling(cluster), partial(workload, bed))
    machines = clusters.load("8x8")
    for name, ranged in (("64 GPUs", True), ("64 GPUs, fixed widths", False)):
        found[name] = Place(machines, Scaling.usual(machines), partial(synthetic, ranged))
    return found


def synthetic(ranged: bool, load: float, seed: int, jobs: int) -> Trace:
    """Synthetic jobs with declared work, deadlines and, where wanted, ranges."""
    trace, draw = read_trace(f"synthetic:jobs={jobs},gpus=64,load={load:g},seed={seed}"), rng(seed, "undated waits")
    declared = np.rint(trace.duration * draw.uniform(*OVERSTATED, jobs)).astype(np.int64)
    deadline = np.rint(declared * draw.uniform(*SLACK, jobs) + GRACE_S * 1000).astype(np.int64)
    asked = trace.gpus // GPU
    least, most = np.maximum(asked // 2, 1) * ranged, 2 * np.maximum(asked, 1) * ranged
    return dataclasses.replace(trace, declared=declared, deadline=deadline, min_gpus=least, max_gpus=most)


def mixed(trace: Trace, every: int) -> Trace:
    """The same jobs; only every so many-th has a deadline."""
    return dataclasses.replace(trace, deadline=np.where(np.arange(len(trace)) % every == 0, trace.deadline, 0))


def waits(policy: str, place: Place, trace: Trace, seed: int) -> Waits:
    """What one run shows."""
    simulator = Simulator(trace, place.cluster, seed=seed, scenario=Scenario(scaling=place.scaling))
    simulator.run(registry.policy(policy))
    jobs, dated = simulator.world.jobs, trace.deadline > 0
    waited: F64 = jobs[w.WAITED][~dated] / 1000
    in_time = jobs[w.ENDED_AT][dated] - jobs[w.SUBMIT][dated] <= trace.deadline[dated]
    return Waits(waited, float(in_time.mean()))


def both(place: Place, trace: Trace, seed: int) -> tuple[Waits, Waits]:
    """Ours, and the base."""
    return waits(OURS, place, trace, seed), waits(BASE, place, trace, seed)


def moved(trace: Trace, seed: int) -> Trace:
    """The same jobs; each arrives up to 30 seconds earlier or later."""
    submit = trace.submit + rng(seed, "moved arrivals").integers(-JITTER_MS, JITTER_MS + 1, len(trace))
    submit = np.maximum(submit, trace.submit[0])
    return dataclasses.replace(trace, submit=submit).select(np.argsort(submit, kind="stable"))


def together(runs: Sequence[Waits]) -> Waits:
    """Runs as one: a P99 of one run of 120 jobs is about its second longest wait."""
    return Waits(np.concatenate([run.waited for run in runs]), float(np.mean([run.met for run in runs])))


def main(seeds: int = SEEDS, first: int = 0, jobs: int = JOBS, every: int = EVERY) -> None:
    """Print a row for each testbed and load, and the seeds above the aim."""
    head = (
        *("testbed", "load", "P99 of all seeds, ratio", "P99 of a seed, median ratio", "largest", "above the aim"),
        *("saf with moved arrivals above it", "mean wait, ratio", "met", "met, saf"),
    )
    sys.stdout.write(f"| {' | '.join(head)} |\n" + "|---" * len(head) + "|\n")
    above, by_chance = [], 0
    for (name, place), load in product(places().items(), LOADS):
        pairs, chance = [], 0
        for seed in range(first, first + seeds):
            trace = mixed(place.jobs(load, seed, jobs), every)
            ours, base = both(place, trace, seed)
            pairs.append((ours, base))
            chance += ratio(waits(BASE, place, moved(trace, seed), seed), base) > AIM
            if ratio(ours, base) > AIM:
                again = sum(ratio(*both(place, moved(trace, draw), seed)) > AIM for draw in range(MOVES))
                times = f"{ours.p99:,.0f} s over {base.p99:,.0f} s (deadlines met: {ours.met:.0%} and {base.met:.0%})"
                above.append((f"{name}, load {load:g}, seed {seed}: {times}, again in {again} of {MOVES}", again))
        by_chance += chance
        sys.stdout.write(f"| {name} | {load:g} | {row(pairs, chance)} |\n")
        sys.stdout.flush()
    runs = seeds * len(LOADS) * len(places())
    sys.stdout.write(f"\nP99 above {AIM} times: {len(above)} of {runs} runs; saf with moved arrivals: {by_chance}\n")
    sys.stdout.write(f"with moved arrivals for both: {sum(again for _, again in above)} of {MOVES * len(above)}\n")
    sys.stdout.writelines(f"- {line}\n" for line, _ in above)


def ratio(ours: Waits, base: Waits) -> float:
    """P99 over P99."""
    return max(ours.p99, LEAST_S) / max(base.p99, LEAST_S)


def row(pairs: list[tuple[Waits, Waits]], chance: int) -> str:
    """The numbers of one testbed and load."""
    ratios = [ratio(*pair) for pair in pairs]
    ours, base = (together([pair[at] for pair in pairs]) for at in range(2))
    many = sum(each > AIM for each in ratios)
    means = ours.waited.mean() / max(base.waited.mean(), 1.0)
    cells = (f"{ratio(ours, base):.2f}", f"{np.median(ratios):.2f}", f"{max(ratios):.2f}", f"{many} of {len(pairs)}")
    return " | ".join((*cells, f"{chance} of {len(pairs)}", f"{means:.2f}", f"{ours.met:.1%}", f"{base.met:.1%}"))


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:5]))

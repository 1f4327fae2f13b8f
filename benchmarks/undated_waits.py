"""What jobs without deadlines pay: ``python -m benchmarks.undated_waits [SEEDS] [FIRST_SEED] [JOBS] [EVERY]``.

Of the workloads of ``shunter reproduce qoredl`` every second job has a deadline (or: every EVERY-th; with -10, all but
every tenth). The same holds for synthetic traces on 64 GPUs, whose jobs can run on half to twice the GPUs that they ask
for, or on these alone.
The waits of the others under ``elastic``, in all and also after stops, are compared with those under
``saf:backfill=easy``, on the same jobs, run by run and for the jobs of all seeds together. A P99 below a minute counts
as a minute. The aim is a ratio of P99 of at most 1.2. ``saf`` goes by the users' last jobs here, as there are no
limits; with ``estimate=declared`` it knows what ``elastic`` knows, and is compared, too.

How much of a single run is chance? ``saf`` runs again with every arrival moved by up to 30 seconds, and is compared
with itself. And where ``elastic`` is above the aim, both run again with the same moved arrivals, and ``elastic`` runs
again without the deadlines that ``saf`` misses: what is left above the aim then is not the price of those.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shunter import clusters, registry
from shunter import world as w
from shunter.cluster import Cluster
from shunter.model import Trace
from shunter.reproduce.qoredl.design import LOADS, TESTBEDS, workload
from shunter.scaling.curves import Scaling
from shunter.seeding import rng
from shunter.setup import JITTER_MS, read_trace
from shunter.sim import Scenario, Simulator
from shunter.traces.made_deadlines import with_deadlines
from shunter.world import F64

OURS, BASE, INFORMED = "elastic", "saf:backfill=easy", "saf:backfill=easy,estimate=declared"
SEEDS, JOBS, EVERY = 10, 120, 2
MOVES = 8  # of the arrivals, where ours is above the aim
AIM = 1.2
LEAST_S = 60.0


class Waits(NamedTuple):
    """The waits of jobs without deadlines, in seconds, and which of the deadlines were met."""

    waited: F64
    in_time: NDArray[np.bool_]  # of the jobs with a deadline

    @property
    def p99(self) -> float:
        """The 99th percentile of the waits."""
        return float(np.quantile(self.waited, 0.99))

    @property
    def met(self) -> float:
        """The share of deadlines met."""
        return float(self.in_time.mean())


class Runs(NamedTuple):
    """One workload under ours and under the base, which knows as much or less."""

    ours: Waits
    base: Waits
    informed: Waits


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
    trace = read_trace(f"synthetic:jobs={jobs},gpus=64,load={load:g},seed={seed}")
    return with_deadlines(trace, rng(seed, "undated waits"), deadlines=1.0, elastic=float(ranged))


def mixed(trace: Trace, every: int) -> Trace:
    """The same jobs; only every so many-th has a deadline, or with a negative number all others have."""
    dated = (np.arange(len(trace)) % abs(every) == 0) == (every > 0)
    return dataclasses.replace(trace, deadline=np.where(dated, trace.deadline, 0))


def waits(policy: str, place: Place, trace: Trace, seed: int, undated: NDArray[np.bool_] | None = None) -> Waits:
    """What one run shows, of all jobs without deadlines or of those given."""
    simulator = Simulator(trace, place.cluster, seed=seed, scenario=Scenario(scaling=place.scaling))
    simulator.run(registry.policy(policy))
    jobs, counted = simulator.world.jobs, trace.deadline == 0 if undated is None else undated
    in_time = jobs[w.ENDED_AT] - jobs[w.SUBMIT] <= trace.deadline
    return Waits(jobs[w.WAITED][counted] / 1000, in_time[trace.deadline > 0])


def both(place: Place, trace: Trace, seed: int) -> tuple[Waits, Waits]:
    """Ours, and the base."""
    return waits(OURS, place, trace, seed), waits(BASE, place, trace, seed)


def without_missed(place: Place, trace: Trace, seed: int, base: Waits) -> Waits:
    """Ours where the jobs whose deadlines the base misses have none; the waits of the same jobs as before."""
    undated, deadline = trace.deadline == 0, trace.deadline.copy()
    deadline[np.flatnonzero(~undated)[~base.in_time]] = 0
    return waits(OURS, place, dataclasses.replace(trace, deadline=deadline), seed, undated)


def moved(trace: Trace, seed: int) -> Trace:
    """The same jobs; each arrives up to 30 seconds earlier or later."""
    submit = trace.submit + rng(seed, "moved arrivals").integers(-JITTER_MS, JITTER_MS + 1, len(trace))
    submit = np.maximum(submit, trace.submit[0])
    return dataclasses.replace(trace, submit=submit).select(np.argsort(submit, kind="stable"))


def together(runs: Sequence[Waits]) -> Waits:
    """Runs as one: a P99 of one run of 120 jobs is about its second longest wait."""
    return Waits(*(np.concatenate([run[at] for run in runs]) for at in range(2)))


def main(seeds: int = SEEDS, first: int = 0, jobs: int = JOBS, every: int = EVERY) -> None:
    """Print a row for each testbed and load, and the seeds above the aim."""
    head = (
        *("testbed", "load", "P99 of all seeds, ratio", "to saf that knows the declared work", "largest of a seed"),
        *("above the aim", "to saf that knows", "saf with moved arrivals"),
        *("mean wait, ratio", "to saf that knows", "met", "met, saf"),
    )
    sys.stdout.write(f"| {' | '.join(head)} |\n" + "|---" * len(head) + "|\n")
    above, informed, by_chance = [], 0, 0
    for (name, place), load in product(places().items(), LOADS):
        found, chance = [], 0
        for seed in range(first, first + seeds):
            trace = mixed(place.jobs(load, seed, jobs), every)
            runs = Runs(*both(place, trace, seed), waits(INFORMED, place, trace, seed))
            found.append(runs)
            chance += ratio(waits(BASE, place, moved(trace, seed), seed), runs.base) > AIM
            informed += ratio(runs.ours, runs.informed) > AIM
            if ratio(runs.ours, runs.base) > AIM:
                above.append(Excess.of(f"{name}, load {load:g}, seed {seed}", place, trace, seed, runs))
        by_chance += chance
        sys.stdout.write(f"| {name} | {load:g} | {row(found, chance)} |\n")
        sys.stdout.flush()
    total = seeds * len(LOADS) * len(places())
    sys.stdout.write(
        f"\nP99 above {AIM} times: {len(above)} of {total} runs; against saf that knows the declared work: {informed}; "
        f"saf with moved arrivals: {by_chance}\n"
        f"with moved arrivals for both: {sum(each.again for each in above)} of {MOVES * len(above)}\n"
        f"without the deadlines that saf misses: {sum(each.without > AIM for each in above)} of {len(above)}\n"
    )
    sys.stdout.writelines(f"- {each.text}\n" for each in above)


class Excess(NamedTuple):
    """A run above the aim."""

    text: str
    again: int  # of MOVES with moved arrivals
    without: float  # ratio without the deadlines that the base misses

    @classmethod
    def of(cls, where: str, place: Place, trace: Trace, seed: int, runs: Runs) -> Excess:
        """Why it is above."""
        again = sum(ratio(*both(place, moved(trace, draw), seed)) > AIM for draw in range(MOVES))
        without = ratio(without_missed(place, trace, seed, runs.base), runs.base)
        ours, base = runs.ours, runs.base
        text = (
            f"{where}: {ours.p99:,.0f} s over {base.p99:,.0f} s (deadlines met: {ours.met:.0%} and {base.met:.0%}), "
            f"again in {again} of {MOVES}, without the deadlines that saf misses {without:.2f} times"
        )
        return cls(text, again, without)


def ratio(ours: Waits, base: Waits) -> float:
    """P99 over P99."""
    return max(ours.p99, LEAST_S) / max(base.p99, LEAST_S)


def row(found: Sequence[Runs], chance: int) -> str:
    """The numbers of one testbed and load."""
    ours, base, informed = (together([runs[at] for runs in found]) for at in range(3))
    ratios = [ratio(runs.ours, runs.base) for runs in found]
    many = [sum(each > AIM for each in ratios), sum(ratio(runs.ours, runs.informed) > AIM for runs in found), chance]
    means = (f"{ours.waited.mean() / max(other.waited.mean(), 1.0):.2f}" for other in (base, informed))
    cells = (f"{ratio(ours, base):.2f}", f"{ratio(ours, informed):.2f}", f"{max(ratios):.2f}")
    counts = (f"{each} of {len(found)}" for each in many)
    return " | ".join((*cells, *counts, *means, f"{ours.met:.1%}", f"{base.met:.1%}"))


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:5]))

"""How many deadlines of ``shunter reproduce qoredl`` any schedule could meet: ``python -m benchmarks.qoredl_bound``.

Each job needs at least the GPU time of its true work at its most frugal width, between its submission and its deadline.
So of the jobs whose time lies within any interval, no more can be met than the GPUs have time for there. A linear
program finds the most that all intervals allow, with parts of jobs allowed; no schedule, even one that knows what is to
come, meets more.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
from scipy.optimize import linprog

from shunter import world as w
from shunter.report.deadlines import alone_ms
from shunter.reproduce.qoredl.design import FIRST_SEED, LOADS, SEEDS, TESTBEDS, workload
from shunter.sim import Scenario, Simulator
from shunter.world import F64

SLACK = 1e-6  # of the solver


def most_met(area: F64, begin: F64, due: F64, gpus: int) -> int:
    """The most jobs that could have their GPU time (``area``) in time."""
    pairs = [(first, last) for first, last in product(np.unique(begin), np.unique(due)) if first < last]
    inside = np.array([(begin >= first) & (due <= last) for first, last in pairs])
    room = np.array([gpus * (last - first) for first, last in pairs])
    tight = inside @ area > room
    share = area / area.max()
    found = linprog(-np.ones(len(area)), inside[tight] * share, room[tight] / area.max(), bounds=(0, 1))
    return int(np.floor(-found.fun + SLACK))


def bound(bed: str, load: float, seed: int) -> float:
    """The largest share of the deadlines that could be met alone."""
    testbed = TESTBEDS[bed]
    cluster, jobs = testbed.cluster, workload(testbed, load, seed)
    world = Simulator(jobs, cluster, scenario=Scenario(scaling=testbed.scaling(cluster))).world
    could = alone_ms(jobs, world.jobs, world.scaling, cluster) <= jobs.deadline
    widths = np.arange(testbed.least, testbed.most + 1)
    speeds = world.scaling[2 * world.jobs[w.CURVE]]
    need = (widths / speeds[:, widths]).min(axis=1) * speeds[np.arange(len(jobs)), world.jobs[w.GPUS]]
    area, begin = (need * jobs.duration)[could], jobs.submit[could].astype(np.float64)
    return most_met(area, begin, begin + jobs.deadline[could], cluster.gpus) / int(could.sum())


def main(seeds: int = SEEDS, first: int = FIRST_SEED) -> None:
    """Print a row for each testbed and load, and the mean."""
    means = []
    for bed, load in product(TESTBEDS, LOADS):
        means.append(float(np.mean([bound(bed, load, seed) for seed in range(first, first + seeds)])))
        sys.stdout.write(f"| {TESTBEDS[bed].title} | {load:g} | {means[-1]:.1%} |\n")
    sys.stdout.write(f"| all | | {np.mean(means):.2%} |\n")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:3]))

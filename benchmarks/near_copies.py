"""How chaotic a queue is: ``python -m benchmarks.near_copies [DATA ...]``.

The two weeks before a window of ``reproduce autosched`` are played on five copies whose run times differ by about 1 %,
without stops.  Printed are the shortest and the longest mean JCT, and of each day's time in the system (all jobs
together) by how much the longest exceeds the shortest: the median day and the worst one.

After that, of the jobs that ``saf:backfill=easy`` puts off in the window itself: their GPU hours at the end of a day in
truth, and as the autopilot predicts them, mean of five draws.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np

from shunter import registry
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import run_value
from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import DAY, HOUR
from shunter.model import GPU
from shunter.report.so_far import JobsBetween
from shunter.reproduce.autosched.design import DATA, DAYS, setup_of
from shunter.sim.engine import Simulator
from shunter.sim.feasibility import unfit

POLICIES, COPIES = ("fifo:backfill=easy", "saf:backfill=easy", "tiresias"), 5
PUT_OFF_DAYS = (3, 5, 7)


def put_off(name: str) -> None:
    """A row per day."""
    setup, _ = setup_of(name, DAYS, 0)
    trace = dataclasses.replace(setup.trace, checkpointable=np.zeros(len(setup.trace), np.int64))
    simulator, knowledge, memory = Simulator(trace, setup.cluster), SiteKnowledge(trace, setup.history), None
    for day in PUT_OFF_DAYS:
        at = int(trace.submit[0]) + day * DAY
        memory = simulator.run(registry.policy(POLICIES[1]), until=at, memory=memory)
        known = knowledge.at(simulator, at)
        rows = np.flatnonzero(~known.finished & (known.executed == 0))
        rows = rows[rows >= knowledge.offset]
        gpus = known.gpus[rows] / GPU / HOUR
        guesses = [DurationPredictor(seed=copy).of_all(known, at)[rows] @ gpus for copy in range(COPIES)]
        truth = simulator.durations[rows - knowledge.offset] @ gpus
        print(f"{name:8}{day:5}{len(rows):9}{truth:9,.0f}{np.mean(guesses):11,.0f}", flush=True)  # noqa: T201


def main(*data: str) -> None:
    """A row per trace and policy."""
    print(f"{'trace':8}{'policy':20}{'JCT from h':>11}{'to h':>7}{'day x':>7}{'worst day x':>13}")  # noqa: T201
    for name in data or DATA:
        setup, _ = setup_of(name, DAYS, 0)
        assert setup.history is not None
        begin = int(setup.trace.submit[0]) - DAYS * DAY
        for text in POLICIES:
            policy = registry.policy(text)
            kept = (setup.history.submit >= begin) & ~unfit(setup.history, setup.cluster, policy)
            jobs = setup.history.select(kept)
            jobs = dataclasses.replace(jobs, checkpointable=np.zeros(len(jobs), np.int64))
            first, means, days = Simulator(jobs, setup.cluster), [], []
            for copy in range(COPIES):
                twin = first.fork_with(near_times(jobs.duration, jobs.limit, copy))
                twin.run(policy)
                means.append(run_value(twin, "jct") / 3600)
                each = [JobsBetween(twin, begin + day * DAY, begin + (day + 1) * DAY).seconds for day in range(DAYS)]
                days.append(each)
            spread = np.max(days, axis=0) / np.maximum(np.min(days, axis=0), 1e-9)
            row = f"{min(means):11.2f}{max(means):7.2f}{np.median(spread):7.2f}{spread.max():13.2f}"
            print(f"{name:8}{text:20}{row}", flush=True)  # noqa: T201
    print(f"{'trace':8}{'day':>5}{'waiting':>9}{'true':>9}{'predicted':>11}  GPU hours")  # noqa: T201
    for name in data or DATA:
        put_off(name)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Jobs as far as they have come: time in the system, its P99 and finish-time fairness while many have not ended yet.

The guard of a live cluster and that of a replay both judge by this, a real run as well as its shadow.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.report.finish_fairness import finish_time_fairness, share_of_fair
from shunter.sim.engine import Simulator
from shunter.world import F64, I64

FEWEST_JOBS = 100  # that came meanwhile, without which nothing is said about P99 and fairness
CHANCE = 1.645  # standard errors by which chance errs to one side in one of twenty cases, if jobs were independent


class Tail(NamedTuple):
    """Of jobs that came meanwhile; all zeros: too few have come."""

    p99: float = 0.0  # of their times in the system so far, in seconds
    least_p99: float = 0.0  # what it is at least, beyond chance
    fair: float = 0.0  # the share with rho <= 1
    most_fair: float = 0.0  # what that is at most, beyond chance


def ended_by(table: I64, horizon: int) -> I64:
    """The same jobs, where those that are unfinished have ended at ``horizon``."""
    found = table.copy()
    unfinished = found[w.STATE] < w.DONE
    found[w.ENDED_AT, unfinished], found[w.STATE, unfinished] = horizon, w.DONE
    return found


def least_p99(seconds: F64) -> float:
    """What the P99 is at least, beyond chance: of a thousand jobs it depends on ten, of ten thousand on a hundred."""
    return float(np.quantile(seconds, max(0.99 - CHANCE * math.sqrt(0.99 * 0.01 / len(seconds)), 0.0)))


def most_fair(share: float, jobs: int) -> float:
    """What a share of fair jobs is at most, beyond chance."""
    return min(share + CHANCE * math.sqrt(share * (1 - share) / jobs), 1.0)


def unfair(here: Tail, in_shadow: Tail, least: float) -> str:
    """That, beyond chance, fewer jobs have rho <= 1 than ``least`` times as many as in the shadow; "": not so."""
    if here.most_fair >= least * in_shadow.fair:
        return ""
    times = here.fair / in_shadow.fair
    return f"the share of jobs with rho <= 1 is {times:.2f} times the shadow's; at least {least:g} is required"


class JobsBetween:
    """The jobs that were in the system between two instants, as far as they had come by the second one."""

    def __init__(self, simulator: Simulator, since: int, until: int, table: I64 | None = None) -> None:
        """``table``: what has become of the jobs, if not what the simulation says."""
        table = ended_by(simulator.world.jobs if table is None else table, until)
        there = (table[w.SUBMIT] < until) & (table[w.ENDED_AT] > since)
        self.simulator, self.since, self.until = simulator, since, until
        self.rows, self.table = np.flatnonzero(there), table[:, there]

    @property
    def seconds(self) -> float:
        """The time that all of them spent in the system in between."""
        begin, end = np.maximum(self.table[w.SUBMIT], self.since), np.minimum(self.table[w.ENDED_AT], self.until)
        return float((end - begin).sum()) / 1000

    @property
    def jct(self) -> F64:
        """Their times in the system so far, in seconds."""
        found: F64 = (np.minimum(self.table[w.ENDED_AT], self.until) - self.table[w.SUBMIT]) / 1000
        return found

    @cached_property
    def p99(self) -> float:
        """Of the times in the system so far."""
        return float(np.percentile(self.jct, 99)) if len(self.rows) else 0.0

    def rho(self, durations: I64) -> F64:
        """Finish-time fairness so far, if the jobs of the trace have these run times."""
        jobs = dataclasses.replace(self.simulator.trace.select(self.rows), duration=durations[self.rows])
        return finish_time_fairness(jobs, self.table, self.simulator.cluster.gpus)

    @cached_property
    def fair(self) -> float:
        """The share of jobs with rho of at most 1."""
        return share_of_fair(self.rho(self.simulator.durations))

    def tail(self, durations: I64, judged: NDArray[np.bool_] | None = None) -> Tail:
        """Of jobs that came meanwhile; ``judged``: which jobs of the trace count, None: all."""
        new = self.table[w.SUBMIT] >= self.since
        if judged is not None:
            new &= judged[self.rows]
        if np.count_nonzero(new) < FEWEST_JOBS:
            return Tail()
        seconds = self.jct[new]
        fair = share_of_fair(self.rho(durations)[new])
        return Tail(float(np.percentile(seconds, 99)), least_p99(seconds), fair, most_fair(fair, len(seconds)))

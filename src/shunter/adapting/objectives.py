"""What a run, or a look into the next hours, is judged by; smaller is better."""

from __future__ import annotations

import dataclasses

import numpy as np

from shunter import world as w
from shunter.errors import RunError, did_you_mean
from shunter.generating.known_jobs import HOUR
from shunter.report.finish_fairness import FAIR, finish_time_fairness, share_of_fair
from shunter.report.so_far import ended_by
from shunter.sim.engine import Simulator
from shunter.world import F64, I64

OBJECTIVES = {  # in words
    "jct": "mean JCT",
    "rho": "share of jobs with rho above 1",
}


def check_objective(objective: str) -> str:
    """The objective, if there is one of this name."""
    if objective not in OBJECTIVES:
        raise RunError(f"there is no objective '{objective}'; {did_you_mean(objective, OBJECTIVES)}")
    return objective


def look_ahead_value(outlook: Simulator, objective: str, now: int, horizon: int, weights: F64 | None = None) -> float:
    """The objective over all jobs of an outlook that was run up to ``horizon``; what is unfinished ends there.

    Times count from now on: what has passed is the same for all settings.  ``weights``: the jobs that each row stands
    for, where jobs were merged.
    """
    rows = _real(outlook)
    if not len(rows):
        return 0.0
    table = ended_by(outlook.world.jobs[:, rows], horizon)
    if objective == "rho":
        jobs = dataclasses.replace(outlook.trace.select(rows), duration=outlook.durations[rows])
        rho = finish_time_fairness(jobs, table, outlook.cluster.gpus)
        return 1 - (share_of_fair(rho) if weights is None else float(np.average(rho <= FAIR, weights=weights)))
    return float(np.average(table[w.ENDED_AT] - np.maximum(table[w.SUBMIT], now), weights=weights))


def _real(outlook: Simulator) -> I64:
    """The rows that are jobs, and do not only stand for their kind."""
    rows = np.arange(len(outlook.trace))
    return rows if outlook.rows is None else np.setdiff1d(rows, outlook.rows.standing)


BETWEEN = ("wait of short jobs", "wait of long jobs", "stops", "GPU time lost")  # what settings act on first


def middle_of(outlook: Simulator) -> list[float]:
    """What happened in an excerpt on the way to its objective, as logarithms: hours of waiting, stops, hours lost."""
    rows = _real(outlook)
    table, long = outlook.world.jobs[:, rows], outlook.durations[rows] > HOUR
    waits = np.where(table[w.STATE] == w.PENDING, outlook.now - table[w.WAITING_SINCE], 0) + table[w.WAITED]
    sums = (waits[~long].sum() / HOUR, waits[long].sum() / HOUR, table[w.PREEMPTIONS].sum(), table[w.LOST].sum() / HOUR)
    return [float(np.log1p(max(value, 0.0))) for value in sums]


def run_value(simulator: Simulator, objective: str) -> float:
    """The objective of a whole run."""
    if objective == "rho":
        return 1 - share_of_fair(rho_of(simulator))
    return float(jct_of(simulator).mean())


def jct_of(simulator: Simulator) -> F64:
    """Completion times in seconds, NaN for jobs that did not finish."""
    table = simulator.world.jobs
    return np.where(table[w.STATE] == w.DONE, (table[w.ENDED_AT] - table[w.SUBMIT]) / 1000, np.nan)


def rho_of(simulator: Simulator) -> F64:
    """Finish-time fairness of each job."""
    return finish_time_fairness(simulator.trace, simulator.world.jobs, simulator.cluster.gpus)

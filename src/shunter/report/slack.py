"""Slack over time: how much longer jobs with deadlines could have waited, from the log of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shunter import world as w
from shunter.world import F64, I64

if TYPE_CHECKING:
    from shunter.run_folder import Run

MOST_JOBS = 2000  # that are looked at, evenly by submission
LEAVES = (w.FINISH, w.FAIL, w.PREEMPT)


def with_deadlines(run: Run) -> I64:
    """The jobs that have a deadline and ended; evenly chosen where they are many."""
    rows = np.flatnonzero((run.jobs["deadline"].is_not_null() & (run.jobs["state"] == "done")).to_numpy())
    few: I64 = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_JOBS)).astype(int))]
    return few


def slack(run: Run, jobs: I64, times: F64) -> F64:
    """The slack of each job at each time, s: to its deadline, less the time that it still ran from then on.

    Time on GPUs counts, whatever was done in it. NaN before a job is submitted and once it has ended. Slack falls while
    a job waits, and what is left at the end is how early it was; below 0, how late.
    """
    table = run.jobs[jobs.tolist()]
    submit, end = (table[name].to_numpy() for name in ("submit", "end"))
    due = submit + table["deadline"].to_numpy()
    found = np.full((len(jobs), len(times)), np.nan)
    for at, (begin, stop) in enumerate(_runs(run.events, jobs)):
        inside = (times >= submit[at]) & (times < end[at])
        left = np.maximum(stop[:, None] - np.maximum(begin[:, None], times[inside]), 0).sum(axis=0)
        found[at, inside] = due[at] - times[inside] - left
    return found


def _runs(events: I64, jobs: I64) -> list[tuple[F64, F64]]:
    """When each of these jobs was put on GPUs and left them, s; a change of GPUs goes on."""
    concerned = np.isin(events[:, 2], jobs) & np.isin(events[:, 1], (w.START, *LEAVES))
    rows = events[concerned]
    rows = rows[np.argsort(rows[:, 2], kind="stable")]
    bounds = np.searchsorted(rows[:, 2], jobs), np.searchsorted(rows[:, 2], jobs, side="right")
    return [_of_one(rows[first:last]) for first, last in zip(*bounds, strict=True)]


def _of_one(rows: I64) -> tuple[F64, F64]:
    leaves = np.isin(rows[:, 1], LEAVES)
    starts = ~leaves & np.concatenate(([True], leaves[:-1]))  # one row per node, and again after a change
    times = rows[:, 0] / 1000
    return times[starts], times[leaves]


def levels(found: F64, shares: tuple[float, ...]) -> F64:
    """Quantiles of the slack at each time, NaN where no such job is unfinished; (shares, times)."""
    levels = np.full((len(shares), found.shape[1]), np.nan)
    there = np.flatnonzero(np.isfinite(found).any(axis=0))
    if len(there):
        levels[:, there] = np.nanquantile(found[:, there], shares, axis=0)
    return levels

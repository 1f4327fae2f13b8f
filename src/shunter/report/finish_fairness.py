"""Finish-time fairness of any run: rho, a job's completion time over what it would take in a fair share of the cluster.

The fair share is that of Themis: all GPUs divided by the mean number of jobs that were there, itself included, from
when the job could run to its end, but never more than the GPUs that it asked for.  So the ideal time is
duration x max(1, GPUs x jobs / GPUs of the cluster), with the true run time at speed 1.  A run in which jobs wait long
has more of them at once: its ideal times are longer too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shunter import world as w
from shunter.model import GPU, Trace
from shunter.world import F64, I64

FAIR = 1 + 1e-9  # up to this, rho counts as at most 1


def finish_time_fairness(trace: Trace, jobs: I64, gpus: int) -> F64:
    """The rho of every job, by the final job table of a run on this many GPUs; NaN for one that did not finish."""
    done, there = jobs[w.STATE] == w.DONE, jobs[w.STATE] > w.HELD
    ended = done | (jobs[w.STATE] == w.FAILED)
    rho = np.full(len(trace), np.nan)
    if not done.any():
        return rho
    begin, last = jobs[w.ELIGIBLE], int(jobs[w.ENDED_AT, ended].max())
    end = np.where(ended, jobs[w.ENDED_AT], last)
    present = _mean_present(begin[there], end[there], begin[done], end[done])
    share = np.maximum(1.0, trace.gpus[done] / GPU * present / gpus)
    rho[done] = (end - begin)[done] / np.maximum(trace.duration[done] * share, 1)
    return rho


def _mean_present(begin: I64, end: I64, first: I64, last: I64) -> F64:
    """How many of the stays from ``begin`` to ``end`` there were on average between each ``first`` and ``last``."""
    origin = begin.min()
    arrivals, departures = (np.sort(times) - origin for times in (begin, end))

    def until(time: I64) -> I64:
        """All stays together up to then."""
        total: I64 = np.zeros(len(time), np.int64)
        for sign, times in ((1, arrivals), (-1, departures)):
            count = np.searchsorted(times, time, side="right")
            total += sign * (count * time - np.concatenate(([0], np.cumsum(times)))[count])
        return total

    mean: F64 = (until(last - origin) - until(first - origin)) / np.maximum(last - first, 1)
    return mean


def share_of_fair(rho: F64) -> float:
    """Of the jobs that have a rho, the share for which it is at most 1."""
    known = rho[~np.isnan(rho)]
    return float((known <= FAIR).mean()) if len(known) else 0.0


def has_rho(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether people are shown rho: one of these runs was Themis', and none is from before it was counted."""
    return any(row["policy"].partition(":")[0] == "themis" for row in rows) and all(row.get("rho") for row in rows)

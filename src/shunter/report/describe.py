"""What is in a trace, as numbers: the dictionary behind ``shunter trace describe``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any

import numpy as np

from shunter import clusters
from shunter.cluster import Cluster
from shunter.model import GPU, Trace
from shunter.report import demand
from shunter.report.calendar import DAY_MS, HOUR_MS, WEEKDAYS, local_ms, text_of, weekday
from shunter.report.metrics import spread
from shunter.report.prediction_error import log_errors
from shunter.world import F64, I64

TOP = 10  # users, virtual clusters ... that are named
SIZE_TOPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 10**7)  # a size class reaches up to this many GPUs


def describe(trace: Trace, cluster: Cluster | None = None, zone: tzinfo = UTC) -> dict[str, Any]:
    """Everything there is to say about a trace; without a cluster, its load is that on one made to its measure."""
    local = local_ms(trace, zone)
    suggested = cluster is None
    cluster = cluster or clusters.load("auto", trace)
    hours = demand.gpu_hours(trace)
    first, last = int(trace.submit[0]), int(trace.submit[-1])
    waits = trace.recorded_wait[trace.recorded_wait >= 0]
    due = trace.deadline[trace.deadline > 0]
    return {
        "trace": trace.name,
        "digest": trace.digest,
        "jobs": len(trace),
        "span": {
            "first": text_of(first, zone, trace.dated),
            "last": text_of(last, zone, trace.dated),
            "days": (last - first) / DAY_MS,
            "dated": trace.dated,
            "timezone": str(zone) if trace.dated else None,
        },
        "gpu_hours": float(hours.sum()),
        "mean_gpus": float(trace.gpus.mean()) / GPU,
        "duration_s": spread(trace.duration, 1000),
        "sizes": _sizes(trace, hours),
        "arrivals": _arrivals(trace, local),
        "users": _users(trace, hours),
        "recurrence": _recurrence(trace),
        "estimates": _estimates(trace),
        "vcs": _groups(trace, "vc", hours, None if suggested else cluster),
        "gpu_types": _groups(trace, "gpu_type", hours, None if suggested else cluster),
        "outcomes": _groups(trace, "outcome", hours, None),
        "recorded_wait_s": spread(waits, 1000) | {"jobs": len(waits)} if len(waits) else None,
        "deadline_s": spread(due, 1000) | {"jobs": len(due)} if len(due) else None,  # from submission on
        "elastic_jobs": int(trace.elastic.sum()),
        "load": demand.describe(trace, cluster, local) | {"suggested": suggested},
        "remarks": list(trace.remarks),
    }


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _sizes(trace: Trace, hours: F64) -> list[dict[str, Any]]:
    """Jobs by size, in classes that double; a class is named by the sizes that occur in it."""
    member = np.where(trace.gpus < GPU, 0, 1 + np.searchsorted(np.array(SIZE_TOPS) * GPU, trace.gpus))
    found = []
    for number in np.unique(member).tolist():
        rows = member == number
        low, high = int(trace.gpus[rows].min()) / GPU, int(trace.gpus[rows].max()) / GPU
        found.append(
            {
                "gpus": f"{low:g}" if low == high else f"{low:g}-{high:g}",
                "jobs": int(rows.sum()),
                "job_share": _share(rows.sum(), len(trace)),
                "gpu_time_share": _share(hours[rows].sum(), hours.sum()),
                "duration_s": spread(trace.duration[rows], 1000),
            }
        )
    return found


def _arrivals(trace: Trace, local: I64) -> dict[str, Any]:
    """When jobs come: by hour and weekday, per day, and how much in bursts."""
    gaps = np.diff(trace.submit)
    of_week = weekday(local) if trace.dated else local // DAY_MS % 7
    _, member, together = np.unique(trace.submit // 1000, return_inverse=True, return_counts=True)
    return {
        "by_hour": np.bincount(local // HOUR_MS % 24, minlength=24).tolist(),
        "weekdays": list(WEEKDAYS) if trace.dated else [f"day {day}" for day in range(1, 8)],
        "by_weekday": np.bincount(of_week, minlength=7).tolist(),
        "per_day": _per_day(local // DAY_MS),
        "gap_cv": float(gaps.std() / gaps.mean()) if len(gaps) and gaps.any() else 0.0,
        "same_second_share": _share((together[member] > 1).sum(), len(trace)),
    }


def _per_day(day: I64) -> dict[str, float]:
    """Jobs of a day: least, mean, most; the first and last day, which are cut, count only where there are no others."""
    days, counts = np.unique(day, return_counts=True)
    inner = (days > days[0]) & (days < days[-1])
    whole = int(days[-1] - days[0]) - 1  # days without a job are among them
    if whole < 1:
        return {"min": int(counts.min()), "mean": float(counts.mean()), "max": int(counts.max())}
    least = int(counts[inner].min(initial=counts.max())) if inner.sum() == whole else 0
    return {"min": least, "mean": float(counts[inner].sum()) / whole, "max": int(counts[inner].max(initial=0))}


def _users(trace: Trace, hours: F64) -> dict[str, Any] | None:
    """How many there are, and how much the busiest submit."""
    named = trace.user >= 0
    if not named.any():
        return None
    jobs = np.bincount(trace.user[named], minlength=len(trace.users))
    work = np.bincount(trace.user[named], hours[named], len(trace.users)).astype(np.float64)
    order = np.argsort(-jobs, kind="stable")[: int((jobs > 0).sum())]
    few = math.ceil(0.05 * len(order))
    return {
        "count": len(order),
        "jobs_without": int((~named).sum()),
        "top_5_percent": {
            "users": few,
            "job_share": _share(jobs[order[:few]].sum(), len(trace)),
            "gpu_time_share": _share(work[order[:few]].sum(), hours.sum()),
        },
        "top": _rows(trace.users, order[:TOP], jobs, work, len(trace), float(hours.sum())),
    }


def _rows(
    names: Sequence[str], order: I64, jobs: I64, work: F64, all_jobs: int, all_work: float
) -> list[dict[str, Any]]:
    return [
        {
            "name": names[code],
            "jobs": int(jobs[code]),
            "job_share": _share(jobs[code], all_jobs),
            "gpu_time_share": _share(work[code], all_work),
        }
        for code in order.tolist()
    ]


def _groups(trace: Trace, column: str, hours: F64, cluster: Cluster | None) -> list[dict[str, Any]]:
    """Jobs by a column of names, most GPU time first; with the load on the cluster's part of that name."""
    codes, names = getattr(trace, column), getattr(trace, Trace.names_of(column))
    named = codes >= 0
    jobs = np.bincount(codes[named], minlength=len(names))
    work = np.bincount(codes[named], hours[named], len(names)).astype(np.float64)
    order = np.lexsort((np.arange(len(names)), -work))
    rows = _rows(names, order[jobs[order] > 0], jobs, work, len(trace), float(hours.sum()))
    if cluster is None or (column == "vc" and not cluster.vcs):
        return rows
    parts, theirs = (cluster.node_vc, cluster.vcs) if column == "vc" else (cluster.node_type, cluster.gpu_types)
    gpus_of = {name: int(cluster.node_gpus[parts == code].sum()) for code, name in enumerate(theirs)}
    for row in rows:
        row["gpus"] = gpus_of.get(row["name"], 0)
        mine = codes == names.index(row["name"])
        row["load"] = demand.load(trace, row["gpus"], mine) if row["gpus"] else None
    return rows


def _recurrence(trace: Trace) -> dict[str, Any] | None:
    """Share of jobs that their user had submitted before, with the same name or the same size."""
    named = trace.user >= 0
    if not named.any():
        return None
    found: dict[str, Any] = {"same_user_and_name": None}
    for key, column in (("same_user_and_name", trace.job_name), ("same_user_and_size", trace.gpus)):
        rows = named & (column >= 0)
        if rows.any():
            different = len(np.unique(trace.user[rows] * (int(column.max()) + 1) + column[rows]))
            found[key] = _share(int(rows.sum()) - different, int(rows.sum()))
    return found


def _estimates(trace: Trace) -> dict[str, Any]:
    """How well the next run time is said by the mean of its user's last two, and by the limit.

    ``history`` knows only runs that had ended when the job came (without a recorded wait: had it started at once), as
    a scheduler would; ``last_two`` takes the last two submissions, ended or not, as studies often do.
    """
    ended = trace.submit + np.maximum(trace.recorded_wait, 0) + trace.duration
    limited = trace.limit > 0
    return {
        "history": _history_error(trace, ended),
        "last_two": _history_error(trace, None),
        "limit": _log_error(trace.limit[limited], trace.duration[limited]),
    }


def _history_error(trace: Trace, known_at: I64 | None) -> dict[str, float] | None:
    """The error of the mean of a user's last two run times; each is known from ``known_at`` on, None: to later jobs."""
    jobs = np.flatnonzero(trace.user >= 0)
    who = np.concatenate((trace.user[jobs], trace.user[jobs]))
    at, known = (trace.submit, known_at) if known_at is not None else (2 * np.arange(len(trace)),) * 2
    when = np.concatenate((known[jobs] + (known_at is None), at[jobs]))
    ends = np.arange(len(who)) < len(jobs)
    order = np.lexsort((~ends, when, who))  # by user, then time; an end is known to jobs submitted at that instant
    ends = ends[order]
    job = jobs[order % len(jobs)] if len(jobs) else jobs
    ended = np.append(job[ends], -1)
    before = np.cumsum(ends)[~ends]  # this many ends stand in front of each submission
    asks = job[~ends]
    last, second = ended[before - 1], ended[before - 2]
    has_last = (before >= 1) & (trace.user[last] == trace.user[asks])
    has_second = (before >= 2) & has_last & (trace.user[second] == trace.user[asks])
    mean = (trace.duration[last] + np.where(has_second, trace.duration[second], trace.duration[last])) / 2
    return _log_error(mean[has_last], trace.duration[asks[has_last]])


def _log_error(estimate: I64 | F64, truth: I64) -> dict[str, float] | None:
    """Mean |ln(estimate / truth)|; 0.7 is a factor of two."""
    if not len(truth):
        return None
    return {"jobs": len(truth), "mean_abs_log_error": float(np.abs(log_errors(estimate, truth)).mean())}

"""The demand of a trace: requested over available GPU time, by day, and GPUs in use at once."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter.cluster import Cluster
from shunter.model import GPU, Trace
from shunter.report.calendar import DAY_MS, HOUR_MS, LAST_DATE_MS, text_of
from shunter.world import F64, I64

MOST_DAYS = 20_000  # a trace over more has a wrong time in it; its days are not listed


def gpu_hours(trace: Trace) -> F64:
    """GPU time of each job, GPU-hours."""
    hours: F64 = (trace.gpus / GPU) * (trace.duration / HOUR_MS)
    return hours


def span_hours(trace: Trace) -> float:
    """From the first submission to the last, or while the longest job runs where that is longer; as ``auto`` counts."""
    return max(int(trace.submit[-1] - trace.submit[0]), int(trace.duration.max()), 1) / HOUR_MS


def _submission_hours(trace: Trace) -> float:
    """From the first submission to the last, as ``trace synth`` counts."""
    return max(int(trace.submit[-1] - trace.submit[0]), 1) / HOUR_MS


def load(trace: Trace, gpus: int, rows: NDArray[np.bool_] | None = None) -> float:
    """GPU time that these jobs ask for over what this many GPUs offer in the trace's span."""
    hours = gpu_hours(trace)
    return float(hours.sum() if rows is None else hours[rows].sum()) / (gpus * span_hours(trace))


def by_period(trace: Trace, local: I64, gpus: int, days: int = 1) -> tuple[I64, F64]:
    """First day (since 1970, or of the trace's clock) of each period of this many days, and its load.

    A job counts where it was submitted.  The last period may be cut short by the trace's end; what is offered in it is
    the whole period all the same.
    """
    day = local // DAY_MS
    first = int(day.min())
    periods = (int(day.max()) - first) // days + 1
    if periods * days > MOST_DAYS:
        return np.empty(0, np.int64), np.empty(0)
    asked = np.bincount((day - first) // days, gpu_hours(trace), periods)
    return first + days * np.arange(periods), asked / (gpus * 24 * days)


def in_use(begin: I64, end: I64, milli_gpus: I64) -> tuple[I64, I64]:
    """Times at which the GPUs in use change, and thousandths of GPUs in use from then on."""
    times = np.concatenate((end, begin))  # what ends at an instant makes room for what begins
    change = np.concatenate((-milli_gpus, milli_gpus))
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(change[order])


def recorded_use(trace: Trace, rows: NDArray[np.bool_], gpus: int) -> tuple[int, float]:
    """The most thousandths of GPUs that these jobs used at once, as recorded; the share of time with over ``gpus``."""
    begin = (trace.submit + trace.recorded_wait)[rows]
    times, level = in_use(begin, begin + trace.duration[rows], trace.gpus[rows])
    if not len(times):
        return 0, 0.0
    over = np.append(np.diff(times), 0)[level > gpus * GPU].sum() / max(times[-1] - times[0], 1)
    return int(level.max()), float(over)


def wanted_at_once(trace: Trace) -> dict[str, float]:
    """GPUs in use over time if no job ever waited: mean, percentiles, most."""
    times, level = in_use(trace.submit, trace.submit + trace.duration, trace.gpus)
    width = np.diff(times)
    level, width = level[:-1][width > 0], width[width > 0]
    if not len(width):
        return dict.fromkeys(("mean", "p50", "p95", "max"), float(trace.gpus.sum()) / GPU)
    order = np.argsort(level, kind="stable")
    reached = np.cumsum(width[order] / width.sum())
    found = {"mean": float((level * (width / width.sum())).sum()) / GPU}
    for name, point in (("p50", 0.5), ("p95", 0.95)):
        found[name] = float(level[order][min(int(np.searchsorted(reached, point)), len(level) - 1)]) / GPU
    return found | {"max": float(level.max()) / GPU}


def describe(trace: Trace, cluster: Cluster, local: I64) -> dict[str, Any]:
    """The load on a cluster: in all, by day, on the worst day, and at once."""
    days, loads = by_period(trace, local, cluster.gpus)
    names = [day_name(int(day), trace.dated) for day in days]
    worst = int(np.argmax(loads)) if len(loads) else None
    return {
        "cluster": cluster.name,
        "gpus": cluster.gpus,
        "load": load(trace, cluster.gpus),
        "span_days": span_hours(trace) / 24,
        "submission_days": _submission_hours(trace) / 24,
        "load_of_submissions": float(gpu_hours(trace).sum()) / (cluster.gpus * _submission_hours(trace)),
        "peak_day": None if worst is None else {"day": names[worst], "load": float(loads[worst])},
        "by_day": [{"day": name, "load": value} for name, value in zip(names, loads.tolist(), strict=True)],
        "wanted_at_once_gpus": wanted_at_once(trace),
    }


def day_name(day: int, dated: bool) -> str:
    """A day's date, or its number on the trace's own clock."""
    return text_of(day * DAY_MS, UTC, dated)[:10] if dated and day * DAY_MS < LAST_DATE_MS else f"day {day + 1:,}"

"""How far simulated waits are from recorded ones, by which measures, and what in the record explains it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter.advice.recorded_waits import AT_ONCE_MS, DAY_MS, Capacity, passed, waiting_with_room
from shunter.cluster import Cluster
from shunter.model import GPU, Trace
from shunter.predictors.evaluating import ranks
from shunter.report.bootstrap import RESAMPLES
from shunter.report.metrics import SIZES, spread
from shunter.seeding import rng
from shunter.world import F64, I64

HEAVY = 3  # users whose share of the error is reported


def validity(
    trace: Trace,
    simulated: I64,
    cluster: Cluster,
    seed: int = 0,
    parts: Mapping[str, NDArray[np.bool_]] = MappingProxyType({}),
    capacity: Sequence[Capacity] = (),
    held: I64 | None = None,
) -> dict[str, Any]:
    """The comparison of simulated waits (ms; -1: the job did not run) with the trace's recorded ones.

    ``parts`` are jobs that are judged on their own, too, by name; ``capacity`` is that of each day, if it varies;
    ``held`` is how long (ms) each job was held outside the simulated queue before its simulated wait.
    """
    known = (trace.recorded_wait >= 0) & (simulated >= 0)
    outside = 0 if held is None else held[known]
    trace, simulated = trace.select(known), simulated[known]
    if not len(trace):
        return {"jobs": 0, "parts": []}
    whole = np.ones(len(trace), np.bool_)
    shown = {name: rows[known] for name, rows in parts.items() if rows[known].any()}
    return {
        "jobs": len(trace),
        **agreement(trace, simulated, whole),
        "rank_interval": _interval(trace, simulated, whole, seed),
        "parts": [
            agreement(trace, simulated, rows, name) | {"rank_interval": _interval(trace, simulated, rows, seed)}
            for name, rows in shown.items()
        ],
        "by_size": [agreement(trace, simulated, mine, name) for name, mine in _sizes(trace)],
        "by_month": [agreement(trace, simulated, mine, name) for name, mine in months(trace)],
        "record": waiting_with_room(trace, cluster, capacity),
        "simulated": waiting_with_room(
            dataclasses.replace(trace, recorded_wait=simulated + outside), cluster, capacity
        ),
        "causes": _causes(trace, simulated),
    }


def agreement(trace: Trace, simulated: I64, rows: NDArray[np.bool_], name: str = "") -> dict[str, Any]:
    """How near the waits of some jobs are; two agree within a factor of 2, or if both are short."""
    recorded, found = trace.recorded_wait[rows].astype(np.float64), simulated[rows].astype(np.float64)
    error = np.abs(found - recorded)
    low, high = np.minimum(recorded, found), np.maximum(recorded, found)
    near = (high <= 2 * low) | (high <= AT_ONCE_MS)
    about = {"name": name, "jobs": int(rows.sum())} if name else {}
    return about | {
        "recorded_wait_s": spread(recorded, 1000),
        "simulated_wait_s": spread(found, 1000),
        "recorded_waiting": float((recorded >= AT_ONCE_MS).mean()),
        "simulated_waiting": float((found >= AT_ONCE_MS).mean()),
        "rank_correlation": _correlation(ranks(recorded), ranks(found)),
        "rank_of_waits": _correlation(ranks(_waits(recorded)), ranks(_waits(found))),
        "mean_abs_error_s": float(error.mean()) / 1000,
        "median_abs_error_s": float(np.median(error)) / 1000,
        "within_factor_2": float(near.mean()),
    }


def _waits(wait: F64) -> F64:
    """Waits as they are ranked where only waits matter: one under a minute is none."""
    found: F64 = np.where(wait < AT_ONCE_MS, 0.0, wait)
    return found


def _correlation(a: F64, b: F64) -> float | None:
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _interval(trace: Trace, simulated: I64, rows: NDArray[np.bool_], seed: int) -> dict[str, float | None]:
    """The 95 % interval of the rank correlation of waits over a minute: days are drawn again and again.

    Jobs of a day share its queue.  Ranks are those among all these jobs.
    """
    a, b = (ranks(_waits(waits[rows].astype(np.float64))) for waits in (trace.recorded_wait, simulated))
    day = np.unique((trace.submit[rows] - trace.submit[0]) // DAY_MS, return_inverse=True)[1]
    a, b = (a - a.mean()) / len(a), (b - b.mean()) / len(b)
    sums = np.array([np.bincount(day, values) for values in (np.ones(len(a)), a, b, a * b, a * a, b * b)])
    days = sums.shape[1]
    if days < 5:
        return {"low": None, "high": None, "days": days}
    drawn = rng(seed, "validity").multinomial(days, np.full(days, 1 / days), size=RESAMPLES)
    n, x, y, xy, xx, yy = (drawn @ sums.T).T
    spreads = np.sqrt(np.maximum((xx / n - (x / n) ** 2) * (yy / n - (y / n) ** 2), 1e-300))
    low, high = np.percentile((xy / n - x / n * y / n) / spreads, (2.5, 97.5))
    return {"low": float(low), "high": float(high), "days": days}


def _sizes(trace: Trace) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    group = np.searchsorted([GPU * top for _, top in SIZES], trace.gpus)
    return [(name, group == at) for at, (name, _) in enumerate(SIZES) if (group == at).any()]


def months(trace: Trace) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    """By calendar month (UTC), or by 30 days of a trace without dates."""
    if trace.dated:
        month = trace.submit.astype("datetime64[ms]").astype("datetime64[M]")
        return [(str(one), month == one) for one in np.unique(month)]
    part = (trace.submit - trace.submit[0]) // (30 * DAY_MS)
    return [(f"days {30 * one} to {30 * one + 29}", part == one) for one in np.unique(part).tolist()]


def _causes(trace: Trace, simulated: I64) -> dict[str, Any]:
    """Which jobs the difference comes from."""
    recorded = trace.recorded_wait
    only_record = (simulated < AT_ONCE_MS) & (recorded >= AT_ONCE_MS)
    only_simulated = (simulated >= AT_ONCE_MS) & (recorded < AT_ONCE_MS)
    error = np.abs(simulated - recorded).astype(np.float64)
    by_user = np.bincount(trace.user + 1, error, minlength=1)[1:]
    top = np.sort(by_user)[::-1][:HEAVY].sum() / max(1.0, error.sum())
    return {
        "at_once_in_both": float(((simulated < AT_ONCE_MS) & (recorded < AT_ONCE_MS)).mean()),
        "only_recorded": {
            "jobs": int(only_record.sum()),
            "share_of_recorded_wait": float(recorded[only_record].sum() / max(1, recorded.sum())),
            "median_s": float(np.median(recorded[only_record])) / 1000 if only_record.any() else 0.0,
        },
        "only_simulated": {
            "jobs": int(only_simulated.sum()),
            "share_of_simulated_wait": float(simulated[only_simulated].sum() / max(1, simulated.sum())),
        },
        "passed": {"jobs": passed(trace), "same_user": passed(trace, same_user=True)},
        "shortest_recorded_s": float(np.percentile(recorded, 5)) / 1000,
        "users": len(by_user),
        "share_of_error_by_top_users": float(top),
    }

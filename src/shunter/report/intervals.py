"""How sure each number of a comparison is: 95 % intervals of values and of differences between policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from shunter.report.bootstrap import (
    FEWEST,
    Draws,
    Estimate,
    drawn_means,
    drawn_quantiles,
    draws_of,
    estimate,
    means_of_repeats,
)
from shunter.world import F64

OF_JOBS = {"jct_s": ("mean", "p50", "p95", "p99"), "wait_s": ("mean", "p50", "p95", "p99"), "bsld": ("mean", "p95")}
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
OF_RUNS = (  # numbers of a whole run, which have an interval over repeats only
    "jct_s.max",
    "wait_s.max",
    "makespan_s",
    "utilization",
    "fragmentation",
    "fairness.jain",
    "preemptions",
    "lost_gpu_hours",
)
MEASURES = (*(f"{key}.{point}" for key, points in OF_JOBS.items() for point in points), *OF_RUNS)

Bounds: TypeAlias = "dict[str, float] | None"  # low and high; None: there is no interval


class JobTimes(NamedTuple):
    """What a run did to each job, in submit order: seconds, NaN if it did not finish."""

    jct: F64
    wait: F64
    bsld: F64


def value_at(summary: dict[str, Any], measure: str) -> float:
    """The number of a summary that a measure such as ``jct_s.mean`` names."""
    key, _, point = measure.partition(".")
    return float(summary[key][point] if point else summary[key])


def drawn(draws: Draws, summaries: Sequence[dict[str, Any]], times: Sequence[JobTimes], seed: int) -> dict[str, F64]:
    """Each measure of one policy in every draw; measures without draws are left out.

    Draws are the same for all policies, so that differences between them are those of pairs.
    """
    found: dict[str, F64] = {}
    if draws.over == "repeats" or len(summaries) >= FEWEST:
        which = MEASURES if draws.over == "repeats" else OF_RUNS
        found = {name: means_of_repeats(np.array([value_at(one, name) for one in summaries]), seed) for name in which}
    if draws.over == "stretches":
        for at, (key, points) in enumerate(OF_JOBS.items()):
            values = [one[at] for one in times]
            quantiles = drawn_quantiles(draws, values, tuple(SHARES.values()))
            all_points = dict(zip(SHARES, quantiles, strict=True)) | {"mean": drawn_means(draws, values)}
            found |= {f"{key}.{point}": all_points[point] for point in points}
    return found


def bounds(draws: F64, value: float, parts: int) -> Bounds:
    """The 95 % interval that these draws give a value."""
    _, low, high = estimate(draws, parts)
    return None if np.isnan(low) else {"low": min(low, value), "high": max(high, value)}


def intervals(row: dict[str, Any], own: dict[str, F64], draws: Draws, repeats: int) -> dict[str, Bounds]:
    """The interval of each measure of one policy."""
    return {name: bounds(own[name], value_at(row, name), _parts(draws, name, repeats)) for name in own}


def differences(
    row: dict[str, Any], other: dict[str, Any], own: dict[str, F64], others: dict[str, F64], draws: Draws, repeats: int
) -> dict[str, Any]:
    """The difference of each measure to another policy's: its value, and its interval where there is one.

    ``share`` is the interval of the same as a share of the other's number.
    """
    found = {}
    for name in MEASURES:
        value = value_at(row, name) - value_at(other, name)
        known = name in own and name in others
        between = bounds(own[name] - others[name], value, _parts(draws, name, repeats)) if known else None
        ends = between if between else dict.fromkeys(("low", "high"))
        found[name] = {"value": value, **ends}
        if between and value_at(other, name) > 0 and (others[name] > 0).all():
            share = value / value_at(other, name)
            found[name]["share"] = bounds(own[name] / others[name] - 1, share, _parts(draws, name, repeats))
    return found


def quotient_of_means(above: Sequence[F64], below: Sequence[F64], seed: int = 0) -> Estimate:
    """One mean over another, of the same jobs in submit order; one pair of arrays per repeat, all with the same jobs.

    The interval is over stretches of the jobs, the same for both.
    """
    draws = draws_of([len(each) for each in below], False, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = drawn_means(draws, above) / drawn_means(draws, below)
    value = float(drawn[0])
    between = bounds(drawn, value, draws.parts) if np.isfinite(value) else None
    return Estimate(value, between["low"], between["high"]) if between else Estimate(value, np.nan, np.nan)


def shown(difference: dict[str, Any] | None) -> bool:
    """Whether an interval of a difference leaves 0 out."""
    if difference is None or difference["low"] is None:
        return False
    return not difference["low"] <= 0 <= difference["high"]


def unsure(draws: F64, parts: int) -> bool:
    """Whether draws of a difference give an interval with 0 in it."""
    _, low, high = estimate(draws, parts)
    return bool(low <= 0 <= high)


def _parts(draws: Draws, measure: str, repeats: int) -> int:
    return repeats if measure in OF_RUNS else draws.parts

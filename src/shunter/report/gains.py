"""What models gain on rules, month by month, with intervals over days: jobs of a day err alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shunter.model import EARLIEST_DATE_MS
from shunter.predictors.calibrating import NAMES
from shunter.predictors.evaluating import EvaluationTask, ModelEstimates, held
from shunter.report.bootstrap import estimate, means_of_repeats
from shunter.world import F64, I64

# rules that models are held against: the first two that are there
AGAINST = ("user2", "request2", "gpus_median", "history", "mean")
DAY_MS = 86_400_000


def by_month(given: EvaluationTask, outcomes: Sequence[ModelEstimates]) -> list[dict[str, Any]]:
    """For every month and for all of them: errors, what models gain on rules, and what their quantiles held."""
    moment = given.moment[given.asked]
    label = months(moment)
    parts = [(name, np.flatnonzero(label == name)) for name in dict.fromkeys(label.tolist())]
    if len(parts) > 1:
        parts.append(("all", np.arange(len(moment))))
    rules = [name for name in AGAINST if any(outcome.name == name for outcome in outcomes)][:2]
    errors = {outcome.name: np.abs(np.log(outcome.seconds / given.actual)) for outcome in outcomes}
    found = []
    for name, jobs in parts:
        day = moment[jobs] // DAY_MS
        models = {
            outcome.name: {
                "mean_abs_log_error": float(errors[outcome.name][jobs].mean()),
                "gain": {rule: gain_by_day(errors[rule][jobs], errors[outcome.name][jobs], day) for rule in rules},
                "held": held(outcome.quantiles[:, jobs], given.actual[jobs]),
                "held_within": held_within(outcome.quantiles[:, jobs], given.actual[jobs], day),
            }
            for outcome in outcomes
            if outcome.quantiles is not None and outcome.name not in rules
        }
        of_rules = {rule: {"mean_abs_log_error": float(errors[rule][jobs].mean())} for rule in rules}
        found.append({"month": name, "jobs": len(jobs), "days": len(np.unique(day)), "models": of_rules | models})
    return found


def months(moment: I64) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """The month of each instant; of a trace without dates, stretches of 30 days."""
    if len(moment) and moment.min() >= EARLIEST_DATE_MS:
        return moment.astype("datetime64[ms]").astype("datetime64[M]").astype(str)
    return np.char.add("days from ", ((moment - moment.min()) // (30 * DAY_MS) * 30).astype(str))


def gain_by_day(rule: F64, model: F64, day: I64) -> list[float | None]:
    """By how much less a model errs than a rule, as a share, with its 95 % interval over days (none of few)."""
    of_day = np.unique(day, return_inverse=True)[1]
    sums = [means_of_repeats(np.bincount(of_day, error).astype(np.float64)) for error in (rule, model)]
    gain = estimate(1 - sums[1] / np.maximum(sums[0], 1e-12), int(of_day.max()) + 1)
    return [None if np.isnan(value) else value for value in gain]


def held_within(quantiles: F64, actual: F64, day: I64) -> dict[str, float | None]:
    """By how much the share of jobs below each quantile may be off by chance: half its 95 % interval over days."""
    of_day = np.unique(day, return_inverse=True)[1]
    jobs = means_of_repeats(np.bincount(of_day).astype(np.float64))
    found = {}
    for name, quantile in zip(NAMES, quantiles, strict=True):
        below = means_of_repeats(np.bincount(of_day, actual <= quantile).astype(np.float64))
        _, low, high = estimate(below / jobs, int(of_day.max()) + 1)
        found[name] = None if np.isnan(low) else (high - low) / 2
    return found


def gain_text(gain: Sequence[float | None]) -> str:
    """A gain for people: ``+12 % (+3 to +20)``."""
    value, low, high = gain
    between = "" if low is None or high is None else f" ({100 * low:+.0f} to {100 * high:+.0f})"
    return f"{100 * (value or 0.0):+.0f} %{between}"

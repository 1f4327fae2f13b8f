"""How good forecasts of submissions would have been, an hour ahead: models fitted before an instant, and rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shunter.errors import ModelError
from shunter.model import Trace
from shunter.predictors.fitting import Model
from shunter.predictors.storing import cached
from shunter.predictors.throughput import AHEAD, BIN_MS, DAY, binned, fit, forecasts
from shunter.world import F64

DAYS = 28  # of which the time of day is averaged
RULES = {
    "hour_ago": "the bin an hour before",
    "day_ago": "the bin a day before",
    "last_hour": "mean of the hour that ended an hour before",
    "time_of_day": f"mean of that time of day, of {DAYS} days",
}


@dataclass(frozen=True, eq=False)
class SubmissionForecast:
    """What one model or rule expected of each bin after the split."""

    name: str
    counts: F64  # (2, bins) jobs and GPUs


def evaluate(trace: Trace, at: int, models: Sequence[Model]) -> tuple[F64, list[SubmissionForecast]]:
    """What was submitted in each bin after an instant, jobs and GPUs (2, bins), and what was expected."""
    begin, end = (int(trace.submit[job]) // BIN_MS * BIN_MS for job in (0, -1))
    split = -(-(at - begin) // BIN_MS)
    counts = binned(trace, begin, end)  # without the last bin, which may not be whole
    if split < 1 or counts.shape[1] - split < DAY:
        raise ModelError(
            f"trace '{trace.name}' must have jobs before the split and a day of them after it; choose an instant "
            "inside it ('shunter trace describe' shows when it begins and ends)"
        )
    found = [SubmissionForecast(name, rule(name, counts)[:, split:]) for name in RULES]
    for model in models:
        parts = ("throughput", model, begin, trace.digest, begin + split * BIN_MS)
        fitted = cached(parts, lambda model=model: fit(model, counts[:, :split], begin))  # type: ignore[misc]
        found.append(SubmissionForecast(model.name, forecasts(fitted, counts, begin)[:, split:]))
    return counts[:, split:], found


def rule(name: str, counts: F64) -> F64:
    """What a rule expects of every bin (2, bins) an hour before it; what was before the first bin counts as nothing."""
    if name == "hour_ago":
        return _ago(counts, AHEAD)
    if name == "day_ago":
        return _ago(counts, DAY)
    if name == "last_hour":
        lags = [AHEAD + i for i in range(AHEAD)]
    else:
        lags = [DAY * (1 + day) for day in range(max(min(DAYS, counts.shape[1] // DAY), 1))]
    mean: F64 = np.mean([_ago(counts, lag) for lag in lags], axis=0)
    return mean


def _ago(counts: F64, bins: int) -> F64:
    return np.pad(counts, ((0, 0), (bins, 0)))[:, : counts.shape[1]]

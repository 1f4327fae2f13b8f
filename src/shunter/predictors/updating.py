"""When a model is fitted again: by schedule, or because it errs more than it used to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.predictors.fitted import Fitted
from shunter.world import F64, I64

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Schedule:
    """When to fit again."""

    every_days: float = 7.0  # by schedule; infinite: never
    watched: int = 200  # ended jobs whose mean |log error| is compared with that at the fit ...
    drift: float = 1.5  # ... and this many times that is too much; infinite: never
    rest_days: float = 1.0  # after a fit, before drift is looked for again


NEVER = Schedule(every_days=float("inf"), drift=float("inf"))


def has_drifted(schedule: Schedule, fitted: Fitted, errors: F64) -> bool:
    """Whether the last of these |log errors|, of jobs that ended since the fit, are too large."""
    enough = len(errors) >= schedule.watched
    return bool(enough and errors[-schedule.watched :].mean() > schedule.drift * fitted.error)


def next_fit(schedule: Schedule, fitted: Fitted, ends: I64, errors: F64) -> float:
    """The instant of the next fit, ms; ``errors`` are |log errors| of jobs since the last, by their ``ends``."""
    scheduled = fitted.fitted_at + schedule.every_days * DAY_MS
    n = schedule.watched
    if len(errors) < n:
        return scheduled
    sums = np.cumsum(np.concatenate(([0.0], errors)))
    means = (sums[n:] - sums[:-n]) / n  # of the n up to each end
    rested = ends[n - 1 :] >= fitted.fitted_at + schedule.rest_days * DAY_MS
    drifted = np.flatnonzero((means > schedule.drift * fitted.error) & rested)
    return min(scheduled, float(ends[n - 1 + drifted[0]])) if len(drifted) else scheduled

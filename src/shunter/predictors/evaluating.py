"""How good estimates of run times would have been: split by time, and fitted again as a live cluster would."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.errors import ModelError
from shunter.model import Trace
from shunter.predictors import features as f
from shunter.predictors.calibrating import NAMES as QUANTILE_NAMES
from shunter.predictors.calibrating import P10, P90, QUANTILES
from shunter.predictors.fitted import Fitted, estimates, quantiles
from shunter.predictors.fitting import Known, Model, known
from shunter.predictors.updating import DAY_MS, Schedule, next_fit
from shunter.world import F64, I64

Tell = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one model or rule said about the jobs after the split, in their order."""

    name: str
    seconds: F64  # estimates; NaN: it says nothing
    quantiles: F64 | None = None  # (quantiles, jobs)
    fits: int = 0
    fit_s: float = 0.0  # of the longest fit
    per_s: float = 0.0  # estimates a second


@dataclass(frozen=True, eq=False)
class Task:
    """A trace, and the instant from which on its jobs are estimated."""

    trace: Trace
    at: int  # ms
    rows: F64  # by the half-life of the models that are asked

    @property
    def asked(self) -> I64:
        """The jobs that are estimated."""
        asked: I64 = np.flatnonzero(self.trace.submit >= self.at)
        return asked

    @property
    def actual(self) -> F64:
        """What they took, in seconds."""
        return seconds_of(self.trace)[self.asked]


def seconds_of(trace: Trace) -> F64:
    """Run times, at least a second."""
    return np.maximum(trace.duration / 1000.0, 1.0)


def split_at(trace: Trace, share: float) -> int:
    """The instant before which so large a share of the jobs was submitted."""
    if not 0 < share < 1:
        raise ModelError(f"the share to train on must be between 0 and 1, got {share:g}")
    return int(trace.submit[min(int(share * len(trace)), len(trace) - 1)])


def task(trace: Trace, at: int, half_life_days: float = f.HALF_LIFE_DAYS) -> Task:
    """Get ready; both sides of the split must have jobs."""
    if not (trace.submit < at).any() or not (trace.submit >= at).any():
        raise ModelError(
            f"trace '{trace.name}' must have jobs before and after the split; choose an instant inside it "
            "('shunter trace describe' shows when it begins and ends)"
        )
    return Task(trace, at, f.stream(trace, half_life_days=half_life_days))


# ------------------------------------------------------------------------------------------- models


def live(model: Model, given: Task, schedule: Schedule, tell: Tell = lambda done, total: None) -> Outcome:
    """Estimates of a model that is fitted again when that is due, each time to all that has ended by then."""
    trace, rows, asked = given.trace, given.rows, given.asked
    ends, actual = f.recorded_ends(trace)[asked], np.log(given.actual)
    seconds, found = np.empty(len(asked)), np.empty((len(QUANTILES), len(asked)))
    begin, at, fits, longest, levels = 0, float(given.at), 0, 0.0, np.array(QUANTILES)
    while begin < len(asked):
        tell(begin, len(asked))
        begun = time.perf_counter()
        fitted = model.fit(known(trace, rows, int(at))).read_at(levels)
        longest, fits = max(longest, time.perf_counter() - begun), fits + 1
        rest = slice(begin, None)
        seconds[rest] = estimates(fitted, rows[asked[rest]])
        at = _next(schedule, fitted, ends[rest], np.abs(np.log(seconds[rest]) - actual[rest]))
        end = int(np.searchsorted(trace.submit[asked], at)) if np.isfinite(at) else len(asked)
        found[:, begin:end], levels = _day_by_day(fitted, given, asked[begin:end], seconds[begin:end])
        begin = end
    return Outcome(model.name, seconds, found, fits, longest, speed(fitted, rows[asked]))


def _day_by_day(fitted: Fitted, given: Task, asked: I64, seconds: F64) -> tuple[F64, F64]:
    """The quantiles of these jobs, calibrated daily by what has ended since the fit; and the levels in the end."""
    trace, submit, found = given.trace, given.trace.submit[asked], np.empty((len(QUANTILES), len(asked)))
    ended, begin = f.ended(trace), 0
    at = ended.at[ended.order]
    while begin < len(asked):
        day = fitted.calibrated_at + DAY_MS
        end = int(np.searchsorted(submit, day))
        found[:, begin:end] = quantiles(fitted, seconds[begin:end])
        new = ended.order[np.searchsorted(at, fitted.calibrated_at, "right") : np.searchsorted(at, day, "right")]
        fitted = fitted.recalibrated(estimates(fitted, given.rows[new]), seconds_of(trace)[new], day)
        begin = end
    return found, fitted.levels


def _next(schedule: Schedule, fitted: Fitted, ends: I64, errors: F64) -> float:
    """The next fit; an error is known when its job ends."""
    order = np.argsort(ends, kind="stable")
    return next_fit(schedule, fitted, ends[order], errors[order])


def speed(fitted: Fitted, rows: F64) -> float:
    """Estimates a second, once the rows are there."""
    begun = time.perf_counter()
    estimates(fitted, rows)
    return len(rows) / max(time.perf_counter() - begun, 1e-9)


# ------------------------------------------------------------------------------------------- rules to compare with


def rules(given: Task) -> list[Outcome]:
    """What is known without a model: the requested time, the mean of all, the mean of the user's last two."""
    trace, asked, rows = given.trace, given.asked, given.rows[given.asked]
    found = []
    if (trace.limit > 0).any():
        limit = trace.limit[asked] / 1000.0
        found.append(Outcome("limit", np.where(limit > 0, limit, np.nan)))
    found.append(Outcome("mean", _mean_so_far(trace, asked)))
    if (trace.user >= 0).any():
        last_two = rows[:, f.F_LAST_TWO]
        found.append(Outcome("user2", np.exp(rows[:, f.F_RECENT] + np.where(np.isnan(last_two), 0.0, last_two))))
    return found


def _mean_so_far(trace: Trace, asked: I64) -> F64:
    """The mean run time of all that had ended when each was submitted."""
    ended = f.ended(trace)
    sums = np.concatenate(([0.0], np.cumsum(seconds_of(trace)[ended.order])))
    count = np.searchsorted(ended.at[ended.order], trace.submit[asked], side="right")
    return np.where(count > 0, sums[count] / np.maximum(count, 1), f.FIRST_GUESS_S)


# ------------------------------------------------------------------------------------------- scores


def scores(outcome: Outcome, actual: F64) -> dict[str, Any]:
    """How good an outcome is, for scripts; on the jobs about which it says anything."""
    told = ~np.isnan(outcome.seconds)
    found, truth = outcome.seconds[told], actual[told]
    if not len(truth):
        return {"model": outcome.name, "jobs": 0}
    relative = np.abs(found - truth) / truth
    spread = ((truth - truth.mean()) ** 2).sum()
    held, inside = None, None
    if outcome.quantiles is not None:
        below = (actual <= outcome.quantiles).mean(axis=1)
        held = dict(zip(QUANTILE_NAMES, below.tolist(), strict=True))
        inside = float(np.mean((actual >= outcome.quantiles[P10]) & (actual <= outcome.quantiles[P90])))
    return {
        "model": outcome.name,
        "jobs": len(truth),
        "r2": float(1 - ((found - truth) ** 2).sum() / spread) if spread > 0 else None,
        "mape": float(relative.mean()),
        "median_ape": float(np.median(relative)),
        "mean_abs_log_error": float(np.abs(np.log(found / truth)).mean()),
        "rank_correlation": rank_correlation(found, truth),
        "p10_p90_coverage": inside,
        "held": held,
        "bias": float(found.sum() / truth.sum() - 1),
        "fits": outcome.fits,
        "longest_fit_s": outcome.fit_s,
        "estimates_per_s": outcome.per_s,
    }


def rank_correlation(a: F64, b: F64) -> float | None:
    """Spearman's: the correlation of ranks, equal values sharing theirs; None where all are equal."""
    first, second = ranks(a), ranks(b)
    if first.std() == 0 or second.std() == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def ranks(values: F64) -> F64:
    """The place of each value among all, from 1 on; equal ones share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: F64 = np.cumsum(counts)
    found: F64 = (last - (counts - 1) / 2)[place]
    return found


def evaluate(
    trace: Trace, at: int, models: Sequence[Model], schedule: Schedule, tell: Callable[[str], Tell] | None = None
) -> list[dict[str, Any]]:
    """The scores of rules and models; ``tell`` is told a model's name and gives who is told how far it is."""
    first = task(trace, at)
    found = [scores(outcome, first.actual) for outcome in rules(first)]
    for model in models:
        given = first if model.half_life == f.HALF_LIFE_DAYS else task(trace, at, model.half_life)
        told = tell(model.name) if tell else lambda done, total: None
        found.append(scores(live(model, given, schedule, told), given.actual))
    return found


def everything(trace: Trace, model: Model, until: int | None = None) -> Known:
    """All jobs that had ended at an instant, or in the end, as a model learns from them."""
    at = int(f.recorded_ends(trace).max(initial=0)) if until is None else until
    return known(trace, f.stream(trace, half_life_days=model.half_life), at)

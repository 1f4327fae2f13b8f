"""How good estimates of run times would have been: split by time, and fitted again as a live cluster would."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shunter.errors import ModelError
from shunter.model import Trace
from shunter.predictors import features as f
from shunter.predictors.calibrating import NAMES as QUANTILE_NAMES
from shunter.predictors.calibrating import P10, P90, QUANTILES
from shunter.predictors.fitted import Fitted, estimates, quantiles
from shunter.predictors.fitting import EndedJobs, Model, known
from shunter.predictors.lessons import fit_once
from shunter.predictors.updating import DAY_MS, Schedule, next_fit
from shunter.world import F64, I64

OnProgress = Callable[[int, int], None]
WHEN = ("submission", "start")  # of a job, when it is estimated
MOMENTS = 500  # starts at which the queue is looked at
FEWEST_WAITING = 10  # jobs that are ranked
MEDIAN_OF = 100  # jobs that a running median is of


@dataclass(frozen=True, eq=False)
class ModelEstimates:
    """What one model or rule said about the jobs after the split, in their order."""

    name: str
    seconds: F64  # estimates; NaN: it says nothing
    quantiles: F64 | None = None  # (quantiles, jobs)
    fits: int = 0
    per_s: float = 0.0  # estimates a second


@dataclass(frozen=True, eq=False)
class EvaluationTask:
    """A trace, when each of its jobs is estimated, and the instant from which on that counts."""

    trace: Trace
    at: int  # ms
    moment: I64  # (jobs,) when each is estimated: its submission, or its start
    rows: F64  # as of then, by the half-life of the models that are asked

    @cached_property
    def asked(self) -> I64:
        """The jobs that are estimated, in the order in which they are."""
        order = np.argsort(self.moment, kind="stable")
        asked: I64 = order[self.moment[order] >= self.at]
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


def task(trace: Trace, at: int, half_life_days: float = f.HALF_LIFE_DAYS, when: str = "submission") -> EvaluationTask:
    """Get ready; both sides of the split must have jobs, and for estimates at the start waits must be recorded."""
    if when not in WHEN:
        raise ModelError(f"a job is estimated at its {' or '.join(WHEN)}, got '{when}'")
    if when == "start" and not (trace.recorded_wait >= 0).any():
        raise ModelError(
            f"trace '{trace.name}' has no recorded_wait, so it is unknown when jobs started; use submission"
        )
    moment = f.starts(trace) if when == "start" else trace.submit
    if not (trace.submit < at).any() or not (trace.submit >= at).any():
        raise ModelError(
            f"trace '{trace.name}' must have jobs before and after the split; choose an instant inside it "
            "('shunter trace describe' shows when it begins and ends)"
        )
    return EvaluationTask(trace, at, moment, f.stream(trace, half_life_days=half_life_days, at=moment))


# ------------------------------------------------------------------------------------------- models


def live(
    model: Model, given: EvaluationTask, schedule: Schedule, on_progress: OnProgress = lambda done, total: None
) -> ModelEstimates:
    """Estimates of a model that is fitted again when that is due, each time to all that has ended by then."""
    trace, rows, asked = given.trace, given.rows, given.asked
    ends, actual = f.recorded_ends(trace)[asked], np.log(given.actual)
    seconds, found = np.empty(len(asked)), np.empty((len(QUANTILES), len(asked)))
    begin, at, fits, levels = 0, float(given.at), 0, np.array(QUANTILES)
    while begin < len(asked):
        on_progress(begin, len(asked))
        fitted = fit_once(model, known(trace, rows, int(at))).read_at(levels)
        fits += 1
        rest = slice(begin, None)
        seconds[rest] = estimates(fitted, rows[asked[rest]])
        at = _next(schedule, fitted, ends[rest], np.abs(np.log(seconds[rest]) - actual[rest]))
        end = int(np.searchsorted(given.moment[asked], at)) if np.isfinite(at) else len(asked)
        found[:, begin:end], levels = _day_by_day(fitted, given, asked[begin:end], seconds[begin:end])
        begin = end
    return ModelEstimates(model.name, seconds, found, fits, speed(fitted, rows[asked]))


def _day_by_day(fitted: Fitted, given: EvaluationTask, asked: I64, seconds: F64) -> tuple[F64, F64]:
    """The quantiles of these jobs, calibrated daily by what has ended since the fit; and the levels in the end."""
    trace, moment, found = given.trace, given.moment[asked], np.empty((len(QUANTILES), len(asked)))
    ended, begin = f.ended(trace), 0
    at = ended.at[ended.order]
    while begin < len(asked):
        day = fitted.calibrated_at + DAY_MS
        end = int(np.searchsorted(moment, day))
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


def rules(given: EvaluationTask) -> list[ModelEstimates]:
    """What is known without a model: requested times, means, medians by size, and means of the last two alike."""
    trace, asked, rows = given.trace, given.asked, given.rows[given.asked]
    found = []
    if (trace.limit > 0).any():
        limit = trace.limit[asked] / 1000.0
        found.append(ModelEstimates("limit", np.where(limit > 0, limit, np.nan)))
    found.append(ModelEstimates("mean", _mean_so_far(given)))
    median = running_median(given, trace.gpus[:, None])
    found.append(ModelEstimates("gpus_median", np.where(np.isnan(median), found[-1].seconds, median)))
    if (trace.user >= 0).any():
        users = trace.user[:, None]
        of_user = np.where(users[asked, 0] >= 0, last_two(given, users), np.nan)
        of_user = np.where(np.isnan(of_user), np.exp(rows[:, f.F_RECENT]), of_user)
        alike = last_two(given, np.column_stack((trace.user, trace.gpus, trace.limit)))
        found.append(ModelEstimates("user2", of_user))
        found.append(ModelEstimates("request2", np.where((users[asked, 0] < 0) | np.isnan(alike), of_user, alike)))
    return found


def _mean_so_far(given: EvaluationTask) -> F64:
    """The mean run time of all that had ended when each is estimated."""
    ended = f.ended(given.trace)
    sums = np.concatenate(([0.0], np.cumsum(seconds_of(given.trace)[ended.order])))
    count = np.searchsorted(ended.at[ended.order], given.moment[given.asked], side="right")
    return np.where(count > 0, sums[count] / np.maximum(count, 1), f.FIRST_GUESS_S)


def last_two(given: EvaluationTask, columns: I64) -> F64:
    """The mean of the last two, or the one, that had ended with equal columns (jobs, columns); NaN: none had."""
    found = last_ended(given, columns, 2)
    count = (~np.isnan(found)).sum(axis=1)
    return np.where(count > 0, np.nansum(found, axis=1) / np.maximum(count, 1), np.nan)


def running_median(given: EvaluationTask, columns: I64, most: int = MEDIAN_OF) -> F64:
    """The median of the last few that had ended with equal columns (jobs, columns); NaN: none had."""
    found = np.sort(last_ended(given, columns, most), axis=1)  # NaN comes last
    count = (~np.isnan(found)).sum(axis=1)
    rows = np.arange(len(found))
    middle: F64 = (found[rows, np.maximum(count - 1, 0) // 2] + found[rows, count // 2]) / 2
    return middle


def last_ended(given: EvaluationTask, columns: I64, most: int) -> F64:
    """Seconds of those that had ended last with equal columns, newest first (asked, most); NaN: there are fewer."""
    jobs, asked, ended = len(given.trace), given.asked, f.ended(given.trace)
    group = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    rank = np.empty(jobs, np.int64)
    rank[ended.order] = np.arange(jobs)
    order = np.lexsort((rank, group))  # group by group, by their ends
    keys = group[order] * (jobs + 1) + rank[order]
    count = np.searchsorted(ended.at[ended.order], given.moment[asked], side="right")
    after = np.searchsorted(keys, group[asked] * (jobs + 1) + count)
    first = np.searchsorted(keys, group[asked] * (jobs + 1))
    at = after[:, None] - 1 - np.arange(most)
    return np.where(at >= first[:, None], seconds_of(given.trace)[order][np.maximum(at, 0)], np.nan)


# ------------------------------------------------------------------------------------------- scores


def scores(outcome: ModelEstimates, actual: F64) -> dict[str, Any]:
    """How good an outcome is, for scripts; on the jobs about which it says anything."""
    known = ~np.isnan(outcome.seconds)
    found, truth = outcome.seconds[known], actual[known]
    if not len(truth):
        return {"model": outcome.name, "jobs": 0}
    relative = np.abs(found - truth) / truth
    spread = ((truth - truth.mean()) ** 2).sum()
    return {
        "model": outcome.name,
        "jobs": len(truth),
        "r2": float(1 - ((found - truth) ** 2).sum() / spread) if spread > 0 else None,
        "mape": float(relative.mean()),
        "median_ape": float(np.median(relative)),
        "mean_abs_log_error": float(np.abs(np.log(found / truth)).mean()),
        "rank_correlation": rank_correlation(found, truth),
        "held": None if outcome.quantiles is None else held(outcome.quantiles, actual),
        "bias": float(found.sum() / truth.sum() - 1),
        "fits": outcome.fits,
        "estimates_per_s": outcome.per_s,
    }


def held(quantiles: F64, actual: F64) -> dict[str, float]:
    """The share of jobs below each quantile, and of those between P10 and P90."""
    found = dict(zip(QUANTILE_NAMES, (actual <= quantiles).mean(axis=1).tolist(), strict=True))
    return found | {"p10_p90": float(np.mean((actual >= quantiles[P10]) & (actual <= quantiles[P90])))}


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


def queue_rank(given: EvaluationTask, seconds: F64) -> float | None:
    """Spearman's among jobs that wait at the same time, the mean over some starts; None where no job waits.

    An order compares jobs that wait together, and no others.  Each is estimated at its submission.
    """
    asked, actual = given.asked, given.actual
    submit, start = given.trace.submit[asked], f.starts(given.trace)[asked]
    if (given.moment[asked] != submit).any():
        return None
    found = []
    for now in np.sort(start)[:: max(len(start) // MOMENTS, 1)]:
        waiting = np.flatnonzero((submit <= now) & (start >= now) & (start > submit) & ~np.isnan(seconds))
        if len(waiting) >= FEWEST_WAITING and np.ptp(actual[waiting]) > 0:
            found.append(rank_correlation(seconds[waiting], actual[waiting]) or 0.0)
    return float(np.mean(found)) if found else None


def evaluate(
    trace: Trace,
    at: int,
    models: Sequence[Model],
    schedule: Schedule,
    when: str = "submission",
    on_progress: Callable[[str], OnProgress] | None = None,
) -> tuple[EvaluationTask, list[ModelEstimates]]:
    """What rules and models say; ``on_progress`` gets a model's name and returns the callback for its progress."""
    first = task(trace, at, when=when)
    found = rules(first)
    for model in models:
        given = first if model.half_life == f.HALF_LIFE_DAYS else task(trace, at, model.half_life, when)
        report = on_progress(model.name) if on_progress else lambda done, total: None
        found.append(live(model, given, schedule, report))
    return first, found


def everything(trace: Trace, model: Model, until: int | None = None) -> EndedJobs:
    """All jobs that had ended at an instant, or in the end, as a model learns from them."""
    at = int(f.recorded_ends(trace).max(initial=0)) if until is None else until
    return known(trace, f.stream(trace, half_life_days=model.half_life), at)

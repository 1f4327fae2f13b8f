"""What a policy with learned estimates knows before the first job comes, and how it learns more on the way."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import extras
from shunter import world as w
from shunter.model import GPU, Trace, View
from shunter.predictors.features import OVER, stream
from shunter.predictors.fitted import Fitted, estimates
from shunter.predictors.fitting import FEWEST, EndedJobs, Model, known
from shunter.predictors.learned import Learned, calibration, prepare
from shunter.predictors.models import MODELS, model
from shunter.predictors.storing import cached
from shunter.predictors.throughput import BIN_MS, SubmissionCounts, ThroughputForecaster, binned, fit
from shunter.predictors.throughput import FEWEST as FEWEST_BINS
from shunter.predictors.throughput import prepare as prepare_arrivals
from shunter.predictors.updating import DAY_MS, Schedule, has_drifted
from shunter.world import World

Mask: TypeAlias = NDArray[np.bool_]
TRUTH = ("duration", "failures", "fail_after", "recorded_wait", "outcome")  # columns that a policy must not see


def requests_of(view: View) -> Trace:
    """The jobs of a view as a trace of what was asked for."""
    table, names = view.world.jobs, view.names
    columns = {
        "submit": w.SUBMIT,
        "user": w.USER,
        "vc": w.VC,
        "limit": w.LIMIT,
        "account": w.ACCOUNT,
        "job_name": w.NAME,
    }
    given = {column: table[row] for column, row in columns.items()}
    given |= {"gpus": np.where(table[w.SHARE] < GPU, table[w.SHARE], table[w.GPUS] * GPU)}
    given |= {"cpus": table[w.CPU] * table[w.GPUS], "mem_gib": table[w.MEM] * table[w.GPUS]}
    texts = {Trace.names_of(column): tuple(names.get(column, ())) for column in ("user", "vc", "account", "job_name")}
    return Trace.of("requests", [str(job) for job in range(table.shape[1])], **given, **texts)


def without_truth(trace: Trace) -> Trace:
    """The same requests, without their outcomes."""
    blank: dict[str, Any] = {name: np.full(len(trace), Trace.columns()[name].default, np.int64) for name in TRUTH}
    return dataclasses.replace(trace, **blank)


@dataclass(frozen=True, eq=False)
class Lessons:
    """What a policy knows before the first job comes: models, fitted or not yet, and the jobs that they speak of."""

    model: Model
    fitted: Fitted | None  # None: too little had ended; estimates are rolling means
    jobs: Trace  # that are to be estimated, without their outcomes
    history: Trace | None  # jobs before them, of the same trace
    arrivals: SubmissionCounts | None = None  # what is expected to be submitted

    def prepared(self) -> Learned:
        """The model as the simulation needs it."""
        return prepare(self.fitted, self.jobs, self.history)

    def about(self, requests: Trace, history: Trace | None) -> Lessons:
        """The same model for other jobs, with all that has ended before them."""
        return dataclasses.replace(self, jobs=without_truth(requests), history=history)

    def taught(self, learned: Learned) -> Learned:
        """The same with the present model and all that was seen on the way."""
        if self.fitted is None:
            return learned
        edges, spread = calibration(self.fitted)
        return learned.replace(trees=self.fitted.trees, numbers=self.fitted.numbers, edges=edges, spread=spread)

    def next_look(self, now: int, days: float) -> int:
        """When to check again whether the model must be fitted again: daily, or more often if ``days`` is less."""
        return now + round(DAY_MS * min(days, 1.0)) if days > 0 and self.model.libraries else w.NEVER

    @cached_property
    def past(self) -> EndedJobs | None:
        """The jobs of the history that had ended before the first of the others came."""
        return None if self.history is None else past_of(self.history, int(self.jobs.submit[0]), self.model.half_life)

    def refitted(self, world: World, learned: Learned, at: int, days: float) -> Lessons:
        """The model fitted to all that had ended before an instant, if that is due or it errs more than it used to.

        Else the same model, with quantiles that have seen what ended.
        """
        jobs, progress = world.jobs, world.progress
        known_of = learned.seen.submitted == OVER  # it was learned from
        over = np.flatnonzero((jobs[w.STATE] >= w.DONE) & (jobs[w.ENDED_AT] < at) & known_of)
        over = over[np.argsort(jobs[w.ENDED_AT, over], kind="stable")]
        took = np.where(jobs[w.STATE, over] == w.DONE, progress[w.WORK, over], jobs[w.EXECUTED, over])
        new = EndedJobs(learned.rows[over], np.maximum(took / 1000.0, 1.0), jobs[w.SUBMIT, over], at)
        if self.fitted is not None and at < self.fitted.fitted_at + days * DAY_MS:
            since = jobs[w.ENDED_AT, over] >= self.fitted.fitted_at
            expected, actual = estimates(self.fitted, new.rows[since]), new.seconds[since]
            if not has_drifted(Schedule(every_days=days), self.fitted, np.abs(np.log(expected / actual))):
                late = jobs[w.ENDED_AT, over[since]] >= self.fitted.calibrated_at
                return dataclasses.replace(self, fitted=self.fitted.recalibrated(expected[late], actual[late], at))
        everything = new if self.past is None else joined(self.past, new)
        if len(everything) < FEWEST:
            return self
        fitted = fit_once(self.model, everything)
        return dataclasses.replace(self, fitted=fitted if self.fitted is None else fitted.read_at(self.fitted.levels))


def joined(before: EndedJobs, after: EndedJobs) -> EndedJobs:
    """Both, as of the later instant."""
    rows, seconds, submit = (
        np.concatenate((getattr(before, name), getattr(after, name))) for name in ("rows", "seconds", "submit")
    )
    return EndedJobs(rows, seconds, submit, after.at)


def fit_once(model: Model, jobs: EndedJobs) -> Fitted:
    """The model fitted to these jobs, or what that gave before."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (jobs.rows, jobs.seconds, jobs.submit):
        digest.update(np.ascontiguousarray(array).data)
    if type(model) not in MODELS.values():  # the code of a third party may change without our noticing
        return model.fit(jobs)
    return cached(("duration", model, jobs.at, digest.hexdigest()), lambda: model.fit(jobs))


def past_of(history: Trace, at: int, half_life: float) -> EndedJobs:
    """The jobs of a trace that had ended at an instant."""
    return known(history, stream(history, half_life_days=half_life), at)


@dataclass(frozen=True, eq=False)
class FittedPast:
    """What was learned from the jobs before an instant; it serves any window that begins then."""

    model: Model
    at: int
    fitted: Fitted | None  # None: too little had ended
    forecaster: ThroughputForecaster | None  # of submissions

    def lessons(self, window: Trace, history: Trace | None, which: Mask | None = None) -> Lessons:
        """What a policy knows before the first job of a window; ``history`` and ``which`` as in ``learned_before``."""
        arrivals = prepare_arrivals(self.forecaster, window, history) if self.forecaster is not None else None
        if history is not None and len(history) and which is not None:
            history = history.select(which)
        return Lessons(self.model, self.fitted, without_truth(window), history, arrivals)


def learned_before(
    name: str, at: int, history: Trace | None, forecasts: bool = False, which: Mask | None = None
) -> FittedPast:
    """Fit models to what was before an instant; not at all, where that is too little.

    ``which``: the jobs of the history that run times are learned from; None: all.
    """
    kind, fitted, forecaster = model(name), None, None
    if kind.module:  # it may be needed only after days of simulated time, but is asked for now
        extras.require(kind.module, f"an estimate by model '{name}'")
    if history is not None and len(history):
        forecaster = forecaster_of(kind, history, at) if forecasts else None
        past = past_of(history if which is None else history.select(which), at, kind.half_life)
        fitted = fit_once(kind, past) if len(past) >= FEWEST else None
    return FittedPast(kind, at, fitted, forecaster)


def lessons_for(name: str, window: Trace, history: Trace | None, at: int | None = None) -> Lessons:
    """What a policy knows of jobs given those before the first of them, or before an instant."""
    begin = at if at is not None else int(window.submit[0]) if len(window) else 0
    return learned_before(name, begin, history).lessons(window, history)


def forecaster_of(kind: Model, history: Trace, at: int) -> ThroughputForecaster | None:
    """A model of what is submitted, fitted to the history; None where that is short or nothing trains trees."""
    begin, end = (int(time) // BIN_MS * BIN_MS for time in (history.submit[0], at))
    if end - begin < FEWEST_BINS * BIN_MS or not kind.libraries:
        return None
    counts = binned(history, begin, end)
    return cached(("throughput", kind, begin, history.digest, end), lambda: fit(kind, counts, begin))

"""What a policy with learned estimates knows before the first job comes, and how it learns more on the way."""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shunter import world as w
from shunter.model import GPU, Trace, View
from shunter.predictors.features import stream
from shunter.predictors.fitted import Fitted
from shunter.predictors.fitting import FEWEST, Known, Model, known
from shunter.predictors.learned import Learned, prepare
from shunter.world import World

DAY_MS = 86_400_000
TRUTH = ("duration", "failures", "fail_after", "recorded_wait", "outcome")  # columns that a policy must not see


def model_named(name: str) -> Model:
    """A kind of duration model with its default settings."""
    module = importlib.import_module(f"shunter.predictors.{name}")
    made: Model = getattr(module, name.capitalize())()
    return made


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
    """The same requests, and nothing of what became of them."""
    blank: dict[str, Any] = {name: np.full(len(trace), Trace.columns()[name].default, np.int64) for name in TRUTH}
    return dataclasses.replace(trace, **blank)


@dataclass(frozen=True, eq=False)
class Lessons:
    """A duration model, fitted or not yet, and the jobs that it speaks of."""

    model: Model
    fitted: Fitted | None  # None: too little had ended; estimates are rolling means
    jobs: Trace  # that are to be estimated, without what becomes of them
    history: Trace | None  # jobs before them, of the same trace

    def prepared(self) -> Learned:
        """The model as the simulation needs it."""
        return prepare(self.fitted, self.jobs, self.history)

    def taught(self, learned: Learned) -> Learned:
        """The same with the present model and all that was seen on the way."""
        if self.fitted is None:
            return learned
        return learned.replace(trees=self.fitted.trees, numbers=self.fitted.numbers)

    def first_refit(self, now: int, days: float) -> int:
        """When the model is first fitted anew; where there is none yet, a day from now."""
        if days <= 0 or not self.model.libraries:
            return w.NEVER
        return now + round(DAY_MS * (days if self.fitted else min(days, 1.0)))

    def next_refit(self, due: int, days: float) -> int:
        """When it is fitted anew after having been."""
        return self.first_refit(due, days)

    @cached_property
    def past(self) -> Known | None:
        """The jobs of the history that had ended before the first of the others came."""
        return None if self.history is None else past_of(self.history, int(self.jobs.submit[0]), self.model.half_life)

    def refitted(self, world: World, learned: Learned, at: int) -> Lessons:
        """The model fitted to all that had ended before an instant; as it is while that is too little."""
        jobs, progress = world.jobs, world.progress
        over = np.flatnonzero((jobs[w.STATE] >= w.DONE) & (jobs[w.ENDED_AT] < at))
        over = over[np.argsort(jobs[w.ENDED_AT, over], kind="stable")]
        took = np.where(jobs[w.STATE, over] == w.DONE, progress[w.WORK, over], jobs[w.EXECUTED, over])
        new = Known(learned.rows[over], np.maximum(took / 1000.0, 1.0), jobs[w.SUBMIT, over], at)
        parts = [part for part in (self.past, new) if part is not None]
        rows, seconds, submit = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "seconds", "submit")
        )
        everything = Known(rows, seconds, submit, at)
        if len(everything) < FEWEST:
            return self
        return dataclasses.replace(self, fitted=self.model.fit(everything))


def past_of(history: Trace, at: int, half_life: float) -> Known:
    """The jobs of a trace that had ended at an instant."""
    return known(history, stream(history, half_life_days=half_life), at)


def lessons_for(name: str, window: Trace, history: Trace | None) -> Lessons:
    """Fit a model to what ended before a window; not at all, where that is too little."""
    model, fitted = model_named(name), None
    if history is not None:
        past = past_of(history, int(window.submit[0]), model.half_life)
        fitted = model.fit(past) if len(past) >= FEWEST else None
    return Lessons(model, fitted, without_truth(window), history)

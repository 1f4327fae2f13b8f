"""Run times of jobs that are not finished: a class by a model, then a past run time of that class.

A class below the one that a job has already reached is impossible, so no model can predict it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import extras
from shunter.errors import RunError, did_you_mean
from shunter.generating.known_jobs import DAY, KnownJobs
from shunter.generating.snapshots import (
    CLASSES,
    CUTS_MS,
    LAST_DAYS,
    Labelled,
    classes_of,
    features_of,
    labelled,
)
from shunter.seeding import rng
from shunter.world import F64, I64

FEWEST_ROWS = 200  # with fewer, past run times beyond what a job has run decide
FEWEST_OF_USER = 20  # past run times of a user, of a class, to draw from those alone
SIZES = (1000, 4000, 8000)  # thousandths of GPUs that divide jobs for ``PastShares``


class DurationModel(ABC):
    """How likely each class of run times is."""

    @abstractmethod
    def fit(self, rows: Labelled) -> DurationModel:
        """Learn from past jobs."""

    @abstractmethod
    def chances(self, features: F64, executed: I64, gpus: I64) -> F64:
        """(jobs, CLASSES)."""


class ReachedClass(DurationModel):
    """The class that a job has reached already: it is about to end."""

    def fit(self, rows: Labelled) -> DurationModel:
        """There is nothing to learn."""
        return self

    def chances(self, features: F64, executed: I64, gpus: I64) -> F64:
        """The lowest class that is possible."""
        found = np.zeros((len(executed), CLASSES))
        found[np.arange(len(executed)), classes_of(executed)] = 1.0
        return found


class Majority(DurationModel):
    """The most frequent class, whatever the job."""

    def fit(self, rows: Labelled) -> DurationModel:
        """Count."""
        self._counts = np.bincount(rows.classes, minlength=CLASSES) + 1e-9
        return self

    def chances(self, features: F64, executed: I64, gpus: I64) -> F64:
        """The same for all."""
        return np.tile(self._counts / self._counts.sum(), (len(executed), 1))


class PastShares(DurationModel):
    """Of past jobs that had about as many GPUs and had reached this class, the share that ended in each one."""

    def fit(self, rows: Labelled) -> DurationModel:
        """Count, by size and by the class reached."""
        self._counts = np.full((len(SIZES) + 1, CLASSES, CLASSES), 1e-3)
        np.add.at(self._counts, (np.searchsorted(SIZES, rows.gpus), classes_of(rows.executed), rows.classes), 1.0)
        return self

    def chances(self, features: F64, executed: I64, gpus: I64) -> F64:
        """The shares."""
        found: F64 = self._counts[np.searchsorted(SIZES, gpus), classes_of(executed)]
        found /= found.sum(axis=1, keepdims=True)
        return found


class LearnedClasses(DurationModel):
    """A classifier of scikit-learn, LightGBM or XGBoost."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def fit(self, rows: Labelled) -> DurationModel:
        """Fit it; a linear model that has not converged is used as it is."""
        self._model = self._make()
        self._classes, numbered = np.unique(rows.classes, return_inverse=True)  # XGBoost takes no gaps
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._model.fit(rows.features, numbered)
        return self

    def chances(self, features: F64, executed: I64, gpus: I64) -> F64:
        """By the model."""
        found = np.full((len(executed), CLASSES), 1e-9)
        if len(executed):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[:, self._classes] += self._model.predict_proba(features)
        return found


def _lightgbm() -> Any:
    module = extras.load("lightgbm", "the duration model lightgbm")
    return module.LGBMClassifier(
        n_estimators=60, num_leaves=31, min_child_samples=20, learning_rate=0.1, verbose=-1, n_jobs=1, random_state=0,
        deterministic=True, force_row_wise=True,
    )  # fmt: skip


def _xgboost() -> Any:
    module = extras.load("xgboost", "the duration model xgboost")
    return module.XGBClassifier(
        n_estimators=60, max_depth=6, learning_rate=0.1, tree_method="hist", n_jobs=1, random_state=0
    )


def _forest() -> Any:
    extras.load("sklearn.tree", "the duration model forest")
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(100, min_samples_leaf=3, n_jobs=1, random_state=0)


def _mlp() -> Any:
    extras.load("sklearn.tree", "the duration model mlp")
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), MLPClassifier((64, 32), max_iter=60, random_state=0))


def _logistic() -> Any:
    extras.load("sklearn.tree", "the duration model logistic")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))


DURATION_MODELS: dict[str, Callable[[], DurationModel]] = {
    "past": PastShares,
    "lightgbm": lambda: LearnedClasses(_lightgbm),
    "xgboost": lambda: LearnedClasses(_xgboost),
    "forest": lambda: LearnedClasses(_forest),
    "mlp": lambda: LearnedClasses(_mlp),
    "logistic": lambda: LearnedClasses(_logistic),
    "reached": ReachedClass,
    "majority": Majority,
}


def duration_model(name: str) -> DurationModel:
    """The model of this name."""
    if name not in DURATION_MODELS:
        raise RunError(f"there is no predictor '{name}'; {did_you_mean(name, DURATION_MODELS)}")
    return DURATION_MODELS[name]()


def possible(chances: F64, executed: I64) -> F64:
    """The same without classes that a job has left behind."""
    found = np.where(np.arange(CLASSES) >= classes_of(executed)[:, None], chances, 0.0)
    total = found.sum(axis=1, keepdims=True)
    last = (np.arange(CLASSES) == CLASSES - 1).astype(np.float64)
    return np.where(total > 0, found / np.where(total > 0, total, 1.0), last)


@dataclass
class DurationPredictor:
    """Fits a model once a day, and draws run times of unfinished jobs."""

    name: str = "past"
    seed: int = 0
    drawn_class: bool = True  # the class is drawn by its chance; else it is the most likely one, as published
    _fitted: tuple[int, DurationModel] | None = None

    def durations(self, jobs: KnownJobs, rows: I64, now: int) -> I64:
        """Run times (ms) of unfinished jobs, each longer than what it has run."""
        draws, executed = rng(self.seed, f"durations {now}"), jobs.executed[rows]
        model = self._model(jobs, now)
        features = features_of(jobs, rows, now) if isinstance(model, LearnedClasses) else np.zeros((len(rows), 0))
        chances = possible(model.chances(features, executed, jobs.gpus[rows]), executed)
        if self.drawn_class:
            classes = (np.cumsum(chances, axis=1) < draws.random(len(rows))[:, None]).sum(axis=1)
        else:
            classes = np.argmax(chances, axis=1)
        return drawn_within(jobs, rows, np.minimum(classes, CLASSES - 1), draws)

    def of_all(self, jobs: KnownJobs, now: int) -> I64:
        """Run times (ms) of all known jobs: as they were, or as they are predicted."""
        durations, open_rows = jobs.duration.copy(), np.flatnonzero(~jobs.finished)
        durations[open_rows] = self.durations(jobs, open_rows, now)
        return np.maximum(durations, 1)

    def _model(self, jobs: KnownJobs, now: int) -> DurationModel:
        if self._fitted is None or now - self._fitted[0] >= DAY:
            self._fitted = (now, fitted_model(self.name, jobs, now, self.seed))
        return self._fitted[1]


def fitted_model(name: str, jobs: KnownJobs, now: int, seed: int) -> DurationModel:
    """A model that has learned from the last weeks; from too few jobs, the one that needs the fewest."""
    first = max(now - LAST_DAYS * DAY, int(jobs.submit[0]) if len(jobs) else now)
    model = duration_model(name)
    rows = labelled(jobs.select(jobs.between(first, now)), first, now - 1, seed, isinstance(model, LearnedClasses))
    many = len(rows.classes) >= FEWEST_ROWS and len(np.unique(rows.classes)) > 1
    return (model if many else PastShares()).fit(rows)


def drawn_within(jobs: KnownJobs, rows: I64, classes: I64, draws: np.random.Generator) -> I64:
    """A past run time of its class for each job, longer than it has run; of its user where there are enough."""
    over = np.flatnonzero(jobs.finished)
    past, users = jobs.duration[over], jobs.user[over]
    order = np.argsort(past, kind="stable")
    past, users = past[order], users[order]
    found = np.empty(len(rows), np.int64)
    upper = np.append(CUTS_MS, np.iinfo(np.int64).max)
    lower = np.insert(CUTS_MS, 0, 0)
    for at, (row, klass) in enumerate(zip(rows.tolist(), classes.tolist(), strict=True)):
        ran = int(jobs.executed[row])
        begin, end = np.searchsorted(past, [max(ran + 1, lower[klass]), upper[klass]])
        pool = past[begin:end]
        own = pool[users[begin:end] == jobs.user[row]] if jobs.user[row] >= 0 else pool[:0]
        pool = own if len(own) >= FEWEST_OF_USER else pool
        # nothing lasted that long: as long again, within the class
        found[at] = draws.choice(pool) if len(pool) else min(max(2 * ran, lower[klass] + 1), upper[klass] - 1)
    return np.maximum(found, jobs.executed[rows] + 1)

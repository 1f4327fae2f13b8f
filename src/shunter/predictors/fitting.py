"""How any duration model is fitted: to jobs that have ended, with residuals on those that ended last."""

from __future__ import annotations

import importlib.metadata
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from shunter.errors import ModelError
from shunter.model import Trace
from shunter.params import param
from shunter.predictors import features as f
from shunter.predictors.calibrating import QUANTILES, RECENT, quantiles_of
from shunter.predictors.fitted import Fitted, estimates
from shunter.predictors.trees import Trees
from shunter.world import F64, I64

FEWEST = 100  # ended jobs that a model is fitted to
CALIBRATED = 0.2  # the last part of the ended jobs, on which residuals are measured


class TrainingTable(NamedTuple):
    """What trees are trained with."""

    rows: F64  # (examples, features), in the order of time
    target: F64
    names: tuple[str, ...]  # of the features


@dataclass(frozen=True, eq=False)
class EndedJobs:
    """Jobs that had ended at an instant, in the order of their ends: their rows as of submission, what they took."""

    rows: F64  # (jobs, features)
    seconds: F64  # at least 1
    submit: I64
    at: int  # the instant

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def logs(self) -> F64:
        """Log seconds."""
        return np.log(self.seconds)

    @property
    def table(self) -> TrainingTable:
        """What trees say of these jobs: how many times longer than ``recent`` each takes, log."""
        return TrainingTable(self.rows, self.logs - self.rows[:, f.F_RECENT], f.NAMES)

    def split(self, share: float) -> tuple[EndedJobs, EndedJobs]:
        """Those that ended first, and the last ones, so large a share of all."""
        cut = len(self) - math.ceil(share * len(self))
        return self._part(slice(0, cut)), self._part(slice(cut, None))

    def _part(self, part: slice) -> EndedJobs:
        return EndedJobs(self.rows[part], self.seconds[part], self.submit[part], self.at)


def known(trace: Trace, rows: F64, at: int, ends: I64 | None = None) -> EndedJobs:
    """The jobs of a trace that had ended at an instant; ``rows`` are those of the whole trace."""
    ended = f.ended(trace, ends)
    order = ended.order[: np.searchsorted(ended.at[ended.order], at, side="right")]
    return EndedJobs(rows[order], np.maximum(trace.duration[order] / 1000.0, 1.0), trace.submit[order], at)


@dataclass(frozen=True)
class Trained:
    """Trees, and what matters in them."""

    trees: Trees
    terms: tuple[str, ...] = ()
    importance: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Model(ABC):
    """A kind of duration model and its settings."""

    name: ClassVar[str] = ""
    libraries: ClassVar[tuple[str, ...]] = ()
    module: ClassVar[str] = ""  # of the library that trains it

    half_life: float = param(f.HALF_LIFE_DAYS, "days after which an ended job counts half", low=0.01, high=3650)

    @property
    def alpha(self) -> float:
        """The weight of the rolling mean in its estimates."""
        return 0.0

    @abstractmethod
    def trainer(self, early: TrainingTable) -> Callable[[TrainingTable], Trained]:
        """What trains it; anything that must be chosen is chosen on the earlier examples alone."""

    def fit(self, jobs: EndedJobs, on_progress: Callable[[int, int], None] = lambda done, total: None) -> Fitted:
        """Fit to ended jobs; residuals are those of a model that knew all but the last fifth, on that fifth."""
        check_enough(len(jobs), self.name)
        early, late = jobs.split(CALIBRATED)
        train = self.trainer(early.table)
        on_progress(0, len(jobs))
        rehearsal = self._record(train(early.table), early, np.zeros((2, 1)))
        on_progress(len(early), len(jobs))
        log_estimates = np.log(estimates(rehearsal, late.rows))
        return self._record(train(jobs.table), jobs, np.stack((log_estimates, late.logs - log_estimates)))

    def _record(self, trained: Trained, jobs: EndedJobs, errors: F64) -> Fitted:
        levels = np.array(QUANTILES)
        edges, spread = quantiles_of(errors[:, -RECENT:], levels)
        return Fitted(
            name=self.name,
            settings=asdict(self),
            trees=trained.trees,
            alpha=self.alpha,
            half_life_days=self.half_life,
            longest_s=float(jobs.seconds.max()),
            errors=errors[:, -RECENT:],
            levels=levels,
            edges=edges,
            spread=spread,
            rows=len(jobs),
            span=(int(jobs.submit.min()), int(jobs.submit.max())),
            fitted_at=jobs.at,
            calibrated_at=jobs.at,
            error=float(np.abs(errors[1]).mean()),
            terms=trained.terms,
            importance=dict(trained.importance),
            versions=versions_of(self),
        )


def versions_of(model: Model) -> dict[str, str]:
    """The versions of the libraries that a model needs."""
    return {library: importlib.metadata.version(library) for library in model.libraries}


def check_enough(jobs: int, model: str) -> None:
    """Refuse to fit to next to nothing."""
    if jobs < FEWEST:
        raise ModelError(
            f"model '{model}' must have at least {FEWEST} ended jobs to learn from, got {jobs}; give a longer history. "
            "Until then, simulations use the rolling mean of ended jobs"
        )


def varying(rows: F64) -> list[int]:
    """The columns in which anything stands that differs."""
    low, high = np.nanmin(np.nan_to_num(rows, nan=np.inf), axis=0), np.nanmax(np.nan_to_num(rows, nan=-np.inf), axis=0)
    return [int(column) for column in np.flatnonzero(np.isfinite(low) & (high > low))]


def named(names: Sequence[str], values: Any) -> tuple[tuple[str, float], ...]:
    """Names and a number for each, the largest first."""
    pairs = ((name, float(value)) for name, value in zip(names, values, strict=True))
    return tuple(sorted(pairs, key=lambda pair: -pair[1]))


def blocks(jobs: int, count: int) -> list[slice]:
    """Stretches of time with equal numbers of jobs."""
    edges = [jobs * at // count for at in range(count + 1)]
    return [slice(first, last) for first, last in itertools.pairwise(edges)]

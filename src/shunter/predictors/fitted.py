"""A fitted duration model: what is kept of it, and what it says about rows of features."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np

from shunter.arrays import F1
from shunter.compiled import kernel
from shunter.predictors import features as f
from shunter.predictors.calibrating import QUANTILES, RECENT, THIRDS, moved, quantiles_of
from shunter.predictors.trees import Trees, check, evaluate, evaluate_all
from shunter.world import F64

HEADROOM = 10.0  # no estimate is longer than this many times the longest job that the model was fitted to

INSTANT = 2.0**63  # ms
LONG = 60.0  # a logarithm of seconds or of factors that no job has
# -- numbers of a model, from and to
BOUNDS = {
    "alpha": (0.0, 1.0),
    "half_life_days": (1e-6, 1e6),
    "longest_s": (1e-3, 1e15),
    "errors": (-LONG, LONG),
    "levels": (-10.0, 10.0),  # they may be beyond what can be read
    "edges": (-LONG, LONG),
    "spread": (-LONG, LONG),
    "rows": (0, INSTANT),
    "span": (-INSTANT, INSTANT),
    "fitted_at": (-INSTANT, INSTANT),
    "calibrated_at": (-INSTANT, INSTANT),
    "error": (0.0, LONG),
}

# -- entries of `numbers`: the weight of the rolling mean, and the longest estimate in seconds
ALPHA, LONGEST = range(2)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A duration model as fitted: everything that estimates need, and where it comes from."""

    name: str  # history, gbm, ebm, blend
    settings: dict[str, str | int | float | bool | None]
    trees: Trees  # of log(seconds / recent)
    alpha: float  # weight of the rolling mean
    half_life_days: float  # of the decayed means in its rows
    longest_s: float  # of the jobs that it was fitted to
    errors: F64  # (2, jobs) of jobs that it had not seen: log estimate, log(actual / estimate)
    levels: F64  # (quantiles,) at which quantiles of these are read
    edges: F64  # (2,) of the thirds of log estimates
    spread: F64  # (3, quantiles) by third: quantiles of log(actual / estimate)
    rows: int  # jobs that it was fitted to
    span: tuple[int, int]  # of their submissions, ms
    fitted_at: int  # the instant up to which jobs had ended, ms
    calibrated_at: int  # the instant up to which errors are known, ms
    error: float  # mean |log error| on the last part of the training time
    terms: tuple[str, ...] = ()  # of its trees, where each is a term
    importance: dict[str, float] = field(default_factory=dict)  # of features or terms
    versions: dict[str, str] = field(default_factory=dict)  # of the libraries that fitted it
    features: tuple[str, ...] = f.NAMES

    def check(self) -> None:
        """Refuse what no fit gives, and kernels or pages could not stand; ``ValueError`` names the field."""
        check(self.trees, len(self.features))
        shapes = {"levels": (len(QUANTILES),), "edges": (THIRDS - 1,), "spread": (THIRDS, len(QUANTILES))}
        shapes["errors"] = (2, max(self.errors.size // 2, 1))
        for name, (low, high) in BOUNDS.items():
            value = np.asarray(getattr(self, name))
            if value.shape != shapes.get(name, value.shape):
                raise ValueError(f"{name} must have the shape {shapes[name]}, got {value.shape}")
            if not np.all((value >= low) & (value <= high)):  # NaN is not
                raise ValueError(f"{name} must be from {low:g} to {high:g}")
        self._check_terms()

    def _check_terms(self) -> None:
        """Refuse terms that are no features, or not as many as trees."""
        names = [name for term in self.terms for name in term.split(" & ")]
        odd = next((name for name in names if name not in self.features), None)
        if odd is not None:
            raise ValueError(f"terms must be made of its features, got '{odd}'")
        if self.terms and (len(self.terms) != len(self.trees.roots) or len(set(self.terms)) != len(self.terms)):
            raise ValueError(f"terms must be one for each of its {len(self.trees.roots)} trees, each once")
        known = self.terms or self.features
        if odd := next((name for name in self.importance if name not in known), None):
            raise ValueError(f"importance must be of its terms or features, got '{odd}'")

    def read_at(self, levels: F64) -> Fitted:
        """The same with quantiles that are read at other levels."""
        edges, spread = quantiles_of(self.errors, levels)
        return dataclasses.replace(self, levels=levels, edges=edges, spread=spread)

    def recalibrated(self, seconds: F64, actual: F64, at: int) -> Fitted:
        """The same after more jobs have ended by an instant, of which it had expected ``seconds``."""
        if not len(actual):
            return dataclasses.replace(self, calibrated_at=at)
        held = (actual <= quantiles(self, seconds)).mean(axis=1)
        levels = moved(self.levels, held, len(actual), self.errors.shape[1])
        errors = np.concatenate((self.errors, [np.log(seconds), np.log(actual / seconds)]), axis=1)
        return dataclasses.replace(self, errors=errors[:, -RECENT:], calibrated_at=at).read_at(levels)

    @property
    def numbers(self) -> F64:
        """What the kernels need in addition to the trees."""
        return np.array([self.alpha, HEADROOM * self.longest_s])


@kernel
def mixed(numbers: F1, row: F64, log_factor: float) -> float:
    """Seconds: what the model says relative to ``recent``, mixed with the rolling mean, within bounds."""
    alpha, near = numbers[ALPHA], row[f.F_RECENT]
    seconds = math.exp(min(near + log_factor, 50.0))
    if alpha > 0.0 and not math.isnan(row[f.F_HISTORY]):
        seconds = alpha * math.exp(near + row[f.F_HISTORY]) + (1.0 - alpha) * seconds
    return float(max(min(seconds, numbers[LONGEST]), 1.0))


@kernel
def expect(trees: Trees, numbers: F1, row: F64) -> float:
    """The estimate for a row in seconds."""
    return mixed(numbers, row, evaluate(trees, row))


@kernel
def expect_all(trees: Trees, numbers: F1, rows: F64, seconds: F64) -> None:
    """The estimate for every row in seconds."""
    evaluate_all(trees, rows, seconds)
    for at in range(rows.shape[0]):
        seconds[at] = mixed(numbers, rows[at], seconds[at])


def estimates(fitted: Fitted, rows: F64) -> F64:
    """What a model expects of every row, in seconds."""
    seconds = np.empty(len(rows))
    expect_all(fitted.trees, fitted.numbers, np.ascontiguousarray(rows), seconds)
    return seconds


def quantiles(fitted: Fitted, seconds: F64) -> F64:
    """The quantiles (quantiles, jobs) of what jobs take whose estimates are these, in seconds."""
    third = np.searchsorted(fitted.edges, np.log(seconds), side="right")
    found: F64 = np.maximum(seconds * np.exp(fitted.spread[third].T), 1.0)
    return found

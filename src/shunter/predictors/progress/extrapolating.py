"""How a loss curve goes on, by several methods, and when it will have converged.

Each method continues the binned losses of a run to its declared end.  The rule that stops a run (``StopRule``) is then
applied to what was measured and what is expected, so that all methods answer the same question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from shunter.errors import ModelError, did_you_mean
from shunter.predictors.progress.curves import BINS, LossCurve, StopRule
from shunter.world import F64

BEGIN = 20  # bins that must be known before anything is expected, as in the paper
EXPONENTS = np.geomspace(0.3, 2.0, 25)
HALF_LIFE = 0.25  # of the bins seen: the past counts half as much that far back
SMALLEST_LOSS = 1e-12
LEVELS = (0.05, 0.95)
# Errors of the power law at these levels, as a share of the iterations that are left of the declared ones: over the
# public curves that `shunter predict eval --what progress` reads. That command judges them leaving families out.
POWER_ERRORS = (-0.66, 0.82)


class Remaining(NamedTuple):
    """The iterations after which a run will have converged, and between which it will with 90 % chance."""

    end: float
    low: float
    high: float


class Method(Protocol):
    """A way to continue a loss curve."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def least(self) -> int:
        """The bins before which it expects no run to converge."""

    def continued(self, seen: F64) -> F64:
        """The whole curve, ``BINS`` losses: those seen, then what is expected."""


@dataclass(frozen=True)
class NoPrediction:
    """No prediction: the run takes all its declared iterations."""

    name: str = "none"
    least: int = BINS

    def continued(self, seen: F64) -> F64:
        """A loss that keeps falling."""
        left = np.arange(1, BINS - len(seen) + 1)
        return np.concatenate((seen, seen[-1] * 0.5**left))


@dataclass(frozen=True)
class Linear:
    """A line through the last half of what was seen."""

    name: str = "linear"
    least: int = 0

    def continued(self, seen: F64) -> F64:
        """The line, down to 0."""
        recent = np.arange(len(seen) // 2, len(seen))
        slope, level = np.polyfit(recent, seen[recent], 1)
        rest = np.maximum(level + slope * np.arange(len(seen), BINS), 0.0)
        return np.concatenate((seen, rest))


@dataclass(frozen=True)
class OptimusCurve:
    """Optimus' curve 1 / (a k + b) + c, with a, b and c of 0 or more (EuroSys 2018)."""

    name: str = "optimus"
    least: int = 0

    def continued(self, seen: F64) -> F64:
        """The curve that fits best."""
        slope, level, floor = self.fitted(seen)
        return joined(seen, 1 / np.maximum(slope * np.arange(1, BINS + 1) + level, SMALLEST_LOSS) + floor)

    def fitted(self, seen: F64) -> tuple[float, float, float]:
        """a, b and the best c of a grid; for each, 1 / (loss - c) is a line."""
        at, best, found = np.arange(1, len(seen) + 1, dtype=np.float64), np.inf, (0.0, 1.0, 0.0)
        for floor in np.linspace(0, 0.99 * seen.min(), 30):
            inverse = 1 / np.maximum(seen - floor, SMALLEST_LOSS)
            weight = 1 / np.maximum(inverse, SMALLEST_LOSS) ** 2  # errors of the loss, not of its inverse
            slope, level = _line(at, inverse, weight)
            curve = 1 / np.maximum(slope * at + level, SMALLEST_LOSS) + floor
            error = float(np.sum((curve - seen) ** 2))
            if error < best:
                best, found = error, (slope, level, float(floor))
        return found


@dataclass(frozen=True)
class PowerLaw:
    """a k^-c + b with a and b of 0 or more, where recent losses count more."""

    name: str = "power"
    least: int = 0

    def continued(self, seen: F64) -> F64:
        """The curve of the exponent that fits best."""
        at, bins = np.arange(1, len(seen) + 1, dtype=np.float64), np.arange(1, BINS + 1, dtype=np.float64)
        weight = 0.5 ** ((len(seen) - at) / (HALF_LIFE * len(seen)))
        best, rest = np.inf, seen
        for exponent in EXPONENTS:
            slope, level = _line(at**-exponent, seen, weight)
            curve = slope * bins**-exponent + level
            error = float(np.sum(weight * (curve[: len(seen)] - seen) ** 2))
            if error < best:
                best, rest = error, curve
        return joined(seen, rest)


def _line(x: F64, y: F64, weight: F64) -> tuple[float, float]:
    """Slope and level of the best weighted line, neither below 0."""
    total = weight.sum()
    mean_x, mean_y = (weight * x).sum() / total, (weight * y).sum() / total
    spread = (weight * (x - mean_x) ** 2).sum()
    slope = (weight * (x - mean_x) * (y - mean_y)).sum() / spread if spread > 0 else 0.0
    level = mean_y - slope * mean_x
    if slope < 0:
        return 0.0, max(mean_y, 0.0)
    if level < 0:
        return float((weight * x * y).sum() / (weight * x**2).sum()), 0.0
    return float(slope), float(level)


def joined(seen: F64, curve: F64) -> F64:
    """What was seen, then the curve."""
    return np.concatenate((seen, np.maximum(curve[len(seen) :], 0.0)))


METHODS: dict[str, Method] = {each.name: each for each in (NoPrediction(), Linear(), OptimusCurve(), PowerLaw())}


def method(name: str) -> Method:
    """A method by its name."""
    if name not in METHODS:
        raise ModelError(f"unknown method '{name}' for loss curves; {did_you_mean(name, (*METHODS, 'lstm'))}")
    return METHODS[name]


def expected_end(by: Method, seen: F64, rule: StopRule) -> int:
    """The bins after which a run converges, after those seen."""
    return rule.end(by.continued(seen), max(len(seen), by.least))


def remaining(
    iteration: Sequence[float] | F64,
    loss: Sequence[float] | F64,
    declared: float,
    rule: StopRule | None = None,
) -> Remaining:
    """The iterations that a run still needs to converge, from its losses so far; at most what is declared.

    By the power law.  Before a fifth of the run, nothing is expected: it takes what is declared.
    """
    curve = LossCurve("so far", "", np.asarray(iteration, np.float64), np.asarray(loss, np.float64))
    seen, now = curve.binned(declared), float(curve.iteration[-1])
    left = declared - now
    if len(seen) < BEGIN:
        return Remaining(left, 0.0, left)
    end = expected_end(PowerLaw(), seen, rule or StopRule()) * declared / BINS - now
    low, high = (end + error * left for error in POWER_ERRORS)
    return Remaining(*(float(min(max(each, 0.0), left)) for each in (end, low, high)))

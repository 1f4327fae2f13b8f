"""What an episode is worth: one number per window, smaller is better; and what is left of a gain on other windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.errors import ModelError, did_you_mean
from shunter.report.bootstrap import RESAMPLES, estimate
from shunter.seeding import rng
from shunter.world import F64, I64

OBJECTIVES = {
    "wait": "mean wait (s)",
    "bsld": "mean bounded slowdown",
    "jct": "mean JCT (s)",
    "p99": "99th percentile of the wait (s)",
}
SHORTEST = 10.0  # s, of the bounded slowdown
NARROWEST = 1e-9  # of a change: an interval that is not wider has no width


def check_objective(name: str) -> str:
    """An objective, if there is one of that name."""
    if name not in OBJECTIVES:
        raise ModelError(f"there is no objective '{name}'; {did_you_mean(name, OBJECTIVES)}")
    return name


def scores(objective: str, waits: F64, runs: F64) -> F64:
    """The objective in each window, from how long each job waited and ran (windows, jobs)."""
    if objective == "wait":
        return np.asarray(waits.mean(1))
    if objective == "jct":
        return np.asarray((waits + runs).mean(1))
    if objective == "p99":
        return np.asarray(np.percentile(waits, 99, axis=1))
    return np.asarray(np.maximum(1.0, (waits + runs) / np.maximum(runs, SHORTEST)).mean(1))


def runs_in(run_times: F64, firsts: I64, length: int) -> F64:
    """The run times of the jobs of each window."""
    return np.asarray(run_times[np.asarray(firsts)[:, None] + np.arange(length)])


def gain(base: F64, found: F64) -> F64:
    """The reward of RLTune and SchedInspector: how much better than the base, from -1 to 1."""
    most = np.maximum(np.maximum(base, found), 1.0)
    return np.asarray((base - found) / most)


@dataclass(frozen=True)
class Difference:
    """A policy against another on the same windows: the change of the mean, and its 95 % interval."""

    value: float
    base: float
    share: float  # of the base
    low: float  # NaN where there are too few windows
    high: float

    @property
    def shown(self) -> bool:
        """Whether the interval leaves 0 out; one without a width is all of one window, and shows nothing."""
        return not self.flat and not self.low <= 0 <= self.high

    @property
    def flat(self) -> bool:
        """Whether there is no interval, or one without a width: all of the difference is in one window."""
        return not self.high - self.low > NARROWEST * max(1.0, abs(self.share))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        ends = {"low": self.low, "high": self.high}
        known = {name: value if np.isfinite(value) else None for name, value in ends.items()}
        return {
            "value": self.value,
            "base": self.base,
            "share": self.share,
            **known,
            "flat": self.flat,
            "shown": self.shown,
        }


def compared(found: F64, base: F64, seed: int = 0) -> Difference:
    """The change from ``base`` to ``found``; windows are drawn again and again, the same for both."""
    count = len(found)
    drawn = rng(seed, "windows").multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    weights = np.vstack([np.ones(count), drawn])
    means = weights @ base
    shares = np.divide(weights @ found, means, out=np.full(len(means), np.nan), where=means > 0) - 1
    _, low, high = estimate(shares, count)
    share = float(shares[0]) if np.isfinite(shares[0]) else 0.0
    return Difference(float(found.mean()), float(base.mean()), share, low, high)

"""Losses of a training, and the rule by which it has converged.

A run of declared length is divided into ``BINS`` parts, and the loss of a part is the mean of what was measured in it.
So runs of 50 epochs and of 7,500 samples are treated alike, and noise from step to step is averaged out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.errors import ModelError
from shunter.world import F64

BINS = 100  # parts of a run
SMOOTHED = 5  # bins whose mean is compared
FEWEST = 40  # measurements in a whole curve, to be of use


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Losses by iteration, as far as they are known."""

    name: str
    family: str  # runs of one model are alike
    iteration: F64
    loss: F64

    def __post_init__(self) -> None:
        """Check them."""
        if len(self.iteration) != len(self.loss) or not len(self.loss):
            raise ModelError(f"loss curve '{self.name}': needs as many losses as iterations, and at least one")
        if not (np.isfinite(self.loss).all() and np.isfinite(self.iteration).all()):
            raise ModelError(f"loss curve '{self.name}': losses and iterations must be finite numbers")
        if (self.loss < 0).any() or self.iteration[0] < 0 or (np.diff(self.iteration) <= 0).any():
            raise ModelError(f"loss curve '{self.name}': losses must be 0 or more, and iterations must rise")

    def binned(self, declared: float) -> F64:
        """Mean losses of the parts of a run of ``declared`` iterations, as far as the curve goes."""
        if declared < self.iteration[-1]:
            raise ModelError(
                f"loss curve '{self.name}': goes to iteration {self.iteration[-1]:g}, beyond the declared {declared:g}"
            )
        part = np.minimum((self.iteration / max(declared, 1.0) * BINS).astype(np.int64), BINS - 1)
        counts = np.bincount(part, minlength=BINS)
        sums = np.bincount(part, weights=self.loss, minlength=BINS)
        known = np.flatnonzero(counts)
        return np.interp(np.arange(known[-1] + 1), known, sums[known] / counts[known])


@dataclass(frozen=True)
class StopRule:
    """A run has converged when its smoothed loss fell by less than ``decline`` over a part of the declared run.

    This is Qore-DL's rule with a window that grows with the run.  As published, over 30 losses, it never applies to a
    noisy curve: the mean |difference| from step to step does not fall.
    """

    decline: float = 0.02  # share of the loss
    window: int = 10  # bins

    def end(self, losses: F64, begin: int = 0) -> int:
        """The bins after which a run has converged, but not before ``begin``; all of them: it does not."""
        smooth = trailing_mean(losses)
        before, after = smooth[: -self.window], smooth[self.window :]
        still = (before - after) >= self.decline * np.maximum(before, 1e-300)
        first = max(2 * self.window, begin)  # the first window shows the initial fall
        flat = np.flatnonzero(~still[max(first - self.window, 0) :])
        return int(flat[0]) + max(first, self.window) + 1 if len(flat) else BINS


def trailing_mean(losses: F64) -> F64:
    """The mean of the last few bins at each bin; of the first ones, of as many as there are."""
    counts = np.minimum(np.arange(1, len(losses) + 1), SMOOTHED)
    return np.convolve(losses, np.ones(SMOOTHED))[: len(losses)] / counts

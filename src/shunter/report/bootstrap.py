"""How sure a difference between two policies is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shunter.seeding import rng
from shunter.world import F64

RESAMPLES = 1000
FEWEST = 5  # repeats of which an interval is made


class Estimate(NamedTuple):
    """A number and its 95 % interval; NaN where there is none, as from a few repeats."""

    value: float
    low: float
    high: float


def mean_difference(first: Sequence[F64], other: Sequence[F64], seed: int = 0) -> dict[str, Any]:
    """The mean of ``other - first`` over paired jobs, with its 95 % bootstrap interval; one pair of arrays per repeat.

    Jobs are in submit order, NaN where one did not finish.  Neighbours in a queue share their luck, so that blocks of
    n^(1/3) consecutive jobs are drawn, not single ones; with several repeats those are drawn as well.
    """
    generator = rng(seed, "bootstrap")
    means, resampled = [], []
    for a, b in zip(first, other, strict=True):
        pairs = (b - a)[np.isfinite(b - a)]
        if len(pairs):
            means.append(float(pairs.mean()))
            resampled.append(_resample(pairs, generator))
    if not means:
        return {"mean_s": None, "low_s": None, "high_s": None, "pairs": 0}
    table = np.array(resampled)  # (repeats, RESAMPLES)
    drawn = generator.integers(len(table), size=table.shape)
    low, high = np.percentile(np.take_along_axis(table, drawn, axis=0).mean(axis=0), (2.5, 97.5))
    pairs_in_all = sum(int(np.isfinite(b - a).sum()) for a, b in zip(first, other, strict=True))
    return {"mean_s": float(np.mean(means)), "low_s": float(low), "high_s": float(high), "pairs": pairs_in_all}


def _resample(values: F64, generator: np.random.Generator) -> F64:
    """Means of ``values`` drawn again and again, block by block."""
    length = max(1, round(len(values) ** (1 / 3)))
    starts = np.arange(0, len(values), length)
    sums = np.add.reduceat(values, starts)
    sizes = np.diff(np.append(starts, len(values)))
    weights = generator.multinomial(len(starts), np.full(len(starts), 1 / len(starts)), size=RESAMPLES)
    found: F64 = (weights @ sums) / (weights @ sizes)
    return found


def means_of_repeats(values: F64, seed: int = 0) -> F64:
    """The mean over repeats, and after it those of the repeats drawn again and again.

    The draws are the same for all that have as many repeats, so that sums and quotients of several are of paired ones.
    """
    drawn = rng(seed, "bootstrap.repeats").integers(len(values), size=(RESAMPLES, len(values)))
    found: F64 = np.concatenate([[values.mean()], values[drawn].mean(axis=1)])
    return found


def _expanded(repeats: int) -> tuple[float, float]:
    """The percentiles between which 95 % of draws of few repeats should be.

    Draws of few vary less than the mean does.  These percentiles are as far out as Student's t is for this many: the
    expanded percentile interval (Hesterberg, What Teachers Should Know About the Bootstrap, 2015).
    """
    z, free = 1.959964, repeats - 1
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    out = math.sqrt(repeats / free) * student
    tail = 50 * math.erfc(out / math.sqrt(2))
    return tail, 100 - tail


def estimate(means: F64, repeats: int) -> Estimate:
    """What ``means_of_repeats``, or arithmetic on it, says."""
    if repeats < FEWEST:
        return Estimate(float(means[0]), float("nan"), float("nan"))
    low, high = np.percentile(means[1:], _expanded(repeats))
    return Estimate(float(means[0]), float(low), float(high))

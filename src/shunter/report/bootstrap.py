"""How sure a difference between two policies is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shunter.seeding import rng
from shunter.world import F64, I64

RESAMPLES = 1000
FEWEST = 5  # repeats, or stretches of one, of which an interval is made
MOST_CLASSES = 4000  # of values, for quantiles


class Estimate(NamedTuple):
    """A number and its 95 % interval; NaN where there is none, as from a few repeats."""

    value: float
    low: float
    high: float


class Draws(NamedTuple):
    """Parts of the jobs drawn again and again: whole repeats, or stretches of consecutive jobs.

    Jobs that wait together share their luck, for days on a busy cluster, so that few long stretches are drawn.
    """

    part: tuple[I64, ...]  # per repeat: the part of each job
    weights: F64  # (1 + RESAMPLES, parts) how often each part was drawn; first every part once
    over: str  # "repeats" or "stretches"

    @property
    def parts(self) -> int:
        """How many there are."""
        return int(self.weights.shape[1])


def draws_of(jobs: Sequence[int], redrawn: bool, seed: int = 0) -> Draws:
    """The draws for repeats with these numbers of jobs; ``redrawn``: each has its own jobs, else all have the same.

    Repeats with jobs of their own are parts themselves, if there are enough of them.  Stretches of repeats with
    the same jobs are drawn together: they say nothing new about what other jobs would do.
    """
    generator = rng(seed, "bootstrap")
    if redrawn and len(jobs) >= FEWEST:
        part, parts, over = [np.full(count, at) for at, count in enumerate(jobs)], len(jobs), "repeats"
    else:
        per_repeat = math.ceil(FEWEST / len(jobs)) if redrawn else FEWEST
        cut = [np.arange(count) * per_repeat // max(count, 1) for count in jobs]
        part = [each + (at * per_repeat if redrawn else 0) for at, each in enumerate(cut)]
        parts, over = per_repeat * (len(jobs) if redrawn else 1), "stretches"
    drawn = generator.multinomial(parts, np.full(parts, 1 / parts), size=RESAMPLES)
    return Draws(tuple(part), np.vstack([np.ones(parts), drawn]).astype(np.float64), over)


def drawn_means(draws: Draws, values: Sequence[F64]) -> F64:
    """The mean of all values, and after it those of the draws; NaN counts for nothing."""
    part, kept = _flat(draws, values)
    sums = np.bincount(part, kept, minlength=draws.parts)
    counts = np.bincount(part, minlength=draws.parts)
    with np.errstate(invalid="ignore"):
        found: F64 = (draws.weights @ sums) / (draws.weights @ counts)
    return found


def drawn_quantiles(draws: Draws, values: Sequence[F64], shares: Sequence[float]) -> F64:
    """Quantiles of all values, and after them those of the draws, (shares, 1 + RESAMPLES); NaN counts for nothing.

    Of many values, quantiles are those of a few thousand classes, finer in the tail.
    """
    part, kept = _flat(draws, values)
    if not len(kept):
        return np.full((len(shares), len(draws.weights)), np.nan)
    edges = np.unique(kept)
    if len(edges) > MOST_CLASSES:
        edges = np.unique(np.quantile(kept, np.unique([*np.linspace(0, 1, 1001), *np.linspace(0.95, 1, 1001)])))
    classes = np.minimum(np.searchsorted(edges, kept), len(edges) - 1)
    counts = np.bincount(part * len(edges) + classes, minlength=draws.parts * len(edges))
    below = np.cumsum(draws.weights @ counts.reshape(draws.parts, -1), axis=1)
    wanted = [np.minimum((below < share * below[:, -1:]).sum(axis=1), len(edges) - 1) for share in shares]
    found: F64 = edges[np.array(wanted)]
    return found


def _flat(draws: Draws, values: Sequence[F64]) -> tuple[I64, F64]:
    joined, part = np.concatenate([*values, np.empty(0)]), np.concatenate([*draws.part, np.empty(0, np.int64)])
    known = np.isfinite(joined)
    return part[known], joined[known]


def mean_difference(first: Sequence[F64], other: Sequence[F64], draws: Draws) -> dict[str, Any]:
    """The mean of ``other - first`` over paired jobs, with its 95 % interval; one pair of arrays per repeat.

    Jobs are in submit order, NaN where one did not finish.
    """
    gaps = [b - a for a, b in zip(first, other, strict=True)]
    pairs = sum(int(np.isfinite(gap).sum()) for gap in gaps)
    if not pairs:
        return {"mean_s": None, "low_s": None, "high_s": None, "pairs": 0}
    value, low, high = estimate(drawn_means(draws, gaps), draws.parts)
    return {"mean_s": value, "low_s": low, "high_s": high, "pairs": pairs}


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
    known = means[1:][np.isfinite(means[1:])]  # a draw of stretches in which no job finished has no mean
    low, high = np.percentile(known, _expanded(repeats)) if len(known) else (float("nan"), float("nan"))
    return Estimate(float(means[0]), float(low), float(high))

"""Distributions as quantiles, and ranks as normal scores: how a twin gets its marginals exact and its jobs alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from shunter.world import F64, I64


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A distribution of times: its quantiles at a few shares, log-linear between them and constant beyond the ends."""

    share: F64  # ascending, within 0..1
    log_s: F64  # ln(1 + seconds): zero has a place too

    @classmethod
    def of(cls, points: Sequence[Sequence[float]]) -> Quantiles:
        """From pairs (share, seconds)."""
        share, seconds = np.array(points, float).T
        return cls(share, np.log1p(seconds))

    def at(self, share: F64) -> F64:
        """Seconds at these shares."""
        seconds: F64 = np.expm1(np.interp(share, self.share, self.log_s))
        return seconds

    def mean(self) -> float:
        """The mean, seconds."""
        return float(self.at(even(200_000)).mean())


def even(count: int) -> F64:
    """Shares in the middle of ``count`` equal parts of 0..1."""
    return (np.arange(count) + 0.5) / count


def ranks(values: F64) -> F64:
    """The share at which each value stands among all, ties in the order given."""
    shares = np.empty(len(values))
    shares[np.argsort(values, kind="stable")] = even(len(values))
    return shares


def normal(share: F64) -> F64:
    """Standard normal quantiles, to about four digits."""
    scores, shares = _normal_table()
    found: F64 = np.interp(share, shares, scores)
    return found


def cumulative_normal(score: F64) -> F64:
    """The share of a standard normal below these scores."""
    scores, shares = _normal_table()
    found: F64 = np.interp(score, scores, shares)
    return found


@cache
def _normal_table() -> tuple[F64, F64]:
    scores = np.linspace(-6, 6, 12_001)
    return scores, np.array([0.5 * math.erfc(-score / math.sqrt(2)) for score in scores.tolist()])


def cut(share: F64, weights: F64) -> I64:
    """The part that each share falls into when 0..1 is divided in proportion to ``weights``."""
    edges = np.cumsum(weights / weights.sum())[:-1]
    return np.searchsorted(edges, share, side="right")

"""Which workloads lose beside others, which make others lose, and how well good pairs are found unmeasured."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shunter.sharing.interference import held_out, without
from shunter.sharing.profiles import Mask, Profiles
from shunter.sharing.score import CAPACITY, grown, labels
from shunter.world import F64

GOOD = 0.85  # both of a good pair keep this speed


class Found(NamedTuple):
    """How good pairs were found."""

    chosen: int  # pairs that were taken to be good
    precision: float  # of those, the share that is good
    recall: float  # of the good, the share that was chosen


def roles(profiles: Profiles) -> tuple[F64, F64]:
    """(workloads,): what each keeps beside an average neighbour, and what it leaves to one.

    Not every two were measured together, and means would depend on which were. So a speed is taken to be a sum, of what
    the one keeps and what the other leaves, and the best such sums count.
    """
    own, other = np.nonzero(~np.isnan(profiles.pair))
    n, rows = len(profiles), np.arange(len(own))
    design = np.zeros((len(own) + 1, 2 * n))
    design[rows, own] = 1
    design[rows, n + other] = 1
    design[-1, n:] = 1  # what is left is 0 on average
    values = np.append(profiles.pair[own, other], 0.0)
    kept, left = np.split(np.linalg.lstsq(design, values, rcond=None)[0], 2)
    return kept, kept.mean() + left


def good_pairs(profiles: Profiles) -> tuple[F64, F64]:
    """For every pair that was measured, the slower of the two as measured and as said by a model that saw neither."""
    return _slower(profiles.pair), _slower(held_out(profiles))


def good_pairs_by_model(profiles: Profiles) -> Found:
    """Pairs that the model says are good, having seen no workload of either's model."""
    measured, said = good_pairs(profiles)
    return _found(said >= GOOD, measured >= GOOD)


def good_pairs_by_tree(profiles: Profiles) -> Found:
    """Pairs whose scores sum to 2 at most, by a tree that has seen no workload of either's model."""
    chosen = np.zeros_like(profiles.pair, bool)
    for tested, shown in without(profiles, by_model=True):
        seen = replace(profiles, pair=np.where(shown, profiles.pair, np.nan))
        scores = grown(seen, labels(seen)).of(profiles)
        chosen |= tested & (scores[:, None] + scores[None, :] <= CAPACITY)
    upper = np.triu_indices(len(profiles))
    known = ~np.isnan(profiles.pair[upper])
    return _found(chosen[upper][known], _slower(profiles.pair) >= GOOD)


def recall_at(profiles: Profiles, precision: float) -> float:
    """The share of the good pairs that the model finds if its bound is set so that this share of its pairs is good."""
    measured, said = good_pairs(profiles)
    good = (measured >= GOOD)[np.argsort(-said)]
    hits = np.cumsum(good)
    enough = np.flatnonzero(hits >= precision * np.arange(1, len(good) + 1))
    return float(hits[enough[-1]] / hits[-1]) if len(enough) else 0.0


def _slower(speeds: F64) -> F64:
    """The slower of each pair that there is."""
    upper = np.triu_indices(len(speeds))
    both = np.minimum(speeds[upper], speeds.T[upper])
    return both[~np.isnan(both)]


def _found(chosen: Mask, good: Mask) -> Found:
    hits = int(np.sum(chosen & good))
    return Found(int(chosen.sum()), hits / max(int(chosen.sum()), 1), hits / max(int(good.sum()), 1))

"""Copies of the same jobs that run 1 % longer or shorter: how much of a difference is chance.

A queue is chaotic: with such small changes the same policy has a mean JCT that differs by some percent over two weeks,
and time in the system that differs by some ten percent on a single day.  What is seen in one run alone says little.
"""

from __future__ import annotations

import numpy as np

from shunter.seeding import rng
from shunter.world import I64

SPREAD = 0.01


def near_times(durations: I64, limits: I64, copy: int, seed: int = 0) -> I64:
    """Run times (ms) of a copy; the first copy has them as they are.  No job runs past a limit that it kept."""
    if not copy:
        return np.maximum(durations, 1)  # a record may say that a job took no time
    factors = np.exp(SPREAD * rng(seed, f"copy {copy}").standard_normal(len(durations)))
    changed = np.maximum(np.round(durations * factors), 1).astype(np.int64)
    kept_limit = (limits > 0) & (durations <= limits)
    return np.where(kept_limit, np.minimum(changed, limits), changed)

"""The noise that Helios' artifact puts on true run times where it has no predictor (its Philly experiment)."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.model import View
from shunter.seeding import rng
from shunter.world import F64, I64

SHARES = (0.1, 0.5, 0.7, 0.9, 1.0)  # up to which part of all jobs ...
LOWEST, HIGHEST = (-0.1, 0.1, 0.5, 1.0, 10.0), (0.1, 0.5, 1.0, 10.0, 100.0)  # ... a time is off by this factor


def noisy(view: View) -> I64:
    """True run times with that noise, by the seed; a few are below 0, as in the artifact, and come first (ms)."""
    assert view.truth is not None
    return noisy_times(view.truth, int(view.world.clock[w.SEED]))


def noisy_times(times: F64, seed: int) -> I64:
    """True run times with the noise; none is 0, which would mean that there is no estimate."""
    draws = rng(seed, "noisy estimates")
    kind = np.searchsorted(SHARES, draws.random(len(times)))
    off = draws.uniform(np.array(LOWEST)[kind], np.array(HIGHEST)[kind])
    sign = np.where(kind == 0, 1.0, draws.choice([-1.0, 1.0], len(times)))  # the first kind is drawn on both sides
    found = np.rint(times * (1 + sign * off)).astype(np.int64)
    return np.where(found == 0, 1, found)

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
    """True run times with that noise, by seed and job; a few are below 0, as in the artifact, and come first (ms)."""
    assert view.truth is not None
    jobs = max(int(view.world.clock[w.NUMBERS]), 1)
    return applied(view.truth, noise(jobs, int(view.world.clock[w.SEED]))[view.world.jobs[w.NUMBER] % jobs])


def noisy_times(times: F64, seed: int) -> I64:
    """True run times with the noise."""
    return applied(times, noise(len(times), seed))


def noise(jobs: int, seed: int) -> F64:
    """How many times its run time each of this many jobs is estimated to take."""
    draws = rng(seed, "noisy estimates")
    kind = np.searchsorted(SHARES, draws.random(jobs))
    off = draws.uniform(np.array(LOWEST)[kind], np.array(HIGHEST)[kind])
    sign = np.where(kind == 0, 1.0, draws.choice([-1.0, 1.0], jobs))  # the first kind is drawn on both sides
    factors: F64 = 1 + sign * off
    return factors


def applied(times: F64, factors: F64) -> I64:
    """Run times with noise; none is 0, which would mean that there is no estimate."""
    found = np.rint(times * factors).astype(np.int64)
    return np.where(found == 0, 1, found)

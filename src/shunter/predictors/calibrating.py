"""Quantiles of run times around an estimate: what errors of the past make of it, kept right as jobs end.

They are quantiles of the errors of jobs that the model had not seen, for the lower, middle and upper third of the
estimates (split-conformal).  Users change, and jobs come in bursts that err alike, so errors of the past alone hold too
few of the jobs to come.  Hence the levels at which the quantiles are read move: up while too few jobs stay below them,
down while too many do (adaptive conformal inference: Gibbs and Candes, 2021).
"""

from __future__ import annotations

import math

import numpy as np

from shunter.arrays import F1, F2
from shunter.compiled import kernel
from shunter.world import F64

QUANTILES = (0.1, 0.5, 0.75, 0.9)
NAMES = tuple(f"p{round(100 * level)}" for level in QUANTILES)
P10, P50, P75, P90 = range(len(QUANTILES))
THIRDS = 3
FEWEST = 10  # errors of a third that its own quantiles are made of
RECENT = 8000  # errors that quantiles are made of at most, the last
PACE, SLOWEST = 2.0, 400  # one more job moves a level by at most PACE over the number of errors, or over SLOWEST
OWED = 1.0  # levels go so far beyond what can be read: a burst that was missed is made up for by the next jobs
LOWEST, HIGHEST = np.array([0.01, 0.2, 0.4, 0.6]), np.array([0.4, 0.8, 0.95, 0.995])  # where quantiles are read


@kernel
def third_of(edges: F1, log_estimate: float) -> int:
    """The third of the estimates that one belongs to."""
    third = 0
    for edge in edges:
        third += log_estimate >= edge
    return third


@kernel
def at_quantile(edges: F1, spread: F2, seconds: float, which: int) -> float:
    """The run time that a job with this estimate stays below so often, in seconds."""
    return float(max(seconds * math.exp(spread[third_of(edges, math.log(seconds)), which]), 1.0))


def quantiles_of(errors: F64, levels: F64) -> tuple[F64, F64]:
    """Edges of the thirds (2,), and quantiles (3, quantiles) of log(actual / estimate) at these levels.

    ``errors`` is (2, jobs): log estimates, and logs of actual over estimate.
    """
    log_estimates, residuals = errors
    levels = np.maximum.accumulate(np.clip(levels, LOWEST, HIGHEST))
    edges = np.quantile(log_estimates, np.arange(1, THIRDS) / THIRDS)
    third = np.searchsorted(edges, log_estimates, side="right")
    return edges, np.array([_spread(residuals[third == one], residuals, levels) for one in range(THIRDS)])


def _spread(residuals: F64, everything: F64, levels: F64) -> F64:
    """Quantiles for one more job of the same kind; of all, where there are too few."""
    some = residuals if len(residuals) >= FEWEST else everything
    return np.quantile(some, levels, method="weibull")


def moved(levels: F64, held: F64, jobs: int, known: int) -> F64:
    """The levels after so large a share of this many more jobs stayed below each quantile."""
    step = PACE / max(known, SLOWEST) * jobs * (np.array(QUANTILES) - held)
    return np.clip(levels + step, LOWEST - OWED, HIGHEST + OWED)

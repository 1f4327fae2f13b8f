"""The value of a goal under two policies on the same jobs, and an interval for the change: days are resampled.

The jobs of a day share its queue, so days are drawn and not jobs; the same days for both policies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from shunter.model import Trace
from shunter.report.bootstrap import RESAMPLES
from shunter.seeding import rng
from shunter.world import F64, I64

DAY_MS = 86_400_000
MOSTLY = 0.9  # of the draws must have jobs that wait, else there is no interval
FEWEST = 10  # blocks; a shorter window is cut into this many
BOUND_S = 10.0  # of the bounded slowdown


def slowdown(trace: Trace, wait: F64) -> F64:
    """The bounded slowdown of each job."""
    run = trace.duration / 1000
    found: F64 = np.maximum(1.0, (wait + run) / np.maximum(run, BOUND_S))
    return found


class Blocks:
    """The jobs of a window by day, and how often each day is drawn: once each first, then at random."""

    def __init__(self, trace: Trace, seed: int = 0, draws: int = RESAMPLES) -> None:
        since = trace.submit - trace.submit[0]
        length = min(DAY_MS, max(1, (int(since[-1]) + 1) // FEWEST))
        self.of: I64 = np.unique(since // length, return_inverse=True)[1].reshape(-1)
        self.count = int(self.of[-1]) + 1
        drawn = rng(seed, "advice").multinomial(self.count, np.full(self.count, 1 / self.count), size=draws)
        self.drawn: F64 = np.vstack([np.ones(self.count), drawn])

    def sums(self, values: F64) -> F64:
        """The sum of the values of all jobs, per draw."""
        found: F64 = self.drawn @ np.bincount(self.of, values, minlength=self.count)
        return found

    def mean(self, values: F64) -> F64:
        """Their mean, per draw."""
        return self.sums(values) / self.sums(np.ones(len(values)))


def _mean_wait(blocks: Blocks, trace: Trace, wait: F64) -> F64:
    return blocks.mean(wait)


def _slowdown(blocks: Blocks, trace: Trace, wait: F64) -> F64:
    return blocks.mean(slowdown(trace, wait))


def _by_user(blocks: Blocks, trace: Trace, wait: F64) -> F64:
    """The mean over users of their mean waits; a user without a job in a draw does not count in it."""
    users = np.unique(trace.user, return_inverse=True)[1].reshape(-1)
    place, size = users * blocks.count + blocks.of, (users.max() + 1) * blocks.count
    sums, jobs = (np.bincount(place, values, minlength=size).reshape(-1, blocks.count) for values in (wait, None))
    drawn_sums, drawn_jobs = sums @ blocks.drawn.T, jobs @ blocks.drawn.T
    means = np.where(drawn_jobs > 0, drawn_sums / np.maximum(drawn_jobs, 1), 0.0)
    found: F64 = means.sum(axis=0) / (drawn_jobs > 0).sum(axis=0)
    return found


def _tail(blocks: Blocks, trace: Trace, wait: F64) -> F64:
    """The P99 wait."""
    order = np.argsort(wait, kind="stable")
    waits, block = wait[order], blocks.of[order]
    found = []
    for row in blocks.drawn:
        upto = np.cumsum(row[block])
        found.append(waits[np.searchsorted(upto, 0.99 * upto[-1])])
    return np.array(found)


Goal: TypeAlias = Callable[[Blocks, Trace, F64], F64]  # waits (s) -> a value for each draw of days
GOALS: dict[str, Goal] = {"wait": _mean_wait, "users": _by_user, "tail": _tail, "slowdown": _slowdown}


def value_of(goal: str, trace: Trace, wait: F64) -> float:
    """A goal on some jobs, with these waits (s)."""
    return float(GOALS[goal](Blocks(trace, draws=0), trace, wait)[0])


def paired(trace: Trace, before: F64, after: F64, goal: str, seed: int = 0) -> dict[str, Any]:
    """A goal under two policies (waits in s), its relative change, and the 95 % interval of that."""
    blocks = Blocks(trace, seed)
    first, second = (GOALS[goal](blocks, trace, wait) for wait in (before, after))
    change_of_means = {"before": float(first[0]), "after": float(second[0]), "days": blocks.count}
    known = first > 0
    change = float(second[0] / first[0] - 1) if known[0] else None
    if not known[0] or known.mean() < MOSTLY:
        return change_of_means | {"change": change, "low": None, "high": None}
    low, high = np.percentile((second[known] / first[known])[1:] - 1, (2.5, 97.5))
    return change_of_means | {"change": change, "low": float(low), "high": float(high)}

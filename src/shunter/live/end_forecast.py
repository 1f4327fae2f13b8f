"""When a job may be done, and whether that is in time: a forecast of its start, and how long it runs after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shunter import world as w
from shunter.live.forecast import FARTHEST_MS, Forecast, Outlook
from shunter.live.hints import LONGEST_S
from shunter.live.snapshot import LiveJob
from shunter.world import F64, I64

LEVELS = (np.arange(100) + 0.5) / 100
LIMIT_IS_DONE = "a job that its time limit ends counts as done, as its work is not known"
WANTED = 0.9  # the chance with which something counts as in time


@dataclass(frozen=True, eq=False)
class EndForecast:
    """Starts and run times, drawn independently of each other."""

    now: int  # ms since 1970
    starts: I64  # (samples,) ms since 1970; world.NEVER: not within a year
    runs: F64  # (samples,) ms
    assumptions: tuple[str, ...] = ()
    because: tuple[str, ...] = ()  # why nothing is known; then there are no samples
    past: F64 | None = None  # ranks of past ends in what was forecast of them; None: it is not calibrated
    limit: int = 0  # ms from its start, or from now for one that runs, to its limit, if it declared its work; 0: none

    @cached_property
    def ends(self) -> F64:
        """Every start with every run time, sorted; a job that does not start, or that its limit cuts off, has none."""
        return np.sort((np.where(self.starts == w.NEVER, np.inf, self.starts)[:, None] + self._finished).ravel())

    @property
    def _finished(self) -> F64:
        return np.where(self.runs > self.limit, np.inf, self.runs) if self.limit else self.runs

    @property
    def cut_off(self) -> float:
        """The chance that its limit ends it before its declared work is done."""
        return float(np.mean(np.isinf(self._finished))) if len(self.runs) else 0.0

    def chance(self, by: int) -> float | None:
        """The chance to be done by then; None: nothing is known."""
        if self.because:
            return None
        share = float(np.searchsorted(self.ends, by, side="right")) / len(self.ends)
        return share if self.past is None else calibrated(self.past, share)

    def at(self, level: float) -> int | None:
        """By when it is done with so large a chance; None: not within a year, or nothing is known."""
        if self.because:
            return None
        share = level if self.past is None else float(np.quantile(self.past, level))
        end = self.ends[min(int(np.ceil(share * len(self.ends))), len(self.ends)) - 1]
        return round(float(end)) if end <= self.now + FARTHEST_MS else None

    def start_by(self, by: int, level: float = WANTED) -> int | None:
        """The latest start with which it is done in time with so large a chance; None: none is, or nothing is known."""
        if self.because or self.cut_off > 1 - level:
            return None
        return round(by - float(np.quantile(self._finished, level, method="higher")))


def calibrated(past: F64, share: float) -> float:
    """The share of past jobs that had ended when their forecast gave this chance."""
    return float(np.mean(past <= share))


def of_waiting(outlook: Outlook, found: Forecast, runs: F64 | None = None, declared: bool = False) -> EndForecast:
    """The end of a job that waits.

    ``runs``: how long it runs, if that is known otherwise than from past jobs; ``declared``: it follows from its work.
    """
    if found.because:
        return EndForecast(found.now, np.zeros(0, np.int64), np.zeros(0), found.assumptions, found.because)
    took = run_times(outlook, found.job) if runs is None else runs
    limit = found.job.limit if declared or found.job.hints.run_time_ms > 0 else 0
    said = (*found.assumptions, "how long it runs does not depend on when it starts", *_limit(found.job, limit))
    return EndForecast(found.now, np.array(found.starts, np.int64), took, said, limit=limit)


def of_running(outlook: Outlook, job: LiveJob) -> EndForecast:
    """The end of a job that runs."""
    now, hints = outlook.snapshot.now, job.hints
    if hints.done > 0 and hints.iterations > 0 and hints.iteration_s > 0:
        iterations = max(hints.iterations - hints.done, 0.0)
        declared = 1000 * min(iterations * hints.iteration_s, LONGEST_S)
        reported = f"it has {iterations:,.0f} iterations left of {hints.iteration_s:g} s, as it reports"
        return EndForecast(now, np.array([now]), np.array([declared]), (reported,), limit=limit_left(job))
    left = np.maximum(run_times(outlook, job) - job.ran, 0.0)
    said = (outlook.run_times.source, f"it has run for {job.ran / 3_600_000:.1f} h", *_limit(job))
    return EndForecast(now, np.array([now]), left, said)


def limit_left(job: LiveJob) -> int:
    """How long a job that runs may still run (ms); 0: it has no limit."""
    return max(job.limit - job.ran, 1) if job.limit else 0


def run_times(outlook: Outlook, job: LiveJob, past: F64 | None = None) -> F64:
    """Run times of a job (ms), evenly over their distribution; ``past``: ranks of past run times, to calibrate it."""
    levels = LEVELS if past is None else np.quantile(past, LEVELS)
    return outlook.run_times.beside(outlook.snapshot.jobs).draw(job, levels)


def _limit(job: LiveJob, declared: int = 0) -> Sequence[str]:
    return [LIMIT_IS_DONE] if job.limit and not declared else []

"""What a simulation carries along to estimate run times with: a model, and all that has been seen so far."""

from __future__ import annotations

from functools import cache

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, Arrays
from shunter.compiled import kernel
from shunter.model import Renumbering, Trace
from shunter.predictors import features as f
from shunter.predictors.calibrating import QUANTILES, THIRDS, at_quantile
from shunter.predictors.features import GroupHistory
from shunter.predictors.fitted import Fitted, expect
from shunter.predictors.groups import described, joined
from shunter.predictors.trees import Trees, no_trees
from shunter.world import F64, I64


class Learned(Arrays):
    """A duration model at work on one set of jobs."""

    seen: GroupHistory
    trees: Trees
    rows: F2  # (jobs, features) of each job, filled when it is estimated
    numbers: F1  # as in ``fitted``
    edges: F1  # as in ``fitted``
    spread: F2  # as in ``fitted``
    expected: F1  # (jobs,) what the model expected of each, in seconds
    chosen: I1  # (1,) the quantile that an estimate is; -1: none, it is what the model expects

    def renumbered(self, rows: Renumbering) -> Learned:
        """The same for jobs by the rows that they have now; nothing, where a request was not seen before."""
        if not len(self.expected) or (rows.taken < 0).any():
            return self
        return self.replace(
            seen=self.seen.replace(
                group_of=rows.of_requests(self.seen.group_of), submitted=rows.of_jobs(self.seen.submitted, fill=f.NEW)
            ),
            rows=rows.of_jobs(self.rows.T, fill=np.nan).T,
            expected=rows.of_jobs(self.expected, fill=np.nan),
        )


@kernel
def estimate(jobs: I64, learned: Learned, job: int) -> int:
    """How long a job that arrives should run, from what has ended by now (ms); may be called again later."""
    f.fill_row(jobs, learned.seen, job, jobs[w.SUBMIT, job], learned.rows[job])
    f.note_submit(learned.seen, job, jobs[w.SUBMIT, job])
    learned.expected[job] = expect(learned.trees, learned.numbers, learned.rows[job])
    if learned.chosen[0] >= 0:
        return quantile(learned, job, learned.chosen[0])
    return int(1000.0 * learned.expected[job] + 0.5)


@kernel
def quantile(learned: Learned, job: int, which: int) -> int:
    """The run time that such jobs stay below so often, by the calibration of now (ms); once it was estimated."""
    return int(1000.0 * at_quantile(learned.edges, learned.spread, learned.expected[job], which) + 0.5)


@kernel
def learn(jobs: I64, learned: Learned, job: int, took_ms: float, now: int) -> None:
    """A job has ended after this much run time."""
    f.note_end(learned.seen, job, took_ms, now)


@kernel
def forget(learned: Learned, job: int) -> None:
    """A job has ended that the model does not learn from."""
    f.note_gone(learned.seen, job)


def prepare(fitted: Fitted | None, window: Trace, history: Trace | None = None) -> Learned:
    """A model for the jobs of a window that has seen what ended in the history before the first of them came.

    Without a fitted model estimates are rolling means, and so are their quantiles.  History and window must be parts of
    one trace, as ``select`` makes them.
    """
    half_life = fitted.half_life_days if fitted else f.HALF_LIFE_DAYS
    if history is None or not len(history):
        seen = f.nothing_seen(described(window), window.dated, half_life)
    else:
        seen = _warm(window, history, half_life)
    trees = fitted.trees if fitted else no_trees()
    numbers = fitted.numbers if fitted else np.array([1.0, np.inf])
    rows, expected = np.full((len(window), f.WIDTH), np.nan), np.full(len(window), np.nan)
    return Learned(seen, trees, rows, numbers, *calibration(fitted), expected, np.array([-1]))


def calibration(fitted: Fitted | None) -> tuple[F64, F64]:
    """The arrays that quantiles are read from."""
    return (fitted.edges, fitted.spread) if fitted else (np.zeros(THIRDS - 1), np.zeros((THIRDS, len(QUANTILES))))


@cache
def unlearned() -> Learned:
    """What is in the place of a model where none is needed."""
    seen = GroupHistory(np.zeros((0, 0), np.int64), np.zeros((0, 0)), np.zeros(0, np.int64), np.zeros(0))
    return Learned(seen, no_trees(), np.zeros((0, 0)), np.zeros(0), *calibration(None), np.zeros(0), np.array([-1]))


def _warm(window: Trace, history: Trace, half_life: float) -> GroupHistory:
    """What had been seen of the history when the window begins."""
    both = f.nothing_seen(joined(history, window), window.dated, half_life)
    n, begins = len(history), int(window.submit[0]) if len(window) else w.NEVER
    past = both.replace(group_of=both.group_of[:, :n], submitted=both.submitted[:n])
    no_jobs = f.EstimateTimes(np.zeros(0, np.int64), np.zeros(0, np.int64))
    f.walk(f.request_table(history), past, f.ended(history), begins, no_jobs, np.zeros((0, f.WIDTH)))
    both.groups[:, [f.OPEN, f.OPEN_SUM]] = 0  # what still runs is not in the window, so its end will not be reported
    return both.replace(group_of=both.group_of[:, n:], submitted=both.submitted[n:])

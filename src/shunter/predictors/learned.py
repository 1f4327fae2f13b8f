"""What a simulation carries along to estimate run times with: a model, and all that has been seen so far."""

from __future__ import annotations

from functools import cache

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, Arrays
from shunter.compiled import kernel
from shunter.model import Trace
from shunter.predictors import features as f
from shunter.predictors.features import Seen
from shunter.predictors.fitted import Fitted, expect
from shunter.predictors.groups import described, joined
from shunter.predictors.trees import Trees, no_trees
from shunter.world import F64, I64


class Learned(Arrays):
    """A duration model at work on one set of jobs."""

    seen: Seen
    trees: Trees
    rows: F2  # (jobs, features) of each job, filled when it is estimated
    numbers: F1  # as in ``fitted``


@kernel
def estimate(jobs: I64, use: F64, learned: Learned, job: int) -> int:
    """How long a job that arrives should run, from what has ended by now (ms); can be asked again once profiled."""
    f.fill_row(jobs, use, learned.seen, job, learned.rows[job])
    f.note_submit(learned.seen, job, jobs[w.SUBMIT, job])
    return int(1000.0 * expect(learned.trees, learned.numbers, learned.rows[job]) + 0.5)


@kernel
def learn(jobs: I64, learned: Learned, job: int, took_ms: float, now: int) -> None:
    """A job has ended after so much run time."""
    f.note_end(learned.seen, job, took_ms, now)


def prepare(fitted: Fitted | None, window: Trace, history: Trace | None = None) -> Learned:
    """A model for the jobs of a window that has seen what ended in the history before the first of them came.

    Without a fitted model estimates are rolling means.  History and window must be parts of one trace, as ``select``
    makes them.
    """
    half_life = fitted.half_life_days if fitted else f.HALF_LIFE_DAYS
    if history is None or not len(history):
        seen = f.nothing_seen(described(window), window.dated, half_life)
    else:
        seen = _warm(window, history, half_life)
    trees = fitted.trees if fitted else no_trees()
    numbers = fitted.numbers if fitted else np.array([1.0, np.inf])
    return Learned(seen, trees, np.full((len(window), f.WIDTH), np.nan), numbers)


@cache
def unlearned() -> Learned:
    """What is in the place of a model where none is needed."""
    seen = Seen(np.zeros((0, 0), np.int64), np.zeros((0, 0)), np.zeros(0, np.int64), np.zeros(0))
    return Learned(seen, no_trees(), np.zeros((0, 0)), np.zeros(0))


def _warm(window: Trace, history: Trace, half_life: float) -> Seen:
    """What had been seen of the history when the window begins."""
    both = f.nothing_seen(joined(history, window), window.dated, half_life)
    n, begins = len(history), int(window.submit[0]) if len(window) else w.NEVER
    past = both.replace(group_of=both.group_of[:, :n], submitted=both.submitted[:n])
    f.walk(f.request_table(history), f.not_profiled(n), past, f.ended(history), begins, np.zeros((0, f.WIDTH)))
    both.groups[:, [f.OPEN, f.OPEN_SUM]] = 0  # what still runs is not in the window: nobody will say when it ends
    return both.replace(group_of=both.group_of[:, n:], submitted=both.submitted[n:])

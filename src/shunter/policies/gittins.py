"""The Gittins index of each job's own distribution of run times: Gittins, 1979; for clusters Gu et al., NSDI 2019."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter import placers
from shunter import world as w
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.compiled import kernel
from shunter.model import View
from shunter.params import param
from shunter.scheduling.backfill.bounds import ALL, BINS, FEWEST, FEWEST_LEFT, GROUPS, Bounds, group_of, ratio_bin
from shunter.scheduling.queue import queue as q
from shunter.scheduling.queue.ordering import PLACEMENT_DOC, Preempting
from shunter.scheduling.queue.policy import BACKFILL_DOC, BACKFILLS, HYSTERESIS_DOC, QueueMemory, queue_of
from shunter.world import F64, I64, Job

EVERY = 3_600_000  # ms between two looks at what ended
DEFAULT_SHARE = 0.9  # of `bound`, where nothing is backfilled: the ended jobs are counted for the index alone
TABLE = 1  # in the key's parameters: after the time of the last look


@dataclass(frozen=True)
class Gittins(Preempting):
    """The job most likely to end per GPU time spent on it comes first, by its estimate and what such estimates missed.

    Stops running jobs for those.
    """

    # chosen on the early months of ./scripts/evidence
    backfill: str = param("easy", BACKFILL_DOC, choices=BACKFILLS)
    placement: str = param("tight", PLACEMENT_DOC, choices=placers.names(), by_path=True)
    hysteresis: float = param(1.5, HYSTERESIS_DOC, low=1, high=1000, scale="log")
    look_again: float = param(300.0, "seconds between two checks of the running jobs", low=1, high=86_400, scale="log")

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """GPUs over the index; the remaining area, or as much again as was done, where too little is known.

        The index is for a job that can be stopped when it does not end soon.  Of one that can't be, all is served: its
        key is its area, as in ``saf``.
        """
        if job.checkpointable == 0:
            return job.gpus * job.estimate
        at = group_of(int(1000 * job.estimate)) * BINS + ratio_bin(job.work / job.estimate)
        index = p[TABLE + at]
        if index > 0:
            return float(job.gpus * job.estimate / index)
        return job.gpus * max(job.estimate - job.work, job.work, 1.0)

    def key_params(self) -> F64:
        """When ended jobs were last looked at (ms), and a table of indices, see ``find_indices``."""
        return np.zeros(TABLE + GROUPS * BINS)

    def quantum(self) -> float:
        """As configured."""
        return self.look_again

    @property
    def share_within(self) -> float:
        """As for backfilling; above 0 in any case, so that ended jobs are counted."""
        return super().share_within or DEFAULT_SHARE

    def form(self, view: View, cluster: Cluster, previous: Compiled | None) -> Compiled:
        """The compiled queue, with the indices that follow from what ended before."""
        form = super().form(view, cluster, previous)
        self._look(queue_of(form), view.now)
        return form

    def due(self, memory: QueueMemory) -> int:
        """When the model is fitted again, or the table is made again (ms)."""
        return min(memory.due, self._next_look(memory))

    def refresh(self, view: View, memory: QueueMemory) -> None:
        """Fit the model again, or make the table again, whichever is due first."""
        if memory.due <= self._next_look(memory):
            super().refresh(view, memory)
        else:
            assert memory.form is not None
            self._look(queue_of(memory.form), self._next_look(memory))

    def _next_look(self, memory: QueueMemory) -> int:
        return int(queue_of(memory.form).params[0]) + EVERY if memory.form is not None else w.NEVER

    def _look(self, queue: q.Queue, now: int) -> None:
        """Make the table from what has ended; all keys follow."""
        queue.params[0] = now
        find_indices(queue.bounds, queue.params[TABLE:], np.empty((2, BINS + 1)), np.empty(BINS + 1, np.int64))
        queue.state.stale = True


@kernel
def find_indices(bounds: Bounds, table: F64, points: F64, hull: I64) -> None:
    """Gittins' index times the estimate, by group of estimates and by age over the estimate; 0: too little is known.

    The index of a job is the highest rate at which it may be expected to end: over all times for which it could be
    served next, how likely it ends within, over the mean time that this takes.  On a plane with the mean time as ``x``
    and the share of ended jobs as ``y``, that is the steepest slope from the job's age to any later point, so one
    pass from the right, which keeps the upper hull of the points passed, finds all of them.
    """
    x, y = points
    for group in range(GROUPS):
        counts = bounds.counts[group if bounds.ended[group] >= FEWEST else ALL]
        total = counts.sum()
        left, begins = float(total), bounds.edge[0] / 2.0
        x[0], y[0] = 0.0, 0.0
        for at in range(BINS):
            x[at + 1] = x[at] + left * (bounds.edge[at] - begins)
            y[at + 1] = y[at] + counts[at]
            left, begins = left - counts[at], bounds.edge[at]
        size, hull[0] = 1, BINS
        for at in range(BINS - 1, -1, -1):
            while size > 1 and steeper(x, y, at, hull[size - 2], hull[size - 1]):
                size -= 1
            top = hull[size - 1]
            enough = total - y[at] >= FEWEST_LEFT and total >= FEWEST
            table[group * BINS + at] = (y[top] - y[at]) / (x[top] - x[at]) if enough else 0.0
            hull[size], size = at, size + 1


@kernel
def steeper(x: F64, y: F64, begin: int, far: int, near: int) -> bool:
    """Whether the slope to ``far`` is at least that to ``near``; after the last end both are level."""
    return bool((y[far] - y[begin]) * (x[near] - x[begin]) >= (y[near] - y[begin]) * (x[far] - x[begin]))

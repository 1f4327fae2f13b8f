"""What a site knows of its jobs at one instant: all submissions so far, and the run times of those that have ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter.model import GPU, Trace
from shunter.world import F64, I64

UNKNOWN = -1  # the run time of a job that has not ended, and when it started or ended
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True, eq=False)
class KnownJobs:
    """Jobs in the order of their submission, times in ms; nothing of them is known that comes later."""

    submit: I64  # (jobs,)
    duration: I64  # run times; UNKNOWN: the job has not ended
    ended: I64  # when; UNKNOWN: not yet
    executed: I64  # time that it has run so far; of a job that has ended, its run time
    gpus: I64  # thousandths
    user: I64  # codes, -1: none
    vc: I64
    gpu_type: I64

    def __len__(self) -> int:
        return len(self.submit)

    def select(self, rows: NDArray[Any] | slice) -> KnownJobs:
        """Those of these rows."""
        return KnownJobs(*(values[rows] for values in vars(self).values()))

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Which have ended."""
        finished: NDArray[np.bool_] = self.duration != UNKNOWN
        return finished

    @property
    def service(self) -> F64:
        """GPU hours of each job that has ended; those of others so far."""
        return np.where(self.finished, self.duration, self.executed) / HOUR * self.gpus / GPU

    def between(self, begin: int, end: int) -> slice:
        """The jobs that were submitted from ``begin`` on, and before ``end``."""
        first, last = np.searchsorted(self.submit, [begin, end])
        return slice(int(first), int(last))

    def at(self, instant: int) -> KnownJobs:
        """What was known then, if every job ran from its start to its end in one piece."""
        there = self.select(self.between(int(self.submit[0]) if len(self) else 0, instant + 1))
        over = there.finished & (there.ended <= instant)
        ran = np.clip(instant - (there.ended - there.duration), 0, None)
        executed = np.where(over, there.duration, np.where(there.finished, ran, there.executed))
        return replace(
            there,
            duration=np.where(over, there.duration, UNKNOWN),
            ended=np.where(over, there.ended, UNKNOWN),
            executed=executed,
        )


def recorded(trace: Trace) -> KnownJobs:
    """A trace of the past, in which every job has ended; where waits were not recorded, there were none."""
    ended = trace.submit + np.maximum(trace.recorded_wait, 0) + trace.duration
    columns = (trace.duration, ended, trace.duration, trace.gpus, trace.user, trace.vc, trace.gpu_type)
    return KnownJobs(trace.submit, *columns)


def joined(first: KnownJobs, other: KnownJobs) -> KnownJobs:
    """Jobs, and later ones."""
    pairs = zip(vars(first).values(), vars(other).values(), strict=True)
    return KnownJobs(*(np.concatenate(pair) for pair in pairs))

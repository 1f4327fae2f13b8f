"""What has ended on a live cluster, kept as a trace from which run times are learned."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from shunter.model import GPU, Trace
from shunter.slurm.replica import Names
from shunter.slurm.snapshot import Job, Snapshot

MOST = 50_000  # ended jobs that are kept, the last ones


class Past:
    """The jobs of a history, and those that ended since."""

    def __init__(self, names: Names, history: Trace | None) -> None:
        self._names, self._history = names, history
        self._ended: deque[Job] = deque(maxlen=MOST)
        self._known: set[str] = set()  # of those that Slurm still tells of

    def note(self, snapshot: Snapshot, ended: Sequence[Job]) -> None:
        """Keep what has ended, each once; also what came and went between two looks."""
        told = {job.id: job for job in snapshot.jobs if job.over and job.start >= 0 and job.gpus}
        told |= {job.id: job for job in ended}
        self._ended.extend(job for job in told.values() if job.id not in self._known)
        self._known = set(told)

    def trace(self) -> Trace | None:
        """All of it, with the names' present codes; None if there is nothing."""
        code, jobs = self._names.code, list(self._ended)
        given: dict[str, Any] = {
            "submit": [job.submit for job in jobs],
            "duration": [max(job.end - job.start, 1) for job in jobs],
            "gpus": [job.gpus * GPU for job in jobs],
            "limit": [job.limit for job in jobs],
            "cpus": [job.cpus * 1000 for job in jobs],
            "mem_gib": [job.mem_mib for job in jobs],
            "recorded_wait": [max(job.start - job.submit, 0) for job in jobs],
            "user": [code("user", job.user) for job in jobs],
            "account": [code("account", job.account) for job in jobs],
            "job_name": [code("job_name", job.name) for job in jobs],
            "vc": [code("vc", job.partition) for job in jobs],
        }
        before = self._history
        ids = [*(before.job_id if before is not None else ()), *(job.id for job in jobs)]
        if not ids:
            return None
        if before is not None:
            given = {
                name: np.concatenate((getattr(before, name), np.array(new, np.int64))) for name, new in given.items()
            }
        return Trace.of("past", ids, **given, **self._names.table())

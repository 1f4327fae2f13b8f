"""What has ended on a live cluster, kept as a trace from which run times are learned."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from shunter.live.replica import NAMED, Names
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.model import GPU, Trace

MOST = 50_000  # ended jobs that are kept, the last ones
FEW = 1000  # names of jobs that are not worth looking through


class EndedHistory:
    """The jobs of a history, and those that ended since."""

    def __init__(self, names: Names, history: Trace | None) -> None:
        self._names, self._history = names, history
        self._ended: deque[tuple[LiveJob, dict[str, int]]] = deque(maxlen=MOST)  # with the codes of their names
        self._known: set[str] = set()  # of those that are still listed
        self._many = names.count("job_name") + FEW  # names of jobs, at which some are forgotten

    def note(self, snapshot: Snapshot, ended: Sequence[LiveJob]) -> None:
        """Keep what has ended, each once; also what came and went between two looks."""
        over = {job.id: job for job in snapshot.jobs if job.has_run and job.gpus}
        over |= {job.id: job for job in ended}
        code = self._names.code
        for job in over.values():
            if job.id not in self._known:
                codes = {column: code(column, getattr(job, of)) for column, of in NAMED.items()}
                self._ended.append((job, codes))
        self._known = set(over)
        if self._names.count("job_name") > self._many:
            self._forget_names(snapshot)

    def _forget_names(self, snapshot: Snapshot) -> None:
        """Keep the names that a job has or a remembered one had: some sites call every job differently."""
        self._names.keep("job_name", {job.name for job in (*snapshot.jobs, *(job for job, _ in self._ended))})
        self._many = 2 * self._names.count("job_name") + FEW

    def trace(self, vcs: tuple[str, ...]) -> Trace | None:
        """All of it, in the virtual clusters that there are now; None if there is nothing."""
        jobs, before = [job for job, _ in self._ended], self._history
        ids = [*(before.job_id if before is not None else ()), *(job.id for job in jobs)]
        if not ids:
            return None
        place = {name: code for code, name in enumerate(vcs)}
        given: dict[str, Any] = {column: [codes[column] for _, codes in self._ended] for column in NAMED}
        given |= {
            "submit": [job.submit for job in jobs],
            "duration": [max(job.end - job.start, 1) for job in jobs],
            "gpus": [job.gpus * GPU for job in jobs],
            "limit": [job.limit for job in jobs],
            "cpus": [job.cpus * 1000 for job in jobs],
            "mem_gib": [job.mem_mib for job in jobs],
            "recorded_wait": [max(job.start - job.submit, 0) for job in jobs],
            "vc": [place.get(job.partition, -1) for job in jobs],
        }
        if before is not None:
            old = {name: getattr(before, name) for name in given}
            old["vc"] = np.array([*(place.get(name, -1) for name in before.vcs), -1], np.int64)[before.vc]
            given = {name: np.concatenate((old[name], np.array(new, np.int64))) for name, new in given.items()}
        return Trace.of("past", ids, **given, **(self._names.table() | {"vcs": vcs}))

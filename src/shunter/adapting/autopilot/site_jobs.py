"""Jobs of a live cluster as traces: those that have ended since, and those that wait or run.

Names, numbers and times come from users: what a trace can't hold is cut, or the job is left out.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import HOUR, UNKNOWN, KnownJobs
from shunter.generating.repository import MOST_NAME, NAMES, NUMBERS, with_past
from shunter.live.backend import Round
from shunter.live.machines import Machines
from shunter.live.snapshot import LiveJob
from shunter.model import GPU, Trace
from shunter.world import I64

MOST = 50_000  # ended jobs that are kept until they are written, the last ones
BOUNDS = {
    name: (about.low * about.scale, about.high * about.scale)
    for name, about in Trace.columns().items()
    if name in NUMBERS[1:]
}


class JobsToKeep:
    """The jobs that have ended since they were last taken."""

    def __init__(self) -> None:
        self._ended: deque[LiveJob] = deque(maxlen=MOST)
        self._known: set[tuple[str, int]] = set()  # of those that are still listed

    def note(self, current: Round) -> None:
        """Keep what has ended in a round, each once; also what came and went between two looks."""
        over = {(job.id, job.start): job for job in current.snapshot.jobs if job.has_run and job.gpus}
        gone = (current.jobs[row] for row in current.view.ended.tolist())
        over |= {(job.id, job.start): job for job in gone if job.gpus}
        self._ended.extend(job for key, job in over.items() if key not in self._known)
        self._known = set(over)

    def __len__(self) -> int:
        return len(self._ended)

    def take(self) -> list[LiveJob]:
        """All of them; they are forgotten here."""
        found = list(self._ended)
        self._ended.clear()
        return found

    def put_back(self, jobs: Sequence[LiveJob]) -> None:
        """They could not be written: keep them for the next time, except the oldest where there are too many."""
        self._ended = deque([*jobs, *self._ended], maxlen=self._ended.maxlen)


def trace_of(jobs: Sequence[LiveJob], machines: Machines, now: int) -> Trace:
    """Jobs as a trace, without what a repository would refuse; one that has not ended runs for a moment."""
    rows = [(job, numbers) for job in jobs if job.gpus and job.submit >= 0 and _allowed(numbers := _numbers(job), now)]
    kept = [job for job, _ in rows]
    given: dict[str, Any] = {name: np.array([numbers[name] for _, numbers in rows], np.int64) for name in NUMBERS}
    texts = {
        "user": [_text(job.user) for job in kept],
        "vc": [_text(machines.vc_of(job) or "") for job in kept],
        "gpu_type": [_text(machines.type_of(job)) for job in kept],
    }
    for name, values in texts.items():
        given |= _coded(name, values)
    return Trace.of("site", [_text(f"{job.id}@{job.submit}") for job in kept], **given)


def _numbers(job: LiveJob) -> dict[str, int]:
    """What a trace says of a job in numbers, however large; it counts from when it could run, as for a policy."""
    could_run = min(job.eligible, job.start) if job.start >= 0 else job.eligible
    return {
        "submit": max(job.submit, could_run),
        "duration": max(job.end - job.start, 1) if job.over else 1,
        "gpus": job.gpus * GPU,
        "cpus": job.cpus * 1000,
        "mem_gib": job.mem_mib,
        "limit": max(job.limit, 0),
    }


def _allowed(numbers: Mapping[str, int], now: int) -> bool:
    """Whether a repository takes these."""
    within = all(low <= numbers[name] <= high for name, (low, high) in BOUNDS.items())
    return within and 0 <= numbers["submit"] <= now + HOUR


def joined(history: Trace | None, new: Trace) -> Trace:
    """Jobs that a site brings along and new ones, each with names of its own, as one trace."""
    if history is None or not len(history):
        return new
    given: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in (history, new)]) for name in NUMBERS}
    for name in NAMES:
        texts = [
            (*getattr(each, Trace.names_of(name)), "")[code]
            for each in (history, new)
            for code in getattr(each, name).tolist()
        ]
        given |= _coded(name, [_text(text) for text in texts])
    return Trace.of("site", [_text(str(name)) for name in (*history.job_id, *new.job_id)], **given)


def _coded(column: str, texts: Sequence[str]) -> dict[str, Any]:
    """Names as codes, and what the codes stand for."""
    known = {text: code for code, text in enumerate(sorted({*texts} - {""}))}
    codes = np.array([known.get(text, -1) for text in texts], np.int64)
    return {column: codes, Trace.names_of(column): tuple(known)}


def _text(name: str) -> str:
    return name.encode("utf-8", "replace").decode()[:MOST_NAME].replace("\0", "")


def with_unfinished(ended: Trace, present: Trace, ran: dict[str, int], now: int) -> tuple[Trace, NDArray[np.bool_]]:
    """All jobs that a site knows, and which have ended; from these, run times of the others are predicted."""
    known = with_past(present, ended)
    open_rows = np.isin(known.job_id.astype(str), present.job_id.astype(str))
    executed: I64 = np.array([ran.get(str(name), 0) for name in known.job_id], np.int64)
    jobs = KnownJobs(
        known.submit,
        np.where(open_rows, UNKNOWN, known.duration),
        np.where(open_rows, UNKNOWN, known.submit + known.duration),
        np.where(open_rows, executed, known.duration),
        known.gpus,
        known.user,
        known.vc,
        known.gpu_type,
    )
    durations = DurationPredictor().of_all(jobs, now) if len(known) else known.duration
    jobs_known = dataclasses.replace(known, duration=durations, checkpointable=np.zeros(len(known), np.int64))
    return jobs_known, ~open_rows

"""A waiting job and the queue around it as numbers, all known at the instant of the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter.live.run_times import RunTimes
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.world import F64

FEATURES = {
    "age": "how long it has waited, log s",
    "gpus": "GPUs that it asks for, log2",
    "limit": "its time limit, log s",
    "usual": "median run time of jobs like it, log s",
    "free": "free GPUs",
    "most_free": "free GPUs on one node, at most",
    "used": "GPUs in use",
    "ahead": "jobs ahead of it",
    "ahead_gpus": "GPUs that these ask for",
    "ahead_work": "GPU time of these by their usual run times, log s",
    "ahead_limits": "GPU time of these by their limits, log s",
    "waiting": "jobs that wait",
    "user_ahead": "jobs of its user ahead of it",
    "user_ahead_gpus": "GPUs that these ask for",
    "user_running": "jobs of its user that run",
    "user_used": "GPUs that these use",
    "short": "GPUs that must become free until it and all ahead of it have theirs",
    "freed": "when that many become free, by usual run times, log s",
    "freed_by_limits": "when that many become free, by limits, log s",
    "drained": "when all work before it would be done, spread over all GPUs, log s",
    "user_freed": "when its user's own jobs have freed what it and those of its user ahead of it need, log s",
    "user_next_end": "when the first of its user's jobs ends, by usual run times, log s",
    "recent_wait": "median wait of the jobs that started last, log s",
    "longest_wait": "longest wait of these, log s",
    "user_wait": "median wait of its user's running jobs, log s",
    "user_last_wait": "wait of its user's job that started last, log s",
    "larger_last_wait": "wait of the last started job with as many GPUs or more, log s",
    "since_start": "since the last start, log s",
    "since_user_start": "since its user's last start, log s",
    "oldest": "longest wait of a waiting job so far, log s",
    "oldest_ahead": "longest wait of a job ahead of it so far, log s",
    "hour": "of the day",
    "weekday": "0 is Monday",
}
NAMES = tuple(FEATURES)
RECENT = 20  # started jobs
HALF = np.array([0.5])
COLUMNS = ("user", "gpus", "limit", "ran", "submit", "start", "usual", "count")  # count: tasks that an array stands for


def log_seconds(ms: float) -> float:
    """Log of 1 + the seconds."""
    return float(np.log1p(max(ms, 0.0) / 1000))


class QueueState:
    """The queue at one instant; ``order`` has the waiting jobs, the next first."""

    def __init__(self, snapshot: Snapshot, run_times: RunTimes, order: Sequence[LiveJob]) -> None:
        self.now = snapshot.now
        running = [job for job in snapshot.jobs if job.runs]
        known = run_times.beside(running)
        self._place = {job.id: place for place, job in enumerate(order)}
        self._known = known
        free = [max(node.gpus - len(node.used), 0) for node in snapshot.nodes if node.up]
        self._free, self._most = float(sum(free)), float(max(free, default=0))
        self._total = float(sum(node.gpus for node in snapshot.nodes if node.up))
        self._users = {user: code for code, user in enumerate(dict.fromkeys(job.user for job in (*running, *order)))}
        self._running, self._waiting = self._columns(running), self._columns(order)
        self._left = np.maximum(self._running["usual"] - self._running["ran"], 0)
        self._limits_left = np.maximum(self._running["limit"] - self._running["ran"], 0)

    def _columns(self, jobs: Sequence[LiveJob]) -> dict[str, F64]:
        rows = [
            (self._users[job.user], job.gpus, job.limit, job.ran, job.submit, job.start, self._usual(job), job.count)
            for job in jobs
        ]
        columns = np.array(rows, np.float64).reshape(len(jobs), len(COLUMNS)).T
        return dict(zip(COLUMNS, columns, strict=True))

    def _usual(self, job: LiveJob) -> float:
        return float(self._known.draw(job, HALF)[0])

    def row(self, job: LiveJob) -> list[float]:
        """The features of a job, in the order of ``NAMES``."""
        ahead = np.arange(len(self._place)) < self._place.get(job.id, len(self._place))
        user = self._users.get(job.user, -1)
        return [*self._request(job), *self._before(job, ahead, user), *self._waits(job, ahead, user), *self._clock()]

    def _request(self, job: LiveJob) -> list[float]:
        own = [log_seconds(self.now - job.submit), float(np.log2(max(job.gpus, 1))), log_seconds(job.limit)]
        return [*own, log_seconds(self._usual(job)), self._free, self._most, self._total - self._free]

    def _before(self, job: LiveJob, ahead: NDArray[np.bool_], user: int) -> list[float]:
        """What must be done before the job can start."""
        waiting, running = self._waiting, self._running
        count, gpus = waiting["count"], waiting["gpus"] * waiting["count"]
        mine, own = ahead & (waiting["user"] == user), running["user"] == user
        ahead_gpus, work = float(gpus[ahead].sum()), float((gpus * waiting["usual"])[ahead].sum())
        short = ahead_gpus + job.gpus - self._free
        in_use = float((running["gpus"] * self._left).sum())
        left, user_gpus = self._left[own], running["gpus"][own]
        return [
            float(count[ahead].sum()), ahead_gpus, log_seconds(work), _log((gpus * waiting["limit"])[ahead].sum()),
            float(count.sum()), float(count[mine].sum()), float(gpus[mine].sum()),
            float(own.sum()), float(user_gpus.sum()), short,
            freed(self._left, running["gpus"], short), freed(self._limits_left, running["gpus"], short),
            log_seconds((in_use + work) / max(self._total, 1)),
            freed(left, user_gpus, float(gpus[mine].sum()) + job.gpus),
            _log(left.min()) if own.any() else np.nan,
        ]  # fmt: skip

    def _waits(self, job: LiveJob, ahead: NDArray[np.bool_], user: int) -> list[float]:
        """How long jobs waited that run now, and have waited that wait."""
        running = self._running
        waits, since = running["start"] - running["submit"], self.now - running["start"]
        last = np.argsort(since, kind="stable")
        mine, larger = last[running["user"][last] == user], last[running["gpus"][last] >= job.gpus]
        ages = self.now - self._waiting["submit"]
        return [
            _log(np.median(waits[last[:RECENT]])) if len(last) else np.nan,
            _log(waits[last[:RECENT]].max()) if len(last) else np.nan,
            _log(np.median(waits[mine])) if len(mine) else np.nan,
            _log(waits[mine[0]]) if len(mine) else np.nan,
            _log(waits[larger[0]]) if len(larger) else np.nan,
            _log(since[last[0]]) if len(last) else np.nan,
            _log(since[mine[0]]) if len(mine) else np.nan,
            _log(ages.max()) if len(ages) else np.nan,
            _log(ages[ahead].max()) if ahead.any() else np.nan,
        ]

    def _clock(self) -> list[float]:
        days = self.now // 86_400_000
        return [(self.now - days * 86_400_000) / 3_600_000, float((days + 3) % 7)]  # 1970 began on a Thursday


def _log(ms: np.floating[Any]) -> float:
    return log_seconds(float(ms))


def freed(left: F64, gpus: F64, wanted: float) -> float:
    """When running jobs will have freed a number of GPUs, log s; NaN: they don't hold that many."""
    if wanted <= 0:
        return 0.0
    order = np.argsort(left)
    place = int(np.searchsorted(np.cumsum(gpus[order]), wanted))
    return log_seconds(float(left[order[place]])) if place < len(order) else np.nan

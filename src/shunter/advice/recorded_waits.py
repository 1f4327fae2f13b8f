"""What the record shows about waiting: how many GPUs were in use while jobs waited, and whether enough were free.

Nothing here is simulated: starts and ends are those of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.cluster import Cluster
from shunter.model import GPU, Trace
from shunter.world import F64, I64

AT_ONCE_MS = 60_000  # a shorter wait is none: schedulers look at their queue every half minute or so
DAY_MS = 86_400_000
PERCENTILES = (10, 50, 90)
KNOWN_TO = 0.95  # of an inferred capacity, of which more may be off
PASSED_MS = 60_000  # a job that came this much later passed the other one


@dataclass(frozen=True, eq=False)
class Capacity:
    """The GPUs of a virtual cluster, or of all nodes, on each day."""

    vc: str  # "" where there are none
    stated: int  # what the cluster file says
    since: I64  # ms, the beginning of each day
    gpus: I64

    def at(self, times: I64) -> I64:
        """The GPUs at these instants (ms)."""
        found: I64 = self.gpus[np.clip(np.searchsorted(self.since, times, side="right") - 1, 0, len(self.gpus) - 1)]
        return found


@dataclass(frozen=True, eq=False)
class Use:
    """GPUs in use (thousandths) from each instant (ms) to the next."""

    time: I64
    busy: I64

    @property
    def spans(self) -> I64:
        """How long each stretch is (ms)."""
        found: I64 = np.diff(self.time, append=self.time[-1])
        return found

    def at(self, times: I64) -> I64:
        """The GPUs in use (thousandths) at these instants."""
        found: I64 = np.where(times < self.time[0], 0, self.busy[np.searchsorted(self.time, times, side="right") - 1])
        return found

    def cut(self, at: I64) -> Use:
        """The same with a stretch that begins at each of these instants, too."""
        times = np.union1d(self.time, at[(at > self.time[0]) & (at < self.time[-1])])
        return Use(times, self.busy[np.searchsorted(self.time, times, side="right") - 1])

    def integral(self, holds: F64, until: I64) -> F64:
        """The sum of ``holds``, a number for each stretch, over time up to each of these instants."""
        stretches = self.spans
        before = np.concatenate(([0.0], np.cumsum(stretches * holds)))
        at = np.clip(np.searchsorted(self.time, until, side="right") - 1, 0, len(self.time) - 1)
        into = np.clip(until - self.time[at], 0, stretches[at])
        found: F64 = before[at] + into * holds[at]
        return found


def use_of(trace: Trace) -> Use:
    """The GPUs that jobs with a recorded wait held over time."""
    known = trace.recorded_wait >= 0
    start = (trace.submit + trace.recorded_wait)[known]
    times = np.concatenate((trace.submit[:1], start, start + trace.duration[known]))
    change = np.concatenate(([0], trace.gpus[known], -trace.gpus[known]))
    instants, place = np.unique(times, return_inverse=True)
    steps = np.bincount(place, change, minlength=len(instants))
    return Use(instants, np.cumsum(steps).astype(np.int64))


def at_least(use: Use, time: int) -> int:
    """The GPUs (thousandths) that were in use for this long (ms), all stretches together; 0 if there is less."""
    order = np.argsort(-use.busy, kind="stable")
    enough = int(np.searchsorted(np.cumsum(use.spans[order]), time))
    return int(use.busy[order[enough]]) if enough < len(order) else 0


def waiting_with_room(trace: Trace, cluster: Cluster, capacity: Sequence[Capacity] = ()) -> dict[str, Any]:
    """How much of all recorded waiting went by while the record had enough GPUs free for the job that waited.

    GPUs are counted in the job's virtual cluster, which has what the cluster says or, where it is given, the capacity
    of each day; as that is known only roughly, a twentieth must be free besides.  Whether GPUs were of the job's type,
    or on one node, the record does not show.
    """
    by_day = {one.vc: one for one in capacity}
    waited = with_room = held = 0.0
    in_use: list[tuple[F64, F64]] = []  # GPUs in use and the time that jobs waited meanwhile, per pool
    over = span = 0.0
    for name, pool, stated in pools(trace, cluster):
        use = use_of(pool)
        most, size = stated, np.full(len(use.time), float(stated))
        if name in by_day:
            use = use.cut(by_day[name].since)
            most, size = int(by_day[name].gpus.max()), KNOWN_TO * by_day[name].at(use.time)
        rows = pool.select(pool.recorded_wait > 0)
        begin, end = rows.submit, rows.submit + rows.recorded_wait
        for gpus in np.unique(rows.gpus):
            mine = rows.gpus == gpus
            free = (use.busy + gpus <= size * GPU).astype(np.float64)
            with_room += float((use.integral(free, end[mine]) - use.integral(free, begin[mine])).sum())
        waited += float(rows.recorded_wait.sum())
        stretches = use.spans
        in_use.append((use.busy / GPU / most, stretches.astype(np.float64) * waiting_during(use, begin, end)))
        over += float(stretches[use.busy > most * GPU].sum())
        held += float((stretches * use.busy).sum()) / GPU
        span += float(stretches.sum()) * most
    shares, weights = (np.concatenate(parts) for parts in zip(*in_use, strict=True))
    names = [f"p{p}" for p in PERCENTILES]
    return {
        "waited_job_hours": waited / 3.6e6,
        "share_with_room": with_room / waited if waited else 0.0,
        "in_use_while_waiting": dict(zip(names, weighted(shares, weights, PERCENTILES), strict=True)),
        "in_use": held / span if span else 0.0,
        "over_capacity": min(1.0, over / max(1.0, float(trace.submit[-1] - trace.submit[0]))),
    }


def passed(trace: Trace, same_user: bool = False) -> float:
    """The share of jobs that began before one that asked for the same and had come more than a minute earlier.

    The same are GPUs, their type, the virtual cluster and the time limit, so that this is not what backfilling does;
    jobs without a limit don't count.  With ``same_user``, only where both are of one user.
    """
    trace = trace.select((trace.recorded_wait >= 0) & (trace.limit > 0))
    if len(trace) < 2:
        return 0.0
    asked = np.column_stack((trace.gpus, trace.vc, trace.gpu_type, trace.limit, trace.user * same_user))
    kind = np.unique(asked, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((trace.submit + trace.recorded_wait, kind))
    kind, submit = kind[order], trace.submit[order] - trace.submit.min()
    far = int(submit.max()) + 1  # each kind lies above those before it, so that the minimum begins again with it
    earliest = (
        np.minimum.accumulate((submit + far * kind)[::-1])[::-1] - far * kind
    )  # of this job and those begun later
    same = kind[1:] == kind[:-1]
    found = same & (earliest[1:] + far * (kind[1:] - kind[:-1]) < submit[:-1] - PASSED_MS)
    return float(found.sum() / len(trace))


def pools(trace: Trace, cluster: Cluster) -> list[tuple[str, Trace, int]]:
    """The virtual clusters with their jobs and GPUs; all jobs and GPUs, under no name, where there are none."""
    trace = trace.select(trace.recorded_wait >= 0)
    if not cluster.vcs:
        return [("", trace, cluster.gpus)] if len(trace) else []
    found = []
    for code, name in enumerate(cluster.vcs):
        mine = trace.vc == trace.vcs.index(name) if name in trace.vcs else np.zeros(len(trace), np.bool_)
        if mine.any():
            found.append((name, trace.select(mine), int(cluster.node_gpus[cluster.node_vc == code].sum())))
    return found


def waiting_during(use: Use, begin: I64, end: I64) -> I64:
    """How many jobs waited in each stretch."""
    begun, ended = (np.searchsorted(np.sort(times), use.time, side="right") for times in (begin, end))
    found: I64 = begun - ended
    return found


def weighted(values: F64, weights: F64, percentiles: Sequence[float]) -> list[float]:
    """Percentiles of values that count as much as their weights."""
    if not weights.sum():
        return [0.0] * len(percentiles)
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, np.array(percentiles) / 100 * total[-1])
    return [float(value) for value in values[order][np.minimum(at, len(values) - 1)]]

"""What the record itself says about waiting: how many GPUs were in use while jobs waited, and whether enough were free.

Nothing here is simulated: starts and ends are those of the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.cluster import Cluster
from shunter.model import GPU, Trace
from shunter.world import F64, I64

PERCENTILES = (10, 50, 90)
PASSED_MS = 60_000  # a job that came so much later passed the other one


@dataclass(frozen=True, eq=False)
class Use:
    """GPUs in use (thousandths) from each instant (ms) to the next."""

    time: I64
    busy: I64

    def integral(self, holds: F64, until: I64) -> F64:
        """The sum of ``holds``, a number for each stretch, over time up to each of these instants."""
        stretches = np.diff(self.time, append=self.time[-1])
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


def waiting_with_room(trace: Trace, cluster: Cluster) -> dict[str, Any]:
    """How much of all recorded waiting went by while the record had enough GPUs free for the job that waited.

    GPUs are counted in the job's virtual cluster; whether they were of its type, or on one node, the record does not
    tell.
    """
    waited = with_room = held = 0.0
    in_use: list[tuple[F64, F64]] = []  # GPUs in use and the time that jobs waited meanwhile, per pool
    over = span = 0.0
    for pool, size in _pools(trace, cluster):
        use = use_of(pool)
        rows = pool.select(pool.recorded_wait > 0)
        begin, end = rows.submit, rows.submit + rows.recorded_wait
        for gpus in np.unique(rows.gpus):
            mine = rows.gpus == gpus
            free = (use.busy + gpus <= size * GPU).astype(np.float64)
            with_room += float((use.integral(free, end[mine]) - use.integral(free, begin[mine])).sum())
        waited += float(rows.recorded_wait.sum())
        in_use.append((use.busy / GPU / size, _waiting(use, begin, end)))
        stretches: I64 = np.diff(use.time, append=use.time[-1])
        over += float(stretches[use.busy > size * GPU].sum())
        held += float((stretches * use.busy).sum()) / GPU
        span += float(stretches.sum()) * size
    shares, weights = (np.concatenate(parts) for parts in zip(*in_use, strict=True))
    return {
        "waited_job_hours": waited / 3.6e6,
        "share_with_room": with_room / waited if waited else 0.0,
        "in_use_while_waiting": dict(zip((f"p{p}" for p in PERCENTILES), _weighted(shares, weights), strict=True)),
        "in_use": held / span if span else 0.0,
        "over_capacity": over / max(1.0, float(trace.submit[-1] - trace.submit[0])),
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
    far = int(submit.max()) + 1  # each kind lies above those before it, so that the minimum begins anew with it
    earliest = (
        np.minimum.accumulate((submit + far * kind)[::-1])[::-1] - far * kind
    )  # of this job and those begun later
    same = kind[1:] == kind[:-1]
    found = same & (earliest[1:] + far * (kind[1:] - kind[:-1]) < submit[:-1] - PASSED_MS)
    return float(found.sum() / len(trace))


def _pools(trace: Trace, cluster: Cluster) -> list[tuple[Trace, int]]:
    """The jobs of each virtual cluster, and its GPUs; all of them where there is none."""
    trace = trace.select(trace.recorded_wait >= 0)
    if not cluster.vcs:
        return [(trace, cluster.gpus)]
    found = []
    for code, name in enumerate(cluster.vcs):
        mine = trace.vc == trace.vcs.index(name) if name in trace.vcs else np.zeros(len(trace), np.bool_)
        if mine.any():
            found.append((trace.select(mine), int(cluster.node_gpus[cluster.node_vc == code].sum())))
    return found


def _waiting(use: Use, begin: I64, end: I64) -> F64:
    """The time that jobs waited in each stretch, all of them together."""
    begun, ended = (np.searchsorted(np.sort(times), use.time, side="right") for times in (begin, end))
    found: F64 = (begun - ended).astype(np.float64) * np.diff(use.time, append=use.time[-1])
    return found


def _weighted(values: F64, weights: F64) -> list[float]:
    """Percentiles of values that count as much as their weights."""
    if not weights.sum():
        return [0.0] * len(PERCENTILES)
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, np.array(PERCENTILES) / 100 * total[-1])
    return [float(value) for value in values[order][np.minimum(at, len(values) - 1)]]

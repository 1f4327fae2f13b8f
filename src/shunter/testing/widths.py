"""Elastic jobs played out slowly: from the stays of an event log to the work done in them, and what must hold.

The log says where every job was and when; this recomputes from the trace, the costs and a given speed of each stay when
each job's work is done, and that no GPU has two jobs.  It shares nothing with the engine but the log's form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shunter import world as w
from shunter.cluster import Cluster
from shunter.errors import InvariantError
from shunter.model import GPU, Trace
from shunter.world import I64


@dataclass(frozen=True)
class ElasticStay:
    """A job on some GPUs, from ``begin`` on."""

    begin: int
    gpus: int
    machines: int
    pays: int  # ms at the beginning without progress


def replayed(events: I64, trace: Trace, cluster: Cluster, rate: Callable[[int, ElasticStay], float]) -> list[int]:
    """When each job's work is done, by its stays; raises where GPUs are oversubscribed or a width is out of range."""
    costs = cluster.overheads
    restart, stop = (costs.of(steps, trace.gpus // GPU) for steps in (costs.restart, costs.checkpoint))
    work, ends = [0.0] * len(trace), [-1] * len(trace)
    stays: dict[int, ElasticStay] = {}
    used: dict[int, dict[int, int]] = {}
    started: set[int] = set()
    moved: set[int] = set()
    for time, kind, job, node, amount in events.tolist():
        if kind in (w.MOVE, w.FINISH, w.PREEMPT) and job in stays:
            stay = stays.pop(job)
            done = max(time - stay.begin - stay.pays, 0) * rate(job, stay)
            if kind == w.FINISH:
                left = trace.duration[job] - work[job]
                ends[job] = stay.begin + stay.pays + max(math.ceil(left / rate(job, stay) - 1e-6), 0)
            work[job] += done
            del used[job]
            moved |= {job} if kind == w.MOVE else set()
        if kind == w.START:
            pays = int(restart[job] + (stop[job] if job in moved else 0)) if job in started and job not in stays else 0
            stay = stays.get(job, ElasticStay(time, 0, 0, pays))
            stays[job] = ElasticStay(time, stay.gpus + amount // GPU, stay.machines + 1, stay.pays)
            used.setdefault(job, {})[node] = amount // GPU
            started.add(job)
            moved.discard(job)
            _check_room(used, cluster)
    _check_ranges(events, trace)
    return ends


def _check_room(used: dict[int, dict[int, int]], cluster: Cluster) -> None:
    for node, there in enumerate(cluster.node_gpus.tolist()):
        taken = sum(places.get(node, 0) for places in used.values())
        if taken > there:
            raise InvariantError(f"node {node} has {there} GPUs, and jobs on {taken}")


def _check_ranges(events: I64, trace: Trace) -> None:
    least, most = trace.widths
    for time, kind, job, _, width in events.tolist():
        if kind == w.MOVE and not least[job] <= width <= most[job]:
            raise InvariantError(f"job {job} was resized to {width} GPUs at {time} ms, outside of its range")

"""Elastic jobs played out slowly: from the stays of an event log to the work done in them, and what must hold.

The log says where every job was and when; this recomputes from the trace, the costs and a given speed of each stay when
each job's work is done, and that no GPU has two jobs.  It shares nothing with the engine but the log's form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

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
    cpu: int = 0  # milli-cores of an instance ...
    mem: int = 0  # ... and MiB
    servers: int = 0  # instances that are parameter servers, where that is not as usual; else 0


def replayed(events: I64, trace: Trace, cluster: Cluster, rate: Callable[[int, ElasticStay], float]) -> list[int]:
    """When each job's work is done, by its stays; raises where nodes are oversubscribed or a width is out of range."""
    costs = cluster.overheads
    restart, stop = (costs.of(steps, trace.gpus // GPU) for steps in (costs.restart, costs.checkpoint))
    work, ends = [0.0] * len(trace), [-1] * len(trace)
    asked = list(zip(*(column.tolist() for column in trace.each), strict=True))
    stays: dict[int, ElasticStay] = {}
    used: dict[int, dict[int, int]] = {}
    given: dict[int, tuple[int, int]] = {}  # CPU and memory of the instances that the next START rows are of
    roles: dict[int, int] = {}
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
        if kind == w.EQUIP:
            given[job] = node, amount
            _check_amounts(trace, job, given[job], asked[job])
        elif kind == w.ROLES:
            roles[job] = node
        if kind == w.START:
            pays = int(restart[job] + (stop[job] if job in moved else 0)) if job in started and job not in stays else 0
            cpu, mem = given.pop(job, asked[job])
            stay = stays.get(job, ElasticStay(time, 0, 0, pays, cpu, mem, roles.pop(job, 0)))
            stays[job] = replace(stay, begin=time, gpus=stay.gpus + amount // GPU, machines=stay.machines + 1)
            used.setdefault(job, {})[node] = amount // GPU
            started.add(job)
            moved.discard(job)
            _check_room(used, stays, cluster)
    _check_ranges(events, trace)
    return ends


def _check_room(used: dict[int, dict[int, int]], stays: dict[int, ElasticStay], cluster: Cluster) -> None:
    rooms = zip(cluster.node_gpus.tolist(), cluster.node_cpu.tolist(), cluster.node_mem.tolist(), strict=True)
    for node, (gpus, cpu, mem) in enumerate(rooms):
        there = [(places.get(node, 0), stays[job]) for job, places in used.items()]
        for what, room, taken in (
            ("GPUs", gpus, sum(count for count, _ in there)),
            ("milli-cores", cpu or math.inf, sum(count * stay.cpu for count, stay in there)),
            ("MiB", mem or math.inf, sum(count * stay.mem for count, stay in there)),
        ):
            if taken > room:
                raise InvariantError(f"node {node} has {room} {what}, and jobs on {taken}")


def _check_amounts(trace: Trace, job: int, got: tuple[int, int], asked: tuple[int, int]) -> None:
    ranges = ((trace.min_cpus, trace.max_cpus), (trace.min_mem_gib, trace.max_mem_gib))
    for amount, usual, (least, most) in zip(got, asked, ranges, strict=True):
        if amount != usual and not (least[job] or usual) <= amount <= (most[job] or usual):
            raise InvariantError(f"job {job} was given {amount} for an instance, outside of its range")


def _check_ranges(events: I64, trace: Trace) -> None:
    least, most = trace.widths
    for time, kind, job, _, width in events.tolist():
        if kind == w.MOVE and not least[job] <= width <= most[job]:
            raise InvariantError(f"job {job} was resized to {width} GPUs at {time} ms, outside of its range")

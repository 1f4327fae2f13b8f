"""What Lucid remembers, and what becomes of jobs that come and go."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.cluster import Cluster
from shunter.model import Reason, View
from shunter.policies._estimates import took
from shunter.policies._lucid_outlook import Outlook
from shunter.policies._lucid_packing import Packing
from shunter.policies._lucid_places import Places
from shunter.policies._lucid_profiler import Partition
from shunter.predictors import learned as model
from shunter.predictors.learned import Learned
from shunter.predictors.lessons import Lessons
from shunter.world import F64, I64

Mask: TypeAlias = NDArray[np.bool_]

NEW, TO_PROFILE, PROFILING, QUEUED, RUNS, OVER = range(6)  # stages of a job


@dataclass(eq=False)
class LucidMemory:
    """All that Lucid remembers."""

    cluster: Cluster
    lessons: Lessons | None = None
    learned: Learned | None = None
    due: int = w.NEVER  # when its model is fitted anew
    stage: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    priority: F64 = field(default_factory=lambda: np.zeros(0))
    expected: I64 = field(default_factory=lambda: np.zeros(0, np.int64))  # first estimate of the run time (ms), 0: none
    profiled: Mask = field(default_factory=lambda: np.zeros(0, bool))
    ended_there: Mask = field(default_factory=lambda: np.zeros(0, bool))  # in the profiler
    partition: Partition | None = None
    packing: Packing | None = None
    outlook: Outlook = field(default_factory=lambda: Outlook(None))
    queues: dict[int, list[tuple[float, int]]] = field(default_factory=dict)  # by virtual cluster, in order
    nodes: dict[int, I64] = field(default_factory=dict)  # of each virtual cluster, but those set apart
    dirty: set[int] = field(default_factory=set)  # virtual clusters in which something changed
    fresh: list[int] = field(default_factory=list)  # jobs that were just put on GPUs of their own
    up: int = -1  # nodes that were up
    told: list[Reason] = field(default_factory=list)  # why jobs wait, not yet said
    bin: int = -1  # of the present time, of the last look at what is to come
    timer: int = -1
    places: Places = field(default_factory=lambda: Places(0))

    @property
    def profiler(self) -> Partition:
        """The profiler, once the first view is there."""
        assert self.partition is not None
        return self.partition

    @property
    def binder(self) -> Packing:
        """What pairs jobs, once the first view is there."""
        assert self.packing is not None
        return self.packing

    def forget_nodes(self) -> None:
        """Nodes went from one virtual cluster to another, or were set apart."""
        self.nodes.clear()
        self.dirty.update(self.queues)

    def own_nodes(self, view: View, vc: int) -> I64:
        """The nodes on which the main queue may put jobs of a virtual cluster."""
        if vc not in self.nodes:
            mine = np.flatnonzero((view.nodes.vc == vc) | (view.nodes.vc == w.OPEN) | (vc == -1))
            self.nodes[vc] = mine[[not self.profiler.apart(int(node)) for node in mine]]
        return self.nodes[vc]


Prioritise: TypeAlias = Callable[[View, LucidMemory, int], float]  # the place of a job in the order


def find_way(view: View, memory: LucidMemory, prioritise: Prioritise) -> None:
    """Take over a cluster in which jobs wait and run already: those that wait are not profiled any more."""
    for job in view.running.tolist():
        memory.stage[job] = RUNS
        memory.priority[job] = prioritise(view, memory, job)
        others = {other for gpu in view.placement(job) for other in view.tenants(gpu)} - {job}
        if others:
            memory.binder.partner[job] = min(others)
        else:
            memory.fresh.append(job)
    new = set(view.arrived.tolist())
    for job in view.pending.tolist():
        if job not in new:
            _enqueue(view, memory, job, prioritise)


def take_in(view: View, memory: LucidMemory, prioritise: Prioritise) -> None:
    """Learn from what ended; put what arrived into the profiler's queue or the main one; note who lives alone."""
    for job in memory.fresh:
        memory.binder.lives_alone(view, job, float(memory.priority[job]))
    memory.fresh = []
    up = int((view.nodes.state == w.UP).sum())
    if up != memory.up:
        memory.up = up
        memory.dirty.update(memory.queues)
    for job in view.ended.tolist():
        if memory.stage[job] != OVER:
            memory.ended_there[job] = memory.stage[job] == PROFILING
            _left(view, memory, job)
            memory.stage[job] = OVER
            if memory.learned is not None:
                model.learn(view.world.jobs, memory.learned, job, took(view.world, job), view.now)
    for job in memory.profiler.turned_away(view):
        _enqueue(view, memory, job, prioritise)
    for job in view.arrived.tolist():
        if view.jobs.state[job] != w.PENDING or memory.stage[job] in (TO_PROFILE, QUEUED):
            continue
        first = memory.stage[job] == NEW
        if not first:
            _left(view, memory, job)
        else:
            memory.outlook.note(view.now, int(view.jobs.gpus[job]))
            if memory.learned is not None:  # who ends in the profiler is learned from, too
                model.estimate(view.world.jobs, memory.learned, job)
        if first and memory.profiler.takes(view, job):
            memory.stage[job] = TO_PROFILE
            memory.told.append(Reason(job, "profile", (len(memory.profiler.queue),)))
            memory.profiler.join(view, job)
        else:
            _enqueue(view, memory, job, prioritise)


def _left(view: View, memory: LucidMemory, job: int) -> None:
    """A job gave up its GPUs."""
    memory.profiler.running.pop(job, None)
    memory.binder.left(view, job, lambda other: float(memory.priority[other]))
    memory.dirty.add(int(view.jobs.vc[job]))


def _enqueue(view: View, memory: LucidMemory, job: int, prioritise: Prioritise) -> None:
    """A job enters the main queue."""
    vc = int(view.jobs.vc[job])
    if not memory.places.could_hold(view, job, memory.own_nodes(view, vc)):
        memory.profiler.yield_to(vc)
    memory.stage[job] = QUEUED
    memory.priority[job] = prioritise(view, memory, job)
    queue, entry = memory.queues.setdefault(vc, []), (float(memory.priority[job]), job)
    memory.told.append(Reason(job, "order", (bisect.bisect_left(queue, entry),)))
    bisect.insort(queue, entry)
    memory.dirty.add(vc)

"""Which nodes wake for the jobs that wait, and which may sleep: worked out on paper, from what a view shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.cluster import Cluster
from shunter.energy.forecast import NodeForecaster
from shunter.model import View
from shunter.world import I64

_READY, _COMING, _ASLEEP = range(3)  # how soon a node can be had
_FAR = 9  # never: it is down
_LOOK = 200  # waiting jobs that are put on paper, the first in order of submission
Mask: TypeAlias = NDArray[np.bool_]


@dataclass
class CesMemory:
    """What it remembers: demand so far, and what it set going."""

    cluster: Cluster
    inner: Any  # the memory of the policy that schedules
    time: list[int] = field(default_factory=list)  # ms; when each step that is over began
    used: list[int] = field(default_factory=list)  # the most nodes in use in it
    at: int = -1  # the step that is on
    peak: int = 0  # the most nodes in use in it so far
    idle: int = 0  # steps up to it without a node in use
    hold: int = 0  # the step up to which nothing sleeps
    tick: int = -1  # ms; the timer that is set
    forecaster: NodeForecaster | None = None
    fitted: int = 0  # steps that it has learned from
    due: dict[int, int] = field(default_factory=dict)  # node -> when it will be awake
    announced: dict[int, int] = field(default_factory=dict)  # job -> when the nodes that it waits for will be awake


class Wanted(NamedTuple):
    """What waiting jobs need of nodes that are not awake."""

    wake: list[int]  # sleeping nodes, in the order in which jobs want them
    waits_for: dict[int, tuple[int, ...]]  # job -> nodes that are, or will be, waking


def usable_by(view: View, jobs: I64) -> Mask:
    """Which nodes at least one of these jobs may run on, by virtual cluster and GPU type."""
    mine = np.zeros(len(view.nodes.state), np.bool_)
    for _, nodes in _kinds(view, jobs):
        mine |= nodes
    return mine


def concerned(view: View, jobs: I64, nodes: Mask) -> I64:
    """Those of the jobs that may run on at least one of the nodes."""
    found = np.zeros(len(jobs), np.bool_)
    for members, mine in _kinds(view, jobs):
        found[members] = (mine & nodes).any()
    return jobs[found]


def _kinds(view: View, jobs: I64) -> list[tuple[I64, Mask]]:
    """The jobs by what they may use: their places in ``jobs``, and the nodes."""
    vc, kind = view.jobs.vc[jobs], view.jobs.gpu_type[jobs]
    code = vc * (kind.max(initial=0) + 2) + kind
    groups = [np.flatnonzero(code == value) for value in np.unique(code)]
    return [(group, _may_use(view, int(vc[group[0]]), int(kind[group[0]]))) for group in groups]


def _may_use(view: View, vc: int, kind: int) -> Mask:
    mine: Mask = ((view.nodes.vc == vc) | (vc < 0)) & ((view.nodes.gpu_type == kind) | (kind < 0))
    return mine


class AwakeNodes:
    """The nodes as they would be with every sleeper awake; jobs are put on it one after the other."""

    def __init__(self, view: View) -> None:
        state = view.nodes.state
        self.view = view
        self.nearness = np.select(
            [state == w.UP, state == w.WAKING, state == w.ASLEEP], [_READY, _COMING, _ASLEEP], _FAR
        )
        free = np.where(state == w.UP, view.nodes.free, view.nodes.total)
        self.free = np.where(self.nearness == _FAR, 0, free)
        self.cpu, self.mem = view.nodes.cpu_free.copy(), view.nodes.mem_free.copy()

    def place(self, job: int) -> tuple[int, ...]:
        """Put a job where it can be soonest, on as few sleeping nodes as it needs; () if it must wait for others."""
        jobs = self.view.jobs
        wanted, each = int(jobs.gpus[job]), (int(jobs.cpu[job]), int(jobs.mem[job]))
        room = np.where(_may_use(self.view, int(jobs.vc[job]), int(jobs.gpu_type[job])), self.free, 0)
        for left, share in zip((self.cpu, self.mem), each, strict=True):
            if share > 0:
                room = np.minimum(room, left // share)
        nodes = self._one(room, wanted) if room.max(initial=0) >= wanted else self._several(room, wanted)
        for node in nodes:
            taken = min(int(room[node]), wanted)
            wanted -= taken
            self.free[node] -= taken
            self.cpu[node] -= taken * each[0]
            self.mem[node] -= taken * each[1]
        return tuple(nodes)

    def _one(self, room: I64, wanted: int) -> list[int]:
        """The node that is there soonest, and of those the one that it fills best."""
        fitting = np.flatnonzero(room >= wanted)
        order = np.lexsort((fitting, room[fitting], self.nearness[fitting]))
        return [int(fitting[order[0]])]

    def _several(self, room: I64, wanted: int) -> list[int]:
        """Empty nodes, as most placements want; else what is left on others too."""
        empty = np.where(self.free == self.view.nodes.total, room, 0)
        for offered in (empty, room):
            if offered.sum() >= wanted:
                given = np.flatnonzero(offered)
                given = given[np.lexsort((given, self.nearness[given]))]
                return [int(node) for node in given[: int(np.searchsorted(offered[given].cumsum(), wanted)) + 1]]
        return []


def wanted(view: View, pending: I64, patience: int) -> Wanted:
    """What the waiting jobs, in order of submission, need of sleeping nodes.

    A job that has waited for ``patience`` ms gets every node that it may use: from then on no sleeping node delays it.
    """
    asleep, paper = view.nodes.state == w.ASLEEP, AwakeNodes(view)
    waits_for: dict[int, tuple[int, ...]] = {}
    for job in pending[:_LOOK].tolist():
        nodes = [node for node in paper.place(job) if paper.nearness[node] != _READY]
        if nodes:
            waits_for[job] = tuple(nodes)
            paper.nearness[nodes] = _COMING
    waking = dict.fromkeys(node for nodes in waits_for.values() for node in nodes if asleep[node])
    late = pending[view.world.jobs[w.WAITING_SINCE, pending] + patience <= view.now]
    waking.update(dict.fromkeys(np.flatnonzero(usable_by(view, late) & asleep).tolist()))
    return Wanted([*waking], waits_for)


def beside(view: View, woken: Sequence[int], count: int) -> list[int]:
    """A number of further sleeping nodes, of the virtual clusters of those that are woken; the lowest first."""
    asleep = view.nodes.state == w.ASLEEP
    asleep[list(woken)] = False
    kin = np.isin(view.nodes.vc, view.nodes.vc[list(woken)])
    return [int(node) for node in np.flatnonzero(asleep & kin)[:count]]


def sleepers(view: View, idle: Mask, count: int) -> list[int]:
    """A number of idle nodes to put to sleep: from where most are idle, the highest first."""
    nodes = np.flatnonzero(idle)[::-1]
    if not len(nodes) or count <= 0:
        return []
    group = view.nodes.vc[nodes] * (view.nodes.gpu_type.max() + 1) + view.nodes.gpu_type[nodes]
    left = np.zeros(len(nodes), np.int64)  # idle ones of its group, itself included, once those before it sleep
    for kind in np.unique(group):
        members = np.flatnonzero(group == kind)
        left[members] = np.arange(len(members), 0, -1)
    return [int(node) for node in nodes[np.lexsort((-nodes, -left))[:count]]]

"""From widths to a plan: which GPUs each job gets whose width changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shunter import world as w
from shunter.model import Action, Preempt, Resize, Start, View
from shunter.testing.resizing.active import ActiveJobs
from shunter.world import I64

COMPACT, LIGHTEST = "compact", "lightest"  # on as few nodes as possible; or on the least used nodes first


@dataclass
class FreeRoom:
    """What is free on each node, while a plan is made."""

    view: View
    gpus: list[list[int]]  # by node, ascending
    cpu: list[int] = field(default_factory=list)
    mem: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, view: View) -> FreeRoom:
        """What is free now."""
        nodes = range(len(view.nodes.total))
        free = [view.free_gpus(node).tolist() for node in nodes]
        return cls(view, free, view.nodes.cpu_free.tolist(), view.nodes.mem_free.tolist())

    def shift(self, job: int, gpus: Sequence[int], sign: int) -> None:
        """A job leaves GPUs (+1) or takes them (-1)."""
        for gpu in gpus:
            node = int(self.view.gpus.node[gpu])
            if sign < 0:
                self.gpus[node].remove(gpu)
            else:
                self.gpus[node].append(gpu)
            self.cpu[node] += sign * int(self.view.jobs.cpu_now[job])
            self.mem[node] += sign * int(self.view.jobs.mem_now[job])

    def within(self, job: int, node: int) -> int:
        """How many GPUs of a node a job could have."""
        up = self.view.nodes.state[node] == w.UP
        if not self.gpus[node] or not up or not self.view.admits(node, job):
            return 0
        most = len(self.gpus[node])
        for free, each in (
            (self.cpu[node], self.view.jobs.cpu_now[job]),
            (self.mem[node], self.view.jobs.mem_now[job]),
        ):
            if each:
                most = min(most, max(free, 0) // int(each))
        return most

    def taken(self, rooms: dict[int, int], order: Sequence[int], width: int) -> list[int]:
        """So many GPUs of these nodes in this order; fewer if there are not so many."""
        found: list[int] = []
        for node in order:
            found += sorted(self.gpus[node])[: min(rooms[node], width - len(found))]
        return sorted(found)


def plan_for(view: View, active: ActiveJobs, wanted: I64, order: Sequence[int], style: str = COMPACT) -> list[Action]:
    """The actions that give jobs the widths ``wanted`` (0: none) as far as there is room, first in ``order`` first.

    A job that shrinks keeps some of its GPUs; one that grows keeps what it has if it finds nothing better.
    """
    room = FreeRoom.of(view)
    actions: list[Action] = []
    for at in np.flatnonzero(active.runs & (wanted < active.width)).tolist():
        job, held = int(active.rows[at]), list(view.placement(int(active.rows[at])))
        if active.stays[at]:
            continue
        if wanted[at] == 0:
            actions.append(Preempt(job))
            if view.jobs.stop_cost[job] == 0:
                room.shift(job, held, +1)
            continue
        kept = _kept(view, held, int(wanted[at]))
        room.shift(job, [gpu for gpu in held if gpu not in kept], +1)
        actions.append(Resize(job, kept))
    for at in order:
        job, width, now = int(active.rows[at]), int(wanted[at]), int(active.width[at])
        if width <= now or (active.runs[at] and active.stays[at]):
            continue
        held = list(view.placement(job)) if now else []
        room.shift(job, held, +1)
        gpus = _chosen(room, active, at, width, held, style)
        if len(gpus) < active.least[at] or len(gpus) <= now:
            room.shift(job, held, -1)
            continue
        room.shift(job, gpus, -1)
        actions.append(Resize(job, gpus) if now else Start(job, gpus))
    return actions


def _kept(view: View, held: list[int], width: int) -> list[int]:
    """The GPUs that a job keeps: those on nodes on which it has most."""
    nodes = view.gpus.node[held]
    count = {int(node): int((nodes == node).sum()) for node in nodes}
    ranked = sorted(held, key=lambda gpu: (-count[int(view.gpus.node[gpu])], int(view.gpus.node[gpu]), gpu))
    return sorted(ranked[:width])


def _chosen(room: FreeRoom, active: ActiveJobs, at: int, width: int, held: list[int], style: str) -> list[int]:
    """The best GPUs for a job: all on one node if that is as fast, or on the fewest nodes; at most ``width``."""
    job, view = int(active.rows[at]), room.view
    rooms = {node: within for node in range(len(room.gpus)) if (within := room.within(job, node))}
    if not rooms:
        return []
    own = {int(view.gpus.node[gpu]) for gpu in held}
    if style == LIGHTEST:
        used = {node: 1 - len(room.gpus[node]) / int(view.nodes.total[node]) for node in rooms}
        return room.taken(rooms, sorted(rooms, key=lambda node: (used[node], node)), width)
    fits = [node for node in rooms if rooms[node] >= width]
    if fits:
        return room.taken(rooms, [min(fits, key=lambda node: (node not in own, rooms[node], node))], width)
    largest = sorted(rooms, key=lambda node: (-rooms[node], node not in own, node))
    inside, across = rooms[largest[0]], min(width, sum(rooms.values()))
    if inside >= active.least[at] and active.speed[0, at, inside] >= active.speed[1, at, across]:
        return room.taken(rooms, largest[:1], inside)
    return room.taken(rooms, largest, across)


def total_gpus(view: View) -> int:
    """GPUs of nodes that are up."""
    return int(view.nodes.total[view.nodes.state == w.UP].sum())

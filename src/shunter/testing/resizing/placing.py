"""From widths to a plan: which GPUs each job gets whose width changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shunter import world as w
from shunter.model import Action, Preempt, Resize, Start, View
from shunter.testing.resizing.active import ActiveJobs
from shunter.world import I64

COMPACT, LIGHTEST = "compact", "lightest"  # on as few nodes as possible; or on the least used nodes first
CAREFUL = "careful"  # compact, without needless moves and slow GPUs across machines
WORTH = 0.5  # of one GPU's speed, that each GPU of another machine must add where a policy is careful


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

    def shift(self, job: int, gpus: Sequence[int], sign: int, cpu: int) -> None:
        """A job leaves GPUs (+1) or takes them (-1), with so much CPU on each."""
        for gpu in gpus:
            node = int(self.view.gpus.node[gpu])
            if sign < 0:
                self.gpus[node].remove(gpu)
            else:
                self.gpus[node].append(gpu)
            self.cpu[node] += sign * cpu
            self.mem[node] += sign * int(self.view.jobs.mem_now[job])

    def within(self, job: int, node: int, cpu: int) -> int:
        """How many GPUs of a node a job could have with so much CPU on each."""
        up = self.view.nodes.state[node] == w.UP
        if not self.gpus[node] or not up or not self.view.admits(node, job):
            return 0
        most = len(self.gpus[node])
        for free, each in ((self.cpu[node], cpu), (self.mem[node], int(self.view.jobs.mem_now[job]))):
            if each:
                most = min(most, max(free, 0) // each)
        return most

    def taken(self, rooms: dict[int, int], order: Sequence[int], width: int) -> list[int]:
        """So many GPUs of these nodes in this order; fewer if there are not so many."""
        found: list[int] = []
        for node in order:
            found += sorted(self.gpus[node])[: min(rooms[node], width - len(found))]
        return sorted(found)


@dataclass(frozen=True)
class Widths:
    """How many GPUs each job should have, 0: none; and whose turn it is first."""

    wanted: I64  # (jobs,)
    order: list[int]
    cpu: dict[int, int] = field(default_factory=dict)  # milli-cores of each instance, where that changes
    servers: dict[int, int] = field(default_factory=dict)  # parameter servers, where they are not as usual


def plan_for(view: View, active: ActiveJobs, widths: Widths, style: str, squeezes: bool) -> list[Action]:
    """The actions that give jobs these widths as far as there is room.

    A job that shrinks keeps some of its GPUs; one that grows keeps what it has if it finds nothing better. With
    ``squeezes``, a job that finds no room may begin with less CPU.
    """
    if style == CAREFUL:
        widths = _without_needless(view, active, widths)
    return _changes(view, active, widths, style, squeezes)[0]


def _without_needless(view: View, active: ActiveJobs, widths: Widths) -> Widths:
    """The same widths, but jobs keep their GPUs if nobody would take any of those that they should give up."""
    _, room = _changes(view, active, Widths(widths.wanted, widths.order), CAREFUL, squeezes=False)
    free, wanted = {gpu for node in room.gpus for gpu in node}, widths.wanted.copy()
    for at in np.flatnonzero(active.runs & (wanted < active.width)).tolist():
        left = len(free & set(view.placement(int(active.rows[at]))))
        if not active.stays[at] and left == active.width[at] - wanted[at]:
            wanted[at] = active.width[at]
    return replace(widths, wanted=wanted)


def _changes(
    view: View, active: ActiveJobs, widths: Widths, style: str, squeezes: bool
) -> tuple[list[Action], FreeRoom]:
    """The actions, and what is free after them."""
    wanted, cpu, room = widths.wanted, widths.cpu, FreeRoom.of(view)
    actions: list[Action] = []
    now = {at: int(view.jobs.cpu_now[job]) for at, job in enumerate(active.rows.tolist())}
    for at in np.flatnonzero(active.runs & (wanted < active.width)).tolist():
        job, held = int(active.rows[at]), list(view.placement(int(active.rows[at])))
        if active.stays[at]:
            continue
        if wanted[at] == 0:
            actions.append(Preempt(job))
            if view.jobs.stop_cost[job] == 0:
                room.shift(job, held, +1, now[at])
            continue
        kept = _kept(view, held, int(wanted[at]))
        room.shift(job, [gpu for gpu in held if gpu not in kept], +1, now[at])
        actions.append(Resize(job, kept))
    still = [at for at in sorted(cpu) if active.runs[at] and wanted[at] == active.width[at]]
    for at in [*(at for at in still if cpu[at] <= now[at]), *(at for at in still if cpu[at] > now[at])]:
        job, held = int(active.rows[at]), list(view.placement(int(active.rows[at])))
        room.shift(job, held, +1, now[at])
        nodes = view.gpus.node[held]
        fits = all(room.cpu[node] >= cpu[at] * int((nodes == node).sum()) for node in nodes.tolist())
        room.shift(job, held, -1, cpu[at] if fits else now[at])
        actions += [Resize(job, held, cpu=cpu[at])] if fits else []
    for at in widths.order:
        job, width = int(active.rows[at]), int(wanted[at])
        if width <= active.width[at] or (active.runs[at] and active.stays[at]):
            continue
        held, each = list(view.placement(job)) if active.width[at] else [], now[at]
        room.shift(job, held, +1, each)
        gpus = _chosen(room, active, at, width, held, style, each)
        for less in _squeezed(view, job) if squeezes and not held else []:
            if len(gpus) < active.least[at]:
                each, gpus = less, _chosen(room, active, at, width, held, style, less)
        if len(gpus) < active.least[at] or len(gpus) <= active.width[at]:
            room.shift(job, held, -1, each)
            continue
        room.shift(job, gpus, -1, each)
        serving = widths.servers.get(at) if len(gpus) == width else None
        other = each if each != now[at] else None
        actions.append(
            Resize(job, gpus, other, None, serving) if held else Start(job, gpus, cpu=other, servers=serving)
        )
    return actions, room


def _squeezed(view: View, job: int) -> list[int]:
    """Less and less CPU for each instance, in three steps, not below what the job and Qore-DL's authors allow."""
    if not view.jobs.max_cpu[job]:
        return []
    lowest, cpu, found = max(int(view.jobs.min_cpu[job]), int(0.515 * view.jobs.cpu[job])), int(view.jobs.cpu[job]), []
    for _ in range(3):
        cpu = max(int(0.85 * cpu), lowest)
        found.append(cpu)
    return found


def _kept(view: View, held: list[int], width: int) -> list[int]:
    """The GPUs that a job keeps: those on nodes on which it has most."""
    nodes = view.gpus.node[held]
    count = {int(node): int((nodes == node).sum()) for node in nodes}
    ranked = sorted(held, key=lambda gpu: (-count[int(view.gpus.node[gpu])], int(view.gpus.node[gpu]), gpu))
    return sorted(ranked[:width])


def _chosen(
    room: FreeRoom, active: ActiveJobs, at: int, width: int, held: list[int], style: str, cpu: int
) -> list[int]:
    """The best GPUs for a job: all on one node if that is as fast, or on the fewest nodes; at most ``width``."""
    job, view = int(active.rows[at]), room.view
    rooms = {node: within for node in range(len(room.gpus)) if (within := room.within(job, node, cpu))}
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
    gain = (active.speed[1, at, across] - active.speed[0, at, inside]) * active.unit[at]
    if inside >= active.least[at] and gain <= (WORTH * (across - inside) if style == CAREFUL else 0):
        return room.taken(rooms, largest[:1], inside)
    return room.taken(rooms, largest, across)


def total_gpus(view: View) -> int:
    """GPUs of nodes that are up."""
    return int(view.nodes.total[view.nodes.state == w.UP].sum())

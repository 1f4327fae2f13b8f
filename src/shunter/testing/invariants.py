"""Replays an event log with plain Python, knowing nothing of the engine, and says what no schedule may do.

GPUs are counted per node, in thousandths.  Every job is followed from its arrival to its end: what it was given, where,
and how much of its work was done and lost on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster
from shunter.errors import InvariantError
from shunter.instances import CPU_POWER, SERVED
from shunter.model import Trace
from shunter.texts import counted
from shunter.world import I64

KINDS = ("ARRIVE", "START", "FINISH", "FAIL", "PREEMPT", "STOP", "MOVE", "EQUIP", "ROLES")
NAMES = {getattr(w, name): name for name in KINDS}
SLACK = 1e-3  # ms of work, for sums of fractions


@dataclass
class _Job:
    """A job as the log shows it; work is in ms at speed 1."""

    state: str = "future"  # future, waiting, running, stopping, ended
    places: dict[int, int] = field(default_factory=dict)  # node -> thousandths of GPUs
    each: tuple[int, int] | None = None  # CPU and memory of an instance; None: as it asks
    servers: int = 0  # 0: as usual
    since: int = 0  # work is counted from here on
    stopped_at: int = 0
    work: float = 0.0
    saved: float = 0.0  # what a checkpoint holds
    base: float = 0.0  # work when the present attempt began
    failed: int = 0
    runs: int = 0
    ended_at: int = -1


@dataclass
class _Node:
    """A node as the log shows it."""

    gpus: int
    vc: int
    kind: int
    cpu: int  # 0: not limited
    mem: int
    up: bool = True
    drains: bool = False  # what runs there runs on
    used: int = 0  # thousandths of GPUs
    cpu_used: int = 0
    mem_used: int = 0


class _Replay:
    """The state between two rows of the log."""

    def __init__(self, trace: Trace, cluster: Cluster, tenants: int) -> None:
        self.trace, self.cluster, self.tenants = trace, cluster, tenants
        self.jobs = [_Job() for _ in range(len(trace))]
        columns = (cluster.node_gpus, cluster.node_vc, cluster.node_type, cluster.node_cpu, cluster.node_mem)
        self.nodes = [_Node(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        whole = [max(int(gpus) // 1000, 1) for gpus in trace.gpus]
        self.demand = [int(gpus) if gpus < 1000 else 1000 * whole[job] for job, gpus in enumerate(trace.gpus)]
        self.cpu = [math.ceil(int(cpu) / gpus) for cpu, gpus in zip(trace.cpus, whole, strict=True)]
        self.mem = [math.ceil(int(mem) / gpus) for mem, gpus in zip(trace.mem_gib, whole, strict=True)]
        costs, sizes = cluster.overheads, np.array(whole)
        self.restart = _own_or(trace.start_cost, costs.of(costs.restart, sizes))
        self.checkpoint = _own_or(trace.stop_cost, costs.of(costs.checkpoint, sizes))
        self.now = -(2**62)
        self.moving = -1  # the job whose START rows are being read
        self.wanted = 0  # thousandths that it still has to be given

    def read(self, time: int, kind: int, job: int, a: int, b: int) -> None:
        """Take in one row."""
        _must(time >= self.now, f"time goes back from {self.now} to {time} ms")
        if self.wanted > 0:
            together = kind in (w.START, w.EQUIP, w.ROLES) and job == self.moving and time == self.now
            _must(together, f"job {self.moving} was not given all its GPUs at once: {self.wanted / 1000:g} are missing")
        self.now = time
        if kind == w.ARRIVE:
            self.arrive(job)
        elif kind == w.START:
            self.start(job, a, b)
        elif kind == w.FINISH:
            self.finish(job)
        elif kind == w.FAIL:
            self.fail(job, a == 1)
        elif kind == w.PREEMPT:
            self.preempt(job, a, b)
        elif kind == w.STOP:
            self.stop(job)
        elif kind == w.MOVE:
            self.move(job, a, b)
        elif kind == w.EQUIP:
            self.equip(job, a, b)
        elif kind == w.ROLES:
            self.divide(job, a)
        elif kind == w.REASSIGN:
            self.nodes[a].vc = b
        else:
            self.change_node(kind, a, b == 1)

    # -- jobs

    def arrive(self, job: int) -> None:
        """A job comes into the queue: when it was submitted, or when the one before it ended if that was later."""
        me, parent, at = self.jobs[job], int(self.trace.after[job]), int(self.trace.submit[job])
        _must(me.state == "future", "arrived twice")
        if parent >= 0:
            _must(self.jobs[parent].ended_at >= 0, f"arrived before job {parent}, which it comes after, ended")
            at = max(at, self.jobs[parent].ended_at)
        _must(self.now == at, f"arrived at {self.now} ms instead of {at} ms")
        me.state = "waiting"

    def start(self, job: int, node: int, amount: int) -> None:
        """A job gets what it gets on one node; the rows of one start follow each other."""
        me = self.jobs[job]
        if self.wanted == 0:
            _must(me.state == "waiting", f"started while {me.state}")
            self.moving, self.wanted = job, self.demand[job]
            me.state, me.since = "running", self.now + (self.restart[job] if me.runs else 0)
            me.runs += 1
        _must(0 < amount <= self.wanted, f"was given {amount / 1000:g} GPUs where {self.wanted / 1000:g} were wanted")
        _must(node not in me.places, f"was given node {node} twice")
        self.wanted -= amount
        me.places[node] = amount
        self.put(job, node, amount)

    def equip(self, job: int, cpu: int, mem: int) -> None:
        """The START rows that follow give each instance so much, which the job must allow."""
        me, trace = self.jobs[job], self.trace
        _must(not me.places, "was given other CPU or memory where it stands")
        for got, asked, least, most in (
            (cpu, self.cpu[job], trace.min_cpus[job], trace.max_cpus[job]),
            (mem, self.mem[job], trace.min_mem_gib[job], trace.max_mem_gib[job]),
        ):
            ranged = least > 0 or most > 0
            inside = (least or asked) <= got <= (most or asked) if ranged else got == asked
            _must(bool(inside), f"was given {got} for an instance, outside of {least} .. {most}")
        me.each = cpu, mem

    def divide(self, job: int, servers: int) -> None:
        """The START rows that follow are of so many servers; the rest are workers."""
        _must(bool(servers > 0 and self.trace.servers[job]), f"was given {servers} parameter servers")
        self.jobs[job].servers = servers

    def put(self, job: int, node: int, amount: int) -> None:
        """Take a node's GPUs, CPU and memory for a job, which must be allowed there and fit."""
        there, trace, cluster = self.nodes[node], self.trace, self.cluster
        _must(there.up, f"started on node {node}, which is not up")
        if cluster.vcs and there.vc != w.OPEN:
            name = trace.vcs[trace.vc[job]]
            _must(cluster.vcs[there.vc] == name, f"is of VC '{name}' but got node {node} of '{cluster.vcs[there.vc]}'")
        if trace.gpu_type[job] >= 0:
            name, kind = trace.gpu_types[trace.gpu_type[job]], cluster.gpu_types[there.kind]
            _must(kind == name, f"wants GPUs of type '{name}' but got node {node} of '{kind}'")
        self.shift(job, node, +1)
        used, room = there.used, there.gpus * 1000 * self.tenants
        _must(used <= room, f"node {node} has {there.gpus} GPUs, {used / 1000:g} are taken")
        _must(there.cpu == 0 or there.cpu_used <= there.cpu, f"node {node} has too few CPU cores for it")
        _must(there.mem == 0 or there.mem_used <= there.mem, f"node {node} has too little memory for it")

    def shift(self, job: int, node: int, sign: int) -> None:
        """Book (+1) or cancel (-1) what a job holds on a node."""
        there, amount = self.nodes[node], self.jobs[job].places[node]
        gpus = math.ceil(amount / 1000)
        there.used += sign * amount
        cpu, mem = self.jobs[job].each or (self.cpu[job], self.mem[job])
        there.cpu_used += sign * gpus * cpu
        there.mem_used += sign * gpus * mem

    def leave(self, job: int, state: str) -> None:
        """A job gives everything back."""
        for node in self.jobs[job].places:
            self.shift(job, node, -1)
        self.jobs[job].places, self.jobs[job].each, self.jobs[job].servers = {}, None, 0
        self.jobs[job].state = state

    def speed(self, job: int) -> float:
        """Of the slowest node that a job is on, and in proportion to its GPUs."""
        me, kinds = self.jobs[job], self.cluster.gpu_types
        slowest = min(self.cluster.speeds.get(kinds[self.nodes[node].kind], 1.0) for node in me.places)
        if me.each and self.trace.max_cpus[job] | self.trace.min_cpus[job]:
            slowest *= (me.each[0] / self.cpu[job]) ** CPU_POWER
        asked, has, width = int(self.trace.servers[job]), self.demand[job], sum(me.places.values())
        if asked:
            has, width = has // 1000, width // 1000
            serving = me.servers or (asked if width == has else math.ceil(width / (SERVED + 1)))
            width, has = min(width - serving, SERVED * serving), min(has - asked, SERVED * asked)
        return slowest * width / has

    def settle(self, job: int) -> None:
        """Count the work done up to now."""
        me = self.jobs[job]
        if me.state == "running" and self.now > me.since:
            me.work += (self.now - me.since) * self.speed(job)
            me.since = self.now

    def reached(self, job: int, target: float, what: str) -> None:
        """A job that ends must have done just that much work; where GPUs are shared it may have been slower."""
        me = self.jobs[job]
        _must(me.state == "running", f"{what} while {me.state}")
        late = me.work - target
        _must(late >= -SLACK, f"{what} after {me.work:g} ms of work, {target:g} ms are due")
        prompt = late < self.speed(job) + SLACK
        _must(prompt or self.tenants > 1, f"{what} after {me.work:g} ms of work, {target:g} ms would do")

    def finish(self, job: int) -> None:
        """A job is done."""
        self.settle(job)
        _must(self.jobs[job].failed == self.trace.failures[job], "finished although an attempt must fail before")
        self.reached(job, float(self.trace.duration[job]), "finished")
        self.end(job)

    def end(self, job: int) -> None:
        """A job will never run again."""
        self.leave(job, "ended")
        self.jobs[job].ended_at = self.now

    def kept(self, job: int) -> float:
        """The work that survives if the job is stopped without a checkpoint now."""
        me, interval = self.jobs[job], int(self.trace.checkpoint[job])
        return me.saved + (math.floor((me.work - me.saved) / interval) * interval if interval else 0)

    def fail(self, job: int, for_good: bool) -> None:
        """An attempt failed."""
        self.settle(job)
        me = self.jobs[job]
        _must(me.failed < self.trace.failures[job], "failed more often than it may")
        self.reached(job, min(float(self.trace.duration[job]), me.base + float(self.trace.fail_after[job])), "failed")
        _must(for_good == (me.failed >= self.trace.retries[job]), "was given up too early or too late")
        me.failed += 1
        me.work = me.saved = me.base = self.kept(job)
        if for_good:
            self.end(job)
        else:
            self.leave(job, "waiting")

    def preempt(self, job: int, cause: int, lost: int) -> None:
        """A job goes back into the queue, with all its work (nothing lost) or with what its checkpoints hold."""
        self.settle(job)
        me = self.jobs[job]
        _must(me.state in ("running", "stopping"), f"preempted while {me.state}")
        if cause != w.BY_FAILURE:
            self.must_be_stoppable(job)
        if me.state == "stopping" and cause != w.BY_FAILURE:
            _must(self.now == me.stopped_at + self.checkpoint[job], "its checkpoint took too long or too short")
        if lost or (cause != w.BY_FAILURE and not self.trace.saves_on_stop[job]):
            lacking = me.work - (self.kept(job) if self.tenants == 1 else me.saved)  # a sharing job did less
            fits = abs(lacking - lost) < 1 + SLACK if self.tenants == 1 else lost < lacking + 1 + SLACK
            _must(fits, f"lost {lost} ms, not what its checkpoints lack")
            me.work = me.base = self.kept(job) if self.tenants == 1 else me.work - lost
        if cause == w.BY_FAILURE:
            me.base = me.work
        me.saved = me.work
        self.leave(job, "waiting")

    def must_be_stoppable(self, job: int) -> None:
        """Only a job that is checkpointable, and saves its work when or before it is stopped, may be stopped."""
        trace = self.trace
        saves = trace.saves_on_stop[job] or trace.checkpoint[job]
        _must(bool(trace.checkpointable[job] and saves), "was stopped or moved although it is not checkpointable")

    def stop(self, job: int) -> None:
        """A job is being checkpointed: it holds its GPUs and does nothing."""
        self.settle(job)
        _must(self.jobs[job].state == "running", f"stopped while {self.jobs[job].state}")
        self.must_be_stoppable(job)
        self.jobs[job].state, self.jobs[job].stopped_at = "stopping", self.now

    def move(self, job: int, before: int, after: int) -> None:
        """A job goes on elsewhere, on as many GPUs or on more or fewer; its START rows follow."""
        self.settle(job)
        me = self.jobs[job]
        _must(me.state == "running", f"moved while {me.state}")
        _must(sum(me.places.values()) == 1000 * before or self.demand[job] < 1000, f"had not {before} GPUs")
        self.must_be_stoppable(job)
        saves = bool(self.trace.saves_on_stop[job])
        me.work = me.work if saves else self.kept(job)
        me.base = me.base if saves else me.work
        me.saved = me.work
        self.leave(job, "running")
        me.since = self.now + self.checkpoint[job] * saves + self.restart[job]
        self.moving, self.wanted = job, min(self.demand[job], 1000) * after

    # -- nodes

    def change_node(self, kind: int, node: int, drains: bool) -> None:
        """A node goes or comes; unless it drains, its jobs leave in the same instant (checked when time goes on)."""
        if kind == w.SLEEP:
            _must(self.nodes[node].used == 0, f"node {node} was put to sleep although jobs run there")
        self.nodes[node].up, self.nodes[node].drains = kind == w.NODE_UP, kind == w.NODE_DOWN and drains

    def hold_still(self) -> None:
        """What must hold when an instant is over."""
        for index, node in enumerate(self.nodes):
            _must(node.up or node.drains or node.used == 0, f"node {index} is not up, but jobs run on it")


def check(events: I64, trace: Trace, cluster: Cluster, *, tenants: int = 1, over: bool = True) -> None:
    """Raise ``InvariantError`` if a log breaks a rule, with the history of the job concerned.

    ``tenants``: how many jobs a policy that shares GPUs may put on one; their speeds are then not checked exactly.
    ``over``: every job must have ended.  The run must have begun with an empty cluster, and speeds depend on GPU types
    alone (no ``tier_speed``).
    """
    replay = _Replay(trace, cluster, tenants)
    rows: Sequence[Sequence[int]] = events.tolist()
    for index, (time, kind, job, a, b) in enumerate(rows):
        try:
            if time > replay.now:
                replay.hold_still()
            replay.read(time, kind, job, a, b)
        except _BrokenError as broken:
            raise InvariantError(f"row {index}: {broken}\n{_story(rows[: index + 1], trace, job)}") from None
    _must_be_complete(replay, rows, over)


def _must_be_complete(replay: _Replay, rows: Sequence[Sequence[int]], over: bool) -> None:
    if replay.wanted:
        raise InvariantError(f"the log ends in the middle of a start\n{_story(rows, replay.trace, replay.moving)}")
    unfinished = [job for job, it in enumerate(replay.jobs) if it.state != "ended"]
    if over and unfinished:
        raise InvariantError(
            f"{counted(len(unfinished), 'job')} never ended, the first is {replay.jobs[unfinished[0]].state}\n"
            + _story(rows, replay.trace, unfinished[0])
        )


def _own_or(own: I64, usual: I64) -> list[int]:
    """The costs that jobs have themselves (>= 0), else the usual ones, in ms."""
    return [int(cost) if cost >= 0 else int(other) for cost, other in zip(own, usual, strict=True)]


class _BrokenError(Exception):
    """A rule was broken at the present row."""


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _BrokenError(otherwise)


def _story(rows: Sequence[Sequence[int]], trace: Trace, job: int) -> str:
    if job < 0:
        return ""
    title = f"job '{trace.job_id[job]}' (row {job}): {trace.gpus[job] / 1000:g} GPUs, {trace.duration[job]} ms"
    lines = [f"  {time} ms {NAMES[kind]} {a} {b}" for time, kind, who, a, b in rows if who == job]
    return "\n".join([title, *lines])

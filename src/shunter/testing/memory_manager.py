"""A resource manager that keeps its jobs in memory: the smallest adapter to ``live/``, and a cluster for tests.

Its nodes are alike.  A job runs until ``end`` is called, and ``schedule`` starts waiting jobs by priority where there
is room.  A priority is the job's own less its nice, as in Slurm.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from shunter.live.journal import Journal
from shunter.live.levers import STOPPING, Order
from shunter.live.manager import Command, DeclinedError, GoneError
from shunter.live.marks import Mark
from shunter.live.nodes import Node, Rack
from shunter.live.snapshot import LiveJob, Snapshot, size_in

PARTITION = "main"
FIRST_PRIORITY = 1_000_000


@dataclass
class MemoryManager:
    """A ``ResourceManager``; managers of the same ``signs`` see each other's controllers."""

    node_count: int = 2
    gpus_per_node: int = 4
    signs: dict[str, float] = field(default_factory=dict)  # since when a controller acts, by its journal
    name: str = "memory"
    most_nice: int = 1_000_000
    most_priority: int = 10_000_000
    watchdog: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    unread: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, LiveJob] = field(default_factory=dict)
    _own: dict[str, int] = field(default_factory=dict)  # the priority that each job has by itself
    _outright: dict[str, int] = field(default_factory=dict)  # priorities that were set outright
    _booted: float = field(default_factory=time.time)
    _events: int = 0

    # -- what users and time do

    def submit(self, gpus: int, minutes: int, user: str = "ann") -> str:
        """A job, which waits; returns its name."""
        name, now = str(len(self.jobs) + 1), _now()
        self._own[name] = FIRST_PRIORITY - len(self.jobs)
        self.jobs[name] = LiveJob(
            name, name, "PENDING", user=user, partition=PARTITION, number=name, priority=self._own[name], submit=now,
            eligible=now, limit=60_000 * minutes, gpus=gpus, cpus=gpus, requeues=True, per_job=f"gpus:{gpus}",
        )  # fmt: skip
        self._events += 1
        return name

    def schedule(self) -> None:
        """Start waiting jobs on the first node with room, the highest priority first."""
        for job in sorted(self.jobs.values(), key=lambda job: -job.priority):
            wanted = [name for name, free in self._free().items() if free >= job.gpus]
            wanted = [name for name in wanted if job.wanted_nodes in ("", name)]
            if job.waits and not job.held and wanted:
                self.jobs[job.id] = replace(job, state="RUNNING", start=_now(), nodes=(wanted[0],))
                self._events += 1

    def end(self, name: str) -> None:
        """A job has ended."""
        self.jobs[name] = replace(self.jobs[name], state="COMPLETED", end=_now())
        self._events += 1

    def order(self) -> list[str]:
        """The waiting jobs, the first to start first."""
        return sorted(
            (name for name, job in self.jobs.items() if job.waits), key=lambda name: -self.jobs[name].priority
        )

    def _free(self) -> dict[str, int]:
        used = Counter({job.nodes[0]: 0 for job in self.jobs.values() if job.runs})
        for job in self.jobs.values():
            used.update({job.nodes[0]: job.gpus} if job.runs else {})
        return {f"n{at}": self.gpus_per_node - used[f"n{at}"] for at in range(self.node_count)}

    # -- looking

    def racks(self) -> Sequence[Rack]:
        """The network is flat."""
        return []

    def nodes(self) -> Sequence[Node]:
        """The machines."""
        return [
            Node(name, "mixed", (PARTITION,), self.gpus_per_node, used=tuple(range(self.gpus_per_node - free)), cpus=64)
            for name, free in self._free().items()
        ]

    def counters(self) -> str:
        """How often something has happened."""
        return str(self._events)

    def snapshot(self) -> Snapshot:
        """Jobs and nodes as they are now."""
        self.calls["snapshot"] += 1
        now = _now()
        jobs = (replace(job, ran=now - job.start if job.runs else 0) for job in self.jobs.values())
        return Snapshot(now, tuple(jobs), tuple(self.nodes()))

    def waits(self, job: str) -> bool:
        """Whether a job still waits."""
        return job in self.jobs and self.jobs[job].state == "PENDING"

    def held(self, target: str) -> bool:
        """Whether it is held."""
        return target in self.jobs and self.jobs[target].held

    def set_by_hand(self) -> Mapping[str, int]:
        """Priorities that were set outright."""
        return {name: priority for name, priority in self._outright.items() if self.waits(name)}

    def boot_time(self) -> float:
        """When this object was made."""
        return self._booted

    def own_policy(self) -> str:
        """First come, first served."""
        return "fifo"

    # -- changes

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """It answers at once."""
        return nullcontext()

    def commands(self, order: Order) -> tuple[Command, ...]:
        """What an order would be, were there commands."""
        return (("set", order.target or order.handle, f"{order.lever}={order.value}"),)

    def annotated(self, order: Order) -> str:
        """Marks are kept apart: an annotation is the site's own."""
        return order.annotation

    def carry_out(self, order: Order) -> None:
        """Change a job, and its mark with it."""
        self.calls["change"] += 1
        if order.lever in STOPPING:  # a job that is signalled does what it agreed to
            self._requeue(order.handle)
            return
        own = order.before if order.gives_back else None
        job = self._changed(order.handle, order.lever, order.value, own)
        marks = {**job.marked}
        if order.journal:
            marks.pop("nice" if order.lever == "priority" else order.lever, None)
            marks.pop(order.lever, None)
            if not order.gives_back:
                marks[order.lever] = Mark(order.journal, order.lever, order.before, order.value)
        self.jobs[order.handle] = replace(job, marks=tuple(marks.values()))

    def _requeue(self, name: str) -> None:
        job = self.jobs[name]
        if not job.runs:
            raise DeclinedError(f"job {name} does not run")
        self.jobs[name] = replace(job, state="PENDING", start=-1, nodes=(), restarts=job.restarts + 1)

    def _changed(self, name: str, lever: str, value: str, own: str | None) -> LiveJob:
        """A job with another value of a lever; with its own if that is given."""
        if name not in self.jobs or self.jobs[name].over:
            raise GoneError(f"there is no job {name} any more")
        job = self.jobs[name]
        if lever == "pin":
            if not job.waits:
                raise DeclinedError(f"job {name} does not wait")
            return replace(job, wanted_nodes=value)
        if lever == "resize":
            if not job.state == "PENDING":
                raise DeclinedError(f"job {name} does not wait")
            return replace(job, per_job=value.removeprefix("job:"), gpus=size_in(value))
        if lever == "shard":
            raise DeclinedError("there are no shards here")
        nice = int(value) if lever == "nice" else int(own.partition(":")[2]) if own is not None else 0
        self._outright.pop(name, None)
        if lever == "priority" and own is None:
            self._outright[name] = int(value)
        return replace(job, nice=nice, priority=self._outright.get(name, self._own[name] - nice))

    def shows(self, lever: str, value: str, job: LiveJob) -> bool:
        """Whether a job has this value of a lever."""
        return {
            "nice": str(job.nice),
            "priority": str(job.priority),
            "pin": job.wanted_nodes,
            "resize": job.sizing,
        }.get(lever) == value

    def half_share(self, job: LiveJob) -> str:
        """There are no shards here."""
        return ""

    def sized(self, job: LiveJob, gpus: int) -> str:
        """All GPUs of a job are asked for in one number."""
        return f"job:gpus:{gpus}" if job.sizing else ""

    # -- the way back

    def targets(self, jobs: Sequence[LiveJob]) -> list[str]:
        """Each by itself."""
        return [job.target for job in jobs]

    def give_back(self, job: LiveJob, own: Mapping[str, str], target: str = "", without: Collection[str] = ()) -> None:
        """Give a job its own values back, and remove their marks."""
        for lever, value in own.items():
            self.jobs[job.handle] = self._changed(job.handle, lever, value, value)
        self._drop(job.handle, {*own, *without})

    def unmark(self, job: LiveJob, levers: Collection[str], target: str = "") -> None:
        """Remove marks; setting a priority had cleared the nice, which comes back."""
        lost = job.marked.get("priority") if "priority" in levers else None
        if lost is not None:
            self.jobs[job.handle] = replace(self.jobs[job.handle], nice=int(lost.before.partition(":")[2]))
        self._drop(job.handle, levers)

    def _drop(self, name: str, levers: Collection[str]) -> None:
        job = self.jobs[name]
        self.jobs[name] = replace(job, marks=tuple(mark for mark in job.marks if mark.lever not in levers))

    def presence(self, journal: Journal, interval_s: float) -> MemoryPresence:
        """A sign in memory."""
        return MemoryPresence(self.signs, journal.id)


@dataclass
class MemoryPresence:
    """The sign of a controller: the first one stays."""

    signs: dict[str, float]
    journal: str

    def rival(self) -> str:
        """Why this controller gives way."""
        self.signs.setdefault(self.journal, time.monotonic())
        first = min(self.signs, key=lambda journal: self.signs[journal])
        return "" if first == self.journal else f"another controller (journal {first}) acts on this cluster"

    def remove(self) -> None:
        """Take it away."""
        self.signs.pop(self.journal, None)


def _now() -> int:
    return time.time_ns() // 1_000_000

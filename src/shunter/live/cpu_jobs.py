"""Jobs without GPUs on nodes with GPUs: they hold CPUs and memory, and no shadow of the guard knows them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from shunter.live.nodes import Node
from shunter.live.requests import Request
from shunter.live.snapshot import LiveJob, Snapshot


def has_gpus(job: LiveJob) -> bool:
    """Whether it asks for GPUs or shares of one."""
    return job.gpus + job.shards > 0


def held_with_gpus(snapshot: Snapshot) -> dict[str, tuple[float, float]]:
    """The CPUs and the MiB of each node that jobs with GPUs hold; those of several nodes the same on each."""
    found: dict[str, tuple[float, float]] = {}
    for job in snapshot.jobs:
        for name in job.nodes if job.runs and has_gpus(job) else ():
            cpus, mib = found.get(name, (0.0, 0.0))
            found[name] = cpus + job.cpus / len(job.nodes), mib + job.mem_mib / len(job.nodes)
    return found


def without_cpu_jobs(snapshot: Snapshot) -> Snapshot:
    """The same with nothing held by jobs without GPUs."""
    held = held_with_gpus(snapshot)

    def freed(node: Node) -> Node:
        cpus, mib = held.get(node.name, (0.0, 0.0))
        return replace(node, cpus_used=min(node.cpus_used, round(cpus)), mem_used=min(node.mem_used, round(mib)))

    return replace(snapshot, nodes=tuple(freed(node) for node in snapshot.nodes))


@dataclass(frozen=True)
class Crowding:
    """Which waiting jobs lack CPUs or memory that jobs without GPUs hold, at one look."""

    snapshot: Snapshot
    _freed: dict[str, Node] = field(default_factory=dict)  # nodes on which such jobs hold anything, without them
    _known: dict[tuple[object, ...], bool] = field(default_factory=dict)  # jobs that ask alike

    @classmethod
    def of(cls, snapshot: Snapshot) -> Crowding:
        """At this look."""
        pairs = zip(snapshot.nodes, without_cpu_jobs(snapshot).nodes, strict=True)
        return cls(snapshot, {freed.name: freed for node, freed in pairs if freed != node})

    def keeps_out(self, job: LiveJob) -> bool:
        """Whether a job would have room but for jobs without GPUs."""
        if not self._freed or not job.gpus or job.state != "PENDING":
            return False
        request = self.snapshot.requests.of(job)
        key = (request.names, request.gpus, job.cpus, request.mem_mib)
        if key not in self._known:
            self._known[key] = self._crowded(job, request)
        return self._known[key]

    def _crowded(self, job: LiveJob, request: Request) -> bool:
        present = [node for node in self.snapshot.nodes if node.name in request.names and node.up]
        without = [self._freed.get(node.name, node) for node in present]
        rooms = [sum(_room(node, job.cpus, request) for node in nodes) for nodes in (present, without)]
        return rooms[0] < request.gpus <= rooms[1]


def _room(node: Node, cpus: int, request: Request) -> int:
    """How many GPUs of a node a job could have now."""
    room = max(node.gpus - len(node.used), 0)
    for wanted, size, used in ((cpus, node.cpus, node.cpus_used), (request.mem_mib, node.mem_mib, node.mem_used)):
        if wanted and size:  # 0: the manager does not say
            room = min(room, max(size - used, 0) * request.gpus // wanted)
    return room

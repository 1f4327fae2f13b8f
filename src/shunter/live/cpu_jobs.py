"""Jobs without GPUs on nodes with GPUs: they hold CPUs and memory, and no shadow of the guard knows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shunter.live.nodes import Node
from shunter.live.requests import Request
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.world import I64


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


class Crowding:
    """Which waiting jobs lack CPUs or memory that jobs without GPUs hold, at one look.

    Nodes are arrays: one user may have thousands of jobs that all ask for something else.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        freed = without_cpu_jobs(snapshot).nodes
        up = [row for row, node in enumerate(snapshot.nodes) if node.up]
        now = [snapshot.nodes[row] for row in up]
        worlds = (now, [freed[row] for row in up])  # as it is, and without jobs that have no GPUs
        self._row = {node.name: row for row, node in enumerate(now)}
        self._gpus = np.array([node.gpus for node in now], np.int64)
        self._used = np.array([len(node.used) for node in now], np.int64)
        self._cpus = np.array([node.cpus for node in now], np.int64)
        self._mib = np.array([node.mem_mib for node in now], np.int64)
        self._cpus_used = np.array([[node.cpus_used for node in nodes] for nodes in worlds], np.int64)
        self._mib_used = np.array([[node.mem_used for node in nodes] for nodes in worlds], np.int64)
        self._crowded = np.array([one != other for one, other in zip(*worlds, strict=True)], np.bool_)
        self._rows: dict[frozenset[str], I64] = {}  # by the nodes that a job may have
        self._known: dict[tuple[object, ...], bool] = {}  # by what a job asks for

    def keeps_out(self, job: LiveJob) -> bool:
        """Whether a job would have room but for jobs without GPUs."""
        if not self._crowded.any() or not has_gpus(job) or job.state != "PENDING":
            return False
        request = self.snapshot.requests.of(job)
        key = (request.names, request.gpus, request.span, job.cpus, request.mem_mib)
        if key not in self._known:
            self._known[key] = self._lacks_room(job, request)
        return self._known[key]

    def _lacks_room(self, job: LiveJob, request: Request) -> bool:
        rows = self._rows_of(request.names)
        if not self._crowded[rows].any():
            return False
        wanted = request._replace(gpus=max(request.gpus, 1))  # a share needs CPUs and memory beside one GPU
        free = self._gpus - (self._used if job.gpus else 0)  # a GPU that is shared may have room for one more share
        rooms = np.tile(np.maximum(free[rows], 0), (2, 1))
        for asked, size, used in (
            (job.cpus, self._cpus, self._cpus_used),
            (request.mem_mib, self._mib, self._mib_used),
        ):
            if asked:
                most = np.maximum(size[rows] - used[:, rows], 0) * wanted.gpus // asked
                rooms = np.where(size[rows] > 0, np.minimum(rooms, most), rooms)  # 0: the manager does not say
        largest = int(self._gpus[rows].max())
        now, without = (wanted.fits_in(each.tolist(), largest) for each in rooms)
        return without and not now

    def _rows_of(self, names: frozenset[str]) -> I64:
        if names not in self._rows:
            self._rows[names] = np.array([self._row[name] for name in names if name in self._row], np.int64)
        return self._rows[names]

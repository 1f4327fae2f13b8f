"""Past moments of a history, as the manager would have shown them: what waited and what ran then, and nothing of later.

A history names no nodes.  Its jobs are put on the nodes that the cluster has now, each on the fullest ones with room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from shunter.live.nodes import Node
from shunter.live.run_times import RecentJobs, RunTimes, ended
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.model import GPU, Trace
from shunter.world import I64

START, END = 1, 0  # at one instant, ends come first


@dataclass(frozen=True)
class Moment:
    """What was known at one instant; jobs are named by their rows in the history."""

    snapshot: Snapshot
    run_times: RunTimes

    @property
    def waiting(self) -> list[LiveJob]:
        """The jobs that wait, the first to be submitted first."""
        return [job for job in self.snapshot.jobs if job.state == "PENDING"]


class Moments:
    """Walks forward through a history."""

    def __init__(self, trace: Trace, nodes: Sequence[Node]) -> None:
        self.trace, self.starts = trace, started(trace)
        times = np.concatenate((self.starts, self.starts + np.maximum(trace.duration, 1)))
        kinds = np.repeat([START, END], len(trace))
        order = np.lexsort((kinds, times))
        self._events = times[order], kinds[order], (order % max(len(trace), 1))
        self._next = 0  # event
        self._requests = _Requests(trace, nodes)
        self._room = _Room(nodes)
        self._running: dict[int, tuple[str, ...]] = {}  # the nodes of each
        self._seen = RecentJobs()

    def at(self, now: int) -> Moment:
        """The moment at an instant, which must not be before the previous one."""
        times, kinds, rows = self._events
        last = int(np.searchsorted(times, now, side="right"))
        for kind, row in zip(kinds[self._next : last].tolist(), rows[self._next : last].tolist(), strict=True):
            if kind == START:
                self._start(row)
            else:
                self._end(row)
        self._next = max(last, self._next)
        running = [self._run(row, nodes, now) for row, nodes in self._running.items()]
        come = int(np.searchsorted(self.trace.submit, now, side="right"))
        waiting = [self._requests.job(row) for row in np.flatnonzero(self.starts[:come] > now).tolist()]
        snapshot = Snapshot(now, (*running, *waiting), self._room.nodes())
        return Moment(snapshot, self._seen.run_times("the history", snapshot.jobs))

    def _run(self, row: int, nodes: tuple[str, ...], now: int) -> LiveJob:
        start = int(self.starts[row])
        return replace(self._requests.job(row), state="RUNNING", reason="", start=start, ran=now - start, nodes=nodes)

    def _start(self, row: int) -> None:
        """A job starts; one that has no room on these nodes is not shown: its GPUs must be others."""
        nodes = self._room.take(row, self._requests.gpus(row), *self._requests.where(row))
        if nodes:
            self._running[row] = nodes

    def _end(self, row: int) -> None:
        self._running.pop(row, None)
        self._room.release(row)
        self._seen.add(ended(self.trace, row))


def started(trace: Trace) -> I64:
    """When the jobs of a history started (ms)."""
    starts: I64 = trace.submit + np.maximum(trace.recorded_wait, 0)
    return starts


class _Requests:
    """The jobs of a history as they were when they were submitted."""

    def __init__(self, trace: Trace, nodes: Sequence[Node]) -> None:
        self._trace = trace
        self._users, self._names = (*trace.users, ""), (*trace.job_names, "")
        partitions = Counter(name for node in nodes for name in node.partitions if node.gpus)
        usual = partitions.most_common(1)[0][0] if partitions else ""
        types = {node.gpu_type for node in nodes}
        self._partitions = [*(name if name in partitions else usual for name in trace.vcs), usual]
        self._types = [*(name if name in types else "" for name in trace.gpu_types), ""]

    def gpus(self, row: int) -> int:
        """Whole GPUs."""
        return max(int(self._trace.gpus[row]) // GPU, 1)

    def where(self, row: int) -> tuple[str, str]:
        """The partition and the GPU type that a job asks for."""
        return self._partitions[self._trace.vc[row]], self._types[self._trace.gpu_type[row]]

    def job(self, row: int) -> LiveJob:
        """A job that waits; the first to be submitted has the highest priority."""
        trace, submit, (partition, kind) = self._trace, int(self._trace.submit[row]), self.where(row)
        return LiveJob(
            id=str(row),
            handle=str(row),
            state="PENDING",
            reason="Priority",
            user=self._users[trace.user[row]],
            name=self._names[trace.job_name[row]],
            partition=partition,
            gpu_type=kind,
            priority=-row,
            submit=submit,
            eligible=submit,
            limit=int(trace.limit[row]),
            gpus=self.gpus(row),
        )


class _Taken(NamedTuple):
    node: int
    gpus: int


class _Room:
    """Free GPUs on every node."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = [replace(node, state="mixed", used=(), cpus_used=0, mem_used=0) for node in nodes if node.gpus]
        self._free = [node.gpus for node in self._nodes]
        self._taken: dict[int, list[_Taken]] = {}
        self._usable: dict[tuple[str, str], list[int]] = {}  # nodes of a partition with a type of GPU

    def nodes(self) -> tuple[Node, ...]:
        """The nodes, with what is in use."""
        return tuple(
            replace(node, used=tuple(range(node.gpus - free)))
            for node, free in zip(self._nodes, self._free, strict=True)
        )

    def take(self, row: int, gpus: int, partition: str, kind: str) -> tuple[str, ...]:
        """The nodes for a job: the fullest one with room, else as few as possible; none if there is too little."""
        free, usable = self._free, [at for at in self._where(partition, kind) if self._free[at]]
        fitting = [at for at in usable if free[at] >= gpus]
        chosen = [min(fitting, key=free.__getitem__)] if fitting else sorted(usable, key=lambda at: -free[at])
        left, taken = gpus, list[_Taken]()
        for at in chosen:
            if left:
                taken.append(_Taken(at, min(self._free[at], left)))
                left -= taken[-1].gpus
        if left:
            return ()
        self._taken[row] = taken
        for at, count in taken:
            free[at] -= count
        return tuple(self._nodes[at].name for at, _ in taken)

    def _where(self, partition: str, kind: str) -> list[int]:
        if (partition, kind) not in self._usable:
            self._usable[partition, kind] = [
                at
                for at, node in enumerate(self._nodes)
                if partition in node.partitions and kind in ("", node.gpu_type)
            ]
        return self._usable[partition, kind]

    def release(self, row: int) -> None:
        """A job has ended."""
        for at, gpus in self._taken.pop(row, ()):
            self._free[at] += gpus

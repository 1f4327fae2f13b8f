"""Why jobs waited under a policy that gives no reasons: as far as the log and the free GPUs show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.model import GPU
from shunter.world import I64

if TYPE_CHECKING:
    from shunter.run_folder import Run

BUSY, KEPT = "busy", "kept"  # codes: fewer GPUs were free than it ever ran on, or enough were and it did not get them
AWAY, BACK = (w.NODE_DOWN, w.SLEEP), (w.NODE_UP, w.WAKE)


def gives_none(run: Run) -> bool:
    """Whether a run with decisions has no reasons: its policy gives none, or no job waited."""
    return run.decisions is not None and not len(run.decisions)


def with_reasons(run: Run) -> Run:
    """The same run; one whose policy gave no reasons has those that its log shows."""
    if not gives_none(run) or w.REASSIGN in run.events[:, 1]:  # then it is not known who may run where
        return run
    import polars as pl

    course = _FreeGpus.of(run)
    names = ("time", "scope", "subject", "code", "a", "b", "c")
    table = pl.DataFrame(list(course.rows(run.events)), dict(zip(names, _TYPES, strict=True)), orient="row")
    return replace(run, decisions=table, jobs=run.jobs.with_columns(demand_class=course.class_of, pool=-1))


_TYPES = (int, str, int, str, int, int, int)


@dataclass
class _FreeGpus:
    """The GPUs that are free for each class of jobs: of the same fewest GPUs, virtual cluster and GPU type."""

    class_of: I64  # (jobs,)
    fewest: I64  # (classes,) thousandths of GPUs
    allowed: NDArray[np.bool_]  # (classes, nodes)
    free: I64  # (nodes,) thousandths of GPUs
    up: NDArray[np.bool_]  # (nodes,)
    waits: I64  # (classes,) jobs that wait
    waiting: set[int] = field(default_factory=set)
    held: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by job: nodes and thousandths of GPUs

    @classmethod
    def of(cls, run: Run) -> _FreeGpus:
        """Before the first event."""
        about = zip(_fewest(run).tolist(), run.jobs["vc"].to_list(), run.jobs["gpu_type"].to_list(), strict=True)
        keys = list(about)
        known = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        machines = run.cluster
        allowed = np.ones((len(known), machines.nodes), np.bool_)
        for (_, vc, kind), at in known.items():
            if vc in machines.vcs:
                allowed[at] &= machines.node_vc == machines.vcs.index(vc)
            if kind in machines.gpu_types:
                allowed[at] &= machines.node_type == machines.gpu_types.index(kind)
        class_of = np.array([known[key] for key in keys], np.int64)
        fewest = np.array([key[0] for key in known], np.int64)
        free = GPU * machines.node_gpus.astype(np.int64)
        return cls(class_of, fewest, allowed, free, np.ones(machines.nodes, np.bool_), np.zeros(len(known), np.int64))

    def rows(self, events: I64) -> Iterator[tuple[int, str, int, str, int, int, int]]:
        """What holds for classes with waiting jobs, where it changes: the free GPUs, and the fewest of the class."""
        last = np.full(len(self.fewest), -1, np.int64)
        for time, now in groupby(events.tolist(), key=itemgetter(0)):
            for _, kind, job, a, b in now:
                self._apply(kind, job, a, b)
            free = self.allowed @ np.where(self.up, np.maximum(self.free, 0), 0)
            for at in np.flatnonzero((free != last) & (self.waits > 0)).tolist():
                code = BUSY if free[at] < self.fewest[at] else KEPT
                yield time, "class", at, code, int(free[at]) // GPU, -(-int(self.fewest[at]) // GPU), 0
                last[at] = free[at]

    def _apply(self, kind: int, job: int, a: int, b: int) -> None:
        if kind == w.START:
            if a >= 0:
                self.held.setdefault(job, []).append((a, b))
                self.free[a] -= b
            self._wait(job, False)
        elif kind in (w.FINISH, w.FAIL, w.PREEMPT, w.MOVE):
            for node, count in self.held.pop(job, ()):
                self.free[node] += count
            if kind == w.PREEMPT or (kind == w.FAIL and a == 0):
                self._wait(job, True)
        elif kind == w.ARRIVE:
            self._wait(job, True)
        elif kind in AWAY + BACK:
            self.up[a] = kind in BACK

    def _wait(self, job: int, begins: bool) -> None:
        if begins != (job in self.waiting):
            self.waits[self.class_of[job]] += 1 if begins else -1
            (self.waiting.add if begins else self.waiting.discard)(job)


def _fewest(run: Run) -> I64:
    """The fewest GPUs that each job ever ran on, or its request if that is less (thousandths)."""
    requested: I64 = np.rint(run.jobs["gpus"].to_numpy() * GPU).astype(np.int64)
    starts = run.events[run.events[:, 1] == w.START]
    if not len(starts):
        return requested
    _, first, of = np.unique(starts[:, [0, 2]], axis=0, return_index=True, return_inverse=True)
    widths = np.bincount(of.ravel(), weights=starts[:, 4]).astype(np.int64)
    np.minimum.at(requested, starts[first, 2], widths)
    return requested

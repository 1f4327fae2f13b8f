"""The course of a run, read back from its event log alone: which jobs ran, which waited, which GPUs were busy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.arrays import F1, I1, I2, Arrays
from shunter.compiled import kernel
from shunter.world import F64, I64

_ABSENT, _WAITING, _RUNNING, _MOVING = range(4)  # states of a job
_SIZE, _USED, _UP = range(3)  # columns of nodes, in thousandths of GPUs
_FREE, _BUSY, _BROKEN = range(3)  # totals; broken: what of the free GPUs is on partly used nodes


@dataclass(frozen=True, eq=False)
class Replay:
    """The state of the cluster after every instant at which something happened."""

    time: I64  # (points,) ms
    running: I64  # (points,) jobs
    queue: I64  # (points,) jobs that wait
    busy: I64  # (points,) thousandths of GPUs
    fragmentation: F64  # (points,) share of the free GPUs that are on partly used nodes; 0 while none is free
    head: I64  # (jobs,) a START row of each job's last run; -1: it never ran
    link: I64  # (events,) the next START row of that run; -1: there is none

    @cached_property
    def last_run(self) -> NDArray[np.bool_]:
        """Which events are START rows of a job's last run; the links of all jobs are followed at once."""
        last_run = np.zeros(len(self.link), np.bool_)
        rows = self.head[self.head >= 0]
        while len(rows):
            last_run[rows] = True
            rows = self.link[rows]
            rows = rows[rows >= 0]
        return last_run

    def busy_gpu_ms(self) -> int:
        """GPU time used in all, in thousandths of a GPU-ms."""
        return int(self.busy[:-1] @ np.diff(self.time)) if len(self.time) else 0

    def mean_fragmentation(self) -> float:
        """Fragmentation averaged over the time in which at least one job waits; 0 if none ever does."""
        held = np.diff(self.time) * (self.queue[:-1] > 0)
        total = int(held.sum())
        return float(self.fragmentation[:-1] @ held) / total if total else 0.0


def replay(events: I64, node_gpus: I64, jobs: int) -> Replay:
    """Replay an event log of ``jobs`` jobs on nodes with this many GPUs."""
    rows = len(events)
    nodes = np.zeros((3, len(node_gpus)), np.int64)
    nodes[_SIZE], nodes[_UP] = node_gpus * 1000, 1
    course = _Course(
        events=events,
        series=np.zeros((4, rows), np.int64),
        fragmentation=np.zeros(rows),
        state=np.zeros(jobs, np.int64),
        head=np.full(jobs, -1, np.int64),
        link=np.full(rows, -1, np.int64),
        nodes=nodes,
        totals=np.array([nodes[_SIZE].sum(), 0, 0]),
    )
    points = _replay(course)
    kept = course.series[:, :points]
    return Replay(kept[0], kept[1], kept[2], kept[3], course.fragmentation[:points], course.head, course.link)


class _Course(Arrays):
    """What the replay reads and fills in."""

    events: I2  # (rows, 5)
    series: I2  # (4, rows)
    fragmentation: F1  # (rows,)
    state: I1  # (jobs,)
    head: I1  # (jobs,) of the linked START rows of a job's present or last run
    link: I1  # (rows,)
    nodes: I2  # (3, nodes)
    totals: I1  # (3,)


@kernel
def _replay(course: _Course) -> int:
    """Fill in the series; returns how many points it has."""
    events, series, fragmentation = course.events, course.series, course.fragmentation
    state, head, link, nodes, totals = course.state, course.head, course.link, course.nodes, course.totals
    rows = len(events)
    points, running, queue = 0, 0, 0

    for row in range(rows):
        time, kind, job = events[row, 0], events[row, 1], events[row, 2]
        node, amount = events[row, 3], events[row, 4]
        if kind == w.START:
            if state[job] != _RUNNING:
                queue -= state[job] == _WAITING
                running += 1
                state[job], head[job] = _RUNNING, -1
            link[row], head[job] = head[job], row
            _occupy(node, amount, nodes, totals)
        elif kind in (w.ARRIVE, w.FINISH, w.FAIL, w.PREEMPT, w.MOVE):
            if state[job] == _RUNNING:
                running -= 1
                slot = head[job]
                while slot >= 0:
                    _occupy(events[slot, 3], -events[slot, 4], nodes, totals)
                    slot = link[slot]
            ended = kind == w.FINISH or (kind == w.FAIL and node == 1)
            after = _ABSENT if ended else (_MOVING if kind == w.MOVE else _WAITING)
            queue += int(after == _WAITING) - int(state[job] == _WAITING)
            state[job] = after
        elif kind in (w.NODE_DOWN, w.NODE_UP, w.SLEEP):  # WAKE: it is on its way, NODE_UP follows
            _count(node, -1, nodes, totals)
            nodes[_UP, node] = kind == w.NODE_UP
            _count(node, 1, nodes, totals)
        if row + 1 == rows or events[row + 1, 0] != time:
            series[0, points], series[1, points], series[2, points] = time, running, queue
            series[3, points] = totals[_BUSY]
            fragmentation[points] = totals[_BROKEN] / totals[_FREE] if totals[_FREE] > 0 else 0.0
            points += 1

    return points


@kernel
def _occupy(node: int, amount: int, nodes: I64, totals: I64) -> None:
    """Take (or give back, below 0) so much of a node; without placement there is no node, only a count."""
    if node < 0:
        totals[_BUSY] += amount
        totals[_FREE] -= amount
        return
    _count(node, -1, nodes, totals)
    nodes[_USED, node] += amount
    _count(node, 1, nodes, totals)


@kernel
def _count(node: int, sign: int, nodes: I64, totals: I64) -> None:
    """Count a node into the totals (sign 1) or out of them (-1)."""
    used = min(nodes[_USED, node], nodes[_SIZE, node])  # jobs that share GPUs may hold more than there is
    totals[_BUSY] += sign * used
    if nodes[_UP, node]:
        left = nodes[_SIZE, node] - used
        totals[_FREE] += sign * left
        if used > 0:
            totals[_BROKEN] += sign * left

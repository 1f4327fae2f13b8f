"""Which jobs were on which node when, from the event log, and how busy that made the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shunter import world as w
from shunter.model import GPU
from shunter.world import F64, I64

if TYPE_CHECKING:
    from shunter.cluster import Cluster

_RELEASES = (w.FINISH, w.FAIL, w.PREEMPT, w.MOVE)


@dataclass(frozen=True, eq=False)
class Stays:
    """Jobs on nodes, one row per stay of a job on a node, by node and then by beginning."""

    node: I64
    start: I64  # ms
    end: I64  # ms
    amount: I64  # thousandths of GPUs
    job: I64  # -1: the node was down or asleep


def stays(events: I64) -> Stays:
    """All stays of jobs on nodes, and the outages of nodes, from the event log."""
    columns = np.ascontiguousarray(events.T)
    ran, until = _held(columns, w.START, _RELEASES, by=2)
    parts = [(ran, until, columns[2, ran], columns[4, ran])]
    for kind in (w.NODE_DOWN, w.SLEEP):
        away, until = _held(columns, kind, (w.NODE_UP,), by=3)
        parts.append((away, until, np.full(len(away), -1), np.zeros(len(away), np.int64)))
    rows, end, job, amount = (np.concatenate(part) for part in zip(*parts, strict=True))
    node, start = columns[3, rows], columns[0, rows]
    order = np.lexsort((start, node))
    order = order[np.searchsorted(node[order], 0) :]  # a placement that only counts GPUs names no node: -1
    return Stays(node[order], start[order], end[order], amount[order], job[order])


def _held(columns: I64, begin: int, ends: tuple[int, ...], by: int) -> tuple[I64, I64]:
    """Rows of kind ``begin``, and when the next of ``ends`` with the same job or node comes, at the latest the end."""
    rows = np.flatnonzero(np.isin(columns[1], (begin, *ends)))
    if not len(rows):
        return rows, rows
    key = columns[by, rows]
    order = np.argsort(key, kind="stable")
    rows, key = rows[order], key[order]
    begins = columns[1, rows] == begin
    places = np.where(begins, len(rows), np.arange(len(rows)))
    following = np.minimum.accumulate(places[::-1])[::-1]  # the next end at or after each row
    found = np.minimum(following, len(rows) - 1)
    same = (following < len(rows)) & (key[found] == key)
    return rows[begins], np.where(same, columns[0, rows[found]], columns[0, -1])[begins]


def occupancy(held: Stays, cluster: Cluster, first: float, last: float, shape: tuple[int, int]) -> F64:
    """Share of the GPUs in use: groups of neighbouring nodes x slices of the time from ``first`` to ``last`` (ms)."""
    rows, bins = shape
    row_of = np.arange(cluster.nodes) * rows // cluster.nodes
    edges = np.zeros(rows * (bins + 2))
    for time, sign in ((held.start, 1.0), (held.end, -1.0)):
        at = np.clip((time - first) / (last - first) * bins, 0, bins)
        slot = at.astype(np.int64)
        place = row_of[held.node] * (bins + 2) + slot
        rest = (slot + 1 - at) * held.amount * sign
        edges += np.bincount(place, rest, len(edges)) + np.bincount(place + 1, held.amount * sign - rest, len(edges))
    room = np.bincount(row_of, cluster.node_gpus, rows) * GPU
    filled: F64 = np.cumsum(edges.reshape(rows, bins + 2), axis=1)[:, :bins] / room[:, None]
    return np.clip(filled, 0, 1)

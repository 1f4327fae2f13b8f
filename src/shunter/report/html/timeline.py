"""The node timeline: who was on which node when, packed small enough for a page.

While they fit, all stays of jobs on nodes are in the page, and the browser draws any part of them exactly.  Where they
don't, the page has a grid of how busy groups of nodes were in slices of time.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import world as w
from shunter.model import GPU
from shunter.report.html.course import ZOOM, span
from shunter.report.html.page import embed, table, text_of
from shunter.report.tables import share
from shunter.world import F64, I64

if TYPE_CHECKING:
    from shunter.cluster import Cluster
    from shunter.folders import Run

BUDGET = 1_350_000  # bytes of packed data in a page; as text they are a third more
STEPS = 1_000_000  # times are told to one part in so many of the whole
GRID_ROWS, GRID_BINS, LEVELS = 500, 800, 32  # a grid at its finest
GRID_ROOM = 150_000  # characters kept free for each grid to come
MOST_STAYS = 400_000  # more are not even tried
GROUPS = 16  # rows of the table behind the timeline
Progress: TypeAlias = Callable[[int, int], None]
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
    rows = _held(events, 2, w.START, _RELEASES)
    away = [_held(events, 3, kind, (w.NODE_UP,)) for kind in (w.NODE_DOWN, w.SLEEP)]
    parts = [(begin, end, begin[:, 2]) for begin, end in (rows,)]
    parts += [(begin, end, np.full(len(begin), -1)) for begin, end in away]
    begins, job = np.concatenate([p[0] for p in parts]), np.concatenate([p[2] for p in parts])
    end = np.concatenate([p[1] for p in parts])
    order = np.lexsort((begins[:, 0], begins[:, 3]))
    order = order[begins[order, 3] >= 0]  # a placement that only counts GPUs names no node
    amount = np.where(job < 0, 0, begins[:, 4])
    return Stays(begins[order, 3], begins[order, 0], end[order], amount[order], job[order])


def _held(events: I64, key: int, begin: int, ends: tuple[int, ...]) -> tuple[I64, I64]:
    """Rows of kind ``begin``, and for each the time of the next of ``ends`` with the same key, or of the last event."""
    rows = events[np.isin(events[:, 1], (begin, *ends))]
    rows = rows[np.argsort(rows[:, key], kind="stable")]
    last = np.int64(events[-1, 0]) if len(events) else np.int64(0)
    begins = rows[:, 1] == begin
    where = np.where(begins, len(rows), np.arange(len(rows)))
    following = np.minimum.accumulate(where[::-1])[::-1]  # the next end at or after each row
    found = np.minimum(following, max(len(rows) - 1, 0))
    same = (following < len(rows)) & (rows[found, key] == rows[:, key])
    return rows[begins], np.where(same, rows[found, 0], last)[begins]


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


# ------------------------------------------------------------------------------------------- packing


def pack(**columns: I64) -> str:
    """Whole numbers from 0 to 2^32 - 1 as text: byte by byte, compressed.  ``timeline.js`` reads it."""
    head = json.dumps({name: len(values) for name, values in columns.items()}).encode()
    planes = [values.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes() for values in columns.values()]
    return _text(head + b"\0" + b"".join(planes))


def _text(data: bytes) -> str:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(squeeze.compress(data) + squeeze.flush()).decode()


def _packed_stays(held: Stays, nodes: int, first: int, unit: int, jobs: int) -> str:
    counts = np.bincount(held.node, minlength=nodes)
    start, end = (held.start - first) // unit, (held.end - first) // unit
    fresh = np.diff(held.node, prepend=-1) != 0
    delta = np.where(fresh, start, np.diff(start, prepend=0))
    job = np.where(held.job < 0, jobs, held.job)
    return pack(counts=counts, delta=delta, length=end - start, amount=held.amount, job=job)


def _packed_grid(held: Stays, cluster: Cluster, first: float, last: float, room: int) -> dict[str, Any]:
    rows, bins = min(cluster.nodes, GRID_ROWS), GRID_BINS
    while True:
        levels = np.rint(occupancy(held, cluster, first, last, (rows, bins)) * LEVELS).astype(np.uint8)
        data = _text(levels.tobytes())
        if len(data) <= room or rows * bins < 4000:
            return {"grid": data, "rows": rows, "bins": bins, "levels": LEVELS}
        rows, bins = (rows, bins // 2) if bins >= 2 * rows else (max(rows // 2, 1), bins)


def _packed_jobs(run: Run, first: int, unit: int) -> dict[str, Any]:
    users, user = _codes(run.jobs["user"].to_list())
    submit = (np.rint(run.jobs["submit"].to_numpy() * 1000).astype(np.int64) - first) // unit
    gpus = np.rint(run.jobs["gpus"].to_numpy() * GPU).astype(np.int64)
    names = _text(json.dumps(run.jobs["job_id"].to_list(), ensure_ascii=False).encode())
    return {"names": names, "users": users, "columns": pack(user=user, gpus=gpus, submit=np.maximum(submit, 0))}


def _codes(names: Sequence[str | None]) -> tuple[list[str], I64]:
    """The different names, and for each entry which it is; code 0 is none."""
    code: dict[str | None, int] = {None: 0}
    codes = np.array([code.setdefault(name, len(code)) for name in names], np.int64)
    return [name or "" for name in code], codes


# ------------------------------------------------------------------------------------------- the figure


def timeline(names: Sequence[str], runs: Sequence[Run], progress: Progress) -> list[str]:
    """The figure; nothing if no policy says on which node a job runs.  ``progress`` is told (done, of so many) jobs."""
    cluster = runs[0].cluster
    first_s, last_s = span(runs)
    first, last = round(first_s * 1000), round(last_s * 1000)
    unit = max(1, (last - first) // STEPS)
    held = [stays(run.events) for run in runs]
    placed = [index for index, one in enumerate(held) if len(one.node)]
    if not placed:
        return []
    jobs = _packed_jobs(runs[0], first, unit)
    left = BUDGET * 4 // 3 - len(jobs["names"]) - len(jobs["columns"])
    drawn: dict[int, dict[str, Any]] = {}
    for done, index in enumerate(placed, 1):  # every run has room for a grid; what is left goes to the first ones
        room = left - GRID_ROOM * (len(placed) - done)
        drawn[index] = _drawn(held[index], cluster, (first, last, unit), len(runs[0].jobs), room)
        progress(done * len(runs[0].jobs), len(placed) * len(runs[0].jobs))
        left -= len(drawn[index].get("stays", "")) + len(drawn[index].get("grid", ""))
    exact = any("stays" in one for one in drawn.values())
    data = {
        "zoom": ZOOM, "span": last_s - first_s, "unit": unit / 1000, "jobs": jobs if exact else None,
        "groups": [[group.count, group.gpus, group.gpu_type, group.vc] for group in cluster.groups],
        "runs": [{"name": names[index], **drawn[index]} for index in placed],
    }  # fmt: skip
    return [
        _figure(
            data, _finding(placed, names, runs), _nodes(placed, names, held, cluster, (first, last)), len(runs[0].jobs)
        )
    ]


def _drawn(held: Stays, cluster: Cluster, times: tuple[int, int, int], jobs: int, room: int) -> dict[str, Any]:
    first, last, unit = times
    if len(held.node) <= MOST_STAYS:
        data = _packed_stays(held, cluster.nodes, first, unit, jobs)
        if len(data) <= room:
            return {"stays": data}
    return _packed_grid(held, cluster, first, last, min(room, GRID_ROOM))


def _finding(placed: Sequence[int], names: Sequence[str], runs: Sequence[Run]) -> str:
    cluster = runs[0].cluster
    used = {names[index]: float(runs[index].summary["utilization"]) for index in placed}
    low, high = min(used, key=used.__getitem__), max(used, key=used.__getitem__)
    between = share(used[low]) if low == high else f"{share(used[low])} ({low}) to {share(used[high])} ({high})"
    return f"Of {cluster.nodes:,} nodes with {cluster.gpus:,} GPUs in all, {between} were in use over the whole time."


def _nodes(
    placed: Sequence[int], names: Sequence[str], held: Sequence[Stays], cluster: Cluster, times: tuple[int, int]
) -> str:
    rows = min(GROUPS, cluster.nodes)
    used = [occupancy(held[index], cluster, times[0], times[1], (rows, 1))[:, 0] for index in placed]
    edges = np.searchsorted(np.arange(cluster.nodes) * rows // cluster.nodes, np.arange(rows + 1))
    lines = []
    for row in range(rows):
        low, high = edges[row], edges[row + 1] - 1
        which = f"node {low}" if low == high else f"nodes {low}-{high}"
        lines.append([which, *(share(values[row]) for values in used)])
    return table("GPUs in use over the whole time", ["", *(names[index] for index in placed)], lines)


def _figure(data: dict[str, Any], finding: str, nodes: str, jobs: int) -> str:
    return (
        '<figure class="timeline"><figcaption><h3>Nodes over time</h3>'
        f"<p>{text_of(finding)} The darker, the more of a node's GPUs are in use. Drag over a part to look closer; from"
        " near enough, every job is a bar.</p></figcaption>"
        f'<div class="stage"></div>{embed(data)}'
        f"<details><summary>Data of this chart</summary>{nodes}</details></figure>"
    )

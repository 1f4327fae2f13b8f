"""The node timeline: which jobs were on which node when, packed small enough for a page.

While they fit, all stays of jobs on nodes are in the page, and the browser draws any part of them exactly.  Where they
don't, the page has a grid of how busy groups of nodes were in slices of time.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter.model import GPU
from shunter.report.html.course import ZOOM, span, time_axis
from shunter.report.html.page import embed, table, text_of
from shunter.report.html.stays import Stays, occupancy, stays
from shunter.report.html.words import span_of
from shunter.report.terminal.tables import share
from shunter.texts import counted
from shunter.world import I64

if TYPE_CHECKING:
    from shunter.cluster import Cluster
    from shunter.run_folder import Run

STEPS = 1_000_000  # the resolution of times: one part in this many of the whole
GRID_ROWS, GRID_BINS, LEVELS = 500, 800, 32  # a grid at its finest
GRID_ROOM = 150_000  # characters kept free for each grid
MOST_STAYS = 400_000  # more are not even tried
GROUPS = 16  # rows of the table behind the timeline

_NUMBERED = re.compile(r"(.*?)([0-9]{0,9})", re.DOTALL)  # a stem and a number small enough to be packed

Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Frame:
    """What all runs of a timeline share; times in ms."""

    cluster: Cluster
    jobs: int
    first: int
    last: int

    @property
    def unit(self) -> int:
        """The unit of times, in ms."""
        return max(1, (self.last - self.first) // STEPS)


def timeline(names: Sequence[str], runs: Sequence[Run], room: int, progress: Progress) -> list[str]:
    """The figure, in this many characters; nothing if no policy says on which node a job runs.

    ``progress`` gets the number of jobs placed so far, and of all.
    """
    first, last = (round(time * 1000) for time in span(runs))
    frame = Frame(runs[0].cluster, len(runs[0].jobs), first, last)
    held = [stays(run.events) for run in runs]
    placed = [index for index, one in enumerate(held) if len(one.node)]
    if not placed:
        return []
    jobs = _packed_jobs(runs[0], frame)
    room -= len(jobs["columns"])
    shown = [held[index] for index in placed]
    packed = _packed_runs(shown, frame, room - sum(map(len, jobs["ids"].values())), progress)
    if not any("stays" in one for one in packed):  # bars without names say more than no bars
        jobs["ids"] = None
        packed = _packed_runs(shown, frame, room, progress)
    exact = any("stays" in one for one in packed)
    data = {
        "zoom": ZOOM, "origin": time_axis(first / 1000).origin, "span": (last - first) / 1000,
        "unit": frame.unit / 1000, "jobs": jobs if exact else None,
        "groups": [[group.count, group.gpus, group.gpu_type, group.vc] for group in frame.cluster.groups],
        "runs": [{"name": names[index], **one} for index, one in zip(placed, packed, strict=True)],
    }  # fmt: skip
    used = {names[index]: float(runs[index].summary["utilization"]) for index in placed}
    return [
        _figure(data, _finding(frame.cluster, used), _nodes({names[index]: held[index] for index in placed}, frame))
    ]


# ------------------------------------------------------------------------------------------- packing


def pack(**columns: I64) -> str:
    """Whole numbers from 0 to 2^32 - 1 as text: byte by byte, compressed.  ``js/stays.js`` reads it."""
    head = json.dumps({name: len(values) for name, values in columns.items()}).encode()
    planes = [values.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes() for values in columns.values()]
    return _text(head + b"\0" + b"".join(planes))


def _text(data: bytes) -> str:
    squeeze = zlib.compressobj(6, zlib.DEFLATED, -15)
    return base64.b64encode(squeeze.compress(data) + squeeze.flush()).decode()


def _steps(values: I64) -> I64:
    """From each number to the next; what goes down is odd."""
    step = np.diff(values, prepend=0)
    return np.where(step < 0, -2 * step - 1, 2 * step)


def _packed_runs(held: Sequence[Stays], frame: Frame, room: int, progress: Progress) -> list[dict[str, Any]]:
    """Every run has room for a grid; what is left goes to the stays of the first ones."""
    packed: list[dict[str, Any]] = []
    for done, one in enumerate(held, 1):
        packed.append(_packed(one, frame, room - GRID_ROOM * (len(held) - done)))
        room -= len(packed[-1].get("stays", packed[-1].get("grid", "")))
        progress(done * frame.jobs, len(held) * frame.jobs)
    return packed


def _packed(held: Stays, frame: Frame, room: int) -> dict[str, Any]:
    """The stays if they fit into this many characters, else a grid."""
    if len(held.node) <= MOST_STAYS:
        data = _packed_stays(held, frame)
        if len(data) <= room:
            return {"stays": data}
    return _packed_grid(held, frame)


def _packed_stays(held: Stays, frame: Frame) -> str:
    counts = np.bincount(held.node, minlength=frame.cluster.nodes)
    start, end = (held.start - frame.first) // frame.unit, (held.end - frame.first) // frame.unit
    fresh = np.diff(held.node, prepend=-1) != 0
    delta = np.where(fresh, start, np.diff(start, prepend=0))
    job = np.where(held.job < 0, frame.jobs, held.job)
    return pack(counts=counts, delta=delta, length=end - start, amount=held.amount, job=_steps(job))


def _packed_grid(held: Stays, frame: Frame) -> dict[str, Any]:
    """As fine as there is room for."""
    rows, bins = min(frame.cluster.nodes, GRID_ROWS), GRID_BINS
    while True:
        busy = occupancy(held, frame.cluster, frame.first, frame.last, (rows, bins))
        data = _text(np.rint(busy * LEVELS).astype(np.uint8).tobytes())
        if len(data) <= GRID_ROOM:
            return {"grid": data, "rows": rows, "bins": bins, "levels": LEVELS}
        rows, bins = (rows, bins // 2) if bins > rows else (rows // 2, bins)


def _packed_jobs(run: Run, frame: Frame) -> dict[str, Any]:
    users, user = _codes(run.jobs["user"].to_list())
    submit = (np.rint(run.jobs["submit"].to_numpy() * 1000).astype(np.int64) - frame.first) // frame.unit
    gpus = np.rint(run.jobs["gpus"].to_numpy() * GPU).astype(np.int64)
    ids = packed_ids(run.jobs["job_id"].to_list())
    return {"ids": ids, "users": users, "columns": pack(user=user, gpus=gpus, submit=np.maximum(submit, 0))}


def packed_ids(ids: Sequence[str]) -> dict[str, str]:
    """Ids as text, or as stems and the numbers that follow them, written as differences: whichever is shorter."""
    text = _text(json.dumps(ids, ensure_ascii=False).encode())
    parts = [_NUMBERED.fullmatch(one) for one in ids]
    stems, stem = _codes([part[1] if part else None for part in parts])
    digits = [part[2] if part else "" for part in parts]
    number = np.array([int(one or 0) for one in digits], np.int64)
    numbers = pack(stem=stem, width=np.array(list(map(len, digits)), np.int64), number=_steps(number))
    written = _text(json.dumps(stems, ensure_ascii=False).encode())
    return {"text": text} if len(text) <= len(written) + len(numbers) else {"stems": written, "columns": numbers}


def _codes(names: Sequence[str | None]) -> tuple[list[str], I64]:
    """The different names, and for each entry which it is; code 0 is none."""
    code: dict[str | None, int] = {None: 0}
    codes = np.array([code.setdefault(name, len(code)) for name in names], np.int64)
    return [name or "" for name in code], codes


# ------------------------------------------------------------------------------------------- the figure


def _finding(cluster: Cluster, used: dict[str, float]) -> str:
    whole = f"{counted(cluster.nodes, 'node')} with {counted(cluster.gpus, 'GPU')} in all"
    return f"Of {whole}, {span_of(used, share)} were in use over the whole time."


def _nodes(held: dict[str, Stays], frame: Frame) -> str:
    """How busy the nodes were, as a table of not too many rows."""
    nodes = frame.cluster.nodes
    rows = min(GROUPS, nodes)
    used = [occupancy(one, frame.cluster, frame.first, frame.last, (rows, 1))[:, 0] for one in held.values()]
    edges = np.searchsorted(np.arange(nodes) * rows // nodes, np.arange(rows + 1))
    lines = []
    for row in range(rows):
        low, high = edges[row], edges[row + 1] - 1
        which = f"node {low}" if low == high else f"nodes {low}-{high}"
        lines.append([which, *(share(values[row]) for values in used)])
    return table("GPUs in use over the whole time", ["nodes", *held], lines)


def _figure(data: dict[str, Any], finding: str, nodes: str) -> str:
    return (
        '<figure class="timeline"><figcaption><h3>Nodes over time</h3>'
        f"<p>{text_of(finding)} The stronger the colour, the more of a node's GPUs are in use. Drag over a part to zoom"
        " in; at a high zoom, every job is a bar.</p></figcaption>"
        f'<div class="stage"></div>{embed(data)}'
        f"<details><summary>Data of this chart</summary>{nodes}</details></figure>"
    )

"""What letting nodes sleep saves, and what it costs: pure functions of an event log, or of a controlled series.

A node that is down counts as awake, and so does one that is waking up: both draw what an idle one does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from shunter import world as w
from shunter.energy.control import SleepCourse
from shunter.energy.power import PowerModel
from shunter.energy.series import DAY_MS, STEP_MS, stays, summed, used_nodes
from shunter.report.metrics import HOUR_MS, spread
from shunter.world import F64, I64

POWER = PowerModel()


class NodeCounts(NamedTuple):
    """Nodes over time, as steps: when a value begins to hold, and the values; the last only says when it ends."""

    time: I64  # (points,) ms
    used: I64
    awake: I64  # or waking up
    total: int


def any_slept(events: I64) -> bool:
    """Whether a node slept in a run."""
    return bool((events[:, 1] == w.SLEEP).any())


def energy(
    events: I64, nodes: int, begin: int | None = None, end: int | None = None, power: PowerModel = POWER
) -> dict[str, Any]:
    """The numbers of a run on this many nodes, from ``begin`` to ``end`` (ms), or all of it."""
    first = int(events[0, 0]) if begin is None else begin
    last = max(int(events[-1, 0]) if end is None else end, first + 1)
    course = over_time(events, nodes, first, last)
    held = np.diff(course.time)
    asleep_hours = float((nodes - course.awake[:-1]) @ held) / HOUR_MS
    hours = nodes * (last - first) / HOUR_MS
    woken = events[(events[:, 1] == w.WAKE) & _within(events[:, 0], first, last), 0]
    delays = _delays(events, nodes, first, last)
    days, times = (last - first) / DAY_MS, len(np.unique(woken))
    kwh = power.kwh(hours - asleep_hours, asleep_hours, gpu_hours(events, first, last))
    return {
        "asleep_nodes": asleep_hours / hours * nodes,
        "asleep_share": asleep_hours / hours,
        "wake_ups_per_day": times / days,
        "nodes_per_wake_up": len(woken) / times if times else 0.0,
        "delayed_jobs": len(delays),
        "delay_s": spread(delays, 1000),
        "node_utilization": float(course.used[:-1] @ held) / (nodes * (last - first)),
        "node_utilization_awake": _utilization(course.used[:-1], course.awake[:-1], held),
        "kwh": kwh,
        "kwh_without_sleep": kwh + power.saved(asleep_hours),
    }


def _utilization(used: I64, awake: I64, held: I64) -> float:
    """The mean over time of the share of awake nodes that are in use; with none awake, all that are needed are."""
    share = np.where(awake > 0, used / np.maximum(awake, 1), 1.0)
    return float(share @ held / held.sum())


def over_time(events: I64, nodes: int, begin: int, end: int) -> NodeCounts:
    """Nodes in use and awake between two times, by the event log."""
    used, asleep = used_nodes(events), _changes(sleeps(events, end))
    inner = np.concatenate([used[0], asleep[0]])
    time = np.unique(np.concatenate([[begin, end], inner[(inner > begin) & (inner < end)]]))
    return NodeCounts(time, value_at(*used, time), nodes - value_at(*asleep, time), nodes)


def value_at(time: I64, value: I64, wanted: I64) -> I64:
    """The values of a step function at these times; 0 before it begins."""
    padded: I64 = np.concatenate([[0], value])
    return padded[np.searchsorted(time, wanted, side="right")]


def sleeps(events: I64, until: int = 0) -> I64:
    """Every sleep of a node as a row (node, begin, end); it ends when the node is woken or breaks.

    The last one of a node may have no end: it lasts to the end of the log, or to ``until`` (ms) if that is later.
    """
    rows = events[np.isin(events[:, 1], (w.SLEEP, w.WAKE, w.NODE_UP, w.NODE_DOWN))]
    rows = rows[np.argsort(rows[:, 3], kind="stable")]
    asleep = np.flatnonzero(rows[:, 1] == w.SLEEP)
    after = np.minimum(asleep + 1, len(rows) - 1)
    followed = (asleep + 1 < len(rows)) & (rows[after, 3] == rows[asleep, 3])
    end = np.where(followed, rows[after, 0], max(until, int(events[-1, 0])) if len(events) else 0)
    return np.stack([rows[asleep, 3], rows[asleep, 0], end], axis=1)


def _changes(spells: I64) -> tuple[I64, I64]:
    return summed(np.concatenate([spells[:, 1], spells[:, 2]]), np.repeat([1, -1], len(spells)))


def _within(time: I64, begin: int, end: int) -> Any:
    return (time >= begin) & (time < end)


def gpu_hours(events: I64, begin: int, end: int) -> float:
    """GPU-hours in use between two times (ms), by the event log."""
    found = stays(events)
    length = np.minimum(found[:, 2], end) - np.maximum(found[:, 1], begin)
    return float(np.maximum(length, 0) @ found[:, 3]) / (1000 * HOUR_MS)


def _delays(events: I64, nodes: int, begin: int, end: int) -> I64:
    """How long jobs waited for nodes to wake up (ms): those that started the moment that one of theirs was awake."""
    wake, up = _wake_ups(events)
    rows = events[np.isin(events[:, 1], (w.ARRIVE, w.START, w.PREEMPT, w.FAIL, w.MOVE))]
    rows = rows[np.argsort(rows[:, 2], kind="stable")]
    starts = rows[:, 1] == w.START
    before = np.maximum.accumulate(np.where(starts, -1, np.arange(len(rows))))  # where its wait began
    mine = np.flatnonzero(starts & _within(rows[:, 0], begin, end))
    mine = mine[rows[before[mine], 1] != w.MOVE]
    keys, order = np.unique(up[:, 0] * nodes + up[:, 1], return_index=True)
    wanted = rows[mine, 0] * nodes + rows[mine, 3]
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    found = keys[at] == wanted if len(keys) else np.zeros(len(mine), np.bool_)
    mine, at = mine[found], order[at[found]]
    waited = rows[mine, 0] - np.maximum(wake[at], rows[before[mine], 0])
    kept = waited > 0
    jobs, member = np.unique(rows[mine[kept], 2] * (len(rows) + 1) + before[mine[kept]], return_inverse=True)
    longest = np.zeros(len(jobs), np.int64)
    np.maximum.at(longest, member, waited[kept])
    return longest


def _wake_ups(events: I64) -> tuple[I64, I64]:
    """When each waking node was woken, and (when, which) it was up."""
    rows = events[np.isin(events[:, 1], (w.SLEEP, w.WAKE, w.NODE_UP, w.NODE_DOWN))]
    rows = rows[np.argsort(rows[:, 3], kind="stable")]
    woken = np.flatnonzero((rows[:-1, 1] == w.WAKE) & (rows[1:, 1] == w.NODE_UP) & (rows[:-1, 3] == rows[1:, 3]))
    return rows[woken, 0], rows[woken + 1][:, [0, 3]]


# ------------------------------------------------------------------------------------------- a controlled series


def of_course(course: SleepCourse, power: PowerModel = POWER, gpu_hours: float = 0.0) -> dict[str, Any]:
    """The numbers of a controlled series; no job waits in it: a shortage is what would have been waited for."""
    steps, woken = len(course.used), course.change[course.change > 0]
    hours, days = STEP_MS / HOUR_MS, steps * STEP_MS / DAY_MS
    asleep: F64 = (course.total - course.awake).astype(np.float64)
    kwh = power.kwh(float(course.awake.sum()) * hours, float(asleep.sum()) * hours, gpu_hours)
    return {
        "days": days,
        "asleep_nodes": float(asleep.mean()),
        "asleep_share": float(asleep.sum() / course.total.sum()),
        "wake_ups_per_day": len(woken) / days,
        "changes_per_day": int((course.change != 0).sum()) / days,
        "nodes_per_wake_up": float(woken.mean()) if len(woken) else 0.0,
        "shortage_node_steps": int(course.shortage.sum()),
        "node_utilization": float((course.used / course.total).mean()),
        "node_utilization_awake": _utilization(course.used, course.awake, np.ones(steps, np.int64)),
        "kwh": kwh,
        "kwh_without_sleep": kwh + power.saved(float(asleep.sum()) * hours),
    }

"""The compiled replay against a slow one that is written the obvious way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter import world as w
from shunter.report.replay import replay

NODES = np.array([8, 4, 2])


def slowly(events, node_gpus):
    """Per instant: (time, running, queue, busy, fragmentation), recomputed from scratch each time."""
    waiting, held, down, last, points = set(), {}, set(), {}, []
    for row, (time, kind, job, a, b) in enumerate(events):
        if kind == w.START:
            if job not in held:
                last[job] = []
            waiting.discard(job)
            held.setdefault(job, []).append((a, b))
            last[job].append(row)
        elif kind in (w.ARRIVE, w.FINISH, w.FAIL, w.PREEMPT, w.MOVE):
            held.pop(job, None)
            waiting.discard(job)
            if kind in (w.ARRIVE, w.PREEMPT) or (kind == w.FAIL and a == 0):
                waiting.add(job)
        elif kind in (w.NODE_DOWN, w.SLEEP):
            down.add(a)
        elif kind == w.NODE_UP:
            down.discard(a)
        if row + 1 < len(events) and events[row + 1][0] == time:
            continue
        used = [sum(b for runs in held.values() for a, b in runs if a == node) for node in range(len(node_gpus))]
        loose = sum(b for runs in held.values() for a, b in runs if a < 0)
        size = [1000 * g for g in node_gpus]
        left = [max(0, s - u) if node not in down else 0 for node, (s, u) in enumerate(zip(size, used, strict=True))]
        free = sum(left) - loose
        broken = sum(x for x, u in zip(left, used, strict=True) if u > 0)
        busy = loose + sum(min(u, s) for u, s in zip(used, size, strict=True))
        points.append((time, len(held), len(waiting), busy, broken / free if free > 0 else 0.0))
    return points, {row for rows in last.values() for row in rows}


@st.composite
def logs(draw):
    """Random but legal logs: jobs come, start on some nodes, stop in every way there is; nodes go and come back."""
    jobs = draw(st.integers(1, 6))
    time, state, rows = 0, ["new"] * jobs, []
    for _ in range(draw(st.integers(0, 40))):
        time += draw(st.integers(0, 3))
        job = draw(st.integers(0, jobs - 1))
        if draw(st.integers(0, 9)) == 0:
            kind = draw(st.sampled_from([w.NODE_DOWN, w.NODE_UP, w.SLEEP, w.WAKE, w.REASSIGN]))
            rows.append((time, kind, -1, draw(st.integers(0, 2)), 0))
        elif state[job] == "new":
            rows.append((time, w.ARRIVE, job, 0, 0))
            state[job] = "waiting"
        elif state[job] in ("waiting", "moving"):
            nodes = draw(st.lists(st.integers(-1, 2), min_size=1, max_size=3, unique=True))
            rows += [(time, w.START, job, node, draw(st.integers(1, 8)) * 250) for node in nodes]
            state[job] = "running"
        elif state[job] == "running":
            kind = draw(st.sampled_from([w.FINISH, w.FAIL, w.PREEMPT, w.MOVE, w.STOP]))
            good = draw(st.integers(0, 1))
            rows.append((time, kind, job, good, 0))
            if kind != w.STOP:
                done = kind == w.FINISH or (kind == w.FAIL and good == 1)
                state[job] = "over" if done else ("moving" if kind == w.MOVE else "waiting")
    return jobs, np.array(rows, np.int64).reshape(-1, 5)


@given(logs())
def test_the_kernel_sees_what_the_slow_replay_sees(log):
    jobs, events = log
    fast = replay(events, NODES, jobs)
    points, last = slowly(events.tolist(), NODES.tolist())
    table = zip(fast.time, fast.running, fast.queue, fast.busy, fast.fragmentation, strict=True)
    assert [tuple(x.item() for x in point) for point in table] == points
    assert set(np.flatnonzero(fast.last_run).tolist()) == last


def test_fragmentation_is_averaged_over_the_time_in_which_a_job_waits():
    events = np.array(
        [
            (0, w.ARRIVE, 0, 0, 0),
            (0, w.START, 0, 0, 4000),  # 4 of 8 GPUs of node 0: 4 of the 10 free GPUs are broken
            (10, w.ARRIVE, 1, 0, 0),
            (20, w.START, 1, 1, 2000),  # nobody waits any more
            (30, w.FINISH, 0, 0, 0),
            (40, w.FINISH, 1, 0, 0),
        ]
    )
    found = replay(events, NODES, 2)
    assert found.mean_fragmentation() == pytest.approx(4 / 10)
    assert found.busy_gpu_ms() == 4000 * 30 + 2000 * 20


def test_an_empty_log_is_nothing():
    found = replay(np.empty((0, 5), np.int64), NODES, 0)
    assert (found.busy_gpu_ms(), found.mean_fragmentation(), len(found.time)) == (0, 0.0, 0)

"""Node series: what is read, what is refused, and what an event log gives."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter import world as w
from shunter.energy.series import NodeSeries, of_run, read, recognises, stays, used_nodes
from shunter.errors import EnergyError

GOOD = "time,active,total\n2017-10-03 00:00:00,3,9\n2017-10-03 00:01:00,5,9\n2017-10-03 00:10:00,4,8\n"


@pytest.mark.parametrize("name", ["nodes.csv", "nodes.csv.gz"])
def test_a_file_is_read_packed_or_not(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(GOOD.encode()) if name.endswith("gz") else GOOD.encode())
    assert recognises(path)
    found = read(path)
    assert found.time.tolist() == [1506988800000, 1506988860000, 1506989400000]
    assert (found.used.tolist(), found.total.tolist()) == ([3, 5, 4], [9, 9, 8])
    steps = found.resampled()
    assert (steps.used.tolist(), steps.total.tolist(), steps.gaps()) == ([5, 4], [9, 8], 0)


def test_times_may_be_seconds_and_columns_in_any_order(tmp_path):
    (tmp_path / "n.csv").write_text("total,time,active\n4, 0,1\n4,60.5,2\n")
    found = read(tmp_path / "n.csv")
    assert (found.time.tolist(), found.used.tolist()) == ([0, 60_500], [1, 2])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,active\n1,2\n", "line 1: column 'total' is missing"),
        ("time,active,total\n", "has no rows"),
        ("time,active,total\n0,1,2\nsoon,1,2\n", "line 3: time must be a date such as .*, got 'soon'"),
        ("time,active,total\n0,1.5,2\n", "line 2: active must be a whole number; correct it, got '1.5'"),
        ("time,active,total\n0,1,2\n60,3,2\n", "line 3: active must be from 0 to total; correct it, got '3'"),
        ("time,active,total\n0,0,0\n", "line 2: total must be 1 or more"),
        ("time,active,total\n60,1,2\n60,1,2\n", "line 3: time must be later than the one before"),
        ("time,active,total\n0,1,2\n60,,2\n", "line 3: active must be a whole number; correct it, got 'None'"),
        ("time,active,total\n0,1,2,7\n", "can't be read as CSV"),
    ],
)
def test_bad_rows_are_refused_by_file_line_and_field(tmp_path, text, said):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(EnergyError, match=said) as error:
        read(tmp_path / "bad.csv")
    assert "bad.csv" in str(error.value)


def test_other_files_are_not_taken_for_one(tmp_path):
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus\na,0,5,1\n")
    (tmp_path / "binary.gz").write_bytes(b"\x00\xff")
    assert not recognises(tmp_path / "jobs.csv")
    assert not recognises(tmp_path / "binary.gz")
    assert not recognises(tmp_path / "nowhere.csv")
    with pytest.raises(EnergyError, match="no such file"):
        read(tmp_path / "nowhere.csv")


def test_missing_steps_are_counted():
    series = NodeSeries("s", np.array([0, 600_000, 3_000_000]), np.array([1, 2, 3]), np.array([4, 4, 4]))
    assert series.gaps() == 3


# ------------------------------------------------------------------------------------------- event logs


@st.composite
def logs(draw):
    """Jobs that come to nodes, move and leave, as an event log; and what was drawn: (nodes, from, to)."""
    rows, runs = [], []
    for job in range(draw(st.integers(1, 6))):
        time = draw(st.integers(0, 50))
        for _ in range(draw(st.integers(0, 3))):
            nodes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
            end = time + draw(st.integers(0, 20))
            kind = draw(st.sampled_from([w.FINISH, w.FAIL, w.PREEMPT, w.MOVE, 0]))
            runs.append((nodes, time, end if kind else None))
            rows += [(time, w.START, job, node, 1000) for node in nodes]
            if not kind:
                break
            rows.append((end, kind, job, 0, 0))
            time = end + (0 if kind == w.MOVE else draw(st.integers(0, 9)))
    rows.append((draw(st.integers(90, 140)), w.NODE_UP, -1, 0, 0))
    order = sorted(range(len(rows)), key=lambda at: (rows[at][0], at))
    last = rows[order[-1]][0]
    return np.array([rows[at] for at in order], np.int64), [(n, a, last if b is None else b) for n, a, b in runs]


@given(logs())
def test_nodes_in_use_are_those_on_which_a_job_runs(drawn):
    events, runs = drawn
    time, used = used_nodes(events)
    assert (np.diff(time) > 0).all()
    for moment in range(events[-1, 0]):
        busy = {node for nodes, begin, end in runs if begin <= moment < end for node in nodes}
        at = int(np.searchsorted(time, moment, side="right")) - 1
        assert (int(used[at]) if at >= 0 else 0) == len(busy)


@given(logs(), st.sampled_from([7, 10, 100]))
def test_the_series_of_a_run_has_the_most_of_each_step(drawn, step):
    events, runs = drawn
    if not any(begin < end for _, begin, end in runs):
        with pytest.raises(EnergyError, match="no job"):
            of_run("r", events, 4, step)
        return
    series = of_run("r", events, 4, step)
    for begin, most in zip(series.time.tolist(), series.used.tolist(), strict=True):
        counts = [
            len({node for nodes, a, b in runs if a <= moment < b for node in nodes})
            for moment in range(begin, begin + step)
        ]
        assert most == max(counts)


@given(logs())
def test_stays_add_up_to_the_gpu_time(drawn):
    events, runs = drawn
    found = stays(events)
    assert int((found[:, 2] - found[:, 1]) @ found[:, 3]) == 1000 * sum(len(n) * (b - a) for n, a, b in runs)

"""Simulated against recorded waits: the numbers, against slow ones written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.advice.recorded_waits import passed, use_of, waiting_with_room
from shunter.advice.validity import validity
from shunter.cluster import Cluster, NodeGroup
from shunter.model import Trace

DAY = 86_400_000


def made(rows, **more):
    """A trace of (submit s, wait s, run s, GPUs)."""
    submit, wait, run, gpus = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    ids = [str(at) for at in range(len(rows))]
    return Trace.of(
        "made", ids, submit=1000 * submit, recorded_wait=1000 * wait, duration=1000 * run, gpus=1000 * gpus, **more
    )


def pool(gpus, nodes=1):
    return Cluster("pool", (NodeGroup(nodes, gpus),))


JOBS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 10), st.integers(1, 4)), min_size=1, max_size=12
)


def slow_room(rows, size):
    """Second by second: waiting, and waiting with enough GPUs free."""
    waited = room = 0
    for second in range(60):
        busy = sum(gpus for submit, wait, run, gpus in rows if submit + wait <= second < submit + wait + run)
        for submit, wait, _, gpus in rows:
            if submit <= second < submit + wait:
                waited += 1
                room += busy + gpus <= size
    return waited, room


@given(JOBS, st.integers(1, 8))
def test_waiting_with_room_is_what_counting_seconds_gives(rows, size):
    waited, room = slow_room(rows, size)
    found = waiting_with_room(made(rows), pool(size))
    assert found["waited_job_hours"] == pytest.approx(waited / 3600)
    if waited:
        assert found["share_with_room"] == pytest.approx(room / waited)


@given(JOBS)
def test_use_is_what_counting_seconds_gives(rows):
    use = use_of(made(rows))
    for second in range(60):
        busy = sum(gpus for submit, wait, run, gpus in rows if submit + wait <= second < submit + wait + run)
        at = np.searchsorted(use.time, 1000 * second, side="right") - 1
        assert (use.busy[at] if at >= 0 else 0) == 1000 * busy


def test_how_full_it_was_while_jobs_waited():
    rows = [(0, 0, 100, 2), (0, 100, 10, 2), (0, 0, 50, 1)]  # of 4 GPUs: 3 in use, then 2
    found = waiting_with_room(made(rows), pool(4))
    assert found["share_with_room"] == pytest.approx(0.5)
    assert found["in_use_while_waiting"] == {"p10": 0.5, "p50": 0.5, "p90": 0.75}
    assert found["over_capacity"] == 0


def test_room_is_counted_in_the_jobs_own_virtual_cluster():
    rows = [(0, 0, 100, 2), (0, 100, 10, 2), (1, 0, 1, 1)]
    divided = Cluster("two", (NodeGroup(1, 2, vc="a"), NodeGroup(1, 8, vc="b")))
    trace = made(rows, vc=[0, 0, 1], vcs=("a", "b"))
    assert waiting_with_room(trace, divided)["share_with_room"] == 0
    assert waiting_with_room(trace, pool(10))["share_with_room"] == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(1, 2), st.integers(1, 2)),
        min_size=1,
        max_size=12,
    )
)
def test_passing_is_what_looking_at_every_pair_gives(rows):
    trace = made(
        [(submit, wait, 5, gpus) for submit, wait, gpus, _ in rows],
        limit=[limit for *_, limit in rows],
        user=[row[0] % 2 for row in rows],
    )
    start = trace.submit + trace.recorded_wait

    def same(a, b):
        return trace.gpus[a] == trace.gpus[b] and trace.limit[a] == trace.limit[b]

    found = [
        any(same(a, b) and trace.submit[b] < trace.submit[a] - 60_000 and start[b] > start[a] for b in range(len(rows)))
        for a in range(len(rows))
    ]
    assert passed(trace) == pytest.approx(np.mean(found))
    own = [
        any(same(a, b) and trace.user[a] == trace.user[b] and trace.submit[b] < trace.submit[a] - 60_000
            and start[b] > start[a] for b in range(len(rows)))
        for a in range(len(rows))
    ]  # fmt: skip
    assert passed(trace, same_user=True) == pytest.approx(np.mean(own))


def slow_spearman(a, b):
    def rank(values):
        return [sum(other < value for other in values) + (sum(o == value for o in values) + 1) / 2 for value in values]

    x, y = np.array(rank(a)), np.array(rank(b))
    return float(((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std()))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_the_numbers_are_those_of_their_definitions(pairs):
    recorded, simulated = (np.array(column) * 60 for column in zip(*pairs, strict=True))
    trace = made([(at, wait, 5, 1) for at, wait in enumerate(recorded)])
    found = validity(trace, 1000 * simulated, pool(8))
    if len(set(recorded)) > 1 and len(set(simulated)) > 1:
        assert found["rank_correlation"] == pytest.approx(slow_spearman(recorded.tolist(), simulated.tolist()))
    else:
        assert found["rank_correlation"] is None
    near = [max(pair) <= 60 or max(pair) <= 2 * min(pair) for pair in zip(recorded, simulated, strict=True)]
    assert found["within_factor_2"] == pytest.approx(np.mean(near))
    assert found["mean_abs_error_s"] == pytest.approx(np.abs(recorded - simulated).mean())
    assert found["median_abs_error_s"] == pytest.approx(np.median(np.abs(recorded - simulated)))


def days(count, each=40):
    """Jobs of some days whose waits rise and fall with the day."""
    generator = np.random.default_rng(3)
    rows = [(86_400 * day + 60 * at, int(600 * (1 + day % 5) * generator.random()), 30, 1 + at % 3)
            for day in range(count) for at in range(each)]  # fmt: skip
    return made(rows, user=np.arange(count * each) % 4, users=tuple("abcd"))


def test_the_interval_holds_the_value_and_is_the_same_each_time():
    trace = days(30)
    simulated = trace.recorded_wait + np.random.default_rng(1).integers(0, 900_000, len(trace))
    found = validity(trace, simulated, pool(8))
    low, value, high = (found["rank_interval"]["low"], found["rank_of_waits"], found["rank_interval"]["high"])
    assert low < value < high
    assert high - low < 0.3
    assert validity(trace, simulated, pool(8)) == found
    assert validity(trace, simulated, pool(8), seed=1)["rank_interval"] != found["rank_interval"]


def test_what_agrees_agrees_in_every_part():
    trace = days(70)
    found = validity(trace, trace.recorded_wait, pool(8))
    assert (found["rank_correlation"], found["mean_abs_error_s"], found["within_factor_2"]) == (pytest.approx(1), 0, 1)
    assert sum(row["jobs"] for row in found["by_size"]) == sum(row["jobs"] for row in found["by_month"]) == len(trace)
    assert [row["name"] for row in found["by_month"]] == ["days 0 to 29", "days 30 to 59", "days 60 to 89"]
    assert found["causes"]["only_recorded"]["jobs"] == found["causes"]["only_simulated"]["jobs"] == 0


def test_months_are_the_calendars_where_there_are_dates():
    rows = [(1_530_400_000 + 86_400 * day, 5, 5, 1) for day in range(40)]
    found = validity(made(rows), np.full(40, 7000), pool(8))
    assert [(row["name"], row["jobs"]) for row in found["by_month"]] == [
        ("2018-06", 1),
        ("2018-07", 31),
        ("2018-08", 8),
    ]


def test_jobs_that_wait_on_one_side_only_are_reported():
    trace = made([(0, 300, 5, 1), (1, 0, 5, 1), (2, 600, 5, 1), (3, 10, 5, 1)])
    causes = validity(trace, np.array([0, 120_000, 600_000, 5_000]), pool(8))["causes"]
    assert causes["only_recorded"] == {"jobs": 1, "share_of_recorded_wait": pytest.approx(300 / 910), "median_s": 300}
    assert causes["only_simulated"] == {"jobs": 1, "share_of_simulated_wait": pytest.approx(120 / 725)}
    assert causes["at_once_in_both"] == 0.25


def test_without_recorded_waits_nothing_is_claimed():
    trace = made([(0, 1, 5, 1), (1, 1, 5, 1)])
    assert validity(trace, np.array([-1, -1]), pool(8)) == {"jobs": 0, "parts": []}

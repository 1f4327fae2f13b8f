"""What sleep saves and costs, by the log of a run: against a slow count of the same, and in small worlds by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shunter
from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.energy.control import SleepSettings, run_series
from shunter.energy.power import PowerModel
from shunter.model import GPU, Trace
from shunter.report.energy import any_slept, energy, of_course, over_time, sleeps
from shunter.report.terminal.tables import comparison_view, summary_view
from shunter.sim.engine import Simulator

HOUR = 3_600_000
WATTS = PowerModel(1000, 100, 50, 2)


@st.composite
def runs(draw):
    """A run in which nodes sleep, and the number of nodes."""
    nodes = draw(st.integers(1, 4))
    count = draw(st.integers(1, 12))
    gaps = [draw(st.sampled_from([0, 2, 80, 200])) for _ in range(count)]
    trace = Trace.of(
        "t", [f"j{i}" for i in range(count)], submit=1000 * np.cumsum(gaps),
        duration=1000 * np.array([draw(st.integers(1, 120)) for _ in range(count)], np.int64),
        gpus=GPU * np.array([draw(st.integers(1, 2 * nodes)) for _ in range(count)], np.int64),
    )  # fmt: skip
    machines = Cluster("c", (NodeGroup(nodes, 2),), overheads=Overheads(wake=float(draw(st.sampled_from([0, 20])))))
    inner = draw(st.sampled_from(["fifo", "las:look_again=15"]))
    simulator = Simulator(trace, machines)
    simulator.run(registry.policy(f"ces:policy={inner},forecast=last,step=5,buffer=0,least=1,keep=0,past=1,fell=0"))
    return simulator.events, nodes


def slow(events, nodes, begin, end):
    """Row by row: node-ms in use and asleep, GPU-ms, the mean of used / awake, wake-ups, and delays of jobs."""
    places, asleep, woken, waits = {}, set(), {}, {}
    found = {"used": 0, "asleep": 0, "gpu": 0, "share": 0.0, "wakes": [], "delays": {}}
    rows = [row for row in events.tolist() if row[0] < end] + [[end, 0, -1, 0, 0]]
    now = begin
    for time, kind, job, a, b in rows:
        held = max(time - max(now, begin), 0)
        used = {node for mine in places.values() for node in mine}
        awake = nodes - len(asleep)
        found["used"] += held * len(used)
        found["asleep"] += held * len(asleep)
        found["gpu"] += held * sum(sum(mine.values()) for mine in places.values())
        found["share"] += held * (len(used) / awake if awake else 1)
        now = max(now, time)
        if kind == w.START:
            places.setdefault(job, {})[a] = b
            up = woken.get(a)
            if up is not None and up[1] == time and time >= begin and job in waits:
                delay = time - max(up[0], waits[job])
                key = (job, waits[job])
                found["delays"][key] = max(found["delays"].get(key, 0), delay)
        elif kind in (w.FINISH, w.FAIL, w.PREEMPT):
            places.pop(job, None)
        if kind in (w.ARRIVE, w.PREEMPT):
            waits[job] = time
        if kind == w.SLEEP:
            asleep.add(a)
            woken.pop(a, None)
        elif kind == w.WAKE:
            asleep.discard(a)
            woken[a] = (time, None)
            found["wakes"] += [time] if time >= begin else []
        elif kind == w.NODE_UP:
            woken[a] = (woken[a][0], time)
    return found


@settings(max_examples=60, deadline=None)
@given(runs(), st.sampled_from([(None, None), (60_000, 240_000)]))
def test_the_numbers_are_those_of_a_slow_count(drawn, window):
    events, nodes = drawn
    begin, end = window if window[0] else (int(events[0, 0]), max(int(events[-1, 0]), int(events[0, 0]) + 1))
    found, count = energy(events, nodes, *window, WATTS), slow(events, nodes, begin, end)
    length = end - begin
    assert found["asleep_nodes"] == pytest.approx(count["asleep"] / length)
    assert found["asleep_share"] == pytest.approx(count["asleep"] / (nodes * length))
    assert found["node_utilization"] == pytest.approx(count["used"] / (nodes * length))
    assert found["node_utilization_awake"] == pytest.approx(count["share"] / length)
    assert found["wake_ups_per_day"] * length / 86_400_000 == pytest.approx(len(set(count["wakes"])))
    assert found["nodes_per_wake_up"] * max(len(set(count["wakes"])), 1) == pytest.approx(len(count["wakes"]))
    delays = [delay for delay in count["delays"].values() if delay > 0]
    assert found["delayed_jobs"] == len(delays)
    assert found["delay_s"]["max"] == max(delays, default=0) / 1000
    kwh = (
        2 * ((nodes * length - count["asleep"]) * 1000 + count["asleep"] * 100 + count["gpu"] / 1000 * 50) / HOUR / 1000
    )
    assert found["kwh"] == pytest.approx(kwh)
    assert found["kwh_without_sleep"] - found["kwh"] == pytest.approx(2 * count["asleep"] / HOUR * 0.9)


@settings(max_examples=30, deadline=None)
@given(runs())
def test_a_node_that_sleeps_runs_nothing(drawn):
    events, nodes = drawn
    course = over_time(events, nodes, int(events[0, 0]), int(events[-1, 0]) + 1)
    assert (course.used <= course.awake).all()
    assert (course.awake <= nodes).all()
    assert any_slept(events) == bool(len(sleeps(events)))


def test_nodes_that_sleep_at_the_end_of_the_log_sleep_on():
    """The job ends after an hour, and the node sleeps; four hours are counted from the second hour on."""
    rows = [(0, w.ARRIVE, 0, 0, 0), (0, w.START, 0, 0, 2000), (1, w.FINISH, 0, 0, 0), (1, w.SLEEP, -1, 0, 0)]
    log = np.array(rows) * [HOUR, 1, 1, 1, 1]
    assert energy(log, 1, 2 * HOUR, 6 * HOUR, WATTS)["asleep_nodes"] == 1
    assert energy(log, 1, 0, 4 * HOUR, WATTS)["asleep_nodes"] == pytest.approx(0.75)


def test_a_log_by_hand():
    """Two nodes for ten hours; one sleeps from hour 2 to 6 and is up at hour 7, when a job of hour 5 starts there."""
    rows = [(0, w.ARRIVE, 0, 0, 0), (0, w.START, 0, 0, 4000), (2, w.SLEEP, -1, 1, 0), (5, w.ARRIVE, 1, 0, 0)]
    rows += [(6, w.WAKE, -1, 1, 0), (7, w.NODE_UP, -1, 1, 0), (7, w.START, 1, 1, 2000)]
    rows += [(9, w.FINISH, 1, 0, 0), (10, w.FINISH, 0, 0, 0)]
    log = np.array(rows) * [HOUR, 1, 1, 1, 1]
    found = energy(log, 2, power=WATTS)
    assert found["asleep_nodes"] == pytest.approx(0.4)
    assert found["node_utilization"] == pytest.approx(12 / 20)
    assert found["node_utilization_awake"] == pytest.approx((2 * 0.5 + 4 * 1 + 1 * 0.5 + 2 * 1 + 1 * 0.5) / 10)
    assert (found["delayed_jobs"], found["delay_s"]["max"]) == (1, 3600)
    assert found["wake_ups_per_day"] == pytest.approx(2.4)
    assert found["kwh"] == pytest.approx(2 * (16 * 1 + 4 * 0.1 + 44 * 0.05))
    assert found["kwh_without_sleep"] == pytest.approx(2 * (20 * 1 + 44 * 0.05))


def test_a_controlled_series_by_hand():
    used = np.array([10] * 6 + [9, 2, 2, 8])
    nothing = np.full(10, np.nan)
    course = run_series(used, np.full(10, 10), nothing, nothing, SleepSettings(1, 1, 0.5, 1, 1, 0, 0))
    found = of_course(course, WATTS)
    assert course.awake.tolist() == [*[10] * 6, 9, 2, 2, 8]
    assert (found["asleep_nodes"], found["shortage_node_steps"], found["nodes_per_wake_up"]) == (1.9, 6, 6)
    assert found["changes_per_day"] * found["days"] == pytest.approx(3)
    assert found["wake_ups_per_day"] * found["days"] == pytest.approx(1)
    assert found["node_utilization_awake"] == 1
    assert found["kwh"] == pytest.approx(2 * (81 * 1 + 19 * 0.1) / 6)
    assert found["kwh_without_sleep"] == pytest.approx(2 * 100 / 6)


# ------------------------------------------------------------------------------------------- tables and pages

SLEEPY = "ces:forecast=last,fell=0,least=1,buffer=1"


@pytest.fixture(scope="module")
def pair():
    jobs = "synthetic:jobs=150,gpus=32,load=0.3"
    return [shunter.simulate(jobs, "4x8", policy) for policy in ("fifo", SLEEPY)]


def text_of(view):
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def test_tables_report_sleep_where_there_was_any(pair):
    plain, slept = (result.summary for result in pair)
    assert "nodes asleep" not in text_of(summary_view(plain))
    assert "wake-ups a day" in text_of(summary_view(slept))
    rows = [{**summary, "difference": None} for summary in (plain, slept)]
    told = text_of(comparison_view(rows))
    assert "nodes in use" in told
    assert max(map(len, told.splitlines())) <= 100
    assert "asleep" not in text_of(comparison_view(rows[:1]))


def test_a_report_has_a_section_about_energy_where_nodes_slept(pair):
    from shunter.report.html.report import report

    plain, both = report([pair[0].kept]), report([result.kept for result in pair])
    assert 'id="energy"' not in plain
    assert 'id="energy"' in both
    assert f"Nodes under {SLEEPY}" in both
    assert "Nodes under fifo" not in both

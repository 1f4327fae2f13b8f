"""Jobs that can't be stopped, what a stop costs each job, and how far srsf gets with them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shunter
from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.model import GPU, Trace
from shunter.sim import Simulator
from shunter.testing.cases import CASES
from shunter.testing.invariants import check
from shunter.traces.synthetic import synthetic

KINDS = {w.START: "start", w.STOP: "save", w.PREEMPT: "stop", w.FINISH: "end"}
STOPPING = (
    "las:look_again=5,min_run=0",
    "srtf:min_run=0,estimate=oracle",
    "srsf:min_run=0,backfill=easy,estimate=oracle",
    "tiresias:limits=50/200,min_run=0",
    "tiresias:lease=30,renewal=keep",
    "gandiva:slicing=true,look_again=4,growth=2",
    "gandiva:lease=45,renewal=keep",
    "themis:lease=20",
    "dally:timers=none,lease=40",
    "marshal:renewal=again,patience=0,lease=30",
    "lucid:estimate=oracle,dynamic=false,profile_time=3,profile_gpus=2,scaling=false",
)
SHARING = ("gandiva", "lucid")
BUSY = [case for case in CASES if case.name in ("plain", "virtual clusters")]


def jobs(*rows, **more):
    """Jobs (submit, duration), in seconds, each of one GPU."""
    submit, duration = zip(*rows, strict=True)
    columns = {name: 1000 * np.array(values) for name, values in {"submit": submit, "duration": duration}.items()}
    return Trace.of("t", [f"j{i}" for i in range(len(rows))], **columns, gpus=[GPU] * len(rows), **more)


def one_gpu(checkpoint=0.0, restart=0.0):
    return Cluster(
        "c", (NodeGroup(1, 1),), overheads=Overheads(checkpoint=((64, checkpoint),), restart=((64, restart),))
    )


def story(policy, trace, cluster):
    """What happened, as (second, what, job)."""
    simulator = Simulator(trace, cluster)
    simulator.run(registry.policy(policy))
    check(simulator.events, trace, cluster)
    return [(time / 1000, KINDS[kind], job) for time, kind, job, *_ in simulator.events.tolist() if kind in KINDS]


@pytest.mark.parametrize("text", STOPPING)
@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(BUSY), seed=st.integers(0, 1000), share=st.sampled_from([0.0, 0.3, 0.7]))
def test_no_policy_stops_a_job_that_is_not_checkpointable(text, case, seed, share):
    may = np.random.default_rng(seed).random(len(case.trace)) < share
    case = dataclasses.replace(case, trace=dataclasses.replace(case.trace, checkpointable=may.astype(np.int64)))
    simulator = case.simulator()
    simulator.run(registry.policy(text))
    check(simulator.events, case.trace, case.cluster, tenants=2 if text.startswith(SHARING) else 1)
    stopped = simulator.events[np.isin(simulator.events[:, 1], (w.PREEMPT, w.STOP, w.MOVE)), 2]
    assert may[stopped].all()


@pytest.mark.parametrize("text", STOPPING)
def test_these_policies_do_stop_jobs(text):
    """Or the test above could not fail."""
    simulators = [case.simulator() for case in BUSY]
    for simulator in simulators:
        simulator.run(registry.policy(text))
    assert any(np.isin(simulator.events[:, 1], (w.PREEMPT, w.MOVE)).any() for simulator in simulators)


def test_a_lease_of_a_job_that_cannot_be_stopped_has_no_end():
    trace = jobs((0, 300), (0, 300), checkpointable=[0, 1])
    assert story("dally:timers=none,lease=60", trace, one_gpu()) == [
        (0, "start", 0), (300, "end", 0), (300, "start", 1), (360, "stop", 1), (360, "start", 1), (420, "stop", 1),
        (420, "start", 1), (480, "stop", 1), (480, "start", 1), (540, "stop", 1), (540, "start", 1), (600, "end", 1),
    ]  # fmt: skip


SRTF = "srtf:estimate=oracle,min_run=0"
CUT_SHORT = ((0, 100), (40, 10))  # a long job, and a short one for which it is stopped


def test_costs_of_a_job_come_before_those_of_the_cluster():
    """5 s to save and 7 s to start again, not 30 and 60."""
    trace = jobs(*CUT_SHORT, stop_cost=[5000, -1], start_cost=[7000, -1])
    assert story(SRTF, trace, one_gpu(30, 60)) == [
        (0, "start", 0), (40, "save", 0), (45, "stop", 0), (45, "start", 1), (55, "end", 1), (55, "start", 0),
        (122, "end", 0),
    ]  # fmt: skip


def test_costs_of_0_are_costs_of_the_job_too():
    trace = jobs(*CUT_SHORT, stop_cost=[0, -1], start_cost=[0, -1])
    assert story(SRTF, trace, one_gpu(30, 60))[-1] == (110, "end", 0)


def test_a_job_that_does_not_save_loses_what_it_did_since_its_last_checkpoint():
    """It is stopped at once, after 40 s, of which 30 s are in a checkpoint."""
    trace = jobs(*CUT_SHORT, saves_on_stop=[0, 1], checkpoint=[15_000, 0])
    found = story(SRTF, trace, one_gpu(30, 0))
    assert found == [
        (0, "start", 0), (40, "stop", 0), (40, "start", 1), (50, "end", 1), (50, "start", 0), (120, "end", 0),
    ]  # fmt: skip


def test_a_job_that_saves_neither_then_nor_before_is_not_stopped():
    trace = jobs(*CUT_SHORT, saves_on_stop=[0, 1])
    assert story(SRTF, trace, one_gpu()) == [(0, "start", 0), (100, "end", 0), (100, "start", 1), (110, "end", 1)]


def test_a_minimum_run_counts_the_work_that_a_stop_loses():
    """A stop costs half of 40 s on average: the job is stopped after it has worked twice as long."""
    trace = jobs((0, 500), (10, 10), saves_on_stop=[0, 1], checkpoint=[40_000, 0])
    assert story("srtf:estimate=oracle,min_run=2", trace, one_gpu())[1] == (40, "stop", 0)


@pytest.mark.parametrize(("hysteresis", "stops"), [(1, True), (1.5, True), (6, True), (6.1, False)])
def test_hysteresis(hysteresis, stops):
    """When the short job comes, 60 s are left of the long one: six times as much."""
    found = story(f"{SRTF},hysteresis={hysteresis}", jobs((0, 100), (39, 10)), one_gpu())
    assert ((39, "stop", 0) in found) == stops


@pytest.mark.parametrize(("most", "stops"), [(0, 3), (1, 1), (2, 2)])
def test_max_stops(most, stops):
    found = story(f"{SRTF},max_stops={most}", jobs((0, 100), (10, 5), (20, 5), (30, 5)), one_gpu())
    assert sum(what == "stop" for _, what, _ in found) == stops


def test_srsf_counts_gpus_and_age():
    """The job of 100 s has worked 60 s when the other comes: it may run as long again, and 60 > 2 x 25."""
    trace = jobs((0, 100), (60, 25))
    text = "srsf:min_run=0,estimate=oracle"
    assert (60, "stop", 0) in story(text, trace, one_gpu())
    assert (60, "stop", 0) not in story(text, jobs((0, 100), (60, 31)), one_gpu())
    wide = dataclasses.replace(trace, gpus=np.array([GPU, 2 * GPU]))
    machine = Cluster("c", (NodeGroup(1, 2),))
    assert (60, "stop", 0) not in story(text, wide, machine)


@pytest.mark.parametrize("estimate", ["oracle", "history", "limit"])
@pytest.mark.parametrize("overhead", [0, "30,30"])
def test_srsf_without_stops_is_saf(estimate, overhead):
    """The same schedule to the digest where no job can be stopped, and another where some can."""
    trace = synthetic(800, seed=3, gpus=32, load=1.2)
    setting = f"backfill=easy,estimate={estimate}"
    limits = dataclasses.replace(trace, limit=np.maximum(trace.duration * (1 + np.arange(len(trace)) % 3), 1))
    found = [
        shunter.simulate(limits, "4x8", f"{name}:{setting}", overhead=overhead, checkpointable=which).digest
        for name, which in (("saf", ""), ("srsf", "none"), ("srsf", "50%"))
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]

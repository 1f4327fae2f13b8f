"""Compiled policies that resize give the events of their plain versions, on small worlds and on a part of Philly."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter import clusters, registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.instances import CPU_POWER
from shunter.model import GPU, Trace
from shunter.scaling.curves import Scaling, ScalingCurve
from shunter.sim import Scenario, Simulator
from shunter.testing.cases import CASES
from shunter.testing.resizing import plain
from shunter.testing.widths import ElasticStay, replayed

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import undated_waits, workload

CURVE = ScalingCurve("m", ((2, 0.9), (4, 0.75)), ((2, 0.5), (4, 0.4)))
KNOWN = Scenario(scaling=Scaling((CURVE,)))
POLICIES = [
    "elastic",
    "elastic:interval=30,rest=60,pays=0.5,patience=0.02,owed=0.3,overtakes=1.5,remaining=oracle",
    "optimus:interval=100",
    "slaq:interval=60",
    "qoredl:interval=10",
    "qoredl:interval=40,flip=false,search=genetic",
]


def assert_same(policy, trace, machines, scenario=KNOWN):
    chosen, runs = registry.policy(policy), []
    for each in (chosen, plain(chosen)):
        run = Simulator(trace, machines, scenario=scenario)
        run.run(each)
        runs.append(run)
    assert runs[0].events.tolist() == runs[1].events.tolist()
    return runs[0]


@st.composite
def worlds_drawn(draw):
    """Jobs of which most have a range or a deadline, some can't be stopped, on a few uneven nodes."""
    count = draw(st.integers(2, 14))
    column = lambda low, high: np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))  # noqa: E731
    asked, work, ranged = column(1, 4), column(1, 40) * 30_000, column(0, 3) > 0
    trace = Trace.of(
        "t", [f"j{at}" for at in range(count)], submit=np.sort(column(0, 60)) * 20_000, duration=work, gpus=asked * GPU,
        declared=np.where(column(0, 4) > 0, work * column(1, 3) // 2, 0), deadline=column(0, 60) * 60_000,
        min_gpus=np.where(ranged, np.maximum(asked - column(0, 2), 1), 0),
        max_gpus=np.where(ranged, asked + column(0, 4), 0),
        model=np.where(column(0, 1) > 0, 0, -1), models=("m",), checkpointable=column(0, 4) > 0,
        vc=column(0, 1), vcs=("a", "b"),
    )  # fmt: skip
    costs = Overheads(
        checkpoint=((8, draw(st.sampled_from([0.0, 5.0]))),), restart=((8, draw(st.sampled_from([0.0, 25.0]))),)
    )
    cpus = draw(st.sampled_from([0, 0, 12, 20]))  # of each node; 0: instances have none
    groups = tuple(
        NodeGroup(count, gpus, cpus=cpus, vc=vc) for count, gpus, vc in ((1, 6, "a"), (2, 4, "a"), (2, 8, "b"))
    )
    if cpus:
        vertical, serving = column(0, 2) > 0, (column(0, 2) > 0) & (asked > 1)
        trace = dataclasses.replace(
            trace, cpus=np.minimum(2000 * asked, 8000), min_cpus=np.where(vertical, column(1, 2) * 500, 0),
            max_cpus=np.where(vertical, column(4, 9) * 500, 0), servers=np.where(serving, 1, 0),
            min_gpus=np.where(serving & ranged, np.maximum(trace.min_gpus, 2), trace.min_gpus),
        )  # fmt: skip
    return trace, Cluster("c", groups, overheads=costs)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=12, deadline=None)
@given(worlds_drawn())
def test_small_worlds_are_as_in_plain_python(policy, drawn):
    trace, machines = drawn
    run = assert_same(policy, trace, machines)

    def rate(job: int, stay: ElasticStay) -> float:
        speeds, asked, servers = CURVE.speeds(12), int(trace.gpus[job]) // GPU, int(trace.servers[job])
        work, usual = stay.gpus, asked
        factor = (stay.cpu / trace.each[0][job]) ** CPU_POWER if trace.max_cpus[job] else 1.0
        if servers:
            serving = stay.servers or (servers if stay.gpus == asked else -(-stay.gpus // 5))
            work, usual = min(stay.gpus - serving, 4 * serving), min(asked - servers, 4 * servers)
        if not trace.elastic[job] or trace.model[job] < 0:
            return factor * work / usual
        return factor * speeds[int(stay.machines > 1), work] / speeds[0, usual]

    if not machines.overheads.checkpoint[0][1]:  # stops that take a while are not replayed
        assert replayed(run.events, trace, machines, rate) == run.world.jobs[w.ENDED_AT].tolist()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_situation_is_as_in_plain_python(policy, case):
    assert_same(policy, case.trace, case.cluster, case.scenario)


@pytest.mark.parametrize("policy", ["elastic", "optimus", "slaq", "qoredl"])
def test_a_part_of_a_trace_is_as_in_plain_python(policy):
    jobs = workload.elastic(workload.jobs()[0].select(np.arange(3000, 3100)))
    assert_same(policy, jobs, workload.costly(2), Scenario())


@pytest.mark.parametrize("policy", ["elastic", "elastic:patience=0.02,owed=0.3,overtakes=1.5"])
@pytest.mark.parametrize("ranged", [False, True])
def test_jobs_without_deadlines_beside_others_are_as_in_plain_python(policy, ranged):
    """Enough of them wait for too long, and some declare a tenth of their work."""
    jobs = undated_waits.mixed(undated_waits.synthetic(ranged, 1.6, 3, 160), 2)
    said = np.where((np.arange(len(jobs)) % 7 == 1) & (jobs.deadline == 0), jobs.declared // 10, jobs.declared)
    assert_same(policy, dataclasses.replace(jobs, declared=said), clusters.load("8x8"), Scenario())

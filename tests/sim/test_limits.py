"""Types, virtual clusters, CPU and memory, and every reason for a refusal."""

from __future__ import annotations

import pytest
from worlds import cluster, column, ends, jobs, play

from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import ClusterError
from shunter.model import Assign, Migrate, Plan, Power, Preempt, Resize, Start, Timer
from shunter.seeding import rng
from shunter.sim import Scenario, Simulator
from shunter.sim.engine import WHY
from shunter.sim.state import TIMERS
from shunter.testing.invariants import check

# nodes 0 and 1: two V100s of VC a with 8 cores and 16 GiB; node 2: two P100s of VC b
GROUPS = (NodeGroup(2, 2, "v100", cpus=8, mem_gib=16, vc="a"), NodeGroup(1, 2, "p100", vc="b"))
PARTED = Cluster("parted", GROUPS, speeds={"v100": 2.0, "p100": 0.5})
A, B = {"vc": "a"}, {"vc": "b"}


def test_speed_goes_by_the_type_of_gpu():
    run = play(
        jobs((0, 1000, 1, A), (0, 1000, 1, B)), PARTED, greedy=False, plans={0: [[Start(0, [0]), Start(1, [4])]]}
    )
    assert ends(run) == [500, 2000]


def test_a_gang_across_types_runs_at_the_speed_of_the_slowest():
    mixed = Cluster("mixed", (NodeGroup(1, 1, "v100"), NodeGroup(1, 1, "p100")), speeds={"v100": 2.0, "p100": 0.5})
    assert ends(play(jobs((0, 1000, 2)), mixed, greedy=True)) == [2000]


def test_a_job_that_migrates_to_a_faster_type_ends_earlier():
    mixed = Cluster("mixed", (NodeGroup(1, 1, "slow"), NodeGroup(1, 1, "fast")), speeds={"fast": 4.0})
    run = play(jobs((0, 1000)), mixed, {0: [[Start(0, [0])]], 200: [[Migrate(0, [1])]]})
    assert ends(run) == [400]


def test_a_user_has_at_most_the_cap_and_the_others_of_its_jobs_wait_in_order():
    u, v = {"user": "u"}, {"user": "v"}
    trace = jobs((0, 100, 1, u), (0, 150, 1, u), (10, 100, 1, u), (20, 100, 1, u), (20, 100, 2, v), (30, 100, 1))
    run = play(trace, cluster(6), greedy=True, scenario=Scenario(user_cap=2000))
    assert ends(run) == [100, 150, 200, 250, 120, 130]  # two of u's run at any time, whatever is free
    assert column(run, w.WAITED) == [0, 0, 90, 130, 0, 0]  # counted from the submission
    check(run.events, trace, cluster(6))


def test_a_job_beyond_the_cap_runs_alone():
    u = {"user": "u"}
    trace = jobs((0, 100, 1, u), (0, 100, 4, u), (0, 100, 1, u))
    run = play(trace, cluster(8), greedy=True, scenario=Scenario(user_cap=2000))
    assert ends(run) == [100, 200, 300]


def test_a_cap_that_can_not_be_is_refused():
    with pytest.raises(ClusterError, match="user_cap must be 0 or more"):
        Scenario(user_cap=-1)


RAN = (Start(0, [0]),)
KEEPS = "the job is not checkpointable, so it keeps its GPUs until it ends"
OUTSIDE = "the number of GPUs is outside of the job's range (min_gpus, max_gpus)"
OUTSIDE_CPU = "the CPU of an instance is outside of the job's range (min_cpus, max_cpus)"
OUTSIDE_MEM = "the memory of an instance is outside of the job's range (min_mem_gib, max_mem_gib)"
NO_WORKER = "wrong number of parameter servers: one at least and a worker, none for a job without them"
ELASTIC = {"min_gpus": 2, "max_gpus": 3, "cpus": 4000, "max_cpus": 3000, "mem_gib": 2048, "max_mem_gib": 2048}
ELASTIC |= {"servers": 1}
REFUSED = [
    ("there is no such job", (), Start(10, [0])),
    ("there is no such job", (), Preempt(-1)),
    ("the job does not wait", RAN, Start(0, [1])),
    ("the job does not wait", (), Start(9, [0])),  # not submitted yet
    ("the job does not run", (), Preempt(0)),
    ("the job does not run", (), Migrate(0, [0])),
    ("the job does not run", (), Resize(0, [0])),
    ("there is no such GPU", (), Start(0, [6])),
    ("there is no such GPU", (), Start(0, [-1])),
    ("a GPU is named twice", (), Start(1, [0, 0])),
    ("wrong number of GPUs for the job", (), Start(1, [0])),
    ("wrong number of GPUs for the job", (), Start(0, [])),
    ("wrong number of GPUs for the job", RAN, Migrate(0, [1, 2])),
    ("wrong number of GPUs for the job", RAN, Resize(0, [])),
    ("the node is not up", (Power(0, False),), Start(0, [0])),
    ("the node is not up", (Power(0, False),), Power(0, False)),
    ("the node belongs to another virtual cluster", (), Start(0, [4])),
    ("the node belongs to another virtual cluster", (Assign(0, 1),), Start(0, [0])),
    ("the node has GPUs of another type", (), Start(2, [4])),
    ("a GPU is not free", RAN, Start(1, [0, 1])),
    ("a GPU is not free", (*RAN, Start(1, [2, 3])), Migrate(0, [2])),
    ("a GPU is not free", (*RAN, Start(1, [2, 3])), Resize(1, [0, 1])),
    ("too few CPU cores are free on a node", (), Start(3, [0, 1])),
    ("too few CPU cores are free on a node", (Start(3, [0, 2]),), Start(0, [1])),
    ("too little memory is free on a node", (), Start(4, [0, 1])),
    ("there is no such node", (), Power(3, True)),
    ("there is no such node", (), Assign(-1, 0)),
    ("the node is not idle", RAN, Power(0, False)),
    ("the node is not asleep", (), Power(0, True)),
    ("the node is not asleep", (Power(0, False), Power(0, True)), Power(0, True)),
    ("the time is not in the future", (), Timer(0)),
    ("the time is not in the future", (), Start(0, [0], until=0)),
    (f"more than {TIMERS} timers", tuple(Timer(time) for time in range(1, TIMERS + 1)), Timer(1000)),
    ("there is no such virtual cluster", (), Assign(0, 2)),
    ("there is no such virtual cluster", (), Assign(0, -2)),
    (KEEPS, (Start(7, [0]),), Preempt(7)),
    (KEEPS, (Start(7, [0]),), Preempt(7, keep=False)),
    (KEEPS, (Start(7, [0]),), Migrate(7, [1])),
    (KEEPS, (Start(7, [0]),), Resize(7, [0, 1])),
    (OUTSIDE, (), Start(8, [0])),
    (OUTSIDE, (Start(8, [0, 1]),), Resize(8, [0, 1, 2, 3])),
    (OUTSIDE_CPU, (), Start(8, [0, 1], cpu=3001)),
    (OUTSIDE_CPU, (Start(8, [0, 1]),), Resize(8, [0, 1], cpu=1999)),
    (OUTSIDE_CPU, (), Start(1, [0, 1], cpu=1000)),
    (OUTSIDE_MEM, (), Start(8, [0, 1], mem=2049)),
    (OUTSIDE_MEM, (Start(8, [0, 1]),), Resize(8, [0, 1], mem=0)),
    (NO_WORKER, (), Start(8, [0, 1], servers=2)),
    (NO_WORKER, RAN, Resize(0, [0], servers=1)),
    ("too few CPU cores are free on a node", (Start(3, [0, 2]),), Start(8, [1, 3], cpu=3000)),
    (
        "the GPU holds as many jobs as it can (Scenario.sharing)",
        (*RAN, Start(5, [0], shared=True)),
        Start(6, [0], shared=True),
    ),
]


def limited():
    """A world at time 0 in which all but the last job wait."""
    trace = jobs(
        (0, 1000, 1, {"cpus": 2000}),
        (0, 1000, 2),
        (0, 1000, 1, {"vc": "b", "gpu_type": "v100"}),
        (0, 1000, 2, {"cpus": 14_000}),
        (0, 1000, 2, {"mem_gib": 33 * 1024}),
        (0, 1000),
        (0, 1000),
        (0, 1000, 1, {"checkpointable": 0}),
        (0, 1000, 2, ELASTIC),
        (900, 1000),
        vc="a",
    )
    return Simulator(trace, PARTED)


@pytest.mark.parametrize(("why", "before", "action"), REFUSED)
@pytest.mark.parametrize("together", [True, False])
def test_refusals(why, before, action, together):
    """An impossible action is refused alike after what came before it, and in one plan with it; nothing is done."""
    simulator = limited()
    next(iter(simulator))
    if together:
        state = simulator.fork()
        refusals = simulator.apply(Plan([*before, action]))
        assert simulator.digest == state.digest
        assert (simulator.world.jobs == state.world.jobs).all()
        assert (simulator.world.nodes == state.world.nodes).all()
        assert (simulator.world.gpus == state.world.gpus).all()
    else:
        if before:
            assert simulator.apply(Plan(before)) == ()
        refusals = simulator.apply(Plan([action]))
    assert [(refusal.why, refusal.action) for refusal in refusals] == [(why, action)]


def random_plan(draw):
    """Stops and starts of some of eight jobs on six GPUs, most of them possible."""
    plan = []
    for job in draw.permutation(8)[: draw.integers(1, 7)].tolist():
        gpus = [2, 1, 1, 1, 2, 1, 1, 1][job]
        start = Start(job, sorted(draw.choice(6, gpus, replace=False).tolist()))
        plan.append(Preempt(job) if draw.random() < 0.4 else start)
    return plan + plan[:1] * (draw.random() < 0.1)


@pytest.mark.parametrize("seed", range(20))
def test_plans_fare_alike_where_nodes_have_cpus_enough_for_all(seed):
    """Exchanges of jobs are checked by a shorter way where nodes limit nothing."""
    trace = jobs(*[(0, 1000, gpus) for gpus in (2, 1, 1, 1, 2, 1, 1, 1)])
    free, ample = (
        Simulator(trace, cluster(NodeGroup(3, 2, cpus=cpus)), scenario=Scenario(sharing=2)) for cpus in (0, 99)
    )
    draw, fates = rng(seed, "plans"), []
    for simulator in (free, ample):
        next(iter(simulator))
    for _ in range(40):
        plan = random_plan(draw)
        why, other = ([refusal.why for refusal in one.apply(Plan(plan))] for one in (free, ample))
        assert why == other
        fates.append(not why)
    assert free.digest == ample.digest
    assert {True, False} == set(fates)


def test_the_table_has_every_reason():
    assert {why for why, _, _ in REFUSED} == set(WHY.values())


def test_cpus_are_counted_per_node_and_given_back():
    machines = cluster(NodeGroup(1, 4, cpus=8))
    trace = jobs((0, 100, 1, {"cpus": 5000}), (0, 100, 1, {"cpus": 4000}), (0, 50, 1, {"cpus": 3000}))
    plans = {0: [[Start(0, [0])], [Start(1, [1])], [Start(2, [1])]], 10: [[Start(2, [1])]], 100: [[Start(1, [0])]]}
    run = play(trace, machines, plans)
    assert run.refused == [(0, "too few CPU cores are free on a node")]
    assert ends(run) == [100, 200, 60]


def test_a_job_of_several_gpus_takes_its_cpus_in_equal_parts_rounded_up():
    simulator = Simulator(jobs((0, 100, 3, {"cpus": 7000, "mem_gib": 10})), cluster(NodeGroup(2, 2, cpus=8, mem_gib=1)))
    view = next(iter(simulator))
    assert simulator.apply(Plan([Start(0, [0, 1, 2])])) == ()
    assert view.nodes.cpu_free.tolist() == [8000 - 2 * 2334, 8000 - 2334]
    assert view.nodes.mem_free.tolist() == [1024 - 2 * 4, 1024 - 4]


def test_resizing_takes_cpus_for_every_worker():
    machines = cluster(NodeGroup(1, 4, cpus=8))
    plans = {0: [[Start(0, [0])]], 10: [[Resize(0, [0, 1, 2])]], 20: [[Resize(0, [0, 1])]]}
    run = play(jobs((0, 100, 1, {"cpus": 4000})), machines, plans)
    assert run.refused == [(10, "too few CPU cores are free on a node")]
    assert ends(run) == [60]


def test_spread_over_nodes_and_racks_sets_the_speed_of_a_model():
    machines = cluster(NodeGroup(3, 2, racks=(2, 1)))
    trace = jobs(*[(0, 1000, 2, {"model": "bert"})] * 3, (0, 1000, 1, {"model": "bert"}), (0, 1000, 2))
    tiers = Scenario(tier_speed={"bert": (1.0, 0.5, 0.25)})
    for gpus, end in (([0, 1], 1000), ([0, 2], 2000), ([0, 4], 4000)):
        assert ends(play(trace, machines, {0: [[Start(0, gpus)]]}, scenario=tiers, until=9000))[0] == end
    assert ends(play(trace, machines, {0: [[Start(3, [0]), Start(4, [1, 5])]]}, scenario=tiers, until=9000))[3:] == [
        1000,
        1000,
    ]

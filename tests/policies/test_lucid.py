"""Lucid in little worlds: who is profiled, who is packed with whom, and what becomes of a pair."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter import registry, simulation
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import PolicyError
from shunter.model import GPU, Trace
from shunter.policies.lucid.policy import BLOCKING
from shunter.predictors import features
from shunter.setup import read_trace, set_up
from shunter.sharing.workload_assignment import workloads_of
from shunter.sim import Scenario, Simulator
from shunter.sim.scenario import Workloads
from shunter.testing.invariants import check
from shunter.testing.lucid import PlainLucid

LIGHT, HEAVY, FULL = 0, 1, 2  # workloads: FULL is light but takes most of the GPU's memory
USES = np.array([[10.0, 95.0, 10.0, np.nan], [1000.0, 1000.0, 20_000.0, np.nan], [2.0, 50.0, 2.0, np.nan]])
SPEED = np.array([[0.8, 0.9, 0.8, 0], [0.6, 0.5, 0.6, 0], [0.8, 0.9, 0.8, 0], [0, 0, 0, 0]])
PUBLISHED = (
    "profile_when=always,profile_growth=1,profile_queue=10,profile_gpus=8,pack_when=always,capacity=2,blocking=skip"
)
ALWAYS = f"{PUBLISHED},scores=thresholds,estimate=oracle"  # pack whenever jobs may be packed
PLAIN = f"lucid:profiling=false,{ALWAYS}"


def trace_of(rows, vcs=()):
    """Jobs (submit, duration, gpus, workload[, vc]), times in seconds."""
    columns = list(zip(*[(*row, -1)[:5] for row in rows], strict=True))
    submit, duration, gpus, _, vc = columns
    return Trace.of(
        "t",
        [str(job) for job in range(len(rows))],
        submit=[1000 * s for s in submit],
        duration=[1000 * d for d in duration],
        gpus=[GPU * g for g in gpus],
        vc=vc,
        vcs=vcs,
    )


def play(policy, rows, cluster, vcs=()):
    """Run it; gives the simulator, (start, end) of each job in seconds, and the memory."""
    workloads = Workloads(np.array([row[3] for row in rows], np.int64), USES, SPEED)
    trace = trace_of(rows, vcs)
    simulator = Simulator(trace, cluster, scenario=Scenario(workloads=workloads))
    memory = simulator.run(registry.policy(policy))
    check(simulator.events, trace, cluster, tenants=2)
    jobs = simulator.world.jobs
    return simulator, list(zip(jobs[w.STARTED] / 1000, jobs[w.ENDED_AT] / 1000, strict=True)), memory


def machines(*gpus):
    return Cluster("machines", tuple(NodeGroup(1, count) for count in gpus))


FOUR = machines(4, 4, 4, 4)  # one of which profiles


# -- the profiler


def test_a_short_job_ends_in_the_profiler():
    simulator, times, _ = play(f"lucid:profile_time=50,profile_nodes=1,{ALWAYS}", [(0, 40, 1, LIGHT)], FOUR)
    assert times == [(0, 40)]
    assert simulator.events[simulator.events[:, 1] == w.START][0, 3] == 3  # the last node is set apart


def test_a_long_job_leaves_after_its_time_and_starts_again():
    simulator, times, _ = play(f"lucid:profile_time=50,profile_nodes=1,{ALWAYS}", [(0, 100, 1, LIGHT)], FOUR)
    assert times == [(0, 150)]
    nodes = simulator.events[simulator.events[:, 1] == w.START][:, 3]
    assert nodes[0] == 3
    assert nodes[1] != 3


def test_the_fewest_gpus_are_profiled_first_and_no_job_passes():
    """The node is taken by the first; of those that wait, one GPU and two go first, then two more, then four."""
    rows = [(0, 30, 4, HEAVY), (1, 10, 4, HEAVY), (2, 10, 2, HEAVY), (3, 10, 1, HEAVY), (4, 10, 2, HEAVY)]
    _, times, _ = play(f"lucid:profile_time=50,profile_nodes=1,scaling=false,{ALWAYS}", rows, FOUR)
    assert [start for start, _ in times] == [0, 50, 30, 30, 40]


def test_a_job_with_many_gpus_is_not_profiled():
    simulator, _, _ = play(f"lucid:profile_nodes=1,{ALWAYS}".replace("gpus=8", "gpus=2"), [(0, 10, 4, LIGHT)], FOUR)
    assert simulator.events[simulator.events[:, 1] == w.START][0, 3] != 3


def test_a_node_goes_back_for_a_job_that_needs_it():
    """Sixteen GPUs are all there are: the profiler gives its node up."""
    _, times, _ = play(f"lucid:profile_nodes=1,{ALWAYS}", [(0, 10, 16, HEAVY), (5, 10, 1, LIGHT)], FOUR)
    assert [end for _, end in times] == [10, 20]


def test_jobs_of_every_virtual_cluster_are_profiled_on_the_nodes_set_apart():
    cluster = Cluster("two", (NodeGroup(3, 4, vc="a"), NodeGroup(2, 4, vc="b")))
    rows = [(0, 30, 1, LIGHT, 0), (0, 30, 1, LIGHT, 1), (100, 300, 1, HEAVY, 0), (100, 300, 1, HEAVY, 1)]
    simulator, _, _ = play(f"lucid:profile_time=50,profile_nodes=1,{ALWAYS}", rows, cluster, ("a", "b"))
    starts = simulator.events[simulator.events[:, 1] == w.START]
    first = {int(job): int(node) for _, _, job, node, _ in starts[::-1]}
    last = {int(job): int(node) for _, _, job, node, _ in starts}
    assert set(first.values()) == {2}  # the last node of the larger one
    assert last[2] in (0, 1)
    assert last[3] in (3, 4)


def test_a_job_that_waited_for_a_node_that_is_given_back_is_not_profiled():
    """Eleven wait, so the profiler takes a node with four GPUs; it goes back while jobs with four still wait."""
    cluster = Cluster("uneven", (NodeGroup(2, 4, vc="a"), NodeGroup(3, 2, vc="b")))
    rows = [(0, 300, 2, HEAVY, 0)] * 14 + [(1, 30, 4, HEAVY, 0)] * 3
    _, times, _ = play(f"lucid:profile_time=20,profile_nodes=1,{ALWAYS}", rows, cluster, ("a", "b"))
    assert all(end > 0 for _, end in times)


# -- packing: on the one node of "a", after a second on a node taken from "b"


PACKS = f"lucid:profile_time=1,profile_nodes=1,{ALWAYS}"


def share(rows, policy=PACKS, *gpus):
    """Jobs of virtual cluster "a", which has one node with one GPU or these nodes; their times, and who joined whom."""
    cluster = Cluster("two", (*(NodeGroup(1, count, vc="a") for count in gpus or (1,)), NodeGroup(6, 4, vc="b")))
    _, times, memory = play(policy, [(*row, 0) for row in rows], cluster, ("a", "b"))
    return times, [tuple(row) for row in registry.policy(policy).pairs(memory).tolist()]


def test_light_jobs_share_and_the_one_that_stays_runs_at_full_speed_again():
    """At 0.8 of its speed the second's 40 s take 50 s; the first did 10 + 40 s of work by then, 58 are left."""
    times, pairs = share([(0, 108, 1, LIGHT), (10, 40, 1, LIGHT)])
    assert [end for _, end in times] == [1 + 10 + 50 + 58, 11 + 50]
    assert pairs == [(11_000, 1, 0)]


def test_a_third_waits_for_a_place_beside_one_that_is_alone():
    times, pairs = share([(0, 300, 1, LIGHT), (10, 40, 1, LIGHT), (20, 40, 1, LIGHT)])
    assert pairs == [(11_000, 1, 0), (61_000, 2, 0)]
    assert [end for _, end in times][1:] == [61, 111]


def test_the_heavier_slows_down_more_beside_a_light_one():
    times, _ = share([(0, 300, 1, LIGHT), (10, 60, 1, HEAVY)])
    assert times[1][1] == 11 + 60 / SPEED[HEAVY, LIGHT]


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ([(0, 100, 1, HEAVY), (10, 40, 1, HEAVY)], ""),  # 2 + 2 is above the capacity
        ([(0, 100, 1, FULL), (10, 40, 1, FULL)], ""),  # 40 of 24 GiB
        ([(0, 10, 1, LIGHT), (1, 40, 1, LIGHT)], ",ratio=2"),  # the newcomer is four times as long
        ([(0, 100, 1, LIGHT), (10, 40, 1, LIGHT)], ",packing=false"),
        ([(0, 100, 1, LIGHT), (10, 40, 1, HEAVY)], ",capacity=1"),
        ([(0, 100, 1, LIGHT), (10, 40, 1, -1)], ""),  # what it does to a GPU can't be seen
        ([(0, 100, 1, LIGHT), (10, 40, 1, LIGHT)], ",profiling=false"),  # the newcomer was never seen
        ([(0, 100, 1, LIGHT), (10, 40, 1, LIGHT)], ",dynamic=true"),  # few jobs are to come
    ],
    ids=["heavy", "memory", "ratio", "off", "capacity", "unknown", "unseen", "quiet"],
)
def test_which_jobs_are_not_packed(rows, more):
    changed = dict(part.split("=") for part in f"{PACKS.partition(':')[2]}{more}".split(","))
    times, pairs = share(rows, "lucid:" + ",".join(f"{key}={value}" for key, value in changed.items()))
    assert pairs == []
    assert times[1][1] >= times[0][1] + rows[1][1]


def test_the_same_limits_let_others_share():
    """What keeps jobs apart above is what it says, since without it they share."""
    assert share([(0, 100, 1, LIGHT), (10, 40, 1, HEAVY)])[1]
    assert share([(0, 100, 1, FULL), (10, 40, 1, FULL)], f"{PACKS},gpu_memory=48")[1]
    assert share([(0, 10, 1, LIGHT), (1, 40, 1, LIGHT)], f"{PACKS},ratio=5")[1]


def test_only_as_many_gpus_share():
    assert share([(0, 100, 2, LIGHT), (10, 40, 1, LIGHT)], PACKS, 2)[1] == []
    assert share([(0, 100, 2, LIGHT), (10, 40, 2, LIGHT)], PACKS, 2)[1] == [(11_000, 1, 0)]


def test_a_job_on_two_nodes_is_never_packed():
    assert share([(0, 100, 4, LIGHT), (10, 40, 4, LIGHT)], PACKS, 2, 2)[1] == []


def test_while_nothing_is_packed_no_job_passes_the_first():
    rows = [(0, 50, 1, HEAVY), (1, 30, 2, HEAVY), (2, 100, 1, HEAVY)]
    _, strict, _ = play("lucid:profiling=false,packing=false,blocking=skip,estimate=oracle", rows, machines(2))
    assert strict[2][0] > strict[1][0]


def test_the_shortest_work_goes_first():
    rows = [(0, 50, 1, HEAVY), (1, 90, 1, HEAVY), (2, 10, 1, HEAVY)]
    _, times, _ = play(PLAIN, rows, machines(1))
    assert times[2][0] == 50
    assert times[1][0] == 60
    _, times, _ = play(f"lucid:profiling=false,{ALWAYS}".replace("oracle", "none"), rows, machines(1))
    assert times[1][0] == 50


# -- all of it


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(1, 200),
            st.sampled_from([1, 1, 2, 4, 8]),
            st.sampled_from([LIGHT, HEAVY, FULL, -1]),
        ),
        min_size=1,
        max_size=25,
    ),
    policy=st.sampled_from(
        [
            f"lucid:profile_time=30,profile_nodes=1,{ALWAYS}",
            PLAIN,
            "lucid:estimate=none,profile_time=10",
            "lucid:estimate=rolling,quiet=0",
        ]
    ),
)
def test_no_job_is_lost_and_no_gpu_has_more_than_two(rows, policy):
    rows = sorted(rows)
    _, times, _ = play(policy, rows, FOUR)  # checks the whole log
    for (submit, duration, *_), (start, end) in zip(rows, times, strict=True):
        assert submit <= start < end
        assert end - start >= duration - 0.001


def test_the_same_seed_gives_the_same_digest():
    digests = {play(PLAIN, [(0, 100, 1, LIGHT), (10, 40, 1, LIGHT)], FOUR)[0].digest for _ in range(2)}
    assert len(digests) == 1


def test_a_copy_goes_on_like_the_original():
    workloads = Workloads(np.zeros(30, np.int64), USES, SPEED)
    trace = trace_of([(5 * job, 60, 1, LIGHT) for job in range(30)])
    simulator = Simulator(trace, machines(2, 2, 2, 2), scenario=Scenario(workloads=workloads))
    policy = registry.policy(f"lucid:profile_time=20,{ALWAYS}")
    memory = simulator.run(policy, until=60_000)
    twin, theirs = simulator.fork(), copy.deepcopy(memory)
    simulator.run(policy, memory=memory)
    twin.run(policy, memory=theirs)
    assert simulator.digest == twin.digest


def test_a_world_that_shows_nothing_of_gpus_is_refused():
    trace = trace_of([(0, 10, 1, LIGHT)])
    with pytest.raises(PolicyError, match="the load of jobs on their GPUs"):
        Simulator(trace, FOUR).run(registry.policy(PLAIN))


def test_runs_draw_workloads_and_learn_from_the_past():
    trace = dataclasses.replace(read_trace("synthetic:jobs=800,gpus=32,load=1.3,seed=2"), name="t")
    result = simulation.run(set_up(trace, "8x4", since="+1"), "lucid:estimate=rolling")
    assert (result.table[w.STATE] == w.DONE).all()


def test_the_model_learns_from_what_outlasts_the_profiler():
    """Nine jobs in ten end in the profiler, where every job is profiled; only the others are estimated."""
    rows = [(200 * job, 400 if job % 10 == 0 else 20, 1, LIGHT) for job in range(1500)]
    policy = f"lucid:estimate=gbm,refit=1,profile_time=100,profile_nodes=1,{PUBLISHED}"
    simulator, _, memory = play(policy, rows, FOUR)
    assert simulator.over
    assert 100 <= memory.lessons.fitted.rows <= 150
    assert memory.state.expected[memory.state.expected > 0].size == 150
    assert np.median(memory.state.expected[-300:][memory.state.expected[-300:] > 0]) > 300_000


def test_jobs_that_are_not_learned_from_are_open_no_longer():
    rows = [(200 * job, 400 if job % 10 == 0 else 20, 1, LIGHT) for job in range(200)]
    simulator, _, memory = play("lucid:estimate=rolling,profile_time=100,profile_nodes=1", rows, FOUR)
    assert simulator.over
    assert (memory.state.learned.seen.groups[:, features.OPEN] == 0).all()


def test_what_ended_in_the_profiler_before_the_window_is_not_learned_from():
    trace = trace_of([(10 * job, 500 if job % 4 == 0 else 50, 1 if job % 8 else 16, LIGHT) for job in range(400)])
    which = registry.policy("lucid:profile_time=100,profile_gpus=8").lessons_of(trace)
    assert (which == ((trace.duration > 100_000) | (trace.gpus > 8 * GPU))).all()
    assert registry.policy("lucid:profiling=false").lessons_of(trace).all()
    setup = set_up(dataclasses.replace(trace, name="t"), "4x4", since="3000")
    memory = simulation.taught(
        registry.policy("lucid:estimate=rolling,profile_time=100,profile_gpus=8"), setup, setup.trace
    )
    assert len(setup.history) == 300
    assert len(memory.lessons.history) == which[:300].sum()


# -- jobs that find no room


UNPROFILED = "lucid:profiling=false,estimate=oracle"
OURS = f"{UNPROFILED},packing=false"


def test_nodes_are_kept_for_the_first_job_that_finds_no_room():
    """Two nodes of two GPUs, busy until 100 and 110; the job with four gets both, whoever comes until then."""
    rows = [(0, 100, 2, HEAVY), (0, 110, 2, HEAVY), (1, 500, 4, HEAVY), *((90, 3000, 1, HEAVY),) * 2]
    cluster = machines(2, 2)
    starts = {b: play(f"{UNPROFILED},blocking={b}", rows, cluster)[1][2][0] for b in ("skip", "reserve")}
    assert starts["reserve"] == 110 < starts["skip"]
    rows[3:] = [(90, 3, 1, HEAVY), (90, 15, 1, HEAVY)]  # one ends before 110, the other does not
    times = play(f"{OURS},blocking=reserve", rows, cluster)[1]
    assert times[3][0] == 100
    assert times[4][0] >= 110


def test_no_nodes_are_kept_for_a_job_that_one_node_can_hold():
    rows = [(0, 100, 1, HEAVY), (1, 50, 2, HEAVY), (2, 900, 1, HEAVY)]
    assert play(f"{UNPROFILED},blocking=reserve", rows, machines(2))[1][2][0] == 2


def test_a_job_starts_where_a_job_of_another_virtual_cluster_ended():
    """Only the node that is in no virtual cluster holds the last job; a job of the other one runs there until 100."""
    cluster = Cluster("open", (NodeGroup(1, 4, vc="a"), NodeGroup(1, 2, vc="b"), NodeGroup(1, 4)))
    rows = [(0, 100, 4, HEAVY, 0), (0, 50, 4, HEAVY, 0), (1, 10, 4, HEAVY, 1)]
    assert play(PLAIN, rows, cluster, ("a", "b"))[1][2] == (100, 110)


def test_which_jobs_pass_a_blocked_job_and_which_wait():
    """Half of the GPUs are free, and the first in the order needs all; the others would run longer than it waits."""
    rows = [(0, 100, 2, HEAVY), (1, 50, 4, HEAVY), (2, 900, 1, HEAVY)]
    passed = {b: play(f"{UNPROFILED},blocking={b}", rows, machines(2, 2))[1][2][0] for b in BLOCKING}
    assert passed["skip"] == 2
    assert passed["strict"] == passed["reserve"] == 150


def test_overdue_jobs_are_expected_to_run_as_long_again():
    """By its limit the resident should have ended long ago: the reservation moves on and still keeps others away."""
    rows = [(0, 1000, 2, HEAVY), (1, 100, 4, HEAVY), (600, 900, 1, HEAVY), (700, 30, 1, HEAVY)]
    trace = dataclasses.replace(trace_of(rows), limit=np.array([100, 100, 900, 30]) * 1000)
    workloads = Workloads(np.ones(4, np.int64), USES, SPEED)
    simulator = Simulator(trace, machines(2, 2), scenario=Scenario(workloads=workloads))
    simulator.run(registry.policy("lucid:profiling=false,packing=false,estimate=limit,certainty=0.5"))
    started = simulator.world.jobs[w.STARTED] / 1000
    assert started[1] == 1000
    assert started[2] > 1000
    assert started[3] == 700


# -- not as published: only while the cluster is full


def test_a_job_that_finds_free_gpus_is_not_profiled():
    for when, end in (("always", 150), ("full", 100)):
        policy = f"lucid:profile_time=50,profile_nodes=1,{ALWAYS}".replace(
            "profile_when=always", f"profile_when={when}"
        )
        assert play(policy, [(0, 100, 1, LIGHT)], FOUR)[1] == [(0, end)]


def test_a_job_that_finds_none_is_profiled_first():
    policy = f"lucid:profile_time=50,profile_nodes=1,{ALWAYS}".replace("profile_when=always", "profile_when=full")
    _, times, memory = play(policy, [(0, 500, 12, HEAVY), (1, 20, 1, LIGHT), (1, 90, 1, LIGHT)], FOUR)
    assert times[1] == (1, 21)
    assert registry.policy(policy).profiled(memory, 3)[0].tolist() == [False, True, True]


def test_jobs_share_only_where_no_gpus_are_free():
    rows = [(0, 200, 1, LIGHT), (10, 40, 1, LIGHT)]
    assert share(rows, PACKS, 2)[1] == [(11_000, 1, 0)]
    full = PACKS.replace("pack_when=always", "pack_when=full")
    assert share(rows, full, 2)[1] == []
    assert share(rows, full, 1)[1] == [(11_000, 1, 0)]


def test_large_jobs_are_profiled_on_several_nodes():
    policy = f"lucid:profile_time=50,profile_nodes=2,{ALWAYS}"
    eight = machines(*[4] * 8)
    assert play(policy, [(0, 20, 8, HEAVY)], eight)[2].state.ended_there[0] == 1
    assert (
        play(policy.replace("profile_gpus=8", "profile_gpus=4"), [(0, 20, 8, HEAVY)], eight)[2].state.profiled[0] == 0
    )


# -- beside plain Python


SETTINGS = st.fixed_dictionaries(
    {
        "profile_when": st.sampled_from(["always", "full"]),
        "profile_time": st.sampled_from(["5", "30", "90"]),
        "profile_nodes": st.sampled_from(["1", "2"]),
        "profile_gpus": st.sampled_from(["2", "8"]),
        "profile_growth": st.sampled_from(["0", "1", "2"]),
        "profile_queue": st.sampled_from(["0", "3"]),
        "profiling": st.sampled_from(["true", "true", "false"]),
        "pack_when": st.sampled_from(["always", "full"]),
        "packing": st.sampled_from(["true", "true", "false"]),
        "dynamic": st.sampled_from(["true", "false"]),
        "capacity": st.sampled_from(["2", "4"]),
        "blocking": st.sampled_from(BLOCKING),
        "certainty": st.sampled_from(["0.1", "0.5", "0.9"]),
        "estimate": st.sampled_from(["oracle", "rolling", "limit", "none"]),
    }
)
WORLDS = {
    "eight": (machines(*[4] * 8), ()),
    "uneven": (machines(4, 2, 4, 1, 8, 4), ()),
    "virtual clusters": (
        Cluster("two", (NodeGroup(5, 4, vc="a"), NodeGroup(3, 4, vc="b"), NodeGroup(1, 4))),
        ("a", "b"),
    ),
    "types": (Cluster("types", (NodeGroup(4, 4, gpu_type="x"), NodeGroup(4, 4, gpu_type="y"))), ()),
}


@given(data=st.data(), chosen=SETTINGS, world=st.sampled_from(sorted(WORLDS)))
def test_plain_python_decides_the_same(data, chosen, world):
    cluster, vcs = WORLDS[world]
    jobs = st.tuples(
        st.integers(0, 400),
        st.integers(1, 300),
        st.sampled_from([1, 1, 2, 4, 8]),
        st.sampled_from([LIGHT, HEAVY, FULL, -1]),
        st.sampled_from([0, 1] if vcs else [-1]),
    )
    rows = sorted(data.draw(st.lists(jobs, min_size=1, max_size=40)))
    trace = dataclasses.replace(trace_of(rows, vcs), limit=np.array([1000 * (3 * row[1] + 7) for row in rows]))
    if world == "types":
        drawn = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=len(rows), max_size=len(rows)))
        trace = dataclasses.replace(trace, gpu_type=np.array(drawn), gpu_types=("x", "y"))
    policy = registry.policy("lucid:scores=thresholds," + ",".join(f"{k}={v}" for k, v in chosen.items()))
    scenario = Scenario(workloads=Workloads(np.array([row[3] for row in rows], np.int64), USES, SPEED))
    compiled, plain = (Simulator(trace, cluster, scenario=scenario, reasons=True) for _ in range(2))
    compiled.run(policy)
    plain.run(PlainLucid(policy))
    assert compiled.events.tolist() == plain.events.tolist()
    check(compiled.events, trace, cluster, tenants=2)


def test_plain_python_decides_the_same_with_what_was_learned_before():
    trace = dataclasses.replace(read_trace("synthetic:jobs=900,gpus=32,load=1.3,seed=4"), name="t")
    setup = set_up(trace, "8x4", since="+3")
    for more in ("", f",{PUBLISHED},dynamic=true"):
        policy = registry.policy(f"lucid:estimate=rolling,refit=1,profile_time=200{more}")
        lessons = simulation.lessons_before(policy, setup, setup.trace)
        scenario = Scenario(workloads=Workloads(*workloads_of(setup.trace, 0)))
        compiled, plain = (Simulator(setup.trace, setup.cluster, scenario=scenario) for _ in range(2))
        compiled.run(policy, memory=policy.start_with(setup.cluster, lessons))
        plain.run(PlainLucid(policy), memory=PlainLucid(policy).start(setup.cluster, lessons))
        assert compiled.digest == plain.digest


def test_a_node_that_goes_back_is_not_taken_at_the_same_moment():
    """The profiler shrinks and grows: jobs of the other virtual cluster must still be admitted to its nodes."""
    cluster = Cluster("two", (NodeGroup(5, 4, vc="a"), NodeGroup(3, 4, vc="b")))
    rows = [(0, 30, 4, HEAVY, 0)] * 6 + [(31, 40, 4, HEAVY, 1)] * 5 + [(65, 9, 2, HEAVY, 1)] * 9
    policy = f"lucid:profile_time=20,profile_nodes=1,{ALWAYS}".replace("profile_queue=10", "profile_queue=2")
    for growth in (1, 2, 3):
        play(policy.replace("profile_growth=1", f"profile_growth={growth}"), rows, cluster, ("a", "b"))

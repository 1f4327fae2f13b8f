"""Gandiva's parts, each in a little world whose times are worked out by hand (seconds)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from shunter import registry, simulation
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads, Tier
from shunter.model import GPU, Trace
from shunter.sharing.profiles import measured
from shunter.sim import Scenario, Simulator
from shunter.sim.scenario import Fault, Workloads

FULL = "gandiva:slicing=true,packing=true"
KINDS = {w.START: "start", w.PREEMPT: "stop", w.MOVE: "move", w.FINISH: "end"}


def jobs(*rows, **columns):
    """Jobs (submit, duration, GPUs), all of one model unless told otherwise."""
    submit, duration, gpus = zip(*rows, strict=True)
    given = {"model": [0] * len(rows), "models": ("net",)} | columns
    return Trace.of(
        "t",
        [f"j{i}" for i in range(len(rows))],
        submit=[1000 * s for s in submit],
        duration=[1000 * d for d in duration],
        gpus=[round(g * GPU) for g in gpus],
        **given,
    )


def machines(*gpus, restart=0.0, checkpoint=0.0, **about):
    """Machines of so many GPUs each."""
    costs = Overheads(checkpoint=((64, checkpoint),), restart=((64, restart),))
    return Cluster("c", tuple(NodeGroup(1, g) for g in gpus), overheads=costs, **about)


def run(policy, trace, cluster, **scenario):
    simulator = Simulator(trace, cluster, scenario=Scenario(**scenario))
    simulator.run(registry.policy(policy))
    return simulator


def ends(simulator):
    return (simulator.world.jobs[w.ENDED_AT] / 1000).tolist()


def story(simulator, job):
    """What happened to a job: (second, what) and of a start also {node: GPUs}."""
    told = []
    for time, kind, who, a, b in simulator.events.tolist():
        if who != job or kind not in KINDS:
            continue
        if kind == w.START and told and told[-1][:2] == (time / 1000, "start"):
            told[-1][2][a] = b // GPU
        else:
            told.append((time / 1000, KINDS[kind], *([{a: b // GPU}] if kind == w.START else [])))
    return told


def count(simulator, kind):
    return int((simulator.events[:, 1] == kind).sum())


# ------------------------------------------------------------------------------------------- placing and order


def test_jobs_of_a_size_stay_on_the_same_machines():
    rows = [(0, 100, 1), (0, 100, 2), (0, 100, 1), (0, 100, 2), (0, 100, 1)]
    done = run("gandiva", jobs(*rows), machines(4, 4))
    assert [list(story(done, job)[0][2]) for job in range(5)] == [[0], [1], [0], [1], [0]]


def test_of_machines_alike_the_freest_is_taken_and_an_idle_one_before_one_of_another_size():
    rows = [(0, 100, 2), (0, 100, 1), (0, 100, 1), (0, 100, 3)]
    done = run("gandiva", jobs(*rows), machines(4, 2, 8))
    assert [story(done, job)[0][2] for job in range(4)] == [{2: 2}, {0: 1}, {0: 1}, {2: 3}]


@pytest.mark.parametrize(("draw", "expected"), [("list", {0: 1, 1: 1, 2: 1, 3: 1}), ("random", None)])
def test_a_job_that_fits_on_no_machine_takes_any_free_gpus(draw, expected):
    """Three of each machine's four GPUs are in use; a job of four gets the rest, one of three any three of them."""
    rows = [(0, 900, 3)] * 8 + [(1, 100, 4)]
    places = []
    for seed in range(6):
        simulator = Simulator(jobs(*rows), machines(*[4] * 8), seed=seed)
        simulator.run(registry.policy(f"gandiva:draw={draw}"))
        places.append(tuple(story(simulator, 8)[0][2]))
    assert all(len(nodes) == 4 for nodes in places)
    if draw == "list":
        assert set(places) == {tuple(expected)}
    else:
        assert len(set(places)) > 1


def test_who_started_last_comes_first_and_who_never_did_last():
    """Whenever its lease ends the first job is the only one that has run."""
    rows = [(0, 90, 1), (1, 90, 1), (2, 90, 1)]
    done = run("gandiva:lease=30", jobs(*rows), machines(1))
    assert [time for time, what, *_ in story(done, 0) if what == "start"] == [0, 30, 60]
    assert story(done, 1)[0][0] == 90
    assert story(done, 2)[0][0] == 180


# ------------------------------------------------------------------------------------------- migration


SPREAD = [(0, 900, 3), (0, 100, 3), (0, 500, 2)]  # the last one gets what is left of both machines of four


@pytest.mark.parametrize(("restart", "end"), [(0, 500), (20, 520)])
def test_a_spread_job_moves_to_one_machine_when_that_has_room(restart, end):
    done = run("gandiva:lease=0", jobs(*SPREAD), machines(4, 4, restart=restart))
    assert story(done, 2) == [(0, "start", {0: 1, 1: 1}), (100, "move"), (100, "start", {1: 2}), (end, "end")]
    assert count(done, w.MOVE) == 1


def test_without_migration_it_stays():
    done = run("gandiva:lease=0,migration=false", jobs(*SPREAD), machines(4, 4))
    assert story(done, 2) == [(0, "start", {0: 1, 1: 1}), (500, "end")]


def test_a_move_pays_where_the_network_is_slow():
    """At a tenth of the speed 10 s are done when the room appears."""
    slow = {"net": (1.0, 0.1, 0.1)}
    assert ends(run("gandiva:lease=0", jobs(*SPREAD), machines(4, 4), tier_speed=slow))[2] == 100 + 490


@pytest.mark.parametrize(
    ("policy", "moved", "started"),
    [("gandiva:lease=0", {1: 2}, {0: 1, 1: 2}), ("gandiva:slicing=true,look_again=9999", None, {1: 3})],
)
def test_running_jobs_come_before_new_ones_but_not_while_there_are_turns(policy, moved, started):
    """When a machine gets free a job of three waits, too: it is left with what the move leaves, or takes it all."""
    done = run(policy, jobs(*SPREAD, (50, 300, 3)), machines(4, 4))
    assert story(done, 3)[0] == (100, "start", started)
    if moved is None:
        assert story(done, 2)[1][:2] == (400, "move")  # the job of three is gone
    else:
        assert story(done, 2)[2] == (100, "start", moved)


def test_a_job_larger_than_a_machine_moves_into_one_rack():
    """It got the rest of both racks; when a machine gets free, five of the second rack's GPUs are."""
    tiers = (Tier("machine", 100, 1), Tier("rack", 50, 1), Tier("network", 10, 10))
    cluster = Cluster("2 racks of 2 x 4", (NodeGroup(4, 4, racks=(2, 2)),), tiers=tiers)
    rows = [(0, 900, 4), (0, 900, 2), (0, 100, 4), (0, 500, 5)]
    done = run("gandiva:lease=0,draw=list", jobs(*rows), cluster)
    told = [event[1:] for event in story(done, 3)]
    assert told == [("start", {1: 2, 3: 3}), ("move",), ("start", {2: 4, 3: 1}), ("end",)]


RACKS = (Tier("machine", 100, 1), Tier("rack", 50, 1), Tier("network", 10, 10))
TWO_RACKS = Cluster("2 racks of 2 x 4", (NodeGroup(4, 4, racks=(2, 2)),), tiers=RACKS)


@pytest.mark.parametrize(("again", "moved"), [(60, 60), (25, 50), (0, None)])
def test_a_job_alone_looks_for_closer_gpus_from_time_to_time(again, moved):
    """Nothing else happens: from 30 on there is room in the second rack, and the job is spread over both."""
    rows = [(0, 900, 4), (30, 500, 6)]
    done = run(f"gandiva:lease=0,draw=list,move_again={again}", jobs(*rows), TWO_RACKS)
    first, second = (30, "start", {1: 4, 2: 2}), {2: 2, 3: 4}
    moves = [(moved, "move"), (moved, "start", second)] if moved else []
    assert story(done, 1) == [first, *moves, (530, "end")]


def test_a_job_that_looked_in_vain_is_not_asked_again_before_gpus_come_free():
    """Both look at 60 and 120; then nothing has changed, so that nothing happens until the first one ends."""
    rows = [(0, 1000, 3), (0, 1000, 3), (0, 900, 2)]
    done = Simulator(jobs(*rows), machines(4, 4))
    times = []
    policy = registry.policy("gandiva:lease=0")
    watch = type("Watch", (), {"decided": lambda _, view, plan, refused: times.append(view.now // 1000)})()
    done.run(policy, observers=[watch])
    assert story(done, 2) == [(0, "start", {0: 1, 1: 1}), (900, "end")]
    assert [time for time in times if 60 < time < 900] == []


@pytest.mark.parametrize(("renewal", "starts"), [("again", [30, 60, 130, 230, 330, 430]), ("keep", [30, 60])])
def test_the_end_of_a_lease_does_not_scatter_a_job_that_sat_well(renewal, starts):
    rows = [(0, 900, 4), (30, 500, 6)]
    done = run(f"gandiva:lease=100,draw=list,renewal={renewal}", jobs(*rows), TWO_RACKS)
    placed = [(time, where) for time, what, *where in story(done, 1) if what == "start"]
    assert [time for time, _ in placed] == starts
    assert [where for _, where in placed[:2]] == [[{1: 4, 2: 2}], [{2: 2, 3: 4}]]
    assert all(where == [{2: 4, 3: 2}] for _, where in placed[2:])


def test_nor_does_the_end_of_a_turn():
    """The job of six moves into the second rack at 60; a job of twelve has its GPUs from 120 to 180; it comes back."""
    rows = [(0, 900, 4), (30, 500, 6), (70, 60, 12)]
    done = run("gandiva:slicing=true,draw=list", jobs(*rows), TWO_RACKS)
    assert story(done, 1) == [
        (30, "start", {1: 4, 2: 2}), (60, "move"), (60, "start", {2: 2, 3: 4}), (120, "stop"),
        (180, "start", {2: 4, 3: 2}), (590, "end"),
    ]  # fmt: skip


def test_an_end_elsewhere_moves_nobody_who_is_already_close():
    done = run("gandiva:lease=0", jobs((0, 10, 4), (0, 100, 2), (0, 100, 4)), machines(4, 4, 4))
    assert count(done, w.MOVE) == 0


# ------------------------------------------------------------------------------------------- turns


def test_two_jobs_take_turns_on_one_gpu():
    done = run("gandiva:slicing=true", jobs((0, 300, 1), (0, 120, 1)), machines(1))
    assert [(time, what) for time, what, *_ in story(done, 0)] == [
        (0, "start"), (60, "stop"), (120, "start"), (180, "stop"), (240, "start"), (420, "end"),
    ]  # fmt: skip
    assert ends(done) == [420, 240]


def test_nobody_is_stopped_while_nobody_waits():
    done = run("gandiva:slicing=true", jobs((0, 1000, 1), (0, 1000, 1)), machines(2))
    assert count(done, w.PREEMPT) == 0


def test_who_came_within_a_turn_waits_for_its_end():
    done = run("gandiva:slicing=true,look_again=100", jobs((0, 1000, 1), (130, 10, 1)), machines(1))
    assert story(done, 1) == [(200, "start", {0: 1}), (210, "end")]
    assert [time for time, what, *_ in story(done, 0)] == [0, 200, 210, 1010]


def test_three_jobs_on_two_gpus_get_the_same():
    simulator = Simulator(jobs(*[(0, 1200, 1)] * 3), machines(2))
    memory = simulator.run(registry.policy("gandiva:slicing=true"), until=180_000)
    table = simulator.world.jobs
    assert (table[w.EXECUTED] + (table[w.STATE] == w.RUNNING) * (180_000 - table[w.BEGUN])).tolist() == [120_000] * 3
    simulator.run(registry.policy("gandiva:slicing=true"), memory=memory)
    assert max(ends(simulator)) == 1800


def test_as_few_give_way_as_needed_who_ran_longest_first():
    rows = [(0, 900, 1), (5, 900, 1), (10, 900, 1), (15, 900, 1), (20, 30, 2)]
    done = run("gandiva:slicing=true", jobs(*rows), machines(4))
    stopped = [job for job in range(4) if (60, "stop") in [event[:2] for event in story(done, job)]]
    assert stopped == [0, 1]
    assert story(done, 4) == [(60, "start", {0: 2}), (90, "end")]


@pytest.mark.parametrize(("policy", "turns"), [("gandiva:slicing=true", True), ("gandiva:packing=true", False)])
def test_a_node_that_drains_gets_no_other_job(policy, turns):
    """The job of the draining node runs to its end; only that of the other node takes turns, or shares its GPU."""
    drains = (Fault(10_000, 0, 10**9, drains=True),)
    done = run(policy, jobs((0, 300, 1), (0, 300, 1), (20, 300, 1), (21, 300, 1)), machines(1, 1), faults=drains)
    assert story(done, 0) == [(0, "start", {0: 1}), (300, "end")]
    others = [
        where for job in (1, 2, 3) for _, what, *places in story(done, job) if what == "start" for where in places
    ]
    assert set(map(tuple, others)) == {(1,)}
    assert any(what == "stop" for _, what, *_ in story(done, 1)) == turns


def test_a_gang_gets_the_whole_cluster_in_its_turn():
    rows = [(0, 100, 1)] * 4 + [(10, 60, 8)] + [(0, 100, 4)]
    done = run("gandiva:slicing=true", jobs(*rows), machines(4, 4))
    assert story(done, 5) == [(60, "start", {0: 4, 1: 4}), (120, "end")]  # it is last by submission
    assert count(done, w.PREEMPT) == 5


def test_one_of_the_same_size_gives_way_before_several_others():
    """The job of two began later than those of one, but its place is just right."""
    rows = [(0, 900, 1), (0, 900, 1), (1, 900, 2), (2, 30, 2)]
    done = run("gandiva:slicing=true", jobs(*rows), machines(2, 2))
    assert [event[:2] for event in story(done, 2)][1] == (60, "stop")
    assert story(done, 3) == [(60, "start", {1: 2}), (90, "end")]
    assert [event[1] for event in story(done, 0)] == ["start", "end"]


def test_a_restart_that_outlasts_a_turn_is_not_in_vain():
    done = run("gandiva:slicing=true", jobs((0, 200, 1), (0, 200, 1)), machines(1, restart=100))
    assert done.over


def test_turns_are_longer_where_stopping_costs_more():
    """Ten times 8 s of work before a stop, and 3 s for the restart: at 60 it is too early, at 120 not."""
    done = run("gandiva:slicing=true", jobs((0, 300, 1), (0, 300, 1)), machines(1, checkpoint=5, restart=3))
    assert [event[0] for event in story(done, 0)][:2] == [0, 125]
    assert [event[0] for event in story(done, 1)][:2] == [125, 245]


def test_where_stopping_takes_time_the_next_one_starts_after_it():
    done = run("gandiva:slicing=true,min_run=0", jobs((0, 100, 1), (0, 20, 1)), machines(1, checkpoint=5, restart=3))
    assert story(done, 1) == [(65, "start", {0: 1}), (85, "end")]
    assert ends(done)[0] == 85 + 3 + 40


def test_shares_of_a_gpu_take_turns_too():
    done = run("gandiva:slicing=true", jobs((0, 200, 0.5), (0, 200, 0.5), (0, 20, 0.7)), machines(1))
    assert story(done, 2)[0][0] == 60


def test_turns_keep_to_virtual_clusters():
    groups = (NodeGroup(1, 1, vc="a"), NodeGroup(1, 1, vc="b"))
    trace = jobs((0, 200, 1), (0, 200, 1), (0, 20, 1), vc=[0, 1, 1], vcs=("a", "b"))
    done = run("gandiva:slicing=true", trace, Cluster("two", groups))
    assert [event[1] for event in story(done, 0)] == ["start", "end"]
    assert story(done, 2)[0] == (60, "start", {1: 1})


# ------------------------------------------------------------------------------------------- pairs

GOOD = {("net", "net"): 0.8}
BAD = {("net", "net"): 0.4}


def test_a_job_that_finds_no_gpu_shares_one():
    done = run("gandiva:packing=true", jobs((0, 80, 1), (10, 80, 1)), machines(1), pair_speed=GOOD)
    assert story(done, 1)[0] == (10, "start", {0: 1})
    assert ends(done) == [97.5, 107.5]  # the first: 10 alone and 70 / 0.8; the other has 10 left then


def test_nobody_shares_while_there_are_free_gpus():
    done = run(FULL, jobs((0, 80, 1), (10, 80, 1)), machines(2), pair_speed=GOOD)
    assert ends(done) == [80, 90]


def test_only_jobs_of_a_size_share_and_only_two():
    rows = [(0, 100, 2), (0, 100, 1), (0, 100, 1), (1, 50, 3), (2, 50, 2), (3, 50, 2)]
    done = run("gandiva:packing=true,migration=false", jobs(*rows), machines(4), pair_speed=GOOD)
    started = [story(done, job)[0][0] for job in range(6)]
    assert started[:3] == [0, 0, 0]
    assert started[4] == 2
    assert started[5] == 2 + 50 / 0.8  # when the pair has a place again
    assert started[3] > 100


def test_all_gpus_of_a_pair_are_the_same():
    rows = [(0, 100, 3), (0, 100, 3), (0, 100, 2), (1, 50, 2)]
    done = run("gandiva:packing=true,migration=false", jobs(*rows), machines(4, 4), pair_speed=GOOD)
    assert story(done, 3)[0][2] == story(done, 2)[0][2] == {0: 1, 1: 1}


def test_the_partner_is_drawn_by_chance():
    rows = [(0, 100, 1)] * 6 + [(1, 10, 1)]
    partners = set()
    for seed in range(8):
        simulator = Simulator(jobs(*rows), machines(*[1] * 6), seed=seed, scenario=Scenario(pair_speed=GOOD))
        simulator.run(registry.policy("gandiva:packing=true"))
        partners.add(tuple(story(simulator, 6)[0][2]))
    assert len(partners) > 2


def test_a_bad_pair_parts_at_the_next_look_and_is_not_tried_again():
    """Until 60 both do 0.4 of what they could; then the first goes on alone and the other waits for it."""
    done = run("gandiva:packing=true,lease=0", jobs((0, 100, 1), (30, 50, 1)), machines(1), pair_speed=BAD)
    first_end = 60 + (100 - 30 - 30 * 0.4)
    assert [(time, what) for time, what, *_ in story(done, 1)] == [
        (30, "start"), (60, "stop"), (first_end, "start"), (first_end + 50 - 30 * 0.4, "end"),
    ]  # fmt: skip


def test_where_models_are_unknown_a_job_that_did_badly_is_not_paired_again():
    """The model of nobody is known; 0.4 is what the last row of the table says of such."""
    trace = jobs((0, 1000, 1), (30, 50, 1), model=[-1, -1])
    apart = Workloads(np.array([-1, -1]), np.zeros((3, 0)), np.array([[0.4]]))
    done = run("gandiva:packing=true,lease=0", trace, machines(1), workloads=apart)
    assert [(time, what) for time, what, *_ in story(done, 1)][:3] == [(30, "start"), (60, "stop"), (1018, "start")]


def test_a_pair_in_time_slices_or_better_stays():
    for pairs in ({}, GOOD, {("net", "net"): 0.5}):
        done = run("gandiva:packing=true,lease=0", jobs((0, 100, 1), (30, 50, 1)), machines(1), pair_speed=pairs)
        assert count(done, w.PREEMPT) == 0


def test_a_pair_is_judged_by_what_each_would_do_there_alone():
    """Spread over two slow machines both do a quarter alone and an eighth in time slices: that is no reason to part."""
    cluster = machines(1, 1)
    slow = {"net": (1.0, 0.25, 0.25)}
    done = run("gandiva:packing=true,lease=0", jobs((0, 100, 2), (0, 100, 2)), cluster, tier_speed=slow)
    assert count(done, w.PREEMPT) == 0
    assert ends(done) == [800, 800]


@pytest.mark.parametrize(("memory", "start"), [(8, 1), (9, 100)])
def test_a_pair_must_fit_into_the_memory(memory, start):
    trace = jobs((0, 100, 1), (1, 100, 1), mem_gib=[8 * 1024, memory * 1024])
    cluster = Cluster("c", (NodeGroup(1, 1, mem_gib=16),))
    done = run("gandiva:packing=true,lease=0", trace, cluster, pair_speed={("net", "net"): 1.0})
    assert story(done, 1)[0][0] == start


def test_pairs_of_one_instant_share_what_memory_there_is():
    trace = jobs(*[(0, 100, 1)] * 4, *[(1, 100, 1)] * 4, mem_gib=[8 * 1024] * 8)
    cluster = Cluster("c", (NodeGroup(1, 4, mem_gib=48),))
    done = run("gandiva:packing=true,lease=0", trace, cluster, pair_speed={("net", "net"): 1.0})
    assert [story(done, job)[0][0] for job in range(4, 8)] == [1.0, 1.0, 100.0, 100.0]


def test_several_jobs_find_a_partner_at_one_instant_each_its_own():
    trace = jobs(*[(0, 100, 1)] * 4, *[(1, 100, 1)] * 5)
    done = run("gandiva:packing=true,lease=0", trace, machines(4), pair_speed={("net", "net"): 1.0})
    assert [story(done, job)[0][0] for job in range(4, 9)] == [1.0, 1.0, 1.0, 1.0, 100.0]


def test_gpus_that_hold_one_job_only_are_not_shared():
    done = run("gandiva:packing=true,lease=0", jobs((0, 100, 1), (1, 100, 1)), machines(1), sharing=1)
    assert ends(done) == [100, 200]


def test_a_pair_parts_when_another_gpu_is_free_and_nobody_waits():
    """The third job shares with one of the others; if with the first, there is a free GPU when the second has ended."""
    trace, partners = jobs((0, 100, 1), (0, 10, 1), (5, 100, 1)), set()
    for seed, migration in product(range(6), ("true", "false")):
        simulator = Simulator(trace, machines(1, 1), seed=seed)
        simulator.run(registry.policy(f"gandiva:packing=true,lease=0,migration={migration}"))
        moves = [(event[0], event[2]) for event in simulator.events.tolist() if event[1] == w.MOVE]
        (partner,) = story(simulator, 2)[0][2]
        partners.add(partner)
        assert [time for time, _ in moves] == ([10_000] if partner == 0 and migration == "true" else [])
    assert partners == {0, 1}


def test_turns_in_pairs():
    """Four jobs on one GPU, two at a time: at each look both give way."""
    done = run(FULL, jobs(*[(0, 60, 1)] * 4), machines(1), pair_speed={("net", "net"): 1.0})
    assert ends(done) == [60, 60, 120, 120]
    done = run(FULL, jobs(*[(0, 90, 1)] * 4), machines(1), pair_speed={("net", "net"): 1.0})
    assert [event[0] for event in story(done, 0)] == [0, 60, 120, 150]
    assert [event[0] for event in story(done, 2)] == [60, 120, 150, 180]


# ------------------------------------------------------------------------------------------- growing and shrinking


def test_a_job_grows_into_the_idle_gpus_of_its_machine():
    done = run("gandiva:growth=4", jobs((0, 300, 1)), machines(4, 4))
    assert story(done, 0) == [(0, "start", {0: 1}), (60, "move"), (60, "start", {0: 4}), (120, "end")]


@pytest.mark.parametrize(("growth", "end"), [(1, 300), (1.5, 300), (2, 180), (3, 140)])
def test_it_grows_no_further_than_it_may(growth, end):
    assert ends(run(f"gandiva:growth={growth}", jobs((0, 300, 1)), machines(4))) == [end]


def test_it_gives_back_what_somebody_needs_at_once():
    """From 60 on at four times its speed, from 90 on at one; the other two GPUs are idle again from 110 on."""
    done = run("gandiva:growth=4,lease=0", jobs((0, 400, 1), (90, 20, 3)), machines(4))
    assert story(done, 1) == [(90, "start", {0: 3}), (110, "end")]
    assert ends(done)[0] == 120 + (400 - 60 - 120 - 30) / 4


def test_it_keeps_what_nobody_needs():
    """One of eight GPUs is free for the one who comes."""
    done = run("gandiva:growth=7,lease=0", jobs((0, 1000, 1), (90, 20, 1)), machines(8))
    assert [event[1] for event in story(done, 0)] == ["start", "move", "start", "end"]


def test_the_one_that_has_grown_least_grows_first():
    rows = [(0, 1000, 1), (0, 1000, 2)]
    done = run("gandiva:growth=2,lease=0", jobs(*rows, gpu_type=[0, 0], gpu_types=("gpu",)), machines(5))
    first = [event for event in story(done, 0) if event[1] == "start"][1]
    second = [event for event in story(done, 1) if event[1] == "start"][1]
    assert (first[0], first[2], second[0], second[2]) == (60, {0: 2}, 60, {0: 3})


def test_growing_costs_a_restart():
    assert ends(run("gandiva:growth=4", jobs((0, 300, 1)), machines(4, restart=15, checkpoint=5))) == [60 + 20 + 60]


# ------------------------------------------------------------------------------------------- from the command line


@pytest.mark.parametrize("packing", ["true", "false"])
def test_pairs_are_as_fast_as_measured_in_a_run_from_the_command_line(packing):
    """Two jobs that come together on the only GPU; by the tables of the package, the slower one is alone in the end."""
    found = measured()
    speeds, first, second = found.speeds(), found.names[0], found.names[-1]
    trace = jobs((0, 100, 1), (0, 100, 1), model=[0, 1], models=(first, second))
    result = simulation.simulate(trace, "1x1", f"gandiva:packing={packing},lease=0")
    beside = speeds[0, -1], speeds[-1, 0]
    together = 100 / max(beside)
    last = together + 100 - together * min(beside)
    expected = sorted([together, last]) if packing == "true" else [100, 200]
    assert sorted((result.table[w.ENDED_AT] / 1000).tolist()) == pytest.approx(expected, abs=0.002)

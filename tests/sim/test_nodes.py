"""Nodes that fail, are repaired, sleep, wake, and move between virtual clusters."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import cluster, column, ends, jobs, play, story

from shunter import world as w
from shunter.cluster import NodeGroup
from shunter.errors import ClusterError, PolicyError
from shunter.model import Assign, Power, Preempt, Start
from shunter.sim import Fault, Scenario, Simulator, random_faults
from shunter.testing.invariants import check


def faults(*rows, known=False):
    return Scenario(tuple(Fault(*row, known) for row in rows))


def nodes_of(run):
    return [(time, kind) for time, kind, job in story(run) if job < 0]


def test_a_failure_throws_jobs_back_into_the_queue_and_they_lose_their_work():
    trace = jobs((0, 1000), (0, 1000, 1, {"checkpoint": 300}))
    run = play(trace, cluster(2), greedy=True, scenario=faults((400, 0, 700)))
    assert ends(run) == [1700, 1400]
    assert column(run, w.LOST) == [400, 100]
    assert column(run, w.PREEMPTIONS) == [1, 1]
    assert nodes_of(run) == [(400, "NODE_DOWN"), (700, "NODE_UP")]
    assert {int(a) for _, kind, _, a, _ in run.events if kind == w.PREEMPT} == {w.BY_FAILURE}


def test_on_a_node_that_drains_jobs_run_to_their_end_and_none_starts():
    trace = jobs((0, 1000), (0, 300), (500, 100))
    run = play(trace, cluster(2), greedy=True, scenario=Scenario((Fault(400, 0, 700, drains=True),)))
    assert ends(run) == [1000, 300, 800]  # the third waits for the node, although a GPU is free
    assert column(run, w.PREEMPTIONS) == [0, 0, 0]
    assert nodes_of(run) == [(400, "NODE_DOWN"), (700, "NODE_UP")]
    check(run.events, trace, cluster(2))


def test_a_failure_of_a_node_that_drains_throws_its_jobs_out():
    both = Scenario((Fault(200, 0, 700, drains=True), Fault(400, 0, 600)))
    run = play(jobs((0, 1000)), cluster(1), greedy=True, scenario=both)
    assert ends(run) == [1700]


def test_a_gang_on_two_nodes_frees_the_healthy_one():
    run = play(jobs((0, 1000, 2), (0, 100)), cluster(1, 1), greedy=True, scenario=faults((400, 0, 700)))
    assert ends(run) == [1700, 500]


def test_sharing_jobs_on_a_broken_node_are_all_thrown_out():
    plans = {0: [[Start(0, [0, 1]), Start(1, [0], shared=True), Start(2, [1], shared=True)]]}
    trace = jobs((0, 1000, 2), (0, 100), (0, 1000))
    run = play(trace, cluster(1, 1), plans, greedy=True, scenario=faults((100, 0, 5000)))
    assert run.world.jobs[w.PREEMPTIONS].tolist() == [1, 1, 0]
    # job 2 ran 100 ms at half speed, is then alone, and job 1 follows it on the healthy node
    assert ends(run) == [6000, 1150, 1050]
    assert column(run, w.LOST) == [2 * 50, 50, 0]


def test_a_checkpoint_that_a_failure_cuts_short_saves_nothing():
    plans = {0: [[Start(0, [0])]], 400: [[Preempt(0)]]}
    run = play(jobs((0, 1000)), cluster(1, checkpoint=0.2), plans, greedy=True, scenario=faults((500, 0, 600)))
    assert story(run, 0)[2:] == [(400, "STOP"), (500, "PREEMPT"), (600, "START"), (1600, "FINISH")]
    assert column(run, w.LOST) == [400 + 100]


@pytest.mark.parametrize(
    ("rows", "up"),
    [
        ([(100, 0, 300), (200, 0, 500)], 500),
        ([(100, 0, 500), (200, 0, 300)], 500),
        ([(100, 0, 300), (300, 0, 500)], 500),
        ([(100, 0, 300), (100, 0, 200)], 300),
        ([(100, 0, 200), (150, 0, 250), (240, 0, 260), (255, 0, 256)], 260),
    ],
)
def test_overlapping_faults_end_with_the_last(rows, up):
    run = play(jobs((0, 50), (100, 1000)), cluster(1), greedy=True, scenario=faults(*rows))
    assert nodes_of(run) == [(100, "NODE_DOWN"), (up, "NODE_UP")]
    assert ends(run) == [50, up + 1000]


def test_a_job_that_ends_as_its_node_breaks_has_ended_and_one_that_comes_with_the_repair_starts():
    run = play(jobs((0, 100), (200, 50)), cluster(1), greedy=True, scenario=faults((100, 0, 200)))
    assert ends(run) == [100, 250]
    assert story(run)[2:6] == [(100, "FINISH", 0), (100, "NODE_DOWN", -1), (200, "NODE_UP", -1), (200, "ARRIVE", 1)]


def test_known_outages_are_seen_ahead_and_the_next_one_after_each():
    plan = Scenario((Fault(100, 0, 200, True), Fault(150, 1, 160), Fault(300, 0, 400, True), Fault(310, 1, 320, True)))
    looks = lambda view: (view.now, view.nodes.outage.tolist())  # noqa: E731
    run = play(jobs((0, 1000, 1), (90, 1)), cluster(1, 2), greedy=True, scenario=plan, look=looks)
    seen = dict(run.seen)
    assert seen[0] == [100, 310]
    assert seen[100] == seen[150] == [300, 310]
    assert seen[300] == [w.NEVER, 310]
    assert seen[310] == [w.NEVER, w.NEVER]


def test_faults_before_the_beginning_are_over_and_one_that_lasts_still_holds():
    trace = jobs((1000, 100))
    run = play(trace, cluster(1, 1), greedy=True, scenario=faults((10, 0, 20), (500, 0, 1000), (600, 0, 1300)))
    assert nodes_of(run) == [(1000, "NODE_DOWN")]
    assert [int(a) for _, kind, _, a, _ in run.events if kind == w.START] == [1]
    run = play(trace, cluster(1), greedy=True, scenario=faults((10, 0, 1100)))
    assert ends(run) == [1200]


@pytest.mark.parametrize("fault", [Fault(0, 2, 1), Fault(0, -1, 1), Fault(5, 0, 5), Fault(5, 0, 4)])
def test_impossible_faults_are_refused(fault):
    with pytest.raises(ClusterError, match="end must come after time"):
        Simulator(jobs((0, 1)), cluster(1, 1), scenario=Scenario((fault,)))


def test_random_faults_come_from_the_seed_and_never_overlap():
    machines, begin = cluster(*[1] * 20), 10**12
    first = random_faults(machines, 10.0, 1.0, begin + 10**9, 3, begin)
    assert first == random_faults(machines, 10.0, 1.0, begin + 10**9, 3, begin)
    assert first != random_faults(machines, 10.0, 1.0, begin + 10**9, 4, begin)
    assert 20 * 10**9 / 3.6e6 / 11 * 0.8 < len(first) < 20 * 10**9 / 3.6e6 / 11 * 1.2
    for node in range(20):
        mine = np.array([(f.time, f.end) for f in first if f.node == node]).ravel()
        assert (np.diff(mine) > 0).all()
        assert begin < mine[0]


def test_all_work_is_done_in_spite_of_random_faults():
    machines = cluster(*[2] * 4, restart=1)
    trace = jobs(*[(i * 60_000, 600_000 + i, 1 + i % 2, {"checkpoint": 100_000}) for i in range(50)])
    run = play(trace, machines, greedy=True, scenario=Scenario(random_faults(machines, 0.2, 0.05, 10**8, 1)))
    table = run.world.jobs
    assert (table[w.STATE] == w.DONE).all()
    assert table[w.PREEMPTIONS].sum() > 20
    assert (table[w.ATTAINED] - table[w.LOST] == trace.duration * table[w.GPUS]).all()  # work conserved
    assert (table[w.ENDED_AT] - table[w.SUBMIT] == table[w.WAITED] + table[w.EXECUTED]).all()
    up = run.world.nodes[w.NODE_STATE] == w.UP
    assert (run.world.nodes[w.FREE] == np.where(up, run.world.nodes[w.TOTAL], 0)).all()


# ---------------------------------------------------------------------------------------------- power


def test_a_sleeping_node_takes_no_job_until_it_is_awake():
    plans = {0: [[Power(0, False)]], 100: [[Power(0, True)]]}
    run = play(jobs((0, 1000)), cluster(1, wake=0.3), plans, greedy=True)
    assert ends(run) == [1400]
    assert nodes_of(run) == [(0, "SLEEP"), (100, "WAKE"), (400, "NODE_UP")]


def test_waking_that_takes_no_time_is_over_at_once():
    run = play(jobs((0, 1000)), cluster(1), {0: [[Power(0, False), Power(0, True)]]}, greedy=True)
    assert ends(run) == [1000]


def test_free_gpus_of_a_sleeping_node_are_not_counted():
    looks = lambda view: (view.now, view.nodes.free.tolist(), view.nodes.state.tolist())  # noqa: E731
    plans = {0: [[Power(0, False)]], 10: [[Power(0, True)]], 20: []}
    run = play(jobs((0, 100)), cluster(2, 1, wake=0.015), plans, greedy=True, look=looks)
    assert (0, [0, 0], [w.ASLEEP, w.UP]) in run.seen
    assert (10, [0, 0], [w.WAKING, w.UP]) in run.seen
    assert run.seen[-2:] == [(25, [2, 0], [w.UP, w.UP]), (100, [2, 1], [w.UP, w.UP])]


@pytest.mark.parametrize(
    ("fault", "up"),
    [
        ((50, 0, 80), 80),  # asleep: it comes up with the repair
        ((50, 0, 500), 500),  # asleep, and the wake of 100 is refused
        ((150, 0, 300), 400),  # waking: no sooner than it would have been awake
        ((150, 0, 900), 900),  # waking: not before the repair
        ((400, 0, 500), 500),  # awake at that very instant: the failure comes first
    ],
)
def test_a_node_that_fails_asleep_or_waking_is_not_back_before_both_are_over(fault, up):
    plans = {0: [[Power(0, False)]], 100: [[Power(0, True)]]}
    run = play(jobs((0, 1000)), cluster(1, wake=0.3), plans, greedy=True, scenario=faults(fault))
    assert ends(run) == [up + 1000]
    assert [time for time, kind in nodes_of(run) if kind == "NODE_UP"] == [up]


def test_a_policy_that_leaves_every_node_asleep_is_reported():
    with pytest.raises(PolicyError, match="left 1 job waiting"):
        play(jobs((0, 1000)), cluster(1), {0: [[Power(0, False)]]}, greedy=True)


# ---------------------------------------------------------------------------------------------- pools


def test_a_node_moves_to_another_virtual_cluster_and_what_runs_there_runs_on():
    machines = cluster(NodeGroup(1, 2, vc="a"), NodeGroup(1, 1, vc="b"))
    trace = jobs((0, 1000, 1, {"vc": "a"}), (0, 300, 1, {"vc": "b"}), (0, 300, 1, {"vc": "a"}))
    plans = {
        0: [[Start(0, [0]), Start(1, [2])]],
        100: [[Start(2, [2])]],
        200: [[Assign(0, 1)]],
        210: [[Start(2, [1])]],
        300: [[Assign(1, 0), Start(2, [2])]],
    }
    run = play(trace, machines, plans)
    assert run.refused == [
        (100, "the node belongs to another virtual cluster"),
        (210, "the node belongs to another virtual cluster"),
    ]
    assert ends(run) == [1000, 300, 600]
    assert [(int(t), int(a), int(b)) for t, kind, _, a, b in run.events if kind == w.REASSIGN] == [
        (200, 0, 1),
        (300, 1, 0),
    ]


def test_a_lease_is_renewed_on_a_node_that_belongs_to_others_by_now():
    machines = cluster(NodeGroup(1, 1, vc="a"), NodeGroup(1, 1, vc="b"))
    plans = {0: [[Start(0, [0], until=500)]], 200: [[Assign(0, 1)]], 500: [[Start(0, [0])]]}
    run = play(jobs((0, 1000, 1, {"vc": "a"})), machines, plans)
    assert (ends(run), column(run, w.PREEMPTIONS)) == ([1000], [0])

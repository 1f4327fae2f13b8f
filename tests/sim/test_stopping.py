"""Preempting, migrating, resizing: what it costs, what is kept, what is lost."""

from __future__ import annotations

import pytest
from worlds import cluster, column, ends, jobs, play, story

from shunter import world as w
from shunter.cluster import Overheads
from shunter.model import Migrate, Preempt, Resize, Start
from shunter.sim import Scenario


def test_a_free_preemption_frees_the_gpus_for_a_start_in_the_same_plan():
    trace = jobs((0, 1000), (400, 500))
    plans = {0: [[Start(0, [0])]], 400: [[Preempt(0), Start(1, [0])]], 900: [[Start(0, [0])]]}
    run = play(trace, cluster(1), plans)
    assert ends(run) == [1500, 900]
    assert story(run, 0) == [(0, "ARRIVE"), (0, "START"), (400, "PREEMPT"), (900, "START"), (1500, "FINISH")]
    assert column(run, w.WAITED) == [500, 0]
    assert column(run, w.EXECUTED) == [1000, 500]
    assert column(run, w.LOST) == [0, 0]
    assert column(run, w.PREEMPTIONS) == [1, 0]


def test_a_checkpoint_holds_the_gpus_and_a_plan_that_needs_them_is_refused_as_a_whole():
    trace = jobs((0, 1000), (400, 500))
    both = [Preempt(0), Start(1, [0])]
    plans = {0: [[Start(0, [0])]], 400: [both], 401: [[Preempt(0)]], 601: [[Start(1, [0])]], 1101: [[Start(0, [0])]]}
    run = play(trace, cluster(1, checkpoint=0.2, restart=0.3), plans)
    assert run.refused == [(400, "a GPU is not free")]  # and job 0 ran on until 401
    assert story(run, 0)[2:] == [(401, "STOP"), (601, "PREEMPT"), (1101, "START"), (2000, "FINISH")]
    assert ends(run) == [1101 + 300 + 599, 1101]
    assert column(run, w.LOST) == [500, 0]
    assert column(run, w.EXECUTED) == [601 + 899, 500]


def test_a_job_that_is_being_checkpointed_can_not_be_started_stopped_or_moved():
    plans = {
        0: [[Start(0, [0])]],
        100: [[Preempt(0)]],
        200: [[Start(0, [1])]],
        210: [[Preempt(0)]],
        220: [[Migrate(0, [1])]],
    }
    run = play(jobs((0, 1000)), cluster(2, checkpoint=0.2), plans, greedy=True)
    assert run.refused == [
        (200, "the job does not wait"),
        (210, "the job does not run"),
        (220, "the job does not run"),
    ]
    assert ends(run) == [300 + 900]


def test_costs_go_by_size_and_the_largest_pay_the_last_step():
    steps = ((1, 0.1), (4, 0.2), (8, 0.4))
    costs = Overheads.of(steps, jobs((0, 1, 1), (0, 1, 2), (0, 1, 4), (0, 1, 5), (0, 1, 9)).gpus // 1000)
    assert costs.tolist() == [100, 200, 200, 400, 400]
    plans = {0: [[Start(0, [0, 1])]], 100: [[Preempt(0)]]}
    run = play(jobs((0, 1000, 2)), cluster(2, checkpoint=steps), plans, greedy=True)
    assert ends(run) == [1200]
    assert column(run, w.LOST) == [400]  # 200 ms on two GPUs


@pytest.mark.parametrize(
    ("interval", "when", "end", "lost"),
    [(0, 700, 1700, 700), (300, 700, 1100, 100), (300, 600, 1000, 0), (300, 599, 1299, 299), (2000, 700, 1700, 700)],
)
def test_a_kill_loses_what_was_done_since_the_last_checkpoint(interval, when, end, lost):
    run = play(
        jobs((0, 1000, 1, {"checkpoint": interval})),
        cluster(1, checkpoint=5),
        {0: [[Start(0, [0])]], when: [[Preempt(0, keep=False)]]},
        greedy=True,
    )
    assert ends(run) == [end]
    assert column(run, w.LOST) == [lost]
    assert [(a, b) for _, kind, _, a, b in run.events if kind == w.PREEMPT] == [(w.BY_POLICY, lost)]


def test_own_checkpoints_are_counted_from_the_last_one_whoever_made_it():
    plans = {0: [[Start(0, [0])]], 250: [[Preempt(0), Start(0, [0])]], 500: [[Preempt(0, keep=False)]]}
    run = play(jobs((0, 1000, 1, {"checkpoint": 200})), cluster(1), plans, greedy=True)
    assert ends(run) == [500 + 1000 - 450]
    assert column(run, w.LOST) == [50]


def test_a_checkpoint_on_the_dot_counts_although_floats_do_not_add_up():
    machines = cluster(1, speeds={"gpu": 0.29})
    plans = {0: [[Start(0, [0])]], 100_000: [[Preempt(0, keep=False)]]}
    run = play(jobs((0, 58_000, 1, {"checkpoint": 1000})), machines, plans, greedy=True)
    assert ends(run) == [200_000]  # 0.29 * 100_000 is a little less than 29_000 in floats
    assert column(run, w.LOST) == [0]


@pytest.mark.parametrize("speed", [0.07, 0.29, 0.57, 0.58, 1.1, 1.4, 2.3])
def test_an_end_that_falls_on_a_millisecond_is_not_a_millisecond_late(speed):
    work = [round(speed * 100 * n) for n in (1, 3, 7, 29, 1000)]
    run = play(jobs(*((0, d) for d in work)), cluster(5, speeds={"gpu": speed}), greedy=True)
    assert ends(run) == [100, 300, 700, 2900, 100_000]


def test_what_a_restart_would_have_cost_is_not_lost_if_it_is_cut_short():
    plans = {
        0: [[Start(0, [0, 1])]],
        100: [[Preempt(0), Start(0, [0, 1])]],  # a restart of 500 ms
        300: [[Preempt(0, keep=False), Start(0, [0, 1])]],  # stopped after 200 of them
    }
    run = play(jobs((0, 1000, 2)), cluster(2, restart=0.5), plans)
    assert ends(run) == [300 + 500 + 900]
    assert column(run, w.LOST) == [2 * (200 + 500)]
    assert column(run, w.EXECUTED) == [1700]
    assert column(run, w.ATTAINED)[0] - column(run, w.LOST)[0] == 2 * 1000


def test_stopped_three_times_a_job_still_does_all_its_work_once():
    plans = {0: [[Start(0, [0])]]}
    for time in (100, 1000, 2500):
        plans[time] = [[Preempt(0)]]
    run = play(jobs((0, 3000)), cluster(1, checkpoint=0.1, restart=0.2), plans, greedy=True)
    lost = 3 * (100 + 200)
    assert ends(run) == [3000 + lost]
    assert column(run, w.LOST) == [lost]
    assert column(run, w.EXECUTED) == [3000 + lost]
    assert column(run, w.WAITED) == [0]


def test_preempt_and_start_again_in_one_plan_can_not_free_the_same_gpus_twice():
    trace = jobs((0, 1000), (0, 1000), (0, 1000))
    cheat = [Preempt(0), Start(1, [0]), Start(0, [1]), Preempt(0), Start(2, [0])]
    run = play(trace, cluster(2), {0: [[Start(0, [0])]], 100: [cheat], 101: []}, greedy=False, until=500)
    assert run.refused == [(100, "a GPU is not free")]
    assert story(run)[-1] == (0, "START", 0)
    fair = [*cheat[:4], Start(2, [1])]
    run = play(trace, cluster(2), {0: [[Start(0, [0])]], 100: [fair], 1100: [[Start(0, [0])]]})
    assert run.refused == []
    assert ends(run) == [2000, 1100, 1100]


def test_migrating_twice_in_one_plan_can_not_free_the_same_gpus_twice():
    trace = jobs((0, 1000), (0, 1000), (0, 1000))
    moves = [Migrate(0, [1]), Migrate(0, [2])]
    cheat = [*moves, Start(1, [0]), Start(2, [0])]
    run = play(trace, cluster(3), {0: [[Start(0, [0])]], 100: [cheat], 200: [[*moves, Start(1, [0]), Start(2, [1])]]})
    assert run.refused == [(100, "a GPU is not free")]
    assert ends(run) == [1000, 1200, 1200]


def test_a_migration_costs_a_checkpoint_and_a_restart_on_the_new_gpus():
    run = play(
        jobs((0, 1000), (0, 2000)),
        cluster(1, 1, checkpoint=0.1, restart=0.2),
        {0: [[Start(0, [0])]], 400: [[Migrate(0, [1]), Start(1, [0])]]},
    )
    assert ends(run) == [1300, 2400]
    assert story(run, 0) == [(0, "ARRIVE"), (0, "START"), (400, "MOVE"), (400, "START"), (1300, "FINISH")]
    assert column(run, w.LOST) == [300, 0]
    assert column(run, w.EXECUTED) == [1300, 2000]
    assert column(run, w.PREEMPTIONS) == [0, 0]


def test_a_migration_onto_some_of_its_own_gpus():
    run = play(
        jobs((0, 1000, 2)),
        cluster(3),
        {0: [[Start(0, [0, 1])]], 400: [[Migrate(0, [1, 2])]], 500: []},
        look=lambda view: (view.now, view.placement(0), view.nodes.free.tolist()),
    )
    assert (500, (1, 2), [1]) in run.seen
    assert ends(run) == [1000]


def test_a_migration_while_another_is_paid_for_does_not_pay_twice():
    plans = {0: [[Start(0, [0])]], 100: [[Migrate(0, [1])]], 150: [[Migrate(0, [0])]]}
    run = play(jobs((0, 1000)), cluster(2, restart=0.3), plans)
    assert ends(run) == [150 + 300 + 900]
    assert column(run, w.LOST) == [50 + 300]


def test_resizing_changes_speed_in_proportion_and_what_is_attained():
    plans = {0: [[Start(0, [0, 1])]], 500: [[Resize(0, [0, 1, 2, 3])]], 600: [[Resize(0, [3])]]}
    looks = lambda view: (view.now, view.attained(view.running).tolist(), view.rate(view.running).tolist())  # noqa: E731
    run = play(jobs((0, 1000, 2)), cluster(4), plans, look=looks)
    assert ends(run) == [600 + 600]  # 500 + 200 done; 300 left at half speed
    assert column(run, w.ATTAINED) == [2 * 500 + 4 * 100 + 600]
    assert (600, [1400], [2.0]) in run.seen


def test_resizing_costs_by_the_size_that_was_asked_for_and_losses_are_in_gpu_time():
    plans = {0: [[Start(0, [0])]], 100: [[Resize(0, [0, 1])]], 400: [[Preempt(0, keep=False), Start(0, [0])]]}
    run = play(jobs((0, 1000)), cluster(2, checkpoint=0.1), plans)
    assert column(run, w.LOST) == [2 * 100 + 400]  # a checkpoint of 100 ms on two GPUs; 200 ms at double speed
    assert ends(run) == [400 + 900]


def test_a_killed_job_keeps_the_checkpoint_of_its_migration():
    plans = {0: [[Start(0, [0])]], 400: [[Migrate(0, [1])]], 700: [[Preempt(0, keep=False), Start(0, [0])]]}
    run = play(jobs((0, 1000)), cluster(2), plans)
    assert ends(run) == [700 + 600]
    assert column(run, w.LOST) == [300]


def test_every_gpu_is_free_again_at_the_end():
    plans = {0: [[Start(0, [0, 1])]], 300: [[Resize(0, [1, 2, 3])]], 400: [[Preempt(0)]]}
    run = play(jobs((0, 1000, 2)), cluster(2, 2, checkpoint=0.05), plans, greedy=True, scenario=Scenario(sharing=3))
    world = run.world
    assert world.nodes[w.FREE].tolist() == [2, 2]
    assert not world.gpus[[w.TENANTS, w.USED]].any()
    assert (world.slots[w.SLOT_JOB] == -1).all()

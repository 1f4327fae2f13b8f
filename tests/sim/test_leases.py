"""Starts that hold for a while only."""

from __future__ import annotations

import pytest
from worlds import cluster, column, ends, jobs, play, story

from shunter import world as w
from shunter.model import Migrate, Preempt, Start
from shunter.sim import Fault, Scenario


def causes(run):
    return [(int(t), int(a)) for t, kind, _, a, _ in run.events if kind == w.PREEMPT]


def test_a_lease_that_is_not_renewed_ends_in_a_preemption_at_that_instant():
    run = play(
        jobs((0, 1000), (0, 100)),
        cluster(1),
        {0: [[Start(0, [0], until=400)]], 400: [[], [Start(1, [0])]]},
        greedy=True,
    )
    assert causes(run) == [(400, w.BY_LEASE)]
    assert ends(run) == [1100, 500]
    run = play(jobs((0, 1000)), cluster(1), {0: [[Start(0, [0], until=400)]]}, greedy=True)
    assert causes(run) == [(400, w.BY_LEASE)]
    assert ends(run) == [1000]
    assert column(run, w.PREEMPTIONS) == [1]


def test_renewal_on_the_same_gpus_is_free_and_leaves_no_trace():
    plans = {0: [[Start(0, [0, 1], until=400)]], 400: [[Start(0, [1, 0], until=800)]], 800: [[Start(0, [0, 1])]]}
    run = play(jobs((0, 1000, 2)), cluster(2, checkpoint=1, restart=1), plans)
    assert story(run, 0) == [(0, "ARRIVE"), (0, "START"), (1000, "FINISH")]
    assert (column(run, w.PREEMPTIONS), column(run, w.LOST)) == ([0], [0])


@pytest.mark.parametrize(("time", "gpus"), [(400, [1]), (300, [0])])
def test_no_renewal_on_other_gpus_or_before_the_lease_is_over(time, gpus):
    plans = {0: [[Start(0, [0], until=400)]], time: [[Start(0, gpus, until=800)]]}
    run = play(jobs((0, 1000)), cluster(2), plans, greedy=True)
    assert run.refused == [(time, "the job does not wait")]
    assert causes(run) == [(400, w.BY_LEASE)]


def test_a_job_that_ends_with_its_lease_has_ended():
    run = play(jobs((0, 400)), cluster(1), {0: [[Start(0, [0], until=400)]]})
    assert story(run, 0) == [(0, "ARRIVE"), (0, "START"), (400, "FINISH")]


def test_a_lease_that_ends_in_a_checkpoint_says_so_when_the_gpus_are_released():
    run = play(jobs((0, 1000)), cluster(1, checkpoint=0.1), {0: [[Start(0, [0], until=400)]]}, greedy=True)
    assert story(run, 0)[2:4] == [(400, "STOP"), (500, "PREEMPT")]
    assert causes(run) == [(500, w.BY_LEASE)]
    assert ends(run) == [500 + 600]


def test_a_policy_that_stops_a_leased_job_is_the_cause_even_if_the_checkpoint_outlasts_the_lease():
    plans = {0: [[Start(0, [0], until=400)]], 350: [[Preempt(0)]]}
    run = play(jobs((0, 1000)), cluster(1, checkpoint=0.1), plans, greedy=True)
    assert causes(run) == [(450, w.BY_POLICY)]


def test_a_lease_may_end_before_the_restart_is_over():
    plans = {0: [[Start(0, [0])]], 100: [[Preempt(0), Start(0, [0], until=300)]]}
    run = play(jobs((0, 1000)), cluster(1, restart=0.5), plans, greedy=True)
    assert causes(run) == [(100, w.BY_POLICY), (300, w.BY_LEASE)]
    assert ends(run) == [300 + 500 + 900]
    assert column(run, w.LOST) == [200 + 500]


def test_a_lease_survives_a_migration_and_dies_with_its_node():
    plans = {0: [[Start(0, [0], until=400)]], 100: [[Migrate(0, [1])]]}
    assert causes(play(jobs((0, 1000)), cluster(1, 1), plans, greedy=True)) == [(400, w.BY_LEASE)]
    broken = play(jobs((0, 1000)), cluster(1, 1), plans, greedy=True, scenario=Scenario((Fault(200, 1, 900),)))
    assert causes(broken) == [(200, w.BY_FAILURE)]


def test_a_slower_job_keeps_its_lease():
    plans = {0: [[Start(0, [0], until=400)]], 100: [[Start(1, [0], shared=True)]], 400: []}
    run = play(jobs((0, 1000), (0, 1000)), cluster(1), plans, greedy=True)
    assert causes(run) == [(400, w.BY_LEASE)]
    assert run.world.progress[w.WORK].tolist() == [1000, 1000]


def test_two_leases_that_end_together():
    plans = {0: [[Start(0, [0], until=400), Start(1, [1], until=400)]], 400: [[Start(1, [1], until=500)]]}
    run = play(jobs((0, 1000), (0, 450)), cluster(2), plans, greedy=True)
    assert causes(run) == [(400, w.BY_LEASE)]
    assert ends(run) == [1000, 450]


def test_a_lease_in_the_past_is_refused():
    run = play(jobs((100, 50)), cluster(1), {100: [[Start(0, [0], until=100)]], 110: []}, greedy=True)
    assert run.refused == [(100, "the time is not in the future")]

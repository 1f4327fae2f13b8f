"""Jobs that wait for another; jobs that fail and are tried again."""

from __future__ import annotations

import pytest
from worlds import cluster, column, ends, jobs, play, story

from shunter import world as w
from shunter.errors import PolicyError
from shunter.model import Preempt, Start
from shunter.sim import Fault, Scenario


def test_a_chain_runs_in_order_and_waiting_counts_from_eligibility():
    run = play(jobs((0, 100), (0, 200, 1, {"after": 0}), (0, 300, 1, {"after": 1})), cluster(4), greedy=True)
    assert ends(run) == [100, 300, 600]
    assert column(run, w.ELIGIBLE) == [0, 100, 300]
    assert column(run, w.WAITED) == [0, 0, 0]
    assert story(run, 2) == [(300, "ARRIVE"), (300, "START"), (600, "FINISH")]


def test_a_parent_that_has_ended_before_or_ends_with_the_submission_holds_no_job():
    run = play(jobs((0, 100), (100, 10, 1, {"after": 0}), (250, 10, 1, {"after": 0})), cluster(4), greedy=True)
    assert column(run, w.ELIGIBLE) == [0, 100, 250]


def test_a_parent_submitted_later_holds_its_child():
    trace = jobs((0, 10, 1, {"after": 1}), (500, 100))
    assert ends(play(trace, cluster(2), greedy=True)) == [610, 600]


def test_many_children_come_together_in_submit_order():
    trace = jobs((0, 100), *[(10 + i, 10, 1, {"after": 0}) for i in range(5)])
    run = play(trace, cluster(1), greedy=True)
    assert [job for time, kind, job in story(run) if kind == "ARRIVE"] == [0, 1, 2, 3, 4, 5]
    assert ends(run) == [100, 110, 120, 130, 140, 150]


def test_a_chain_of_jobs_without_duration_passes_in_an_instant():
    trace = jobs((5, 0), *[(5, 0, 1, {"after": i}) for i in range(20)], (5, 7, 1, {"after": 20}))
    run = play(trace, cluster(1), greedy=True)
    assert ends(run) == [5] * 21 + [12]


def test_a_parent_that_fails_for_good_has_ended():
    trace = jobs((0, 100, 1, {"failures": 1, "fail_after": 40, "retries": 0}), (0, 10, 1, {"after": 0}))
    run = play(trace, cluster(2), greedy=True)
    assert ends(run) == [40, 50]
    assert column(run, w.STATE) == [w.FAILED, w.DONE]


def test_a_parent_that_is_only_tried_again_has_not():
    trace = jobs((0, 100, 1, {"failures": 1, "fail_after": 40}), (0, 10, 1, {"after": 0}))
    assert ends(play(trace, cluster(2), greedy=True)) == [140, 150]


def test_jobs_that_wait_for_each_other_are_named():
    with pytest.raises(PolicyError, match=r"left 2 jobs waiting.*\n.*'j0'.*held"):
        play(jobs((0, 1, 1, {"after": 1}), (0, 1, 1, {"after": 0})), cluster(1), greedy=True)


@pytest.mark.parametrize(
    ("about", "end", "attempts", "lost"),
    [
        ({"failures": 1, "fail_after": 300}, 1300, 2, 300),
        ({"failures": 3, "fail_after": 300}, 1900, 4, 900),
        ({"failures": 1, "fail_after": 300, "checkpoint": 200}, 1100, 2, 100),
        ({"failures": 2, "fail_after": 300, "checkpoint": 200}, 1200, 3, 200),
        ({"failures": 1, "fail_after": 5000}, 2000, 2, 1000),  # it fails at its very end
        ({"failures": 2, "fail_after": 0}, 1000, 3, 0),
    ],
)
def test_a_failed_attempt_is_tried_again_from_the_last_checkpoint(about, end, attempts, lost):
    run = play(jobs((0, 1000, 1, about)), cluster(1), greedy=True)
    assert ends(run) == [end]
    assert column(run, w.ATTEMPTS) == [attempts]
    assert column(run, w.LOST) == [lost]
    assert column(run, w.PREEMPTIONS) == [0]
    assert column(run, w.EXECUTED) == [end]


@pytest.mark.parametrize(("retries", "end", "state"), [(0, 300, w.FAILED), (1, 600, w.FAILED), (2, 1600, w.DONE)])
def test_a_job_is_given_up_after_its_retries(retries, end, state):
    run = play(jobs((0, 1000, 1, {"failures": 2, "fail_after": 300, "retries": retries})), cluster(1), greedy=True)
    assert (ends(run), column(run, w.STATE)) == ([end], [state])
    fails = [int(a) for _, kind, _, a, _ in run.events if kind == w.FAIL]
    assert fails == ([0, 0] if state == w.DONE else [0] * retries + [1])


def test_a_restart_after_a_failure_is_paid_and_the_attempt_counts_from_there():
    run = play(jobs((0, 1000, 1, {"failures": 2, "fail_after": 300})), cluster(1, restart=0.05), greedy=True)
    assert ends(run) == [300 + 350 + 1050]
    assert column(run, w.LOST) == [300 + 50 + 300 + 50]


def test_a_preempted_attempt_goes_on_and_a_killed_one_starts_again():
    about = {"failures": 1, "fail_after": 300, "retries": 0}
    plans = {0: [[Start(0, [0])]], 200: [[Preempt(0)]], 250: [[Start(0, [0])]]}
    assert ends(play(jobs((0, 1000, 1, about)), cluster(1), plans)) == [350]
    plans[200] = [[Preempt(0, keep=False)]]
    assert ends(play(jobs((0, 1000, 1, about)), cluster(1), plans)) == [550]


def test_an_attempt_ends_at_the_instant_at_which_its_node_breaks():
    trace = jobs((0, 300), (0, 1000, 1, {"failures": 1, "fail_after": 300}))
    run = play(trace, cluster(2), greedy=True, scenario=Scenario((Fault(300, 0, 400),)))
    assert story(run)[4:8] == [(300, "FINISH", 0), (300, "FAIL", 1), (300, "NODE_DOWN", -1), (400, "NODE_UP", -1)]
    assert column(run, w.PREEMPTIONS) == [0, 0]

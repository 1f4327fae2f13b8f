"""Warm starts: a cluster that already runs jobs."""

from __future__ import annotations

import pytest
from worlds import cluster, column, ends, jobs, play, story

from shunter import world as w
from shunter.errors import ClusterError
from shunter.model import Preempt
from shunter.sim import Fault, Scenario, Simulator, Warm


def test_warm_jobs_hold_their_gpus_and_do_the_rest_of_their_work():
    scenario = Scenario(warm=(Warm(0, (0,), 600), Warm(1, (1,))), begin=1000)
    run = play(jobs((0, 1000), (500, 300), (700, 100), (1200, 50)), cluster(2), greedy=True, scenario=scenario)
    assert ends(run) == [1400, 1300, 1400, 1450]
    assert column(run, w.STARTED) == [1000, 1000, 1300, 1400]
    assert story(run)[:4] == [(1000, "ARRIVE", 0), (1000, "START", 0), (1000, "ARRIVE", 1), (1000, "START", 1)]


def test_what_a_warm_job_had_done_is_safe():
    scenario = Scenario(warm=(Warm(0, (0,), 600),), faults=(Fault(100, 0, 200),))
    assert ends(play(jobs((0, 1000)), cluster(1), greedy=True, scenario=scenario)) == [600]


def test_a_warm_job_can_be_preempted_like_any_other():
    scenario = Scenario(warm=(Warm(0, (0,), 600),))
    run = play(jobs((0, 1000)), cluster(1, restart=0.1), {100: [[Preempt(0)]]}, greedy=True, scenario=scenario)
    assert ends(run) == [500]


def test_a_warm_job_that_had_done_everything_ends_at_once():
    assert ends(play(jobs((0, 1000)), cluster(1), scenario=Scenario(warm=(Warm(0, (0,), 1000),)))) == [0]


def test_an_early_beginning_waits_for_the_first_submission():
    run = play(jobs((500, 100)), cluster(1), greedy=True, scenario=Scenario(begin=-100, faults=(Fault(-50, 0, 450),)))
    assert ends(run) == [600]
    assert story(run)[0] == (-50, "NODE_DOWN", -1)


@pytest.mark.parametrize(
    ("warm", "words"),
    [
        ((Warm(2, (0,)),), "warm job 2 must be one of the trace's 0..1"),
        ((Warm(-1, (0,)),), "warm job -1"),
        ((Warm(0, (0,)), Warm(0, (1,))), "named once"),
        ((Warm(0, (7,)),), "'j0' can't run on GPUs .7,.: there is no such GPU"),
        ((Warm(0, (0, 1)),), "wrong number of GPUs"),
        ((Warm(1, (0,)),), "'j1' is submitted at 500 ms, after the simulation begins at 0 ms"),
    ],
)
def test_impossible_warm_jobs_are_refused(warm, words):
    with pytest.raises(ClusterError, match=words):
        Simulator(jobs((0, 100), (500, 100)), cluster(2), scenario=Scenario(warm=warm))
    with pytest.raises(ClusterError, match="a GPU is not free"):
        Simulator(jobs((0, 1), (0, 1)), cluster(1), scenario=Scenario(warm=(Warm(0, (0,)), Warm(1, (0,)))))


def test_no_jobs_at_all():
    run = play(jobs(), cluster(1))
    assert run.over
    assert len(run.events) == 0

"""Several jobs on one GPU."""

from __future__ import annotations

import pytest
from worlds import cluster, column, ends, jobs, play, story

from shunter import world as w
from shunter.errors import PolicyError
from shunter.model import Migrate, Preempt, Start
from shunter.sim import Scenario

BOTH = {0: [[Start(0, [0]), Start(1, [0], shared=True)]]}


def test_two_whole_jobs_run_at_half_speed_and_the_rest_speeds_up():
    run = play(jobs((0, 1000), (0, 4000)), cluster(1), BOTH)
    assert ends(run) == [2000, 5000]  # 2 s together: 1 s of work each; then 3 s alone


def test_a_newcomer_slows_whoever_is_there():
    run = play(jobs((0, 3000), (1000, 500)), cluster(1), {0: [[Start(0, [0])]], 1000: [[Start(1, [0], shared=True)]]})
    assert ends(run) == [3500, 2000]


@pytest.mark.parametrize(
    ("durations", "expected"), [((300, 600, 900), [900, 1500, 1800]), ((100, 100, 100), [300] * 3)]
)
def test_three_jobs_share_in_thirds(durations, expected):
    plan = [Start(job, [0], shared=True) for job in range(3)]
    run = play(jobs(*((0, d) for d in durations)), cluster(1), {0: [plan]}, scenario=Scenario(sharing=3))
    assert ends(run) == expected


def test_as_many_jobs_as_slots():
    plan = [Start(job, [0], shared=True) for job in range(3)]
    run = play(jobs(*[(0, 100)] * 3), cluster(1), {0: [plan], 10: []}, greedy=True)
    assert run.refused == [(0, "the GPU holds as many jobs as it can (Scenario.sharing)")]
    assert ends(run) == [110, 210, 310]  # nothing of the refused plan was done


def test_an_end_between_two_milliseconds_is_rounded_up():
    plan = [Start(job, [0], shared=True) for job in range(3)]
    run = play(jobs((0, 100), (0, 1000), (0, 101)), cluster(1), {0: [plan]}, scenario=Scenario(sharing=3))
    assert ends(run) == [300, 1201, 302]  # 1 ms at half speed takes 2; then 1000 - 100 - 1 alone


def test_measured_pairs_replace_time_slices():
    trace = jobs((0, 900, 1, {"model": "bert"}), (0, 400, 1, {"model": "gnn"}))
    pairs = {("bert", "gnn"): 0.9, ("gnn", "bert"): 0.8}
    run = play(trace, cluster(1), BOTH, scenario=Scenario(pair_speed=pairs))
    assert ends(run) == [950, 500]  # 500 ms together: bert does 450, the other 450 alone


def test_a_pair_known_one_way_only_takes_time_slices_the_other_way():
    trace = jobs((0, 900, 1, {"model": "bert"}), (0, 400, 1, {"model": "gnn"}))
    run = play(trace, cluster(1), BOTH, scenario=Scenario(pair_speed={("bert", "gnn"): 0.9}))
    assert ends(run) == [980, 800]  # gnn at 1/2: 800 ms; bert has done 720 by then


def test_jobs_without_a_model_do_not_borrow_the_speed_of_others():
    trace = jobs((0, 900, 1, {"model": "bert"}), (0, 450))
    run = play(trace, cluster(1), BOTH, scenario=Scenario(pair_speed={("bert", "bert"): 0.1}))
    assert ends(run) == [1350, 900]


def test_the_slowest_gpu_sets_the_pace_of_a_gang():
    trace = jobs((0, 1000, 2), (0, 300, 1))
    run = play(trace, cluster(2), {0: [[Start(0, [0, 1]), Start(1, [1], shared=True)]]})
    assert ends(run) == [1300, 600]


def test_shares_that_add_up_to_one_gpu_run_at_full_speed():
    plan = [Start(0, [0]), Start(1, [0])]
    run = play(jobs((0, 1000, 0.25), (0, 2000, 0.75)), cluster(1), {0: [plan]})
    assert ends(run) == [1000, 2000]
    assert column(run, w.ATTAINED) == [250, 1500]
    assert [int(b) for _, kind, _, _, b in run.events if kind == w.START] == [250, 750]


def test_a_share_that_does_not_fit_is_refused_unless_it_is_to_share():
    trace = jobs((0, 1000, 0.5), (0, 1000, 0.75))
    run = play(trace, cluster(1), {0: [[Start(0, [0]), Start(1, [0])]], 10: []}, greedy=True)
    assert run.refused == [(0, "a GPU is not free")]
    assert ends(run) == [1010, 2010]
    run = play(trace, cluster(1), {0: [[Start(0, [0]), Start(1, [0], shared=True)]]})
    assert ends(run) == [1250, 1250]  # 1.25 GPUs wanted of one


def test_what_a_running_share_has_attained_is_seen():
    trace = jobs((0, 1000, 0.25), (400, 10))
    run = play(trace, cluster(2), greedy=True, look=lambda view: (view.now, view.attained(view.running).tolist()))
    assert (400, [100]) in run.seen


def test_a_neighbour_preempted_or_migrated_away_gives_the_speed_back():
    trace = jobs((0, 2000), (0, 2000))
    away = play(trace, cluster(1, 1), BOTH | {1000: [[Migrate(1, [1])]]})
    assert ends(away) == [2500, 2500]
    gone = play(trace, cluster(1), BOTH | {1000: [[Preempt(1)]], 2500: [[Start(1, [0])]]}, greedy=False)
    assert ends(gone) == [2500, 4000]


def test_a_job_can_not_share_with_itself():
    with pytest.raises(PolicyError, match="left 1 job waiting"):
        play(jobs((0, 100, 2)), cluster(1), {0: [[Start(0, [0, 0], shared=True)]]})


def test_neighbours_leave_at_the_same_instant():
    run = play(jobs((0, 500), (0, 500)), cluster(1), BOTH)
    assert sorted(story(run)[-2:]) == [(1000, "FINISH", 0), (1000, "FINISH", 1)]

"""With what run times backfilling plans: bounds that few jobs pass, kept apart from the estimates that orders go by."""

import numpy as np
import pytest

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace
from shunter.scheduling.backfill import bounds
from shunter.seeding import rng
from shunter.sim.engine import Simulator
from shunter.testing import bounds as slow
from shunter.world import STARTED

MINUTE = 60_000
PAIR = Cluster("pair", (NodeGroup(2, 2),))


def drawn(jobs: int) -> list[tuple[int, float]]:
    """Estimates of seconds to days, and run times up to a thousand times shorter or longer."""
    draw = rng(0, "bounds")
    estimates = np.exp(draw.uniform(6, 19, jobs)).astype(np.int64)
    return list(zip(estimates.tolist(), (estimates * np.exp(draw.normal(-1, 2.5, jobs))).tolist(), strict=True))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.99])
def test_bounds_are_those_of_the_slow_reference(share):
    past, made = drawn(3000), bounds.bounds_for(share)
    for ended, (estimate, took) in enumerate(past):
        if ended % 151 == 0:
            for age in (0.0, 0.01, 0.9, 1.0, 3.0, 1e5):
                for limit in (0, 2 * estimate):
                    work = age * estimate
                    expected = slow.bound(share, past[:ended], estimate, limit, work)
                    assert bounds.bound_of(made, estimate, limit, work) == expected, (ended, estimate, limit, age)
        bounds.note_run_time(made, estimate, took)


@pytest.mark.parametrize("ended", [0, 30, 1500])
def test_a_job_is_never_expected_to_end_in_the_next_moment(ended):
    """However far beyond a tiny estimate: a second was expected, and it runs for three hours."""
    made = bounds.bounds_for(0.9)
    for estimate, took in drawn(ended):
        bounds.note_run_time(made, estimate, took)
        bounds.note_run_time(made, 1000, 20_000_000.0)
    for work in (3e6, 1e7, 1e8):
        assert bounds.bound_of(made, 1000, 0, work) >= 1.05 * work


def test_the_share_of_jobs_that_stay_within_their_bounds_is_kept():
    """At submission, and of the jobs that have outlived their estimates; a bin is 9 % wide, so that it may be more."""
    made, within, old = bounds.bounds_for(0.9), [], []
    for estimate, took in drawn(6000):
        within.append(took <= bounds.bound_of(made, estimate, 0, 0.0))
        if took > estimate:
            old.append(took <= bounds.bound_of(made, estimate, 0, float(estimate)))
        bounds.note_run_time(made, estimate, took)
    assert 0.88 < np.mean(within[1000:]) < 0.93
    assert 0.87 < np.mean(old[300:]) < 0.94


def starts(policy, rows, cluster=PAIR, **more):
    """When each job starts, in minutes; rows are (submit, duration, gpus, limit) in minutes."""
    submit, duration, gpus, limit = (np.array(column) for column in zip(*rows, strict=True))
    times = {"submit": submit * MINUTE, "duration": duration * MINUTE, "limit": limit * MINUTE}
    simulator = Simulator(Trace.of("t", [str(i) for i in range(len(rows))], gpus=gpus * GPU, **times, **more), cluster)
    simulator.run(registry.policy(policy))
    return (simulator.world.jobs[STARTED] / MINUTE).tolist()


def test_a_job_that_has_run_out_of_its_estimate_keeps_no_place_for_the_first():
    """The second node comes free at 100; nobody can tell of the first, whose job should have ended at 1.

    Were that job expected to end in the next moment, the last one could take half of the second node for an hour.
    """
    rows = [(0, 1000, 2, 1), (0, 100, 1, 100), (60, 5, 2, 5), (61, 60, 1, 60)]
    assert starts("fifo:backfill=easy", rows) == [0, 0, 100, 105]
    assert starts("fifo:backfill=conservative", rows) == [0, 0, 100, 105]


def test_no_job_passes_the_first_by_an_estimate_that_such_jobs_exceed():
    """One in four of the user's jobs takes 100 minutes, so that no bound is below; an estimate is 55 minutes.

    The last but one needs a whole node, which is free after 60 minutes.
    """
    early = [(200 * i, 100 if i % 4 == 3 else 10, 1, 0) for i in range(40)]
    now = 200 * 40
    rows = [*early, (now, 500, 2, 500), (now, 60, 1, 60), (now + 1, 5, 2, 5), (now + 2, 100, 1, 0)]
    users = {"user": [0] * len(rows), "users": ("ann",)}
    *_, head, passing = starts("fifo:backfill=easy,estimate=last-two,bound=0.9", rows, **users)
    assert (head, passing) == (now + 60, now + 65)
    *_, passing = starts("fifo:backfill=easy,estimate=last-two", rows, **users)
    assert passing == now + 2


def test_a_waiting_job_passes_by_what_has_ended_since_it_came():
    """All are expected to take an hour.  24 jobs of the other virtual cluster then end after two minutes.

    The last one may pass from 30 on, when a GPU comes free, if it ends before 60, when the job ahead of it has room.
    """
    cluster = Cluster("apart", (NodeGroup(1, 2, vc="a"), NodeGroup(1, 2, vc="b")))
    quick = [(0, 2, 1, 0)] * 24
    rows = [*quick, (0, 60, 1, 60), (0, 30, 1, 30), (1, 5, 2, 5), (1, 10, 1, 0)]
    vcs = {"vc": [1] * len(quick) + [0] * 4, "vcs": ("a", "b")}
    *_, ahead, passing = starts("fifo:backfill=easy,estimate=history,bound=0.9", rows, cluster, **vcs)
    assert (ahead, passing) == (60, 30)


def test_the_shortest_candidate_passes_first():
    """Two jobs fit before the first one's reservation, one at a time."""
    rows = [(0, 100, 1, 100), (1, 5, 4, 5), (2, 50, 3, 50), (2, 20, 3, 20)]
    assert starts("fifo:backfill=easy", rows) == [0, 100, 2, 52]
    assert starts("fifo:backfill=easy,candidates=shortest", rows) == [0, 100, 22, 2]


def test_easy_plus_plus_goes_by_the_last_two_within_the_limit():
    policy = registry.policy("easypp")
    assert (policy.estimate, policy.bound, policy.backfill, policy.candidates) == ("last-two", 0, "easy", "shortest")
    rows = [(0, 4, 1, 50), (10, 8, 1, 50), (20, 8, 1, 50), (40, 8, 1, 5)]
    submit, duration, gpus, limit = (np.array(column) for column in zip(*rows, strict=True))
    times = {"submit": submit * MINUTE, "duration": duration * MINUTE, "limit": limit * MINUTE}
    trace = Trace.of("t", list("abcd"), gpus=gpus * GPU, user=[0] * 4, users=("ann",), **times)
    memory = Simulator(trace, PAIR).run(policy)
    assert (memory.form.memory.estimate / MINUTE).tolist() == [50, 50, 6, 5]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.99])
def test_no_job_that_ends_in_time_is_left_out_by_its_floor(share):
    """Backfilling skips whole parts of a queue by the lowest floor in them."""
    made, draw, in_time, left_out = bounds.bounds_for(share), rng(1, "bounds"), 0, 0
    for ended, (estimate, took) in enumerate(drawn(2500)):
        bounds.note_run_time(made, estimate, took)
        if ended % 101:
            continue
        for other, _ in drawn(150):
            limit, speed = int(other * draw.choice([0, 0.3, 3])), float(draw.choice([0.5, 1.0, 1.7]))
            longest = int(np.exp(draw.uniform(6, 19)))
            highest = bounds.floor_within(made, longest, speed)
            if np.ceil(int(bounds.bound_of(made, other, limit, 0.0)) / speed) <= longest:
                in_time += 1
                assert bounds.floor_of(other, limit, 0.0) <= highest, (ended, other, limit, longest, speed)
            left_out += bounds.floor_of(other, limit, 0.0) > highest
    assert in_time > 500
    assert left_out > 500  # it would be no use otherwise

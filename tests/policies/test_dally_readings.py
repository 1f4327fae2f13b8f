"""What Dally's paper leaves open, each reading on a world made by hand: when jobs run, to the millisecond."""

from __future__ import annotations

import pytest

from shunter import registry
from shunter.errors import PolicyError
from shunter.model import Trace
from shunter.testing.offers import LeaseJob
from shunter.testing.racks import play
from shunter.testing.reference import runs_of
from shunter.testing.tiers import Layout

MODELS = {"resnet50": (1.0, 1.0, 1.0)}
ONE_GPU, TWO_GPUS = Layout((1,), ((0,),)), Layout((2,), ((0,),))
TWO_MACHINES = Layout((2, 2), ((0, 0),))


def runs(policy: str, layout: Layout, *jobs: tuple[float, float, int]) -> list[list[tuple[float, float]]]:
    """When each job, of (submission, work, GPUs), had GPUs; in seconds."""
    made = [LeaseJob(round(1000 * submit), round(1000 * work), gpus) for submit, work, gpus in jobs]
    simulator, _ = play(made, layout, MODELS, policy)
    found = runs_of(simulator.events, len(made))
    return [[(run.start / 1000, run.end / 1000) for run in mine] for mine in found]


@pytest.mark.parametrize(
    ("sensitivity", "large", "small"),
    [
        ("parallel", [(0, 120), (240, 360)], [(120, 240), (360, 480)]),  # both ran as fast as they can: a tie at 240 s
        ("single", [(0, 120), (360, 480)], [(120, 240), (240, 360)]),  # 2 GPUs did twice the work: it is last
    ],
)
def test_sensitivity_relative_to_as_many_gpus_or_to_one(sensitivity, large, small):
    policy = f"dally:lease=120,sensitivity={sensitivity}"
    assert runs(policy, TWO_GPUS, (0, 240, 2), (0, 240, 1)) == [large, small]


@pytest.mark.parametrize("policy", ["dally:lease=120", "tiresias:lease=120,limits=none,order=time"])
@pytest.mark.parametrize(
    ("ties", "large", "small"),
    [
        ("submission", [(140, 260), (260, 380)], [(20, 140), (380, 500)]),
        ("assignment", [(140, 260), (380, 500)], [(20, 140), (260, 380)]),
    ],
)
def test_equals_by_submission_or_by_how_long_they_have_been_without_gpus(policy, ties, large, small):
    """The job of 2 GPUs comes before the last one, but finds room later: at 260 s both have run for one lease."""
    jobs = (0, 120, 1), (10, 240, 2), (20, 240, 1)
    assert runs(f"{policy},ties={ties}", TWO_GPUS, *jobs) == [[(0, 120)], large, small]


@pytest.mark.parametrize("changes", [{"lease": 0}, {"backfill": "easy"}])
@pytest.mark.parametrize("name", ["dally", "tiresias"])
def test_turns_by_assignment_are_for_leases_without_backfilling(name, changes):
    text = ",".join(f"{key}={value}" for key, value in ({"lease": 60} | changes | {"ties": "assignment"}).items())
    with pytest.raises(PolicyError, match="ties=assignment goes with a lease and without backfilling"):
        registry.policy(f"{name}:{text}")


@pytest.mark.parametrize(("clamps", "start"), [("false", 3_700), ("true", 21_700)])
def test_clamps_keep_a_timer_above_six_leases(clamps, start):
    """One GPU is free on each machine from 100 s on, and no job has waited yet: a job for both waits for a timer."""
    others = (0, 500_000, 1), (0, 100, 1), (0, 500_000, 1)
    found = runs(f"dally:lease=0,clamps={clamps}", TWO_MACHINES, *others, (100, 10, 2))
    assert found[3] == [(start, start + 10)]


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ("clamps=false", 194_400.001),  # 30 h from 108,011 s on, until the wait is older than a day
        ("clamps=true", 108_011 + 72_000),  # no more than 0.8 of the window
        ("window=size", 108_011 + 108_000),  # on 4 GPUs the window is 24 h x sqrt(128)
        ("window=size,history=1", 148_729.352),  # ... or an hour x sqrt(128)
        ("window=fixed,history=1", 108_011 + 3_600),  # the wait is too old to count when the timer of an hour is over
    ],
)
def test_a_wait_of_30_hours_for_a_machine_as_timer(settings, start):
    """The second job of 2 GPUs waits for 30 h. The fourth, for which one GPU of each machine is free, goes by that."""
    jobs = (0, 108_000, 2), (0, 900_000, 1), (0, 10, 2), (108_010, 900_000, 1), (108_011, 10, 2)
    found = runs(f"dally:lease=0,{settings}", TWO_MACHINES, *jobs)
    assert found[2] == [(108_000, 108_010)]
    assert found[4] == [(start, start + 10)]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        # the second is stopped at 240 s, once it is in the same queue as the first, and again for the third
        ("submission", [[(0, 120), (240, 250), (300, 470)], [(120, 240), (470, 650)], [(250, 300)]]),
        # nobody is stopped but for the third job, and who ran last goes on
        ("running", [[(0, 120), (470, 650)], [(120, 250), (300, 470)], [(250, 300)]]),
    ],
)
def test_inside_a_queue_of_tiresias_by_submission_or_running_ones_first(inside, expected):
    jobs = (0, 300, 1), (10, 300, 1), (250, 50, 1)
    assert runs(f"tiresias:limits=100,inside={inside}", ONE_GPU, *jobs) == expected


@pytest.mark.parametrize(("settings", "useless"), [("limits=none", 1), ("order=gittins", 1), ("limits=100", 0)])
def test_an_order_inside_queues_that_does_nothing_is_remarked(settings, useless):
    trace = Trace.of("jobs", ["1"], submit=[0], duration=[1], gpus=[1000])
    remarks = registry.policy(f"tiresias:inside=running,{settings}").remarks(trace)
    assert remarks == ["inside does nothing without queues or with order=gittins"] * useless

"""What must hold of every schedule of a policy that places by network tiers, read off its log."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shunter import registry
from shunter import world as w
from shunter.policies.tiresias import gittins
from shunter.scheduling.estimates import bin_of, count_in
from shunter.scheduling.queue.queue import HISTOGRAM
from shunter.testing import strategies
from shunter.testing.offers import LeaseJob
from shunter.testing.placement import Places
from shunter.testing.racks import LoggedMoment, moments, play, simulator_of
from shunter.testing.tiers import Layout, groups, holding, most_in, tier_of

World: TypeAlias = tuple[list[LeaseJob], Layout]
TICK, LEASE = 40_000, 120_000
MODELS = {"vgg11": (1.0, 0.5, 0.25), "resnet50": (1.0, 0.7, 0.3), "": (1.0, 1.0, 1.0)}
KINDS = [LeaseJob(0, 0, 1, speeds) for speeds in MODELS.values()]
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TIMERS = ("auto", "manual", "none", "infinite")
RENEWALS = st.sampled_from(["again", "keep"])
SPREADS = st.sampled_from(["list", "pack", "even", "scatter"])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    layout = draw(strategies.layouts())
    return draw(strategies.lease_jobs(layout, KINDS, tick=TICK)), layout


def dally(timers: str, renewal: str, spread: str) -> str:
    fixed = "lease=120,machine_timer=150,rack_timer=330,history=0.1"
    return f"dally:timers={timers},renewal={renewal},spread={spread},{fixed}"


@pytest.mark.parametrize("timers", TIMERS)
@SETTINGS
@given(world=worlds(), renewal=RENEWALS, spread=SPREADS)
def test_no_job_waits_while_a_machine_has_room(world: World, timers: str, renewal: str, spread: str) -> None:
    jobs, layout = world
    simulator, _ = play(jobs, layout, MODELS, dally(timers, renewal, spread))
    for moment in moments(simulator, layout):
        assert all(max(moment.free) < jobs[job].gpus for job in moment.since), moment


@SETTINGS
@given(world=worlds(), renewal=RENEWALS, spread=SPREADS)
def test_without_timers_no_gpu_idles_that_a_waiting_job_could_use(world: World, renewal: str, spread: str) -> None:
    jobs, layout = world
    simulator, _ = play(jobs, layout, MODELS, dally("none", renewal, spread))
    for moment in moments(simulator, layout):
        assert all(sum(moment.free) < jobs[job].gpus for job in moment.since), moment


@SETTINGS
@given(world=worlds(), renewal=RENEWALS, spread=SPREADS)
def test_with_infinite_timers_no_job_is_wider_than_needed(world: World, renewal: str, spread: str) -> None:
    jobs, layout = world
    simulator, _ = play(jobs, layout, MODELS, dally("infinite", renewal, spread))
    for moment in moments(simulator, layout):
        for job in moment.started:
            assert tier_of(layout, moment.landed[job]) <= holding(layout, jobs[job].gpus)[0]


@pytest.mark.parametrize("timers", ["auto", "manual"])
@SETTINGS
@given(world=worlds(), renewal=RENEWALS, spread=SPREADS)
def test_no_job_takes_a_tier_before_its_timer(world: World, timers: str, renewal: str, spread: str) -> None:
    jobs, layout = world
    text = dally(timers, renewal, spread)
    simulator, memory = play(jobs, layout, MODELS, text)
    changes = registry.policy(text).timer_changes(memory).tolist()
    for moment in moments(simulator, layout):
        for job, waited in moment.started.items():
            gpus, tier = jobs[job].gpus, tier_of(layout, moment.landed[job])
            for lower in [lower for lower in holding(layout, gpus) if lower < tier]:
                if timers == "manual":
                    assert waited >= 150_000 + 180_000 * lower
                else:
                    assert waited >= least_timer(changes, moment.time, lower, gpus) - 1, (moment, job)


def least_timer(changes: list[list[int]], now: int, tier: int, gpus: int) -> int:
    """The least that a timer was at an instant: as it was before, or became in the course of it."""
    mine = [(time, value) for time, at, size, value, _ in changes if (at, size) == (tier, gpus)]
    before = [value for time, value in mine if time < now]
    return min(before[-1:] + [value for time, value in mine if time == now])


@SETTINGS
@given(world=worlds(), spread=SPREADS, timers=st.sampled_from(TIMERS))
def test_a_job_that_keeps_its_gpus_is_not_moved(world: World, spread: str, timers: str) -> None:
    """A job leaves its GPUs after whole leases, and only if somebody else is on one of its machines then."""
    jobs, layout = world
    simulator, _ = play(jobs, layout, MODELS, dally(timers, "keep", spread))
    assert w.MOVE not in simulator.events[:, 1]
    for moment in moments(simulator, layout):
        for job, places in moment.stopped.items():
            assert lost_to_others(moment, job, places), (moment, job)


def lost_to_others(moment: LoggedMoment, job: int, places: Places) -> bool:
    """Whether somebody else got GPUs on one of these machines."""
    others = [where for other, where in moment.landed.items() if other != job]
    return any(node in dict(where) for where in others for node, _ in places)


# ------------------------------------------------------------------------------------------- Tiresias


@SETTINGS
@given(world=worlds(), spread=SPREADS, limits=st.sampled_from(["200", "120/600"]))
def test_no_job_waits_for_gpus_of_those_that_come_after_it(world: World, spread: str, limits: str) -> None:
    jobs, layout = world
    simulator, _ = play(jobs, layout, MODELS, f"tiresias:limits={limits},spread={spread}")
    queues = [float(limit) for limit in limits.split("/")]
    for moment in moments(simulator, layout):
        keys = {job: key(jobs, moment, job, queues) for job in [*moment.since, *moment.begun]}
        for job in moment.since:
            free = list(moment.free)
            for other in moment.begun:
                if keys[other] > keys[job]:
                    for node, count in moment.places[other]:
                        free[node] += count
            assert not fits(jobs[job], layout, free), (moment, job)


def key(jobs: list[LeaseJob], moment: LoggedMoment, job: int, limits: list[float]) -> tuple[int, int]:
    """The queue that a job is in, and when it was submitted."""
    ran = moment.executed.get(job, 0) + (moment.time - moment.begun.get(job, moment.time))
    return sum(ran * jobs[job].gpus / 1000 >= limit for limit in limits), jobs[job].submit


def fits(job: LeaseJob, layout: Layout, free: list[int]) -> bool:
    """Whether there is room for a job at a tier that it takes: the first that can hold it, or any."""
    tiers = holding(layout, job.gpus)
    loose = job.speeds == MODELS["resnet50"]
    return any(most_in(layout, free, tier) >= job.gpus for tier in (tiers if loose else tiers[:1]))


ONE_GPU = Layout((1,), ((0,),))
STREAM = [LeaseJob(0, 1_000_000, 1), *[LeaseJob(50_000 * at, 50_000, 1) for at in range(2, 20)]]


@pytest.mark.parametrize(
    ("rule", "begins"),
    [("starve=0", 1000), ("starve=100", 200), ("promote=2", 300), ("promote=2,starve=100", 200)],
)
def test_a_promoted_job_counts_as_new(rule: str, begins: int) -> None:
    """The first job is stopped at 100 s by a stream of new ones and goes on when it is promoted, else after them."""
    simulator, _ = play(STREAM, ONE_GPU, {"": (1.0, 1.0, 1.0)}, f"tiresias:limits=50,look_again=10,{rule}")
    starts = [time for time, kind, job, *_ in simulator.events.tolist() if kind == w.START and job == 0]
    assert starts[:2] == [0, begins * 1000]


def test_a_promoted_job_sinks_again() -> None:
    """It has the GPU until it has run up to the limit once more, and is promoted as often as it has waited enough."""
    text = "tiresias:limits=50,look_again=10,starve=100"
    simulator, _ = play(STREAM, ONE_GPU, {"": (1.0, 1.0, 1.0)}, text)
    first = [(time, kind) for time, kind, job, *_ in simulator.events.tolist() if job == 0]
    assert first[:6] == [
        (0, w.ARRIVE),
        (0, w.START),
        (100_000, w.PREEMPT),
        (200_000, w.START),
        (250_000, w.PREEMPT),
        (350_000, w.START),
    ]


def histogram_of(samples: list[float]) -> w.F64:
    """The histogram as a run keeps it."""
    histogram = np.zeros(HISTOGRAM)
    for sample in samples:
        count_in(histogram, sample)
    return histogram


@given(
    samples=st.lists(st.floats(1.0, 1e6), min_size=1, max_size=40),
    attained=st.floats(0, 2e5),
    horizon=st.floats(1.0, 1e5),
)
def test_gittins_index_is_that_of_the_samples_within_the_width_of_a_bin(
    samples: list[float], attained: float, horizon: float
) -> None:
    """Count by hand: who ends within the horizon, over what that costs; each sample may be anywhere in its bin."""
    found = gittins(attained, horizon, histogram_of(samples))
    edges = [(2 ** (bin_of(s) / 4), 2 ** ((bin_of(s) + 1) / 4)) for s in samples]
    surely = sum(low > attained and high <= attained + horizon for low, high in edges)
    perhaps = sum(high > attained and low <= attained + horizon for low, high in edges)
    cheapest = sum(min(max(low - attained, 0), horizon) for low, _ in edges)
    dearest = sum(min(max(high - attained, 0), horizon) for _, high in edges)
    longer = [s - attained for s in samples if s > attained]
    exact = sum(left <= horizon for left in longer) / max(sum(min(left, horizon) for left in longer), 1e-300)
    for index in (found, exact):
        assert index >= (surely / dearest if dearest > 0 else 0) * (1 - 1e-9)
        assert cheapest == 0 or index <= perhaps / cheapest * (1 + 1e-9)


def test_gittins_index_by_hand() -> None:
    """Samples that are alone in their bins: 100, 1,000 and 10,000 GPU seconds."""
    histogram = histogram_of([100.0, 1000.0, 1000.0, 10_000.0])
    assert gittins(0.0, 500.0, histogram) == pytest.approx(1 / (100 + 3 * 500))
    assert gittins(100.0, 900.0, histogram) == pytest.approx(2 / (900 + 900 + 900))
    assert gittins(500.0, 9_500.0, histogram) == pytest.approx(3 / (500 + 500 + 9_500))
    assert gittins(10_000.0, 1.0, histogram) == 0


# ------------------------------------------------------------------------------------------- copies


@pytest.mark.parametrize(
    "policy",
    [
        "dally:lease=120,history=0.1",
        "dally:lease=120,renewal=keep",
        "dally:lease=120,renewal=keep,timers=none,backfill=easy,estimate=oracle",
        "tiresias:order=gittins,limits=200,promote=1",
        "tiresias:lease=120,limits=none",
        "gandiva:lease=120",
        "marshal:lease=120,probe=40",
    ],
)
@settings(max_examples=15, deadline=None)
@given(world=worlds(), ticks=st.integers(0, 60), compiled=st.booleans())
def test_a_fork_goes_on_as_the_original(world: World, policy: str, ticks: int, compiled: bool) -> None:
    whole, _ = play(*world, MODELS, policy)
    original, chosen = simulator_of(*world, MODELS), registry.policy(policy)
    memory: Any = original.run(chosen, until=ticks * TICK, compiled=compiled)
    fork, copied = original.fork(), copy.deepcopy(memory)
    fork.run(chosen, memory=copied, compiled=compiled)
    assert fork.digest == whole.digest
    original.run(chosen, memory=memory, compiled=not compiled)
    assert original.digest == whole.digest


def test_the_properties_can_fail() -> None:
    """The checks see a job that waits although there is room, and one that is wider than needed."""
    layout = Layout((2, 2), ((0, 1),))
    jobs = [LeaseJob(0, TICK, 1), LeaseJob(0, TICK, 2), LeaseJob(0, TICK, 1)]
    models = {"": (1.0, 1.0, 1.0)}
    found = [copy.deepcopy(moment) for moment in moments(play(jobs, layout, models, "gandiva:draw=list")[0], layout)]
    assert [moment.time for moment in found] == [0, TICK]
    assert [moment.free for moment in found] == [[0, 0], [2, 2]]
    assert found[0].places == {0: ((0, 1),), 1: ((1, 2),), 2: ((0, 1),)}
    assert [len(groups(layout, tier)) for tier in range(3)] == [2, 2, 1]
    assert tier_of(layout, ((0, 1), (1, 1))) == 2
    assert holding(layout, 3) == (2,)

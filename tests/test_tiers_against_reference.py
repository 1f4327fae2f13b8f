"""Policies that place by network tiers against the slow, separately written reference: the same schedule throughout."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shunter import registry
from shunter.testing import leases, strategies
from shunter.testing.offers import LeaseJob, LeaseRules, ReferenceLeases, Timers, tuned
from shunter.testing.racks import play
from shunter.testing.reference import RefRun, runs_of
from shunter.testing.tiers import Layout

World: TypeAlias = tuple[list[LeaseJob], Layout]

TICK, LEASE, HISTORY = 40_000, 120_000, 360_000  # ms; the history is the least that Dally accepts
# halves, so that no rounding hides a difference; of the models Tiresias consolidates the first two, and one unknown
MODELS = {
    "vgg11": (1.0, 0.5, 0.25),
    "alexnet": (1.0, 1.0, 0.5),
    "unheard-of": (1.0, 0.25, 0.25),
    "resnet50": (1.0, 1.0, 1.0),
    "resnet18": (1.0, 0.5, 0.5),
}
PACKED = ("vgg11", "alexnet", "unheard-of")
KINDS = [LeaseJob(0, 0, 1, speeds) for speeds in MODELS.values()]
EXAMPLES = settings.default.max_examples  # more where scripts/test-search looks for new ones
SETTINGS = settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FEWER = settings(SETTINGS, max_examples=EXAMPLES // 4)


def both(jobs: list[LeaseJob], layout: Layout, text: str, rules: LeaseRules, *, compiled: bool = True) -> None:
    """The engine's schedule must be the reference's, and what its timers became must follow from the waits."""
    simulator, memory = play(jobs, layout, MODELS, text, compiled=compiled)
    expected = leases.simulate(jobs, layout, rules)
    assert runs_of(simulator.events, len(jobs)) == expected.runs
    if rules.timers == "auto":
        for row in registry.policy(text).timer_changes(memory).tolist():
            assert follows(expected, rules, *row), row


def follows(state: ReferenceLeases, rules: LeaseRules, time: int, tier: int, gpus: int, timer: int, count: int) -> bool:
    """Whether a timer had this value at that time: from the waits before it and some of those at the same instant."""
    waits = state.waits.get((tier, gpus), [])
    now = [(at, wait) for at, wait in waits if at == time]
    before = [(at, wait) for at, wait in waits if time - rules.history <= at < time]
    for some in range(len(now) + 1):
        recent = [wait for _, wait in before + now[:some]]
        if len(recent) == count and abs(tuned(rules, tier, recent) - timer) <= 1:
            return True
    return False


def settings_text(name: str, **given: object) -> str:
    return f"{name}:" + ",".join(f"{key}={str(value).lower()}" for key, value in given.items())


@st.composite
def worlds(draw: st.DrawFn, kinds: list[LeaseJob] = KINDS) -> tuple[list[LeaseJob], Layout]:
    """Jobs and racks; in one of three worlds some jobs can't be stopped."""
    layout = draw(strategies.layouts())
    jobs, keepers = draw(strategies.lease_jobs(layout, kinds, tick=TICK)), draw(st.integers(0, 2)) == 2
    return [replace(job, checkpointable=not keepers or draw(st.booleans())) for job in jobs], layout


@st.composite
def estimated(draw: st.DrawFn, how: str) -> World:
    """Jobs with estimates: the truth, no less than it, or any."""
    jobs, layout = draw(worlds())
    off = {"exact": st.just(0), "enough": st.integers(0, 6), "any": st.integers(-20, 20)}[how]
    return [replace(job, estimate=max(job.work + draw(off) * TICK // 2, 1)) for job in jobs], layout


CHOICES = {
    "renewal": st.sampled_from(["again", "keep"]),
    "fit": st.sampled_from(["first", "best"]),
    "spread": st.sampled_from(["list", "pack", "even"]),
}


# ------------------------------------------------------------------------------------------- Dally


DALLY = {
    **CHOICES,
    "clamps": st.booleans(),
    "lease": st.sampled_from([120, 120, 120, 0]),
    "sensitivity": st.sampled_from(["parallel", "single"]),
    "window": st.sampled_from(["fixed", "size"]),
}
TIES = st.sampled_from(["submission", "assignment"])


@pytest.mark.parametrize("timers", ["auto", "manual", "none", "infinite"])
@SETTINGS
@given(world=worlds(), rules=st.fixed_dictionaries(DALLY), ties=TIES, compiled=st.booleans())
def test_dally(world: World, timers: Timers, rules: dict[str, Any], ties: str, compiled: bool) -> None:
    hold_dally_to_it(world, timers, rules | {"ties": ties if rules["lease"] else "submission"}, compiled)


@pytest.mark.parametrize(
    ("timers", "how"),
    [("auto", "exact"), ("manual", "enough"), ("none", "enough"), ("none", "any"), ("infinite", "any")],
)
@FEWER
@given(data=st.data(), rules=st.fixed_dictionaries(DALLY), compiled=st.booleans())
def test_dally_with_backfilling(
    data: st.DataObject, timers: Timers, how: str, rules: dict[str, Any], compiled: bool
) -> None:
    """With timers no job may be overdue: what is decided then hangs on when one looks, and a timer is a look more."""
    hold_dally_to_it(data.draw(estimated(how)), timers, rules, compiled, easy=True)


def hold_dally_to_it(
    world: World, timers: Timers, rules: dict[str, Any], compiled: bool, *, easy: bool = False
) -> None:
    fixed = {"machine_timer": 150, "rack_timer": 330, "history": 0.1, "deviations": 1.5}
    text = settings_text("dally", timers=timers, backfill="easy" if easy else "none", bound=0, **fixed, **rules)
    gpus = sum(world[1].gpus)
    expected = LeaseRules(
        "sensitivity" if rules["sensitivity"] == "parallel" else "single GPU",
        rules["lease"] * 1000,
        keep=rules["renewal"] == "keep",
        fit=rules["fit"],
        spread=rules["spread"],
        timers=timers,
        machine_timer=150_000,
        rack_timer=330_000,
        history=HISTORY if rules["window"] == "fixed" else round(HISTORY * math.sqrt(512 / gpus)),
        deviations=1.5,
        clamps=rules["clamps"],
        longest_idle_first=rules.get("ties") == "assignment",
        easy=easy,
    )
    both(*world, text, expected, compiled=compiled)


def test_dally_makes_offers_when_a_wait_is_too_old_to_count() -> None:
    """Nothing else happens at 680.001 s, when the timer of a rack for three GPUs falls and one of them is taken."""
    layout = Layout((2, 2, 1, 1), ((0, 0, 1, 1),))
    kinds = [(0, 2, 3, 3), (0, 5, 3, 3), (0, 5, 1, 2), (1, 28, 3, 1), (2, 7, 2, 3), (3, 15, 3, 1)]
    jobs = [LeaseJob(TICK * at, TICK * work, gpus, KINDS[kind].speeds) for at, work, gpus, kind in kinds]
    rules = LeaseRules("sensitivity", LEASE, timers="auto", history=HISTORY)
    both(jobs, layout, "dally:lease=120,history=0.1", rules)
    simulator, _ = play(jobs, layout, MODELS, "dally:lease=120,history=0.1")
    assert 680_001 in [run.start for run in runs_of(simulator.events, len(jobs))[5]]


def test_a_job_whose_lease_ends_in_time_fills_a_gap_that_one_without_a_lease_must_leave() -> None:
    """The fourth job can't be stopped and would delay the third; the lease of the fifth is over when it begins."""
    kinds = [(120_000, 1, False), (0, 1, False), (0, 2, False), (160_000, 1, False), (160_000, 1, True)]
    jobs = [
        LeaseJob(0, work, gpus, MODELS["resnet50"], estimate=max(work, 1), checkpointable=stoppable)
        for work, gpus, stoppable in kinds
    ]
    simulator, _ = play(jobs, Layout((1, 1), ((0, 0),)), MODELS, "dally:lease=120,timers=none,backfill=easy,bound=0")
    assert [runs[0].start for runs in runs_of(simulator.events, 5)] == [0, 0, 120_000, 120_000, 0]


def test_of_machines_that_are_as_full_the_first_are_taken() -> None:
    """Two of three machines have 4 GPUs free when 3 + 3 are wanted: the fullest, and the first of the others."""
    layout = Layout((4, 4, 4), ((0, 0, 0),))
    jobs = [LeaseJob(0, TICK, 4), LeaseJob(0, TICK, 4), LeaseJob(0, 9 * TICK, 1), LeaseJob(2 * TICK, TICK, 6)]
    jobs = [replace(job, speeds=MODELS["resnet50"]) for job in jobs]
    simulator, _ = play(jobs, layout, MODELS, "dally:spread=even")
    assert runs_of(simulator.events, 4)[3] == [RefRun(2 * TICK, 3 * TICK, ((0, 3), (2, 3)))]


# ------------------------------------------------------------------------------------------- Tiresias


def as_tiresias_places(jobs: list[LeaseJob], skewed: str, loose: str) -> list[LeaseJob]:
    """The jobs with what becomes of them by their model's skew."""
    packed = [MODELS[name] for name in PACKED]
    near, wide = "first" if skewed == "consolidate" else "all", "last" if loose == "list" else "all"
    spread = "list" if loose == "list" else None
    return [
        replace(job, takes=near) if job.speeds in packed else replace(job, takes=wide, spread=spread) for job in jobs
    ]


TIRESIAS = {
    **CHOICES,
    "order": st.sampled_from(["service", "time"]),
    "limits": st.sampled_from(["none", "200", "120/600"]),
    "inside": st.sampled_from(["submission", "running"]),
    "skewed": st.sampled_from(["consolidate", "tiers"]),
    "loose": st.sampled_from(["tiers", "list"]),
    "promote": st.sampled_from([0, 0.5, 2]),
    "starve": st.sampled_from([0, 300]),
}


@pytest.mark.parametrize("lease", [0, 120])
@SETTINGS
@given(world=worlds(), rules=st.fixed_dictionaries(TIRESIAS), ties=TIES, compiled=st.booleans())
def test_tiresias(world: World, lease: int, rules: dict[str, Any], ties: str, compiled: bool) -> None:
    hold_tiresias_to_it(world, lease, rules | {"ties": ties if lease else "submission"}, compiled)


@pytest.mark.parametrize("lease", [0, 120])
@pytest.mark.parametrize("how", ["exact", "any"])
@FEWER
@given(data=st.data(), rules=st.fixed_dictionaries(TIRESIAS), compiled=st.booleans())
def test_tiresias_with_backfilling(
    data: st.DataObject, lease: int, how: str, rules: dict[str, Any], compiled: bool
) -> None:
    hold_tiresias_to_it(data.draw(estimated(how)), lease, rules, compiled, easy=True)


def hold_tiresias_to_it(world: World, lease: int, rules: dict[str, Any], compiled: bool, *, easy: bool = False) -> None:
    jobs, layout = world
    limits = () if rules["limits"] == "none" else tuple(map(float, rules["limits"].split("/")))
    expected = LeaseRules(
        rules["order"],
        lease * 1000,
        keep=rules["renewal"] == "keep",
        fit=rules["fit"],
        spread=rules["spread"],
        limits=limits,
        running_first=rules["inside"] == "running",
        longest_idle_first=rules.get("ties") == "assignment",
        look_again=70_000,
        promote=rules["promote"],
        starve=rules["starve"] * 1000,
        passes=lease == 0,
        easy=easy,
    )
    text = settings_text("tiresias", lease=lease, look_again=70, backfill="easy" if easy else "none", bound=0, **rules)
    both(as_tiresias_places(jobs, rules["skewed"], rules["loose"]), layout, text, expected, compiled=compiled)


# ------------------------------------------------------------------------------------------- Gandiva


@SETTINGS
@given(
    world=worlds(),
    lease=st.sampled_from([0, LEASE]),
    renewal=st.sampled_from(["again", "keep"]),
    moves=st.booleans(),
    move_again=st.sampled_from([0, 30_000, 70_000]),
    compiled=st.booleans(),
)
def test_plain_gandiva(world: World, lease: int, renewal: str, moves: bool, move_again: int, compiled: bool) -> None:
    jobs, layout = world
    kept, moving = {"keep": renewal == "keep", "returns": True}, {"moves": moves, "move_again": move_again}
    rules = LeaseRules("last started", lease, fit="affinity", spread="list", **kept, **moving)
    jobs = [replace(job, takes="ends") for job in jobs]
    given = {"lease": lease // 1000, "draw": "list", "renewal": renewal, "migration": moves}
    text = settings_text("gandiva", **given, move_again=move_again // 1000)
    both(jobs, layout, text, rules, compiled=compiled)


def test_the_comparison_can_fail() -> None:
    """It sees a job on another node, at another time, and a timer from other waits."""
    layout, rules = Layout((2, 2), ((0, 1),)), LeaseRules("sensitivity", LEASE)
    jobs = [LeaseJob(0, 5 * TICK, 1), LeaseJob(0, 5 * TICK, 2)]
    simulator, _ = play(jobs, layout, MODELS, "dally:lease=120,timers=none")
    found = runs_of(simulator.events, 2)
    assert found == leases.simulate(jobs, layout, rules).runs
    assert found != leases.simulate(jobs, layout, replace(rules, lease=LEASE + 1)).runs
    assert found != leases.simulate(jobs[::-1], layout, rules).runs
    state = leases.simulate(jobs, layout, rules)
    state.waits = {(0, 1): [(10, 7), (20, 9)]}
    tuner = LeaseRules("sensitivity", 5, timers="auto", history=100)
    assert follows(state, tuner, 25, 0, 1, round(8 + 2 * 2**0.5), 2)
    assert not follows(state, tuner, 25, 0, 1, 9, 2)

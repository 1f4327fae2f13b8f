"""The guard of an autopilot in replays: copies, and shadows of the baseline."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from piloted_site import BASE, BEST, QUICK, candidates, days_before

from shunter import clusters, registry
from shunter import world as w
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.autopilot.outcome import PILOT, PilotedRun, PilotStudy, ReplayOptions
from shunter.adapting.autopilot.rule import Autopilot, AutopilotLimits, PastDays, PilotAction, past_days
from shunter.adapting.autopilot.shadows import AT_ONCE, SHADOWS, BaselineShadows, WatchedDay
from shunter.generating.known_jobs import DAY
from shunter.report import so_far
from shunter.report.so_far import JobsBetween
from shunter.sim.engine import Simulator
from shunter.testing.live import habitual


@pytest.fixture(scope="module")
def past() -> PastDays:
    return days_before()


def test_copies_differ_by_about_one_percent_and_keep_limits() -> None:
    times = np.full(5000, 100_000, np.int64)
    limits = np.where(np.arange(5000) < 2500, 100_500, 0)
    assert (near_times(times, limits, 0) == times).all()
    assert near_times(times * 0, limits, 0).min() == near_times(times * 0, limits, 1).min() == 1  # no job takes no time
    one, two = (near_times(times, limits, copy) for copy in (1, 2))
    assert 900 < one[2500:].std() < 1100
    assert one[:2500].max() == 100_500
    assert (one != two).mean() > 0.5
    assert (near_times(times[:9], limits[:9], 1) == one[:9]).all()  # jobs that come later change nothing


@pytest.fixture(scope="module")
def begun(past: PastDays):
    """A cluster after two days with the baseline, and what the baseline remembers."""
    simulator = Simulator(past.trace, past.cluster)
    at = int(past.trace.submit[0]) + 2 * DAY
    return simulator, simulator.run(registry.policy(BASE), until=at), at


def flown(begun, text: str, days: int, limits: AutopilotLimits = QUICK):
    """The last of some days with a policy, beside shadows of the baseline."""
    simulator, memory, at = begun
    shadows = BaselineShadows(BASE, simulator.fork(), memory, at, 0)
    real, until = simulator.fork(), at + days * DAY
    policy = registry.policy(text)
    real.run(policy, until=until, memory=policy.start(real.cluster, memory))
    return shadows.compared(real, [real.durations] * SHADOWS, until - DAY, until, limits)


@pytest.fixture
def few_are_enough(monkeypatch) -> None:
    monkeypatch.setattr(so_far, "FEWEST_JOBS", 20)


@pytest.mark.usefixtures("few_are_enough")
def test_the_baseline_is_its_own_shadow(begun) -> None:
    """Also as to fairness: a job that never waited has a rho of 1 by its own run time, not by that of a copy."""
    day = flown(begun, BASE, 2)
    assert day.fair == pytest.approx(1, abs=0.05)
    assert (day.handed_back, day.worse) == (False, False)
    assert day.seen_least <= 1 <= day.true / day.true_least


def test_shadows_go_on_from_the_switch_not_from_this_morning(begun) -> None:
    """A policy that cleared the queue on the first day is compared with the queue of a site that did not."""
    day = flown(begun, BEST, 2)
    assert day.true < 1


def test_a_bad_day_is_handed_back(begun) -> None:
    bad = flown(begun, "ljf", 2)
    assert bad.worse
    assert "over a day" in bad.why
    assert not flown(begun, "ljf", 2, dataclasses.replace(QUICK, worst_day=100.0)).why  # the operator allows it
    assert not flown(begun, BEST, 2).why


def test_a_day_that_is_a_little_too_long_counts_a_day_later_at_the_earliest(begun) -> None:
    """When a day ends, many run times are guesses: only four times the allowed excess counts at once."""
    excess = flown(begun, "ljf", 1).seen_least - 1
    much, little = (dataclasses.replace(QUICK, worst_day=1 + excess / (AT_ONCE * of)) for of in (1.1, 0.9))
    assert excess > 0
    assert "at its end" in flown(begun, "ljf", 1, much).why
    assert not flown(begun, "ljf", 1, little).why
    assert "over the day before" in flown(begun, "ljf", 2, little).why


def test_a_bad_day_that_guesses_hid_is_handed_back_a_day_later(begun) -> None:
    """Jobs that have not ended are taken for long ones at first, so that the shadows look as bad as the real day."""
    simulator, memory, at = begun
    shadows, real = BaselineShadows(BASE, simulator.fork(), memory, at, 0), simulator.fork()
    found = []
    for day, text in enumerate(("ljf", BEST)):
        since, until, policy = at + day * DAY, at + (day + 1) * DAY, registry.policy(text)
        real.run(policy, until=until, memory=policy.start(real.cluster, memory))
        over = real.world.jobs[w.STATE] == w.DONE
        guessed = np.where(over, real.durations, 50 * real.durations)
        found.append(shadows.compared(real, [guessed] * SHADOWS, since, until, QUICK))
    first, second = found
    assert first.worse
    assert not first.handed_back
    assert not second.worse
    assert "over the day before, by run times that are known now" in second.why
    assert second.before == pytest.approx(first.true_least, rel=0.05)


@pytest.mark.parametrize(("back", "missed"), [(0, 0), (1, 0), (2, 1), (None, 1)])
def test_a_bad_day_must_be_handed_back_within_a_day(back: int | None, missed: int) -> None:
    days = [WatchedDay(at * DAY, 1, 1, 1, 1.0 + (at == 3), 1, 1, 1, "why" * (at - 3 == back)) for at in range(8)]
    runs = {PILOT: PilotedRun(np.ones(1), days=tuple(days))}
    found = PilotStudy(ReplayOptions(candidates()), runs, np.array([2.5 * DAY]), 0)
    assert (found.bad_days, found.missed_days) == ([days[3]], missed)
    nobody_came = dataclasses.replace(found, submit=np.array([2 * DAY]))
    assert (nobody_came.bad_days, nobody_came.missed_days) == ([], 0)


@pytest.mark.usefixtures("few_are_enough")
def test_unfairness_is_handed_back_before_the_next_decision(begun) -> None:
    fine, strict = (dataclasses.replace(QUICK, worst_fairness=worst) for worst in (0.5, 10.0))
    day = flown(begun, BEST, 2, fine)
    assert day.fair != 1  # enough jobs have come
    assert not day.why
    assert "rho <= 1" in flown(begun, BEST, 2, strict).why


@pytest.mark.usefixtures("few_are_enough")
def test_the_guard_judges_fairness_by_guessed_run_times(begun) -> None:
    """What unfinished jobs will take is not known: the same day looks fairer if they take long."""
    simulator, memory, at = begun
    real, until = simulator.fork(), at + 2 * DAY
    policy = registry.policy(BEST)
    real.run(policy, until=until, memory=policy.start(real.cluster, memory))
    short, long = (JobsBetween(real, at, until).tail(real.durations * times).fair for times in (1, 100))
    assert short < long == 1


def test_a_shadow_does_not_know_how_often_jobs_will_still_fail() -> None:
    jobs = habitual(60, 16, 1.5)
    twice = dataclasses.replace(jobs, failures=jobs.failures + 2, fail_after=jobs.fail_after * 0 + 60_000)
    reliable, failing = (Simulator(trace, clusters.load("2x8")) for trace in (jobs, twice))

    def ends(begin: Simulator, real: Simulator) -> list[int]:
        shadows = BaselineShadows(BASE, begin, None, 0, 0)
        (shadow,) = shadows.by_guess(real, [jobs.duration], int(jobs.submit[-1]) + 30 * DAY)
        return shadow.world.jobs[w.ENDED_AT].tolist()

    before = ends(failing, failing)
    assert min(before) > 0
    assert before == ends(reliable, reliable)
    over = failing.fork()
    over.run(registry.policy(BASE))
    assert ends(failing, over) != before  # what has failed is known


@pytest.mark.usefixtures("few_are_enough")
def test_a_tail_beyond_the_limit_is_handed_back(begun) -> None:
    fine, tight = (dataclasses.replace(QUICK, worst_p99=worst) for worst in (10.0, 0.1))
    assert flown(begun, BEST, 2, fine).p99 != 1  # enough jobs have come
    assert not flown(begun, BEST, 2, fine).why
    assert "P99" in flown(begun, BEST, 2, tight).why


def test_a_p99_is_at_least_so_much_beyond_chance() -> None:
    """Of jobs drawn again and again, the true P99 is below that in about one of twenty cases."""
    times = np.random.default_rng(0).lognormal(8, 2, (4000, 1000))
    truth = np.quantile(times, 0.99)
    least = np.array([so_far.least_p99(each) for each in times])
    assert 0.02 < (least > truth).mean() < 0.08
    assert (least <= np.quantile(times, 0.99, axis=1)).all()


@pytest.mark.usefixtures("few_are_enough")
def test_a_tail_that_may_be_chance_is_not_handed_back(begun) -> None:
    ratio = flown(begun, BEST, 2).p99
    assert not flown(begun, BEST, 2, dataclasses.replace(QUICK, worst_p99=0.999 * ratio)).why


def test_jobs_between_two_instants(begun) -> None:
    simulator, _, at = begun
    jobs = JobsBetween(simulator, at - DAY, at)
    assert 0 < jobs.seconds <= len(jobs.rows) * DAY / 1000
    assert QUICK.kept(jobs, jobs)
    assert not dataclasses.replace(QUICK, worst_p99=0.5).kept(jobs, jobs)


def test_where_nobody_waits_nothing_is_searched() -> None:
    trace = habitual(300, 512, 0.05)
    idle = past_days(trace, clusters.load("64x8"), int(trace.submit[-1]) + 1, np.ones(len(trace), np.bool_))
    found = Autopilot(candidates(), dataclasses.replace(QUICK, least_days=0.51, days=84)).decide(idle, BASE)
    assert found.answer is PilotAction.STAY
    assert found.evaluations == 0

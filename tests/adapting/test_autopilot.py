"""The autopilot's rule: what it may choose, when it may switch, and that it knows only the past."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from shunter import clusters, registry
from shunter import world as w
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.autopilot.replay import (
    FIXED,
    OPTIMAL,
    PILOT,
    PilotedRun,
    PilotReplay,
    PilotStudy,
    ReplayOptions,
    repeated,
)
from shunter.adapting.autopilot.rule import (
    FINALISTS,
    Autopilot,
    AutopilotLimits,
    PastDays,
    PastTrial,
    PilotAction,
    PilotVerdict,
    past_days,
)
from shunter.adapting.autopilot.shadows import SHADOWS, BaselineShadows, WatchedDay
from shunter.cli.main import app
from shunter.errors import PolicyError, RunError
from shunter.generating.known_jobs import DAY, HOUR
from shunter.model import Trace
from shunter.report import so_far
from shunter.report.so_far import JobsBetween
from shunter.report.terminal.autopilot import autopilot_view
from shunter.setup import set_up
from shunter.sim.engine import Simulator
from shunter.testing.live import habitual

BASE, BEST = "fifo:backfill=easy", "sjf:backfill=easy"
QUICK = AutopilotLimits.of(
    "days=4,least_days=1,check_days=0.5,least_jobs=50,budget=4,hours=12,worst_p99=10,worst_fairness=0.5"
)


def candidates(*texts: str) -> Candidates:
    return Candidates.of(texts or (BEST,), BASE)


@pytest.fixture(scope="module")
def past() -> PastDays:
    trace = habitual(1000, 16, 1.1)
    return past_days(trace, clusters.load("2x8"), int(trace.submit[-1]) + HOUR, np.ones(len(trace), np.bool_))


# ------------------------------------------------------------------------------------------- what may be chosen


def test_settings_within_the_declared_ranges_are_candidates() -> None:
    some = candidates(BEST, "wfp3", "tiresias", "srsf:backfill=easy")
    assert {space.policy for space in some.spaces} == {"wfp3", "tiresias", "srsf:backfill=easy"}  # of sjf all is set
    for text in (BASE, BEST, "wfp3:backfill=easy", "wfp3:blocking=skip", "tiresias:limits=3250/7200"):
        assert some.contains(text), text
    rng = np.random.default_rng(1)
    drawn = [text for space in some.spaces for _ in range(20) if (text := space.text(space.drawn(rng)))]
    assert drawn
    assert all(some.contains(text) for text in drawn)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "saf",  # built in, but not allowed
        "srsf",  # without the setting that the operator fixed
        "srsf:backfill=none",
        "srsf:backfill=easy,blocking=whatever",
        "srsf:backfill=easy,estimate=oracle",
        "srsf:backfill=easy,placement=os.path",
        "tiresias:limits=3250/7200/1/2/3/4/5",
        "tiresias:limits=1e99",
        "tiresias:starve=nan",
        "tiresias:starve=-5",
        "evil_policy.Evil",
        "evil_policy.Evil:backfill=easy",
        "inspected:policy=evil_policy.Evil",
        "srsf:backfill=easy" + "," * 5000,
        "srsf:backfill",
        "srsf:backfill=easy,backfill=easy",
        "srsf:backfill=easy\0",
        "тиресий",
    ],
)
def test_no_other_text_becomes_a_policy_or_is_imported(text: str, tmp_path: Path, monkeypatch) -> None:
    """A journal may be forged: its texts are compared with what is declared, and nothing is imported by them."""
    (tmp_path / "evil_policy.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not candidates(BEST, "tiresias", "srsf:backfill=easy").contains(text)
    assert "evil_policy" not in sys.modules


@pytest.mark.parametrize("text", ["lucid", "ces", "sjf:estimate=oracle", "elastic", "qssf", "os.path", "nothing"])
def test_what_a_live_cluster_can_not_run_is_no_candidate(text: str) -> None:
    with pytest.raises(PolicyError):
        candidates(text)


def test_a_policy_that_a_search_could_make_know_the_truth_is_no_candidate() -> None:
    """Without backfilling it has no use for run times, but a search may add that."""
    with pytest.raises(PolicyError, match=r"can't choose 'fifo:estimate=oracle,backfill=.*': it knows the truth"):
        candidates("fifo:estimate=oracle")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sjf:estimate=oracle", "it knows the truth"),
        ("qssf", "it would lose its model"),
        ("ces", "it is not compiled"),
        ("slaq", "it resizes jobs"),
    ],
)
def test_a_refused_baseline_is_told_the_one_reason(text: str, why: str) -> None:
    with pytest.raises(PolicyError, match=f"can't choose '{text}.*': {why}"):
        Candidates.of([BEST], text)


@pytest.mark.parametrize(
    "text", ["worst_p99=-1", "objective=money", "hours", "days=3,least_days=5", "days=7,least_days=7", "what=1"]
)
def test_wrong_limits_are_refused(text: str) -> None:
    with pytest.raises(RunError, match="--limits") as refused:
        AutopilotLimits.of(text)
    assert "limits:" not in str(refused.value).removeprefix("--limits:")  # only what was typed is quoted


def test_a_misspelled_candidate_is_told_the_nearest_that_can_be_chosen() -> None:
    with pytest.raises(PolicyError, match="did you mean 'saf'") as refused:
        candidates("saff")
    assert "elastic" not in str(refused.value)


# ------------------------------------------------------------------------------------------- when it switches


def test_it_switches_to_what_was_better_and_says_why(past: PastDays) -> None:
    found = Autopilot(candidates(), QUICK).decide(past, BASE)
    assert found.answer is PilotAction.SWITCH
    assert found.policy.startswith(BEST)
    assert "times as good in the days before" in found.why
    assert "JCT" in found.evidence
    assert 2 <= found.evaluations <= QUICK.budget + QUICK.copies * (FINALISTS + 2)
    again = Autopilot(candidates(), QUICK).decide(past, found.policy)
    assert again.answer is PilotAction.STAY


def test_it_can_not_tell_without_enough_of_the_past(past: PastDays) -> None:
    for limits, words in (("days=84,least_days=60", "days are known"), ("least_jobs=5000", "jobs have ended")):
        strict = AutopilotLimits.of(f"check_days=0.5,{limits if 'days' in limits else 'days=4,least_days=1,' + limits}")
        found = Autopilot(candidates(), strict).decide(past, BASE)
        assert found.answer is PilotAction.UNKNOWN
        assert found.policy == BASE
        assert words in found.why
    nothing = dataclasses.replace(past, trace=past.trace.select(np.zeros(0, np.int64)))
    assert Autopilot(candidates(), QUICK).decide(nothing, BASE).answer is PilotAction.UNKNOWN
    gone = dataclasses.replace(past, now=past.now + 3 * DAY)  # the clock has jumped: nothing came lately
    assert Autopilot(candidates(), QUICK).decide(gone, BASE).answer is PilotAction.UNKNOWN


def test_it_does_not_switch_too_often_or_for_too_little(past: PastDays) -> None:
    found = Autopilot(candidates(), QUICK).decide(past, BASE, since_switch_h=3.0)
    assert (found.answer, found.evaluations) == (PilotAction.STAY, 0)
    assert "3.0 h ago" in found.why
    much = dataclasses.replace(QUICK, gain=50.0)
    assert "is needed" in Autopilot(candidates(), much).decide(past, BASE).why


@pytest.mark.parametrize("limit", ["worst_p99", "worst_fairness"])
def test_the_limits_of_the_operator_hold(past: PastDays, limit: str) -> None:
    tight = dataclasses.replace(QUICK, **{limit: 0.1 if limit == "worst_p99" else 10.0})
    found = Autopilot(candidates(), tight).decide(past, BASE)
    assert found.answer is PilotAction.STAY
    assert "within the limits" in found.why
    back = Autopilot(candidates(), tight).decide(past, BEST)  # what is in force is outside of them, too
    assert back.answer is PilotAction.STAY  # whether it keeps them is up to the guard, which sees what happened
    assert "nothing better was found" in back.why


@pytest.mark.parametrize(
    ("doubt", "words"), [("_confirmed", "was not better in the last"), ("_surely", "if run times differed")]
)
def test_a_choice_is_left_only_on_strong_evidence_and_the_baseline_on_any(
    past: PastDays, monkeypatch, doubt: str, words: str
) -> None:
    """The first choice is the one that Fixed makes; to leave it, the last days and every copy must agree."""
    from shunter.adapting.autopilot import rule

    some, loose = (
        candidates(BEST, "ljf"),
        dataclasses.replace(QUICK, again=1.0, prefer=1.0, worst_p99=100, worst_fairness=0),
    )
    monkeypatch.setattr(rule, "WORSE_LATELY", 100.0)
    monkeypatch.setattr(rule.PastTrial, doubt, lambda *_: False)
    found = Autopilot(some, loose).decide(past, "ljf")
    assert found.answer is PilotAction.STAY
    assert words in found.why
    assert Autopilot(some, loose).decide(past, BASE).answer is PilotAction.SWITCH


def test_the_first_choice_is_that_of_fixed(past: PastDays) -> None:
    some = candidates(BEST, "tiresias")
    pilot = Autopilot(some, dataclasses.replace(QUICK, budget=8))
    assert pilot.decide(past, BASE, budget=16).policy == pilot.best_fixed(past, 16)


@pytest.mark.parametrize("prefer", [1.0, 50.0])
def test_the_candidate_named_first_is_chosen_unless_another_is_clearly_better(past: PastDays, prefer: float) -> None:
    """Which of several good policies did best on two weeks is mostly chance."""
    limits = dataclasses.replace(QUICK, prefer=prefer)
    names = (BEST, "saf:backfill=easy")
    choices = [Autopilot(candidates(*order), limits).decide(past, BASE).policy for order in (names, names[::-1])]
    assert choices == list(names if prefer > 1 else choices[:1] * 2)


def test_a_preferred_choice_says_what_was_better(past: PastDays) -> None:
    some, limits = candidates("saf:backfill=easy", BEST), dataclasses.replace(QUICK, prefer=50.0)
    why = Autopilot(some, limits).decide(past, BASE).why
    assert re.search(rf"days before, and is preferred: {BEST} would be 1\.\d+ times as good, and 50 is needed$", why)


@pytest.mark.parametrize("first", ["ljf", BASE])
def test_a_candidate_named_first_that_is_worse_than_the_baseline_is_not_preferred(past: PastDays, first: str) -> None:
    some, limits = candidates(first, BEST), dataclasses.replace(QUICK, prefer=50.0)
    assert Autopilot(some, limits).decide(past, BASE).policy == BEST


def test_a_preferred_candidate_must_reach_the_gain_itself(past: PastDays) -> None:
    names = ("saf:backfill=easy", BEST)
    trial = PastTrial(past.last(QUICK.days), Autopilot(candidates(*names), QUICK), QUICK.copies)
    weak, strong = (trial.gain(text, BASE) for text in names)
    assert 1 < weak < strong
    for gain, chosen in ((1.0, names[0]), ((weak + strong) / 2, BEST)):
        limits = dataclasses.replace(QUICK, prefer=50.0, gain=gain)
        assert Autopilot(candidates(*names), limits).decide(past, BASE).policy == chosen


def test_a_limit_is_broken_beyond_chance_or_not_at_all(past: PastDays) -> None:
    """Of a thousand jobs the P99 depends on ten; the guard judges by the same rule."""
    trial = PastTrial(past, Autopilot(candidates(), QUICK))
    base, best = (trial.of(text) for text in (BASE, BEST))
    assert base is not None
    assert best is not None
    assert best.least_p99 < best.p99
    assert float(best.fair.mean()) < best.most_fair < 1
    for broken, times in ((False, best.p99 / base.p99 * 0.999), (True, best.least_p99 / base.p99 * 0.999)):
        limits = dataclasses.replace(QUICK, worst_p99=times, worst_fairness=0.0)
        assert bool(PastTrial(past, Autopilot(candidates(), limits)).outside(BEST)) is broken
    for broken, share in ((False, float(best.fair.mean())), (True, best.most_fair)):
        limits = dataclasses.replace(QUICK, worst_p99=100.0, worst_fairness=1.001 * share / float(base.fair.mean()))
        assert bool(PastTrial(past, Autopilot(candidates(), limits)).outside(BEST)) is broken


def test_each_search_draws_other_settings(past: PastDays) -> None:
    pilot, tried = Autopilot(candidates("tiresias"), QUICK), []
    for now in (past.now, past.now, past.now + HOUR):
        trial = PastTrial(dataclasses.replace(past, now=now), pilot)
        trial.searched((BASE,), 6)
        tried.append(set(trial.runs))
    assert tried[0] == tried[1]
    assert tried[0] != tried[2]


def test_a_choice_is_left_only_for_what_is_much_better(past: PastDays) -> None:
    """From the baseline any gain is enough, from another choice it must be 1.1 times as good."""
    some = candidates(BEST, "saf:backfill=easy")
    first = Autopilot(some, QUICK).decide(past, BASE)
    assert first.answer is PilotAction.SWITCH
    (other,) = {BEST, "saf:backfill=easy"} - {first.policy}
    loose, strict = (dataclasses.replace(QUICK, again=again, prefer=again) for again in (1.0, 50.0))
    assert "50 is needed" in Autopilot(some, strict).decide(past, other).why
    assert "is needed" not in Autopilot(some, loose).decide(past, other).why


def test_queues_of_the_last_days_alone_are_evidence(past: PastDays) -> None:
    """Nobody waited before: what helps in the last days is chosen nevertheless."""
    limits = dataclasses.replace(QUICK, check_days=2.0, least_days=2.5)
    late = past.trace.submit >= past.now - 2 * DAY
    calm = dataclasses.replace(past.trace, duration=np.where(late, past.trace.duration, 1000))
    found = Autopilot(candidates(), limits).decide(dataclasses.replace(past, trace=calm), BASE)
    assert found.answer is PilotAction.SWITCH


def test_the_best_of_a_search_are_tried_by_the_next_one(past: PastDays) -> None:
    some = candidates("tiresias")
    few = dataclasses.replace(QUICK, budget=2, gain=50.0)
    settings = "tiresias:limits=3250/7200"
    assert settings in Autopilot(some, few).decide(past, BASE, shortlist=(settings,)).shortlist
    assert settings not in Autopilot(some, few).decide(past, BASE).shortlist


# ------------------------------------------------------------------------------------------- copies and shadows


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


# ------------------------------------------------------------------------------------------- replays


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory) -> Path:
    jobs = habitual(1200, 16, 1.1)
    path = tmp_path_factory.mktemp("traces") / "jobs.csv"
    rows = zip(jobs.submit // 1000, jobs.duration // 1000, jobs.gpus // 1000, jobs.limit // 1000, strict=True)
    lines = [f"{at},{submit},{max(took, 1)},{gpus},{limit}" for at, (submit, took, gpus, limit) in enumerate(rows)]
    path.write_text("job_id,submit,duration,gpus,limit\n" + "\n".join(lines) + "\n")
    return path


def replay(trace_file: Path, **more) -> PilotReplay:
    setup = set_up(trace_file, "2x8", since="+4", checkpointable="none")
    return PilotReplay(setup, ReplayOptions(candidates(), QUICK, every=DAY, **more))


def test_a_replay_begins_as_the_baseline_and_reaches_the_fixed_choice(trace_file: Path) -> None:
    found = replay(trace_file).run()
    first = found.runs[PILOT].decisions[0]
    assert first.before == BASE
    assert first.policy == found.runs[FIXED].policy
    assert first.policy.startswith("sjf")
    record = found.as_dict()
    assert set(record["aims"]) == {"0.98 of Fixed", "half of Optimal - Fixed", "handed back after a bad day"}
    assert found.over_fixed() >= 0.98
    assert found.runs["optimal"].mean <= found.runs["baseline"].mean
    assert not found.bad_days
    assert record["aims"]["handed back after a bad day"] is None  # there was none


def test_days_of_a_replay_end_when_days_end(trace_file: Path, monkeypatch) -> None:
    """Not at the last event before: else the first day after a switch would never be judged again."""
    seen: list[tuple[int, int]] = []

    def compared(self: BaselineShadows, real: Simulator, guesses: object, since: int, until: int, limits: object):
        seen.append((since, until))
        return judged(self, real, guesses, since, until, limits)

    judged = BaselineShadows.compared
    monkeypatch.setattr(BaselineShadows, "compared", compared)
    days = replay(trace_file)
    run = days.piloted()
    assert seen
    assert all(until - since == DAY and (since - days.begin) % DAY == 0 for since, until in seen)
    first = next(day for day in run.days if day.at == seen[1][1])
    assert first.before > 0


def test_optimal_keeps_the_limits_too(trace_file: Path) -> None:
    setup = set_up(trace_file, "2x8", since="+4", checkpointable="none")
    for worst, choices in ((10.0, {BASE, BEST}), (0.1, {BASE})):
        limits = dataclasses.replace(QUICK, worst_p99=worst)
        run = PilotReplay(setup, ReplayOptions(candidates(), limits, every=DAY)).optimal(BASE)
        assert {each.policy for each in run.decisions} <= choices
    assert run.decisions


def test_copies_of_a_replay_have_other_run_times_and_a_mean(trace_file: Path) -> None:
    studies = [replay(trace_file, copy=copy).run() for copy in (0, 1)]
    found = repeated(studies)
    by_copy = found["means"][FIXED]["over_baseline_by_copy"]
    assert by_copy[0] != by_copy[1]
    assert min(by_copy) <= found["means"][FIXED]["over_baseline"] <= max(by_copy)
    assert found["means"][OPTIMAL]["over_fixed"] > 0
    assert found["copies"] == 2
    assert found["bad_days"] == sum(len(study.bad_days) for study in studies)
    assert {day["copy"] for day in found["days"]} == {0, 1}


def test_a_limit_that_was_broken_on_any_copy_is_reported(trace_file: Path) -> None:
    found = repeated([replay(trace_file, copy=copy).run() for copy in (0, 1)])
    found["means"]["autopilot"] |= {
        "p99_of_baseline_by_copy": [1.0, 12.345],
        "fairness_of_baseline_by_copy": [1.0, 0.25],
    }
    found["means"]["fixed"]["within_limits_by_copy"] = [True, False]
    shown = Console(width=300, record=True, file=io.StringIO())
    shown.print(autopilot_view(found))
    text = shown.export_text()
    assert "BROKE worst_p99 on 1 of 2 copies: P99 of the JCT was up to 12.3 times the site's; at most 10" in text
    assert "BROKE worst_fairness on 1 of 2 copies" in text
    assert "Fixed breaks the limits on 1 of 2 copies, so" in text
    assert "of 2 copies with another policy" in text


def test_what_comes_later_changes_no_decision_before(trace_file: Path, tmp_path: Path) -> None:
    """Jobs that end or come after an instant may be anything: what is decided at it stays the same."""
    one = replay(trace_file)
    middle = one.begin + DAY
    lines = trace_file.read_text().splitlines()
    changed, runs, come = [lines[0] + ",failures,fail_after"], 0, 0
    for row in lines[1:]:
        name, submit, took, gpus, limit = row.split(",")
        comes, ends = int(submit) * 1000 > middle, (int(submit) + int(took)) * 1000 > middle
        runs, come = runs + (ends and not comes), come + comes
        truth = (str(int(took) * 7), "3", took) if ends else (took, "0", "0")
        changed.append(",".join((name, submit, truth[0], "1" if comes else gpus, limit, *truth[1:])))
    assert come > 100
    assert runs > 0  # jobs that are known, and that can't have ended
    other_file = tmp_path / "other.csv"
    other_file.write_text("\n".join(changed) + "\n")
    two = replay(other_file)
    decisions = [each.piloted().decisions for each in (one, two)]
    before = [[each for each in some if each.at <= middle] for some in decisions]
    assert before[0]
    assert before[0] == before[1]


def test_a_policy_that_does_harm_is_handed_back_within_a_day_and_rests(trace_file: Path, monkeypatch) -> None:
    harmful = PilotVerdict(PilotAction.SWITCH, "ljf", "a bad idea")
    monkeypatch.setattr(Autopilot, "decide", lambda *_: harmful)
    run = replay(trace_file, rest=2 * DAY).piloted()
    assert run.days[0].handed_back
    back = run.decisions[1]
    assert (back.before, back.policy) == ("ljf", BASE)
    rests = [each for each in run.decisions if "handed the jobs back" in each.why]
    assert rests
    assert len(run.days) < 5  # it rests in between


def test_the_last_day_on_which_jobs_come_is_judged_twice(trace_file: Path, monkeypatch) -> None:
    harmful = PilotVerdict(PilotAction.SWITCH, "ljf", "a bad idea")
    monkeypatch.setattr(Autopilot, "decide", lambda *_: harmful)
    lenient = dataclasses.replace(QUICK, worst_day=100.0, worst_fairness=0.0, worst_p99=1000.0)
    patient = replay(trace_file)
    patient = PilotReplay(patient.setup, dataclasses.replace(patient.options, limits=lenient))
    last = int(patient.setup.trace.submit[-1])
    *_, closing, again = patient.piloted().days
    assert closing.at - DAY < last <= closing.at
    assert again.at == closing.at + DAY
    assert again.before == pytest.approx(closing.true_least, rel=0.05)


# ------------------------------------------------------------------------------------------- commands


def test_the_command_prints_the_table_and_its_json(trace_file: Path) -> None:
    words = ["autopilot", str(trace_file), "-c", "2x8", "--since", "+7", "--candidate", BEST, "--every", "1d"]
    words += [
        "--limits",
        "days=4,least_days=1,check_days=0.5,least_jobs=50,budget=2,worst_p99=10",
        "--checkpointable",
        "none",
    ]
    said = CliRunner().invoke(app, [*words, "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert list(found["runs"]) == ["baseline", "fixed", "autopilot", "optimal"]
    assert found["runs"]["baseline"]["over_baseline"] == 1
    shown = Console(width=200, record=True, file=io.StringIO())
    shown.print(autopilot_view(found))
    text = shown.export_text()
    assert "aim '0.98 of Fixed': " in text
    assert "BROKE" not in text
    found["runs"]["autopilot"] |= {"within_limits": False, "p99_of_baseline": 12.345}
    shown.print(autopilot_view(found))
    text = shown.export_text()
    assert "THE AUTOPILOT BROKE worst_p99: P99 of the JCT was 12.3 times the site's; at most 10 is allowed" in text
    assert "BROKE worst_fairness" not in text
    found["runs"]["autopilot"] |= {"p99_of_baseline": 1.0, "fairness_of_baseline": 0.9}
    shown.print(autopilot_view(found))
    text = shown.export_text()
    assert "BROKE worst_fairness: the share of jobs with rho <= 1 was 0.9 times the site's; at least 0.95" in text
    assert "BROKE worst_p99" not in text


def test_a_site_where_no_job_is_fair_has_no_fairness_to_compare_with(tmp_path: Path) -> None:
    """All jobs take twice as long on its slow GPUs as alone on others, so that rho is above 1."""
    slow = tmp_path / "slow.toml"
    slow.write_text('[[nodes]]\ncount = 1\ngpus = 8\ntype = "old"\n[speeds]\nold = 0.5\n')
    rows = np.arange(30)
    jobs = Trace.of("x", [*map(str, rows)], submit=rows * 2 * HOUR, duration=rows * 0 + HOUR // 4, gpus=rows * 0 + 1000)
    study = PilotReplay(set_up(jobs, str(slow), ()), ReplayOptions(candidates(), QUICK)).run()
    assert study.runs["baseline"].fair == 0
    found = study.as_dict()
    assert found["runs"]["autopilot"]["fairness_of_baseline"] is None
    found["runs"]["autopilot"]["p99_of_baseline"] = 20.0
    found["undecided"] = ""
    shown = Console(width=300, record=True, file=io.StringIO())
    shown.print(autopilot_view(found))
    text = shown.export_text()
    assert "BROKE worst_p99" in text
    assert "BROKE worst_fairness" not in text


@pytest.mark.parametrize(
    ("limits", "cluster", "why"),
    [
        ("least_jobs=5000", "2x8", "jobs have ended in the last 4 days, and 5000 are needed"),
        ("least_jobs=50", "64x8", "jobs hardly wait"),
    ],
)
def test_an_autopilot_that_never_searched_can_not_tell_its_aims(trace_file: Path, limits, cluster, why) -> None:
    words = ["autopilot", str(trace_file), "-c", cluster, "--since", "+7", "--candidate", BEST, "--json"]
    said = CliRunner().invoke(app, [*words, "--limits", f"days=4,least_days=1,check_days=0.5,budget=2,{limits}"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert set(found["aims"].values()) == {None}
    shown = Console(width=200, record=True, file=io.StringIO())
    shown.print(autopilot_view(found))
    aims = [line for line in shown.export_text().splitlines() if " aim '" in line]
    assert len(aims) == 3
    assert all("can't tell, because" in line and why in line for line in aims)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["autopilot", "TRACE", "-c", "2x8", "--every", "5h"], "whole days"),
        (["autopilot", "TRACE"], "there is no cluster"),
        (["autopilot", "TRACE", "-c", "2x8", "--candidate", "os.path"], "can't choose 'os.path'"),
        (["autopilot", "TRACE", "-c", "2x8", "--limits", "hours=never"], "--limits"),
        (["slurm", "run", "--policy", "sjf", "--candidate", "saf"], "are for --policy auto"),
        (["slurm", "run", "--policy", "auto", "--limits", "x=1"], "--limits"),
    ],
)
def test_mistakes_are_reported(trace_file: Path, words: list[str], problem: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none"))
    said = CliRunner().invoke(app, [str(trace_file) if word == "TRACE" else word for word in words])
    assert said.exit_code == 2
    assert problem in " ".join(said.output.split()) or problem in str(said.exception)

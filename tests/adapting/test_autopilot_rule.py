"""The autopilot's rule: what it may choose, and when it may switch."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from piloted_site import BASE, BEST, QUICK, candidates, days_before

from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.rule import FINALISTS, Autopilot, AutopilotLimits, PastDays, PastTrial, PilotAction
from shunter.errors import PolicyError, RunError
from shunter.generating.known_jobs import DAY, HOUR


@pytest.fixture(scope="module")
def past() -> PastDays:
    return days_before()


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


def test_a_second_name_of_a_policy_is_told_the_first() -> None:
    with pytest.raises(PolicyError, match="can't choose 'express'; it is 'gittins'; name that one"):
        candidates("express")


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
    nothing = PastDays(past.trace.select(np.zeros(0, np.int64)), past.cluster, past.now, np.zeros(0, np.bool_))
    assert Autopilot(candidates(), QUICK).decide(nothing, BASE).answer is PilotAction.UNKNOWN
    gone = dataclasses.replace(past, now=past.now + 3 * DAY)  # the clock has jumped: nothing came lately
    assert Autopilot(candidates(), QUICK).decide(gone, BASE).answer is PilotAction.UNKNOWN


def test_a_job_that_still_runs_says_nothing_of_the_days_before(past: PastDays) -> None:
    """Else one long job would let it decide on the jobs of the last hours."""
    few, since = dataclasses.replace(QUICK, least_jobs=10), past.now - DAY // 2
    rows = np.flatnonzero((past.trace.submit > since) | (np.arange(len(past.trace)) == len(past.trace) // 2))
    assert past.trace.submit[rows[0]] < past.now - DAY
    known = PastDays(past.trace.select(rows), past.cluster, past.now, np.arange(len(rows)) > 0)
    found = Autopilot(candidates(), few).decide(known, BASE)
    assert found.answer is PilotAction.UNKNOWN
    assert re.search(r"^0\.[45] days are known, and 1 are needed", found.why)
    no_days = dataclasses.replace(few, least_days=0.3)
    assert "or none before them" in Autopilot(candidates(), no_days).decide(known, BASE).why


def test_it_does_not_switch_too_often_or_for_too_little(past: PastDays) -> None:
    found = Autopilot(candidates(), QUICK).decide(past, BASE, since_switch_h=3.0)
    assert (found.answer, found.evaluations) == (PilotAction.STAY, 0)
    assert "3.0 h ago" in found.why
    much = dataclasses.replace(QUICK, gain=50.0)
    assert "50 is needed (gain)" in Autopilot(candidates(), much).decide(past, BASE).why


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
    assert re.search(
        rf"days before, and is preferred: {BEST} would be 1\.\d+ times as good, and 50 is needed \(prefer\)$", why
    )


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
    """From the baseline any gain is enough, from another choice it must be ``again`` times as good."""
    some = candidates(BEST, "saf:backfill=easy")
    first = Autopilot(some, QUICK).decide(past, BASE)
    assert first.answer is PilotAction.SWITCH
    (other,) = {BEST, "saf:backfill=easy"} - {first.policy}
    loose, strict = (dataclasses.replace(QUICK, again=again, prefer=51.0 - again) for again in (1.0, 50.0))
    assert "50 is needed (again)" in Autopilot(some, strict).decide(past, other).why
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

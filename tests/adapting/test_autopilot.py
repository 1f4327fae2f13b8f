"""The autopilot's rule: what it may choose, when it may switch, and that it knows only the past."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from shunter import clusters
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.replay import PILOT, PilotReplay, ReplayOptions
from shunter.adapting.autopilot.rule import Autopilot, AutopilotLimits, PastDays, PilotAction, PilotVerdict, past_days
from shunter.cli.main import app
from shunter.errors import PolicyError, RunError
from shunter.generating.known_jobs import DAY, HOUR
from shunter.report.terminal.autopilot import autopilot_view
from shunter.setup import set_up
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
    return past_days(trace, clusters.load("2x8"), int(trace.submit[-1]) + HOUR)


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


@pytest.mark.parametrize("text", ["worst_p99=-1", "objective=money", "hours", "days=3,least_days=5", "what=1"])
def test_wrong_limits_are_refused(text: str) -> None:
    with pytest.raises(RunError, match="--limits"):
        AutopilotLimits.of(text)


# ------------------------------------------------------------------------------------------- when it switches


def test_it_switches_to_what_was_better_and_says_why(past: PastDays) -> None:
    found = Autopilot(candidates(), QUICK).decide(past, BASE)
    assert found.answer is PilotAction.SWITCH
    assert found.policy.startswith(BEST)
    assert "times as good in the days before" in found.why
    assert "JCT" in found.evidence
    assert 2 <= found.evaluations <= QUICK.budget
    again = Autopilot(candidates(), QUICK).decide(past, found.policy)
    assert again.answer is PilotAction.STAY


def test_it_can_not_tell_without_enough_of_the_past(past: PastDays) -> None:
    for limits, words in (("days=84,least_days=60", "days are known"), ("least_jobs=5000", "jobs are known")):
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
    assert (back.answer, back.policy) == (PilotAction.SWITCH, BASE)
    assert "back to the baseline" in back.why


def test_the_last_days_must_confirm_a_choice(past: PastDays, monkeypatch) -> None:
    from shunter.adapting.autopilot import rule

    monkeypatch.setattr(rule._Trial, "confirmed", lambda *_: False)
    found = Autopilot(candidates(), QUICK).decide(past, BASE)
    assert found.answer is PilotAction.STAY
    assert "don't confirm" in found.why


def test_where_nobody_waits_nothing_is_searched() -> None:
    trace = habitual(300, 512, 0.05)
    idle = past_days(trace, clusters.load("64x8"), int(trace.submit[-1]) + 1)
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
    assert first.policy.startswith("sjf")
    record = found.as_dict()
    assert set(record["aims"]) == {"0.98 of Fixed", "half of Optimal - Fixed", "handed back after a bad day"}
    assert found.over_fixed() >= 0.98
    assert found.runs["optimal"].mean <= found.runs["baseline"].mean
    assert all(day.true <= 1.05 or day.handed_back for day in found.runs[PILOT].days)


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
    assert "aim '0.98 of Fixed': " in shown.export_text()


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

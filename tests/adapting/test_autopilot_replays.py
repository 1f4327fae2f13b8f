"""Replays of an autopilot, which knows only the past, and their command."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
from piloted_site import BASE, BEST, QUICK, candidates
from rich.console import Console
from typer.testing import CliRunner

from shunter.adapting.autopilot.outcome import (
    FIXED,
    OPTIMAL,
    PILOT,
    PilotedRun,
    PilotStudy,
    ReplayedDecision,
    ReplayOptions,
    aims,
    repeated,
    verdict,
)
from shunter.adapting.autopilot.replay import PilotReplay
from shunter.adapting.autopilot.rule import Autopilot, PilotAction, PilotVerdict
from shunter.adapting.autopilot.shadows import BaselineShadows
from shunter.cli.main import app
from shunter.generating.known_jobs import DAY, HOUR
from shunter.model import Trace
from shunter.report.terminal.autopilot import autopilot_view
from shunter.setup import set_up
from shunter.sim.engine import Simulator
from shunter.testing.live import habitual


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
    assert "The range over copies is no confidence interval: all have the same weeks" in text
    assert "The days listed are those of the first copy" in text


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


# ------------------------------------------------------------------------------------------- the verdict


def study_of(pilot, fixed=None, stops: int = 0, unknown: str = "", seed: int = 0) -> PilotStudy:
    """A study in which jobs take these parts of 100 seconds; a number is the same for all."""
    base = np.random.default_rng(seed).uniform(90, 110, 500)
    jct = {"baseline": base, FIXED: base * (pilot if fixed is None else fixed), PILOT: base * pilot}
    jct[OPTIMAL] = jct[PILOT]
    policies = {FIXED: BASE if unknown else BEST}
    decisions = (ReplayedDecision(0, PilotAction.SWITCH, BASE, BEST, "it is better", "", 4),)
    runs = {
        name: PilotedRun(times, 1.0, decisions if name == PILOT else (), policy=policies.get(name, ""), stops=stops)
        for name, times in jct.items()
    }
    submit = np.arange(500) * HOUR
    return PilotStudy(ReplayOptions(candidates(), QUICK), runs, submit, 0, unknown)


def test_the_verdict_has_the_interval_of_the_gain() -> None:
    said = verdict([study_of(0.5)])
    begin = "It was 2.00 times as good as the site's policy (95 %: 2.00 to 2.00), by mean JCT. Its first choice,"
    assert said.startswith(f"{begin} {BEST}, kept throughout, was 2.00 times as good (95 %: 2.00 to 2.00).")
    assert said.endswith("Set that policy and leave the autopilot off. One run is weak evidence: try other weeks.")
    found = study_of(0.5).as_dict()["gain"]
    assert found == pytest.approx({"value": 2, "low": 2, "high": 2})
    assert repeated([study_of(0.5), study_of(0.5, seed=1)])["gain"] == pytest.approx(found)


def test_a_gain_that_may_be_chance_is_no_reason_to_set_a_policy() -> None:
    uneven = np.where(np.arange(500) < 100, 0.1, 1.05)  # good for a fifth of the jobs
    study = study_of(uneven)
    found = study.as_dict()["gain"]
    assert found["low"] < 1 < found["value"] < found["high"]
    said = verdict([study])
    assert "times as good as the site's policy (95 %: 0.95 to " in said
    assert ", by mean JCT, but no gain is shown. Its first choice" in said
    assert "Set that policy" not in said
    assert "Set that policy" not in verdict([study_of(0.9, uneven)])  # nor one whose own gain may be chance


@pytest.mark.parametrize(
    ("pilot", "words"),
    [
        (1.0, "No policy made a difference to these jobs."),
        (1.008, "It gains nothing here: it was 0.8 % worse than the site's policy, by mean JCT."),
        (0.997, "It gains nothing here: it was 1.00 times as good as the site's policy (95 %: 1.00 to 1.00), by mean"),
        (1.25, "Don't use it here: it was 0.80 times as good as the site's policy (95 %: 0.80 to 0.80), by mean JCT."),
    ],
)
def test_the_verdict_where_nothing_is_gained(pilot: float, words: str) -> None:
    assert verdict([study_of(pilot)]).startswith(words)


def test_the_verdict_says_that_jobs_were_stopped_and_that_nothing_was_known() -> None:
    stops = "This stops jobs, which a live autopilot never assumes: repeat it with --checkpointable none."
    assert verdict([study_of(0.5), study_of(0.5, stops=3)]).endswith(stops)
    assert "stops jobs" not in verdict([study_of(0.5)])
    unknown = study_of(0.5, 1.0, unknown="0 jobs have ended")
    assert aims([unknown])["0.98 of Fixed"] is None
    assert aims([study_of(0.5, 1.0)])["0.98 of Fixed"] is True
    end = "Nothing was known at first, so there is no first choice to compare with; begin later."
    assert verdict([unknown]).endswith(end)
    assert "Its first choice" not in verdict([unknown])


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
    assert "aim 'not worse than its first choice (0.98 times)': " in text
    assert "aim 'bad days handed back': " in text
    assert f"{100 * found['runs']['fixed']['fair']:.1f}" in text
    assert "chosen by the share" not in text
    assert "BROKE" not in text
    found["limits"]["objective"] = "rho"
    found["runs"]["autopilot"] |= {"within_limits": False, "p99_of_baseline": 12.345}
    shown.print(autopilot_view(found))
    text = shown.export_text()
    assert "THE AUTOPILOT BROKE worst_p99: P99 of the JCT was 12.3 times the site's; at most 10 is allowed" in text
    assert "BROKE worst_fairness" not in text
    assert "chosen by the share of jobs with rho <= 1" in text
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


def test_hand_backs_for_days_that_were_not_too_long_are_counted_as_false_alarms(trace_file: Path) -> None:
    found = replay(trace_file).run().as_dict()
    day = {**found["days"][0], "handed_back": True, "why": "1.2 times the shadows' time in the system over a day"}
    days = [
        {**day, "at": 1 * DAY, "worse": False},  # a false alarm
        {**day, "at": 3 * DAY, "worse": True, "handed_back": False},
        {**day, "at": 4 * DAY, "worse": False},  # found a day late
        {**day, "at": 6 * DAY, "worse": True},
        {**day, "at": 8 * DAY, "worse": False, "why": "the share of jobs with rho <= 1 is 0.5 times the shadow's"},
    ]
    shown = Console(width=300, record=True, file=io.StringIO())
    shown.print(autopilot_view({**found, "days": days}))
    assert "handed the jobs back 4 times, of which 1 false alarm: by true" in shown.export_text()


def test_where_too_little_is_known_fixed_is_the_site_s_policy_and_it_says_why(trace_file: Path) -> None:
    setup = set_up(trace_file, "2x8", since="14", checkpointable="none")  # seconds, where +14 days were meant
    found = PilotReplay(setup, ReplayOptions(candidates(), QUICK, every=DAY)).run().as_dict()
    assert found["runs"]["fixed"]["policy"] == BASE
    shown = Console(width=300, record=True, file=io.StringIO())
    shown.print(autopilot_view(found))
    text = shown.export_text()
    assert "Fixed is the site's policy, because 0 jobs have ended" in text
    assert "begin later (--since), or read a longer history" in text
    assert (found["aims"]["0.98 of Fixed"], found["aims"]["half of Optimal - Fixed"]) == (None, None)
    assert found["verdict"].endswith("so there is no first choice to compare with; begin later.")

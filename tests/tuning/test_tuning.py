"""Settings chosen on a part of the jobs, judged on others, and no run made twice."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app
from shunter.errors import RunError
from shunter.model import GPU, Trace
from shunter.report.bootstrap import Estimate
from shunter.report.terminal.tuning import _effects, _ending, tuning_view
from shunter.tuning.judging import Change, surviving
from shunter.tuning.tuning import prepared

SCENE = "synthetic:jobs=150,gpus=16,load=1.4", "2x8"
GAP = 10_000  # seconds between groups of jobs, so that each finds the cluster empty
# (submission, run time, GPUs) in seconds, on 8 GPUs; a job of 8 GPUs has to wait for the first one
SHORT_ONES_BEHIND = [(0, 1000, 4), (1, 1000, 8), *((2 + n, 10, 1) for n in range(8))]  # skipping lets them run at once
LONG_ONE_BEHIND = [(0, 100, 4), *((1 + n, 10, 8) for n in range(8)), (9, 2000, 1)]  # skipping lets it delay the others
ALONE = [(n * 100, 10, 1) for n in range(10)]


def jobs_of(*groups):
    """A trace of groups of jobs."""
    rows = [(at * GAP + begin, *rest) for at, group in enumerate(groups) for begin, *rest in group]
    submit, duration, gpus = (np.array(column) for column in zip(*rows, strict=True))
    names = [str(number) for number in range(len(rows))]
    return Trace.of("groups", names, submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU)


def tune(trace, **choices):
    return shunter.tune(trace, "1x8", "fifo", tries={"blocking": ["strict", "skip"]}, workers=1, **choices)


def stored_keys():
    """The keys of all runs that were kept, as often as they were kept."""
    files = Path(os.environ["SHUNTER_RUNS"]).rglob("*.parquet")
    return [key for file in files for key in pl.read_parquet(file, columns=["key"])["key"]]


# ------------------------------------------------------------------------------------------- the best


def test_the_best_is_the_best_of_what_was_tried():
    found = shunter.tune(*SCENE, "dally", tries={"lease": [300, 3600], "timers": ["none", "auto"]}, workers=1)
    assert len({each.policy for each in found.tried}) == len(found.tried) >= 3
    values = [each.values["jct"] for each in found.tried]
    assert values == sorted(values)
    again = shunter.compare(*SCENE, [found.best.policy], workers=1).policies[0]
    assert again["jct_s"]["mean"] == found.best.values["jct"] == found.best.numbers["jct_s.mean"]


def test_a_setting_is_judged_over_its_seeds():
    found = shunter.tune(*SCENE, "sjf", tries={"blocking": ["skip"]}, repeat=3, workers=1)
    again = shunter.compare(*SCENE, ["sjf", "sjf:blocking=skip"], repeat=3, workers=1)
    wanted = {row["policy"]: row["jct_s"]["mean"] for row in again.policies}
    assert {each.policy: each.values["jct"] for each in found.tried} == pytest.approx(wanted)
    assert found.ran == 3 * 2 + 3 * 2  # the last ones with other seeds, to judge


# ------------------------------------------------------------------------------------------- jobs not seen


@pytest.mark.parametrize(
    ("later", "sign", "words"),
    [
        (SHORT_ONES_BEHIND, -1, "the gain was seen again, all of it."),
        (LONG_ONE_BEHIND, 1, "no gain was seen again; it is worse there, so keep the policy as given."),
        (ALONE, 0, "both have the same mean JCT there, so these jobs can't show what survives."),
    ],
)
def test_what_is_left_of_a_gain_on_later_jobs(later, sign, words):
    found = tune(jobs_of(*[SHORT_ONES_BEHIND] * 20, *[later] * 10))
    assert found.best.policy == "fifo:blocking=skip"
    (verdict,) = found.verdicts
    assert found.jobs == (200, 100)
    assert verdict.seen.value < -0.5
    assert np.sign(verdict.unseen.value) == sign
    assert verdict.words.startswith("fifo:blocking=skip: on the jobs it was chosen on: -")
    assert "; on later jobs that it did not see: " in verdict.words
    assert verdict.words.endswith(words)
    part = verdict.survives and verdict.survives.value
    assert part == (None if sign == 0 else pytest.approx(verdict.unseen.value / verdict.seen.value))


def test_a_part_of_the_gain_survives():
    mixed = [SHORT_ONES_BEHIND, ALONE] * 5
    (verdict,) = tune(jobs_of(*[SHORT_ONES_BEHIND] * 20, *mixed)).verdicts
    share = verdict.unseen.value / verdict.seen.value
    assert 0 < share < 1
    assert verdict.words.endswith(f": the gain was seen again, {100 * share:.0f} % of it.")


def test_a_gain_that_is_uncertain_itself_makes_what_survives_uncertain():
    """The later gain is the same in every stretch, and the first one is not."""
    uneven = [*[SHORT_ONES_BEHIND] * 12, *[ALONE, SHORT_ONES_BEHIND] * 4]
    (verdict,) = tune(jobs_of(*uneven, *[SHORT_ONES_BEHIND, ALONE] * 5)).verdicts
    seen, unseen, part = verdict.seen, verdict.unseen, verdict.survives
    assert seen.low < seen.value < seen.high < 0
    assert unseen.low == pytest.approx(unseen.high)
    assert part.value == pytest.approx(unseen.value / seen.value)
    assert part.low < part.value < part.high
    assert (part.low, part.high) == pytest.approx((unseen.value / seen.low, unseen.value / seen.high), rel=0.02)
    assert verdict.words.endswith(f": the gain was seen again; at least {100 * part.low:.0f} % of it is certain.")
    less = dataclasses.replace(verdict, part=Estimate(0.5, 0.414, 0.723))
    assert less.words.endswith(": the gain was seen again, 41 to 72 % of it.")
    assert verdict.as_dict()["survives"] == {"part": part.value, "low": part.low, "high": part.high}


def test_nothing_is_said_of_what_survives_of_a_gain_that_is_not_clear():
    groups = [*[ALONE] * 18, *[SHORT_ONES_BEHIND] * 2, *[SHORT_ONES_BEHIND] * 10]
    (verdict,) = tune(jobs_of(*groups)).verdicts
    assert verdict.seen.value < 0 <= verdict.seen.high
    assert verdict.unseen.high < 0
    assert verdict.survives is None
    assert verdict.words.endswith("the gain before is not clear, so no part of it is certain.")


def test_draws_of_the_two_gains_are_independent():
    """Both are drawn with the same random numbers; their quotient must not be 1 for that."""
    drawn = -0.5 + 0.1 * np.sin(np.arange(1001))
    gain = Change(float(drawn[0]), drawn, 20)
    value, low, high = surviving(gain, gain)
    assert (value, low < 0.9, high > 1.1) == (1.0, True, True)


def test_the_search_does_not_see_later_jobs():
    """Skipping is worse over all jobs, and by far in the later ones; yet it is chosen."""
    trace = jobs_of(*[SHORT_ONES_BEHIND] * 20, *[[(a, b * 4, c) for a, b, c in LONG_ONE_BEHIND]] * 10)
    assert tune(trace).best.policy == "fifo:blocking=skip"
    whole = tune(trace, validate="none")
    assert (whole.best.policy, whole.where, whole.jobs) == ("fifo", "", (300, 0))
    assert whole.verdicts[0].words == "By mean JCT, nothing that was tried did better than the policy as given."


def test_the_time_from_which_it_is_judged_can_be_given():
    trace = jobs_of(*[SHORT_ONES_BEHIND] * 20, *[ALONE] * 10)
    found = tune(trace, validate=f"{10 * GAP}")
    assert found.jobs == (100, 200)
    with pytest.raises(RunError, match="10 jobs to choose on and 290 later ones"):
        tune(trace, validate=f"{GAP}")


def test_jobs_that_had_not_ended_when_later_ones_begin_are_counted():
    """A site would not have known how long they take, and the search does."""
    long = [*SHORT_ONES_BEHIND[:-1], (20, GAP, 8)]
    trace = jobs_of(*[SHORT_ONES_BEHIND] * 9, long, *[ALONE] * 10)
    found = tune(trace, validate=f"{10 * GAP}")
    short = sum(took * gpus for _, took, gpus in SHORT_ONES_BEHIND)
    assert (found.open_jobs.jobs, found.jobs[0]) == (1, 100)
    assert found.open_jobs.gpu_time == pytest.approx(8 * GAP / (10 * short - 10 + 8 * GAP))
    console = Console(width=100, file=io.StringIO())
    console.print(tuning_view(found.as_dict()))
    said = " ".join(console.file.getvalue().split())
    assert "1 job of the search, with 39.8 % of its GPU time, was still running when the later jobs begin" in said
    assert tune(trace, validate="none").as_dict()["validation"] is None


def test_a_machine_that_is_sized_for_the_jobs_is_the_same_for_both_parts():
    from shunter.tuning.tuning import prepared

    trace = jobs_of(*[SHORT_ONES_BEHIND] * 20, *[ALONE] * 10)
    task = prepared(trace, "auto", "fifo", ["blocking=skip"])
    seen, later = (task.ground.setup(place).cluster for place in (task.place, task.later))
    assert seen == later


# ------------------------------------------------------------------------------------------- several objectives


def test_several_objectives_give_a_pareto_front():
    tries = {"estimate": ["oracle", "history"], "blocking": ["strict", "skip"]}
    found = shunter.tune(*SCENE, "sjf", tries=tries, objectives=["jct", "tail"], workers=1)
    points = {each.policy: (each.values["jct"], each.values["tail"]) for each in found.tried}
    for each in found.tried:
        mine = points[each.policy]
        beaten = any(a <= mine[0] and b <= mine[1] and (a, b) != mine for a, b in points.values())
        assert each.front == (not beaten)
    assert all(each.unseen is not None for each in found.front)
    assert [verdict.objective for verdict in found.verdicts] == ["jct", "tail"]
    best = {verdict.objective: verdict.policy for verdict in found.verdicts}
    assert points[best["tail"]][1] == min(tail for _, tail in points.values())


# ------------------------------------------------------------------------------------------- nothing twice


def test_a_repeated_search_runs_nothing():
    first, again = (tune(jobs_of(*[SHORT_ONES_BEHIND] * 30)) for _ in range(2))
    assert (first.ran, again.ran) == (4, 0)
    assert {**first.as_dict(), "ran": 0} == again.as_dict()
    assert len(stored_keys()) == 4


def test_a_search_that_was_killed_goes_on(tmp_path):
    values = "/".join(str(120 * number) for number in range(1, 41))
    options = ["synthetic:jobs=1500,gpus=16,load=1.4", "-c", "2x8", "-p", "dally", "--try", f"lease={values}"]
    command = [sys.executable, "-m", "shunter", "tune", *options, "--workers", "1", "--json"]
    stopped = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(stored_keys()) < 2:
        assert stopped.poll() is None
        time.sleep(0.01)
    stopped.send_signal(signal.SIGKILL)
    assert stopped.wait() == -signal.SIGKILL
    before = len(stored_keys())
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    judged = sum(each["unseen"] is not None for each in found["tried"])
    total = len(found["tried"]) + judged
    assert found["ran"] == total - before < total
    assert len(stored_keys()) == len(set(stored_keys())) == total


def test_a_run_that_fails_ends_the_search_with_its_error(monkeypatch):
    from shunter.sweeps import work

    def failing(*arguments, **named):
        raise ValueError("it never works")

    with monkeypatch.context() as patch:
        patch.setattr(work, "run_draw", failing)
        with pytest.raises(RunError, match="policy fifo: ValueError: it never works"):
            tune(jobs_of(*[SHORT_ONES_BEHIND] * 30))
    assert tune(jobs_of(*[SHORT_ONES_BEHIND] * 30)).ran == 4  # what failed is tried again


# ------------------------------------------------------------------------------------------- the command


def shown(*arguments):
    return CliRunner().invoke(app, ["tune", *SCENE[:1], "-c", SCENE[1], *arguments, "--workers", "1"])


def test_on_the_command_line():
    found = json.loads(shown("-p", "sjf", "--try", "blocking=strict/skip", "--json").stdout)
    assert found["best"]["policy"] in {each["policy"] for each in found["tried"]} == {"sjf", "sjf:blocking=skip"}
    assert found["validation"] == {"on": "other draws of the jobs", "jobs": 150, "open": {"jobs": 0, "gpu_time": 0.0}}
    assert found["objective"] == "jct"


def test_what_the_terminal_shows():
    several = ("--objective", "jct", "--objective", "tail")
    text = " ".join(shown("-p", "sjf", "--try", "estimate=oracle/history", *several).stdout.split())
    assert "Pareto" in text
    assert "beaten" in text
    assert "the gain was seen again" in text
    assert "sjf:estimate=oracle*" in text
    assert "* an oracle: it knows the true run times" in text
    assert "No site can run the best: it knows the true run times." in text
    assert "looks better on them" not in text
    alone = " ".join(shown("-p", "sjf", "--try", "blocking=skip", "--validate", "none").stdout.split())
    assert "looks better on them than it will on others" in alone


def test_fewer_deadlines_are_missed_with_the_best_than_as_given():
    trace, tries = "synthetic:jobs=300,gpus=16,load=1.4,deadlines=1", {"backfill": ["none", "easy"]}
    found = shunter.tune(trace, "2x8", "fifo", tries=tries, objectives=["deadlines"], workers=1)
    compared = shunter.compare(trace, "2x8", [found.given, found.best.policy], workers=1).policies
    met = [row["deadlines"]["met"] for row in compared]
    assert met[1] > met[0]
    due = compared[1]["deadlines"]["jobs"]
    assert found.best.values["deadlines"] == pytest.approx(1 - met[1] / due)
    assert found.as_dict()["best"]["missed_share"] == found.best.values["deadlines"]
    assert "% share of deadlines missed" in found.verdicts[0].words
    console = Console(width=120)
    with console.capture() as drawn:
        console.print(tuning_view(found.as_dict()))
    assert "deadlines" in drawn.get()


def test_of_settings_that_miss_as_many_deadlines_the_mean_jct_decides():
    trace = jobs_of(SHORT_ONES_BEHIND, SHORT_ONES_BEHIND)
    trace = dataclasses.replace(trace, deadline=np.full(len(trace), 10**8))
    found = tune(trace, objectives=["deadlines"], validate="none")
    assert [each.values["deadlines"] for each in found.tried] == [0, 0]
    assert found.best.policy == "fifo:blocking=skip"
    assert "can't be compared, because the share of deadlines missed is 0" in found.verdicts[0].words


def test_jobs_without_deadlines_are_refused():
    with pytest.raises(RunError, match=r"no job of 'groups' has a deadline.*--deadlines 1"):
        tune(jobs_of(ALONE, ALONE), objectives=["deadlines"], validate="none")


def test_an_unknown_objective_is_refused():
    result = shown("-p", "lucid", "--objective", "jet")
    assert result.exit_code == 2
    assert "did you mean 'jct'" in result.stderr


def test_a_search_on_dask_finds_the_same(monkeypatch, tmp_path):
    pytest.importorskip("distributed", reason="no Dask; ./scripts/install dask has it")
    found = []
    for number, where in enumerate(({"workers": 1}, {"dask": "local:1"})):
        monkeypatch.setenv("SHUNTER_RUNS", str(tmp_path / str(number)))
        tries = {"backfill": ["none", "easy"]}
        found.append(shunter.tune("synthetic:jobs=60,gpus=8,load=1.2", "1x8", "saf", tries=tries, **where))
    assert found[0].as_dict() == found[1].as_dict()
    assert found[1].ran > 0


def test_without_users_it_speaks_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUNTER_RUNS", str(tmp_path / "runs"))
    rows = [f"{number},{60 * number},{90 * (1 + number % 7)},2" for number in range(60)]
    (tmp_path / "jobs.csv").write_text("\n".join(["job_id,submit,duration,gpus", *rows]))
    for source, label in ((tmp_path / "jobs.csv", "of jobs"), ("synthetic:jobs=60,gpus=8,load=1.2", "of users")):
        found = shunter.tune(source, "1x8", "fifo", tries={"backfill": ["none", "easy"]}, workers=1)
        labels = {each.measure: each.label for each in found.effects}
        assert labels["fairness.jain"] == f"Jain's fairness {label}"


def test_policies_and_settings_are_chosen_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUNTER_RUNS", str(tmp_path))
    options = ["-c", SCENE[1], "-p", "any", "--budget", "5", "--workers", "1", "--against", "fifo", "--json"]
    result = CliRunner().invoke(app, ["tune", SCENE[0], *options])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["search"] == "random"
    assert found["given"] == "fifo"
    assert len(found["tried"]) == 5
    assert (len(found["policies"]), found["against"]) == (5, True)
    assert found["best"]["value_s"] == min(row["value_s"] for row in found["tried"])
    assert shunter.policy(found["best"]["policy"])
    effects = {row["measure"]: row for row in found["effects"]}
    assert effects["jct_s.mean"]["best"] == found["best"]["unseen"]["jct_s"]["mean"]
    assert {"jct_s.p99", "by_size.1.jct_s.mean", "fairness.jain"} <= set(effects)
    again = json.loads(CliRunner().invoke(app, ["tune", SCENE[0], *options]).stdout)
    assert again["ran"] == 0
    assert again["best"] == found["best"]


def test_a_setting_that_needs_too_many_decisions_is_abandoned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHUNTER_RUNS", str(tmp_path))
    monkeypatch.setattr("shunter.tuning.evaluating.TimedRunner.budget", lambda self, trace: 320)
    found = shunter.tune(*SCENE, "fifo", tries={"backfill": ["none", "easy"]}, validate="none", workers=1)
    assert not found.best.abandoned
    with pytest.raises(shunter.InputError, match="abandoned after 320 decisions"):
        shunter.tune(*SCENE, "las:look_again=60", tries={"look_again": [1]}, validate="none", workers=1)


def test_values_to_go_through_contradict_a_budget() -> None:
    with pytest.raises(RunError, match="leave one out"):
        shunter.tune(*SCENE, "las", tries={"blocking": ["skip"]}, budget=5)
    with pytest.raises(RunError, match="there is no search 'grud'"):
        shunter.tune(*SCENE, "las", search="grud", budget=5)


# ------------------------------------------------------------------------------------------- stops


def test_stops_cost_what_is_said_and_only_jobs_that_may_be_stopped_are():
    def stops(**choices):
        found = shunter.tune(*SCENE, "las", tries={"min_run": [1]}, workers=1, **choices)
        given = next(each for each in found.tried if each.policy == "las")
        return given.numbers["preemptions"], given.numbers["lost_gpu_hours"]

    some, lost = stops()
    assert some > 0
    assert stops(overhead=0)[1] < lost
    assert stops(checkpointable="none")[0] == 0
    shown = CliRunner().invoke(
        app, ["tune", SCENE[0], "-c", SCENE[1], "-p", "las", "--try", "min_run=1", "--workers", "1", "--json",
              "--checkpointable", "none", "--overhead", "0"],
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert {row["measure"]: row["given"] for row in json.loads(shown.stdout)["effects"]}["preemptions"] == 0


def test_halving_tries_more_settings_on_parts_of_the_jobs_and_few_on_all() -> None:
    found = shunter.tune(*SCENE, "tiresias", budget=8, search="halving", workers=1)
    assert found.search == "halving"
    assert 1 < len(found.tried) < 8  # on all jobs that it sees
    assert found.ran > 16  # with the short runs
    assert found.given in {each.policy for each in found.tried}
    assert found.best.values["jct"] <= min(each.values["jct"] for each in found.tried)


def test_halving_takes_jobs_that_all_come_at_once(tmp_path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("job_id,submit,duration,gpus\n" + "".join(f"j{i},5,{100 * i},1\n" for i in range(1, 13)))
    found = shunter.tune(trace, "1x2", "tiresias", budget=2, search="halving", validate="none", workers=1)
    assert found.given in {each.policy for each in found.tried}


def test_a_budget_below_the_number_of_policies_is_drawn_from_all_of_them() -> None:
    few = [prepared(*SCENE, "any", budget=8, seed=seed) for seed in (0, 0, 1)]
    begun = [task.begun for task in few]
    assert begun[0] == begun[1] != begun[2]
    assert all(len(each) == 8 and each[0] == "tiresias" for each in begun)
    assert begun[0][1:] != [each for each in few[0].plain if each != "tiresias"][:7]
    enough = prepared(*SCENE, "any", budget=len(few[0].plain))
    assert set(enough.begun) == set(enough.plain)


def test_a_search_among_all_begins_with_backfilling_too_and_keeps_half_of_its_budget() -> None:
    usual = prepared(*SCENE, "any")
    assert {"multifactor", "multifactor:backfill=easy", "saf:backfill=easy", "gittins"} <= set(usual.begun)
    assert set(usual.begun) == {*usual.plain, *usual.backfilled}
    assert usual.begun[: len(usual.plain)] == [usual.policy, *[each for each in usual.plain if each != usual.policy]]
    between = prepared(*SCENE, "any", budget=80)
    assert set(between.plain) < set(between.begun)
    assert len(between.begun) == 40
    assert len(prepared(*SCENE, "any", budget=usual.enough).begun) == len(usual.begun)
    assert len(prepared(*SCENE, "any", budget=usual.enough - 2).begun) < len(usual.begun)
    assert prepared(*SCENE, "fifo").begun == ["fifo"]  # a policy that is named is begun as it was named


def test_a_search_that_finds_nothing_new_says_so() -> None:
    found = shunter.tune(*SCENE, "fifo", workers=1, validate="none").as_dict()
    assert (len(found["tried"]), found["budget"]) == (3, 40)
    assert "The search ended after 3 of 40 settings, because it found no new ones." in _ending(found, 3)
    assert "ended after" not in _ending({**found, "budget": 3}, 3)


def test_policies_that_were_not_tried_are_said_to_be_left_out() -> None:
    row = {"policy": "fifo", "tied": False, "abandoned": ""}
    found = {"tried": [row], "objective": "jct", "repeats": 1, "jobs": 40, "seed": 3, "choosable": 5}
    found |= {"strict": 2, "enough": 16, "budget": 0, "search": "random"}
    said = _ending({**found, "policies": ["fifo", "sjf"]}, 1)
    assert "2 of 5 policies were tried, drawn by seed 3: fifo, sjf. A --budget of 6 tries all of them." in said
    assert "2 policies were not tried with backfilling; a --budget of 16 does so." in said
    assert "of 5 policies" not in _ending({**found, "policies": list("abcde")}, 1)


def test_the_policy_to_compare_with_is_not_the_one_that_is_searched() -> None:
    found = shunter.tune(*SCENE, "fifo", tries={"backfill": ["easy"]}, against="sjf", workers=1)
    assert {each.policy for each in found.tried} == {"sjf", "fifo", "fifo:backfill=easy"}
    assert found.given == "sjf"
    assert "as given" not in found.verdicts[0].words
    console = Console(width=100)
    with console.capture() as shown:
        console.print(tuning_view(found.as_dict()))
    assert "sjf (compared with)" in shown.get()
    assert "as given" not in shown.get()


def test_a_gain_that_may_be_chance_is_not_called_lost() -> None:
    (verdict,) = tune(jobs_of(*[SHORT_ONES_BEHIND] * 20, *[SHORT_ONES_BEHIND] * 10)).verdicts
    chance = dataclasses.replace(verdict, unseen=Estimate(-0.2, -0.5, 0.1))
    assert chance.words.endswith(": a gain was seen again, but chance is not ruled out: the interval includes 0.")
    less = dataclasses.replace(verdict, unseen=Estimate(0.05, -0.5, 0.3))
    assert less.words.endswith(": no gain was seen again, and chance is not ruled out: the interval includes 0.")


def test_of_settings_with_the_same_result_the_plainest_is_the_best() -> None:
    """Nothing waits, so that all are the same: first comes the policy as given, then the one with fewest settings."""
    tries = {"blocking": ["skip"], "backfill": ["easy"]}
    found = shunter.tune(jobs_of(*[ALONE] * 10), "1x8", "sjf", tries=tries, workers=1, validate="none", against="fifo")
    assert [each.policy for each in found.tried] == ["fifo", "sjf", "sjf:backfill=easy", "sjf:blocking=skip"]
    console = Console(width=100)
    with console.capture() as drawn:
        console.print(tuning_view(found.as_dict()))
    assert "No job waited, so no policy can be better." in drawn.get()


def test_one_row_is_shown_and_several_are() -> None:
    row = {"policy": "fifo", "tied": False, "abandoned": "too long"}
    found = {"tried": [row] * 3, "objective": "jct", "repeats": 1, "jobs": 40, "seed": 3, "choosable": 5}
    found |= {"strict": 0, "policies": [], "budget": 0, "search": "random"}
    assert "; 1 is shown." in _ending(found, 1)
    assert "; 2 are shown." in _ending(found, 2)
    assert "; 1 was abandoned" in _ending({**found, "tried": [row]}, 1)


def test_what_gains_are_over_is_said_where_no_policy_is_named() -> None:
    options = ("-p", "any", "--budget", "2", "--validate", "none")
    said = "gains are over the default tiresias; name your site's present policy with --against"
    assert said in " ".join(shown(*options).stderr.split())
    assert "--against" not in shown(*options, "--against", "fifo").stderr


def test_a_misspelled_any_is_told() -> None:
    for command in ("tune", "adapt"):
        result = CliRunner().invoke(app, [command, *SCENE[:1], "-c", SCENE[1], "-p", "ani"])
        assert result.exit_code == 2
        assert "there is no policy 'ani'; did you mean 'any'?" in " ".join(result.output.split())


def test_many_preemptions_are_a_plain_number() -> None:
    effect = {"measure": "preemptions", "label": "preemptions", "given": 1540.0, "best": 12.0, "ratio": 0.0078}
    console = Console(width=100)
    with console.capture() as shown:
        console.print(_effects({"given": "tiresias", "effects": [effect]}))
    assert "1,540" in shown.get()


def test_settings_with_the_same_result_are_one_row():
    """Settings that do nothing on some jobs would fill the table."""
    words = " ".join(shown("-p", "sjf", "--try", "depth=10/20/30", "--validate", "none").stdout.split())
    assert "sjf (and 3 with the same result)" in words
    assert "sjf:depth" not in words.partition("settings tried")[0]

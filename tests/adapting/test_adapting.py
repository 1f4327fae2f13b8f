"""Settings that change while a policy runs: the same run where they don't, and nothing known of what comes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from shunter import registry
from shunter import world as w
from shunter.adapting.aggregating import aggregated
from shunter.adapting.controller import AdaptingScheduler, SearchTimes, plain_run
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import look_ahead_value
from shunter.adapting.outlooks import ReplayedHour, TrueHour
from shunter.adapting.searching import HORIZON, LookAhead, SettingSpace, search_halving, search_on, search_whole
from shunter.adapting.study import (
    AUTOSCHED,
    FIXED,
    GIVEN,
    HINDSIGHT,
    LABELS,
    OPTIMAL,
    SELFTUNE,
    Adapting,
    AdaptingOptions,
    AdaptingStudy,
)
from shunter.cli.main import app
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import RunError
from shunter.generating.arrivals import RULES
from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import HOUR, UNKNOWN
from shunter.model import Trace
from shunter.report.terminal.adapting import adapting_view
from shunter.setup import Setup, set_up
from shunter.sim.engine import Simulator
from shunter.traces.synthetic import synthetic
from shunter.tuning.spaces import space_of

CLUSTER = Cluster("two", (NodeGroup(2, 8),))
MINUTE = 60_000


def some_jobs(count: int = 160, seed: int = 2) -> Trace:
    return synthetic(count, seed, 16, 1.3)


def space(policy: str, budget: int, **more: object) -> SettingSpace:
    return SettingSpace((space_of(policy),), budget, **more)


@pytest.mark.parametrize("policy", ["tiresias", "themis", "las", "fifo:backfill=easy"])
@pytest.mark.parametrize("times", [SearchTimes(), SearchTimes(HOUR, 15 * MINUTE)])
def test_a_search_that_changes_nothing_leaves_the_run_as_it_is(policy: str, times: SearchTimes) -> None:
    """With one evaluation, the settings in use are the only ones tried."""
    jobs = some_jobs(60)
    plain = plain_run(Simulator(jobs, CLUSTER), policy, None)
    adapting = AdaptingScheduler(TrueHour(), space("tiresias", 1), times)
    found = adapting.run(Simulator(jobs, CLUSTER), policy, None)
    assert found.digest == plain.digest
    assert found.searches
    assert not found.switches
    assert {each.policy for each in found.searches} == {policy}


@pytest.mark.parametrize("policy", ["tiresias", "las", "srsf"])
def test_memory_is_taken_over(policy: str) -> None:
    """The same settings, started again from the memory every hour, decide as if nothing had happened."""
    jobs, made = some_jobs(), registry.policy(policy)
    plain, other = Simulator(jobs, CLUSTER), Simulator(jobs, CLUSTER)
    plain.run(made)
    memory = None
    for at in range(int(jobs.submit[0]) + HOUR, int(jobs.submit[-1]), HOUR):
        memory = made.start(CLUSTER, other.run(made, until=at, memory=memory))
    other.run(made, memory=memory)
    assert other.digest == plain.digest


def with_other_future(jobs: Trace, simulator: Simulator, now: int) -> Trace:
    """The same trace up to now: later jobs come at other times, and what has not ended takes twice as long."""
    open_jobs = simulator.world.jobs[w.STATE] < w.DONE
    later = jobs.submit > now
    last = int(jobs.submit[-1])
    submit = np.where(later, now + 1 + (last - jobs.submit), jobs.submit)
    order = np.concatenate([np.flatnonzero(~later), np.flatnonzero(later)[::-1]])
    changed = dataclasses.replace(jobs, submit=submit, duration=np.where(open_jobs, 2 * jobs.duration, jobs.duration))
    return changed.select(order)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_known_of_what_comes(rule: str) -> None:
    jobs, policy = some_jobs(400), registry.policy("tiresias")
    now = int(jobs.submit[300])
    first = Simulator(jobs, CLUSTER)
    first.run(policy, until=now)
    others = with_other_future(jobs, first, now)
    second = Simulator(others, CLUSTER)
    second.run(policy, until=now)
    assert first.digest == second.digest
    looks = []
    for simulator, trace in ((first, jobs), (second, others)):
        source = ReplayedHour(SiteKnowledge(trace, None), RULES[rule], DurationPredictor("past", 7), 7)
        look = source.outlook(simulator, now)
        assert look.rows is not None
        real = np.setdiff1d(np.arange(len(look.trace)), look.rows.standing)
        looks.append((look.trace.submit[real], look.durations[real], look.trace.gpus[real]))
    for one, two in zip(*looks, strict=True):
        assert one.tolist() == two.tolist()


def test_the_truth_differs_where_the_future_does() -> None:
    jobs, policy = some_jobs(400), registry.policy("tiresias")
    now = int(jobs.submit[300])
    simulator = Simulator(jobs, CLUSTER)
    simulator.run(policy, until=now)
    look = TrueHour().outlook(simulator, now)
    assert look.rows is not None
    coming = jobs.submit[look.rows.taken[look.rows.begins :]]
    assert coming.tolist() == jobs.submit[(jobs.submit > now) & (jobs.submit <= now + HOUR)].tolist()


def test_run_times_are_known_of_ended_jobs_only() -> None:
    jobs, policy = some_jobs(), registry.policy("fifo")
    simulator, now = Simulator(jobs, CLUSTER), int(jobs.submit[100])
    simulator.run(policy, until=now)
    known = SiteKnowledge(jobs, None).at(simulator, now)
    states = simulator.world.jobs[w.STATE, : len(known)]
    assert len(known) == np.count_nonzero(jobs.submit <= now)
    assert ((known.duration == UNKNOWN) == (states != w.DONE)).all()
    assert (known.executed[states == w.PENDING] == 0).all()


def test_jobs_from_before_are_played_by_jobs_that_ask_for_the_same() -> None:
    users = ("ann", "bob")
    past = Trace.of("past", ["a", "b", "c"], submit=[0, 1, 2], duration=[5, 6, 7], gpus=[1000, 2000, 4000],
                    user=[1, 0, 0], users=users)  # fmt: skip
    jobs = Trace.of("run", ["d", "e", "f"], submit=[10, 11, 12], duration=[5, 6, 7], gpus=[1000, 1000, 2000],
                    user=[0, 1, 1], users=users)  # fmt: skip
    knowledge = SiteKnowledge(jobs, past)
    assert knowledge.players(np.arange(6)).tolist() == [1, 2, -1, 0, 1, 2]


def test_a_replayed_job_keeps_its_own_run_time() -> None:
    past = Trace.of("past", ["a"], submit=[0], duration=[7 * MINUTE], gpus=[1000])
    jobs = Trace.of("run", ["b", "c"], submit=[HOUR // 2, 3 * HOUR], duration=[10, 20], gpus=[1000, 1000])
    simulator = Simulator(jobs, CLUSTER)
    simulator.run(registry.policy("fifo"), until=HOUR // 2)
    look = ReplayedHour(SiteKnowledge(jobs, past)).outlook(simulator, 50 * MINUTE)
    assert look.rows is not None
    assert look.durations[look.rows.begins :].tolist()[0] == 7 * MINUTE


def test_what_is_unfinished_counts_up_to_the_horizon() -> None:
    jobs = Trace.of("two", ["a", "b"], submit=[0, 0], duration=[HOUR, 100 * HOUR], gpus=[16_000, 16_000])
    simulator, fifo = Simulator(jobs, CLUSTER), registry.policy("fifo")
    memory = simulator.run(fifo, until=0)
    look = simulator.excerpt()
    look.run(fifo, memory=fifo.start(CLUSTER, memory), until=10 * HOUR)
    assert look_ahead_value(look, "jct", 0, 10 * HOUR) == (HOUR + 10 * HOUR) / 2
    assert look_ahead_value(look, "rho", 0, 10 * HOUR) == 0  # both got more than half of the cluster


def test_a_search_finds_better_settings_and_keeps_its_budget() -> None:
    jobs = some_jobs()
    policy = registry.policy("tiresias:limits=none,min_run=100")
    simulator, now = Simulator(jobs, CLUSTER), int(jobs.submit[80])
    memory = simulator.run(policy, until=now)
    look = TrueHour().outlook(simulator, now)
    before = look.digest
    found = search_on(look, now, memory, space("tiresias", 12), ["tiresias:limits=none,min_run=100"], 1)
    assert found.evaluations == 12
    assert found.value <= found.present
    again = search_on(look, now, memory, space("tiresias", 12, threads=2), ["tiresias:limits=none,min_run=100"], 1)
    assert (again.policy, again.value) == (found.policy, found.value)  # threads change nothing
    assert look.digest == before


def test_fixed_settings_are_no_worse_than_those_given_on_the_same_jobs() -> None:
    jobs = some_jobs()
    found = search_whole(Simulator(jobs, CLUSTER), None, space("tiresias", 40), "tiresias", 15)
    plain = plain_run(Simulator(jobs, CLUSTER), "tiresias", None)
    assert found.present == pytest.approx(plain.jct.mean())
    assert found.value <= found.present
    assert found.evaluations == 15


def test_merged_jobs_keep_their_gpu_time_and_running_ones_their_gpus() -> None:
    simulator = Simulator(some_jobs(120), CLUSTER)
    now = int(simulator.trace.submit[60])
    memory = simulator.run(registry.policy("tiresias"), until=now)
    outlook = TrueHour().outlook(simulator, now)
    alone, ones = aggregated(outlook, now, merge=False)
    merged, weights = aggregated(outlook, now)
    assert (ones == 1).all()
    assert weights.sum() == ones.sum()
    assert len(weights) < len(ones)
    assert (merged.world.gpus[w.USED] == outlook.world.gpus[w.USED]).all()
    left = [((each.durations - each.world.jobs[w.EXECUTED]) * each.trace.gpus).sum() for each in (alone, merged)]
    assert left[1] == pytest.approx(left[0], rel=1e-6)
    assert (merged.trace.gpus <= max(16_000 // 8, int(alone.trace.gpus.max()))).all()
    found = search_on(outlook, now, memory, space("tiresias", 6, aggregate=True), ["tiresias"], 0)
    assert found.evaluations == 6
    assert found.value <= found.present


def test_halving_tries_twice_the_settings_and_runs_few_to_the_end() -> None:
    simulator = Simulator(some_jobs(120), CLUSTER)
    now = int(simulator.trace.submit[60])
    memory = simulator.run(registry.policy("tiresias"), until=now)
    outlook, kind = TrueHour().outlook(simulator, now), space("tiresias", 16, method="halving")
    ahead, begun = LookAhead(outlook, memory, now, "jct"), []
    counting = dataclasses.replace(ahead)
    object.__setattr__(counting, "begun", lambda text: begun.append(text) or ahead.begun(text))
    best, values = search_halving(counting, kind, ["tiresias"], 3)
    assert len(set(begun)) == 32
    assert len(begun) == 33  # the best is run once more, at once
    assert len(values) <= 5
    assert "tiresias" in values
    # judged on the way, a run ends as it does at once
    assert values[best] == ahead.begun(best).value_at(now + HORIZON) == min(values.values())
    for threads in (1, 2):  # threads change nothing
        assert (
            search_on(outlook, now, memory, dataclasses.replace(kind, threads=threads), ["tiresias"], 3).policy == best
        )


def test_a_causal_model_saves_evaluations_and_says_why() -> None:
    jobs = some_jobs(120)
    found = {}
    for causal in ("", "layers"):
        scheduler = AdaptingScheduler(TrueHour(), space("tiresias", 12, causal=causal), SearchTimes(15 * MINUTE))
        found[causal] = scheduler.run(Simulator(jobs, CLUSTER), "tiresias", None)
    assert found["layers"].evaluations < found[""].evaluations == 12 * len(found[""].searches)
    assert any(reason.startswith("rejected") for each in found["layers"].searches for reason in each.reasons)
    assert not any(each.reasons for each in found[""].searches)
    assert found[""].causal is None
    assert found["layers"].causal is not None


def test_the_study_has_all_of_them_and_hindsight_is_no_worse_than_fixed() -> None:
    setup = set_up("synthetic:jobs=300,gpus=16,load=1.3", "2x8", since="+2")
    study = Adapting(setup, AdaptingOptions("tiresias", 3, times=SearchTimes(2 * HOUR), fixed_evaluations=12)).run()
    assert set(study.runs) == set(LABELS)
    assert study.value(HINDSIGHT) <= study.value(FIXED)
    assert study.fixed[HINDSIGHT].evaluations == 12
    assert study.speedup(FIXED, FIXED).value == 1
    assert study.runs[OPTIMAL].policy == study.runs[FIXED].policy  # all begin with what the past says
    assert study.runs[GIVEN].policy == "tiresias"
    by_rho = dataclasses.replace(study, options=dataclasses.replace(study.options, objective="rho"))
    ratio = study.runs[OPTIMAL].fair / study.runs[FIXED].fair
    assert by_rho.speedup(OPTIMAL, FIXED).value == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "speed"}, "no objective"),
        ({"generator": "fft"}, "no generator"),
        ({"predictor": "magic"}, "no predictor"),
        ({"method": "grid"}, "no search"),
        ({"times": SearchTimes(HOUR, 7 * MINUTE)}, "must divide"),
    ],
)
def test_what_can_not_be_run_is_refused(options: dict[str, object], message: str) -> None:
    setup = set_up("synthetic:jobs=30,gpus=16", "2x8")
    with pytest.raises(RunError, match=message):
        Adapting(setup, AdaptingOptions("tiresias", **options))


def test_the_command_prints_json_or_a_table_of_at_most_100_columns() -> None:
    command = ["adapt", "synthetic:jobs=120,gpus=16,load=1.2", "-c", "2x8", "--budget", "2", "--every", "4h"]
    printed = CliRunner().invoke(app, [*command, "--json"])
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.stdout)
    assert list(found["runs"]) == list(LABELS)
    assert found["runs"]["fixed"]["over_fixed"]["value"] == 1
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 100
    assert "AutoSched (generated)" in shown.stdout
    for bad in (["--source", "future"], ["--every", "soon"], ["--every", "1s"]):
        assert CliRunner().invoke(app, [*command, *bad]).exit_code == 2


def test_an_oracle_and_a_policy_without_settings_are_reported() -> None:
    command = ["adapt", "synthetic:jobs=60,gpus=16,load=1.2", "-c", "2x8", "--budget", "2", "--every", "8h"]
    said = CliRunner().invoke(app, [*command, "-p", "saf:backfill=easy,estimate=oracle"])
    assert "The policy as given knows the truth, so all runs do." in said.stdout
    assert "'saf:backfill=easy,estimate=oracle' has no settings left to search" in said.stderr
    plain = CliRunner().invoke(app, [*command, "-p", "tiresias"])
    assert "Only 'in hindsight' and 'Optimal' know what comes." in plain.stdout
    assert "left to search" not in plain.stderr


def test_results_are_printed_also_where_there_are_too_few_runs_for_a_graph(tmp_path: Path) -> None:
    command = ["adapt", "synthetic:jobs=40,gpus=16,load=1.2", "-c", "2x8", "--budget", "2", "--every", "4h", "--json"]
    said = CliRunner().invoke(app, [*command, "--causal", "layers", "--graph", str(tmp_path / "graph.svg")])
    assert said.exit_code != 0
    assert "needs 30 evaluations" in said.stderr
    assert list(json.loads(said.stdout)["runs"]) == list(LABELS)
    late = CliRunner().invoke(app, [*command, "--causal", "layers", "--graph", str(tmp_path / "no" / "graph.svg")])
    assert "there is no folder" in late.stderr
    assert not late.stdout  # refused before anything is run


def with_longer_jobs(setup: Setup) -> Setup:
    """The same setup; jobs from before the run that had not ended when it began take three times as long."""
    past, begin = setup.history, int(setup.trace.submit[0])
    assert past is not None
    ends = past.submit + np.maximum(past.recorded_wait, 0) + past.duration
    open_jobs = ends > begin + HOUR
    assert open_jobs.any()
    longer = np.where(open_jobs, 3 * past.duration, past.duration)
    return dataclasses.replace(setup, history=dataclasses.replace(past, duration=longer))


@pytest.mark.parametrize("source", [SELFTUNE, AUTOSCHED])
def test_run_times_of_jobs_that_ran_when_the_run_began_are_not_known(source: str) -> None:
    """Neither the rule, nor fixed settings, nor the first search depend on them."""
    setup = set_up("synthetic:jobs=1500,gpus=16,load=1.3,seed=3", "2x8", since="+5")
    options = AdaptingOptions("tiresias", 3, fixed_evaluations=6)
    found = []
    for each in (setup, with_longer_jobs(setup)):
        work = Adapting(each, options)
        simulator, now = work.simulator(), int(each.trace.submit[0]) + HOUR
        simulator.run(registry.policy("tiresias"), until=now)
        look = work.source(source).outlook(simulator, now)
        fixed = work.fixed_by_past()
        known = work.knowledge.at(simulator, now)
        found.append((known.duration.tolist(), look.durations.tolist(), work.rule.name, fixed.policy, fixed.value))
    assert found[0] == found[1]


def test_any_leaves_out_policies_with_a_model_and_no_others() -> None:
    from shunter.adapting.study import _spaces

    names = {space.policy for space in _spaces("any")}
    assert {"tiresias", "saf", "themis", "fifo"} <= names
    assert "qssf" not in names


def study_of(rule="yesterday", **jct):
    """A study whose runs have these completion times."""
    runs = {name: SimpleNamespace(jct=np.asarray(values, np.float64)) for name, values in jct.items()}
    return AdaptingStudy(AdaptingOptions("las"), runs, {}, rule, 0, 0)


def test_the_verdict_says_what_is_shown_and_what_is_not():
    draws = np.random.default_rng(0)
    given = draws.uniform(90, 110, 500)
    study = study_of(
        given=given, fixed=given / 2, selftune=given / 2 * draws.uniform(0.9, 1.1, 500), autosched=given * 2
    )
    said = study.verdict
    assert said[0].startswith("SelfTune (past hour): 1.999 times as good (1.9")
    assert said[0].endswith("as 'as given', and no difference is shown from 'Fixed, by the past'.")
    assert said[1].startswith("AutoSched (generated): worse: 0.5")
    same = study_of("last-hour", given=given, fixed=given, selftune=given, autosched=given).verdict
    assert same[1] == "The generator is the last hour (last-hour), so AutoSched is SelfTune here."
    assert (len(said), same[2:]) == (2, ["No setting changed anything."])


def test_the_numbers_of_a_run_stand_on_one_line():
    run = {"label": "as given", "jct_s": {"mean": 60.0, "p99": 120.0}, "rho_at_most_1": 0.5, "search_median_s": None,
           "over_fixed": {"value": 1.25, "low": 1.0, "high": 1.5}, "switches": [], "evaluations": 7}  # fmt: skip
    found = {"runs": dict.fromkeys(("given", "fixed", "hindsight"), run), "verdict": ["It is so."], "jobs": 3,
             "unplayed": 0, "objective": "jct", "every_s": 3600, "budget": 4, "generator": "last-hour",
             "predictor": "past", "oracle": False}  # fmt: skip
    run["policy"] = "las"
    console = Console(width=100)
    with console.capture() as shown:
        console.print(adapting_view(found, "given"))
    lines = shown.get().splitlines()
    assert any("as given" in line and "1.250" in line for line in lines)
    assert lines[-1].strip() == "It is so."

"""AutoSched's evaluation, on few made-up jobs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from shunter import registry
from shunter.adapting.causal import CausalModel, CausalSamples
from shunter.adapting.controller import AdaptedRun, Switch
from shunter.adapting.searching import FoundSettings
from shunter.adapting.study import AUTOSCHED, HINDSIGHT, LABELS, OPTIMAL, SELFTUNE, Adapting
from shunter.cli.main import app
from shunter.errors import RunError
from shunter.generating.snapshots import Labelled, classes_of
from shunter.predictors.features import stream
from shunter.predictors.fitting import known
from shunter.predictors.models import model as predictor
from shunter.report.bootstrap import Estimate
from shunter.reproduce.autosched import models
from shunter.reproduce.autosched.design import (
    ABLATIONS,
    AGGREGATOR,
    CAUSAL_TUNER,
    DATA,
    AutoschedPart,
    setup_of,
    trace_of,
)
from shunter.reproduce.autosched.keeping import COLUMNS, KeptRuns
from shunter.reproduce.autosched.models import class_chances
from shunter.reproduce.autosched.models_view import causal_rows
from shunter.reproduce.autosched.page import page
from shunter.reproduce.autosched.paper import NOT_MEASURED, SAVINGS, PrintedGain, PrintedSaving
from shunter.reproduce.autosched.study import AutoschedStudy, GainResult, SavingResult, check, run, saving
from shunter.reproduce.autosched.view import view
from shunter.sweeps.store import Store
from shunter.tuning.halving import drawn_settings


def test_no_ablation_is_another_run_by_another_name() -> None:
    """With the hour before and the run times of the past, AutoSched would be SelfTune."""
    part = AutoschedPart()
    for policy in part.policies:
        plain, ablated = part.options(policy), part.ablated(policy).values()
        assert len({str(each) for each in (plain, *ablated)}) == 1 + len(ablated)
        assert all(each.predictor == plain.predictor for each in ablated)


@pytest.mark.usefixtures("_few_jobs")
def test_all_of_it_is_printed_and_kept(tmp_path) -> None:
    chosen = ["--data", "venus", "-p", "tiresias", "--budget", "2"]
    command = ["reproduce", "autosched", "--quick", *chosen, "--out", "made"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    assert max(map(len, found.stdout.splitlines())) <= 100
    assert "made-up stand-ins" in found.stdout
    kept = json.loads((tmp_path / "made" / "reproduction.json").read_text())
    assert [row["settings"] for row in kept["results"]] == list(LABELS)
    assert {claim["source"] for claim in kept["claims"]} >= {"section 5.3", "Fig. 9"}
    verdicts = ("yes", "smaller", "larger", "not clear")
    assert all((claim["as_printed"] in verdicts) != (claim["source"][:7] == "Fig. 10") for claim in kept["claims"])
    assert {"up to 3.80x", "up to 1.40x", "narrow gap"} <= {claim["printed"] for claim in kept["claims"]}
    savings = {claim["printed"]: claim["as_printed"] for claim in kept["savings"]}
    assert savings == dict.fromkeys(("9.5 to 22.7x", "2.6 to 5.8x", "up to 132x"), "not run")  # there are no ablations
    assert all(printed in found.stdout for printed in savings)
    assert [claim["median_s"] is None for claim in kept["times"]] == [False, False, False, True, True]
    assert kept["not_measured"] == []
    adapting = {row["settings"]: row["evaluations"] for row in kept["results"]}
    assert adapting["hindsight"] <= adapting[AUTOSCHED] == adapting[SELFTUNE]
    assert "<table" in (tmp_path / "made" / "page.html").read_text()


@pytest.mark.usefixtures("_few_jobs")
def test_no_run_of_a_search_fits_lucids_model_again() -> None:
    """Else every run for fixed settings would fit it, which took ten times as long as all the rest."""
    part = AutoschedPart(("venus",), ("lucid",))
    searched = Adapting(setup_of("venus", 1, 0)[0], part.options("lucid")).space
    tried = drawn_settings(searched.spaces, (), 20, seed=0)
    assert len(tried) > 10
    assert {registry.policy(text).refit for text in tried} == {0}


@pytest.mark.usefixtures("_few_jobs")
def test_a_stopped_reproduction_goes_on_and_parts_are_compared(monkeypatch, tmp_path) -> None:
    """Killed in its last run; the second time only that one is made, and a third time none."""
    monkeypatch.setenv("SHUNTER_RUNS", str(tmp_path / "runs"))
    part = AutoschedPart(("venus",), ("tiresias",), 0.5, 1, 2, fixed=4)
    made, real = [], Adapting.adapted

    def dies(self, name, *more):
        made.append(name)
        if len(made) == 8:
            raise KeyboardInterrupt
        return real(self, name, *more)

    monkeypatch.setattr(Adapting, "adapted", dies)
    with pytest.raises(KeyboardInterrupt):
        run(part)
    first = run(part)
    again = run(part)
    assert made == [SELFTUNE, AUTOSCHED, OPTIMAL, *[AUTOSCHED] * 4, AUTOSCHED, AUTOSCHED]
    assert first.summary()["results"] == again.summary()["results"]
    assert [row["name"] for row in again.ablations()] == [AUTOSCHED, *ABLATIONS]
    assert again.ablations()[0]["over_autosched"]["value"] == 1
    assert again.ablations()[-1]["evaluations"] <= again.ablations()[0]["evaluations"]
    assert all(each.ours is not None for each in again.savings())  # how fast they are depends on the machine
    assert "not run" not in [each.verdict for each in again.gains()]
    assert all(each.seconds for each in again.times())


@pytest.mark.usefixtures("_few_jobs")
def test_the_models_are_judged(tmp_path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("lightgbm")
    found = CliRunner().invoke(app, ["reproduce", "autosched-models", "--quick", "--data", "philly", "--out", "made"])
    assert found.exit_code == 0, found.output
    assert max(map(len, found.stdout.splitlines())) <= 100
    kept = json.loads((tmp_path / "made" / "reproduction.json").read_text())
    rows = {(row["model"], row["queries"]): row["accuracy"] for row in kept["accuracy"]}
    assert {queries for _, queries in rows} == {"arrival", "snapshot"}
    assert all(0 <= accuracy <= 1 for accuracy in rows.values())
    assert {("history (ours)", "snapshot"), ("gbm (ours)", "arrival")} <= set(rows)
    assert "(0.213)" in found.stdout  # printed of LightGBM, to as many digits as ours
    assert kept["printed"]["predict_fit_s"]["LightGBM"] == [0.0318, 0.2132]
    assert "3.77 (Helios), 7.18 (PAI)" in found.stdout
    assert [claim["source"] for claim in kept["not_measured"]] == ["section 5.2", "Fig. 2d", "Fig. 2c"]
    assert {score["rule"] for score in kept["generated"]["philly"]} >= {"last-hour", "fft-manhattan-itself"}
    assert "<table" in (tmp_path / "made" / "page.html").read_text()


@pytest.mark.usefixtures("_few_jobs")
def test_a_predicted_run_time_is_a_class_beyond_what_a_job_has_run() -> None:
    trace = trace_of("philly", 0)[0]
    rows, count = stream(trace), len(trace)
    fitted = predictor("history").fit(known(trace, rows, int(trace.submit[-1])))
    nobody, jobs = np.zeros((count, 0)), np.arange(count)
    for executed in (0, 40 * 60_000):  # the third class has been reached after 40 minutes
        asked = Labelled(nobody, np.full(count, executed), classes_of(trace.duration), trace.gpus, jobs)
        found = class_chances(fitted, rows, asked)
        assert (found[:, : 2 if executed else 0] == 0).all()
        assert (found.sum(axis=1) > 0).any()
    short = class_chances(fitted, rows, replace(asked, executed=np.zeros(count, np.int64)))
    assert (short[:, 2:].sum(axis=1) >= found[:, 2:].sum(axis=1)).all()  # as likely as before, or less


def test_a_causal_model_is_judged_by_runs_after_those_it_learned_from(monkeypatch) -> None:
    draws = np.random.default_rng(0)
    inputs = draws.random((100, 1))
    samples = CausalSamples(("a",), ("wait",), inputs, inputs + 0.01 * draws.random((100, 1)), 1 + inputs[:, 0])
    run = SimpleNamespace(causal=CausalModel(samples))
    monkeypatch.setattr(models, "setup_of", lambda *_: (None, False))
    monkeypatch.setattr(models, "Adapting", lambda *_: SimpleNamespace(given="", adapted=lambda *_: run))
    (found,) = models.causal_error("philly", 0)
    assert found.runs == 30
    assert found.model < 0.02 < found.same
    study = models.ModelsStudy(models.ModelsPart(("philly", "venus")), [], {}, {}, [found], False)
    rows = causal_rows(study)
    assert rows[0][:3] == ["causal model", f"{100 * found.model:.1f} (14.2)", "– (11.2)"]
    assert rows[0][3:] == [f"{found.predict_s:.3f} (0.093)", f"{found.fit_s:.3f} (1.473)"]


def test_windows_end_so_many_days_later() -> None:
    assert DATA["venus"].until(14) == "2020-08-09T00:00:00"
    assert DATA["pai"].until(1.5) == "+29.5"


def test_a_window_of_a_public_trace_has_a_past(data) -> None:
    setup, made_up = setup_of("pai", 2, 0)
    assert not made_up
    assert setup.history is not None
    assert len(setup.history) > 10_000
    assert setup.trace.submit[-1] - setup.trace.submit[0] <= 2 * 86_400_000


def test_short_windows_are_run_on_smaller_clusters() -> None:
    assert AutoschedPart(short=True).machines("philly") == "24x8"
    assert AutoschedPart(short=True, cluster="2x8").machines("philly") == "2x8"
    assert not AutoschedPart().machines("philly")


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ((1.2, 1.15, 1.3), "yes"),
        ((0.9, 0.8, 0.99), "smaller"),
        ((2.0, 1.8, 2.2), "larger"),
        ((1.0, 0.9, 1.2), "not clear"),
        ((1.0, 0.998, 1.002), "smaller"),
        ((1.2, math.nan, math.nan), "not clear"),
    ],
)
def test_a_printed_gain_is_reproduced_where_the_whole_interval_is_within_it(ours, verdict) -> None:
    claim = PrintedGain("tiresias", AUTOSCHED, SELFTUNE, 1.10, 1.36, "text")
    assert GainResult(claim, "venus", Estimate(*ours)).verdict == verdict


def test_searches_are_as_many_times_as_fast_as_their_medians_say() -> None:
    """One search that took very long, as on a machine that was suspended, changes nothing."""

    def searches(seconds: float, evaluations: int) -> SimpleNamespace:
        made = [FoundSettings("sjf", 1.0, 1.0, evaluations, took, ()) for took in (*[seconds] * 40, 900.0)]
        return SimpleNamespace(searches=made, evaluations=41 * evaluations)

    runs = {AUTOSCHED: searches(1.0, 40), CAUSAL_TUNER: searches(0.1, 10), AGGREGATOR: searches(0.5, 40)}
    studies = [SimpleNamespace(runs=runs, options=SimpleNamespace(seed=0))] * 2
    assert saving(studies, CAUSAL_TUNER, AUTOSCHED) == (Estimate(10, 10, 10), 4)
    assert saving(studies, AGGREGATOR, AUTOSCHED) == (Estimate(2, 2, 2), 1)
    assert saving(studies, CAUSAL_TUNER, AGGREGATOR) == (Estimate(5, 5, 5), 4)
    assert saving(studies, "never run", AUTOSCHED) == (None, None)
    printed = PrintedSaving("tiresias", CAUSAL_TUNER, AUTOSCHED, 9.5, 22.7, "figure")
    assert SavingResult(printed, "venus", *saving(studies, CAUSAL_TUNER, AUTOSCHED)).verdict == "yes"
    assert SavingResult(printed, "venus", None, None).verdict == "not run"


def test_only_what_is_printed_of_the_schedulers_that_were_run_is_shown() -> None:
    """Nothing is printed about how long searches for Lucid take."""
    study = AutoschedStudy(AutoschedPart(("venus",), ("lucid",)), {}, {}, False)
    console = Console(width=100, record=True, file=StringIO())
    console.print(view(study))
    shown = console.export_text()
    assert "up to 5.7x" in shown
    assert "how long" not in shown
    assert "How long" not in page(study, "command")


def test_every_printed_result_of_a_search_is_in_a_table() -> None:
    """Those of the abstract and of the case studies in sections 5.3 to 5.5."""
    printed = [each.printed for each in (*SAVINGS, *NOT_MEASURED)]
    for factor in ("9.5 to 22.7", "2.6 to 5.8", "132", "4.8 to 5.5", "1.9 to 3.9", "3.4", "5.7"):
        assert sum(each.removeprefix("up to ") == f"{factor}x" for each in printed) == 1, factor


def test_a_direction_has_no_tolerance() -> None:
    claim = PrintedGain("tiresias", SELFTUNE, AUTOSCHED, 1.0, 1e3, "figure")
    assert claim.printed == "above 1x"
    found = [GainResult(claim, "pai", Estimate(*ours)).verdict for ours in ((0.99, 0.9, 1.01), (1.1, 1.01, 1.2))]
    assert found == ["not clear", "yes"]


REFUSED = (
    ({"data": ("mars",)}, "no data set 'mars'"),
    ({"policies": ("fifo",)}, "no scheduler 'fifo'"),
    ({"days": 0.0}, "--days"),
    ({"search": "grid"}, "no search 'grid'"),
    ({"search": "halving"}, "--causal"),  # of the ablations
    ({"generator": "tomorrow"}, "no generator 'tomorrow'"),
)


@pytest.mark.parametrize(("part", "words"), REFUSED)
def test_what_can_not_be_run_is_refused(part, words) -> None:
    with pytest.raises(RunError, match=words):
        check(AutoschedPart(**part))


@pytest.mark.usefixtures("_few_jobs")
def test_another_search_or_generator_leaves_the_fixed_settings_as_they_are(monkeypatch, tmp_path) -> None:
    """A rival that is searched worse would make all that adapts look better."""
    monkeypatch.setenv("SHUNTER_RUNS", str(tmp_path / "runs"))
    plain = AutoschedPart(("venus",), ("tiresias",), 0.5, 1, 6, fixed=12, ablations=False)
    ours, bluefin, after = (
        run(part).cells["venus", "tiresias"][0]
        for part in (plain, replace(plain, search="bluefin"), replace(plain, generator="fft-manhattan-after"))
    )
    searches = {
        study: [(each.policy, each.value) for each in study.runs[SELFTUNE].searches] for study in (ours, bluefin, after)
    }
    assert {study.runs[HINDSIGHT].policy for study in searches} == {ours.runs[HINDSIGHT].policy}
    assert searches[bluefin] != searches[ours] == searches[after]  # SelfTune has no generator
    assert (bluefin.options.method, after.rule) == ("bluefin", "fft-manhattan-after")


def test_a_kept_run_has_any_number_of_jobs_and_one_that_can_not_be_read_is_made_again(tmp_path) -> None:
    """The numbers of thousands of jobs are longer than a text of a store may be."""
    kept, made = KeptRuns(Store.open(tmp_path / "store", "1", COLUMNS), "sjf", ("about",)), []
    many = np.linspace(0.1, 1 / 3, 9000)

    def adapted() -> AdaptedRun:
        made.append(1)
        search = FoundSettings("sjf", 1.0, 2.0, 3, 0.5, ("reason",))
        return AdaptedRun("sjf", (Switch(1, "a", "b", 1.5, False),), (search,), many, many, 0, "d")

    first, again = kept.ran("one", adapted), kept.ran("one", adapted)
    assert len(made) == 1
    assert np.array_equal(first.jct, many)
    assert np.array_equal(again.rho, many)
    assert (again.switches, again.searches) == (first.switches, first.searches)
    kept._kept("two", lambda: {"jct": 7}, dict)
    assert np.array_equal(kept.ran("two", adapted).jct, many)
    assert len(made) == 2

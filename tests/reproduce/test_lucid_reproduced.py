"""Lucid's experiment: what is run, where stops cost, and what is told of sharing."""

from __future__ import annotations

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from shunter import simulation
from shunter.cli.main import app
from shunter.model import GPU
from shunter.reproduce import study
from shunter.reproduce.lucid import page as lucid_page
from shunter.reproduce.lucid.data import setups_of
from shunter.reproduce.lucid.design import (
    AS_PUBLISHED,
    AUTHORS,
    DATA,
    DEARER,
    LUCID,
    NO_PROFILER,
    OURS,
    RULES,
    SEARCHED,
    STOPS,
    TIRESIAS,
    VARIANTS,
)
from shunter.reproduce.lucid.experiment import EXPERIMENT, MEASURES
from shunter.reproduce.lucid.paper import printed
from shunter.reproduce.numbers import about_sharing
from shunter.reproduce.qssf import design as qssf
from shunter.reproduce.study import Part

SHARES = ("profiled share", "ended in profiler share", "packed share")


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", "lucid", *arguments], prog_name="shunter")


def test_the_public_jobs_are_put_into_virtual_clusters_by_rules(data):
    found, made_up = setups_of(tuple(RULES), 0)
    variants = ("", STOPS, DEARER, AUTHORS)
    assert (made_up, set(found)) == (False, {name + variant for name in RULES for variant in variants})
    assert {(len(setup.history), len(setup.trace)) for setup in found.values()} == {(99707, 12957)}
    mixed, apart = found["venus"].trace, found["venus-apart"].trace
    assert (mixed.gpus == apart.gpus).all()
    large = apart.gpus > 8 * GPU
    assert set(apart.vc[large]).isdisjoint(apart.vc[~large])
    assert not set(mixed.vc[large]).isdisjoint(mixed.vc[~large])
    counted = found["venus-counted"].trace
    share = (counted.vc == counted.vcs.index("vcEwI")).mean()
    assert share == pytest.approx(7603 / 23859, abs=0.02)  # a little less: it can't hold the largest


@pytest.mark.usefixtures("_few_jobs")
def test_repeats_are_draws_of_the_virtual_clusters():
    setup = setups_of(("venus-apart",), 0)[0]["venus-apart"]
    first, second = (setup.repeat(0, repeat) for repeat in (0, 1))
    assert (first.submit == second.submit).all()
    assert (first.vc != second.vc).any()
    assert (setup.repeat(0, 1).vc == second.vc).all()
    large = second.gpus > 8 * GPU
    assert set(second.vc[large]).isdisjoint(second.vc[~large])


@pytest.mark.usefixtures("_few_jobs")
def test_ours_and_each_tiresias_that_it_is_held_to_run_on_the_same_machines():
    found = setups_of(("venus",), 0)[0]
    overheads = {name.removeprefix("venus"): setup.cluster.overheads.restart for name, setup in found.items()}
    dear = ((8, 62.0), (9, 62.0))
    assert overheads == {"": (), STOPS: ((8, 40.0), (9, 60.0)), DEARER: dear, AUTHORS: dear}
    assert {s.variant for s in (*SEARCHED, OURS, *VARIANTS)} == {DEARER}
    assert set(DATA["venus"].schedulers) & set(SEARCHED) == set(SEARCHED)
    assert (LUCID.variant, TIRESIAS.variant) == ("", STOPS)


@pytest.mark.parametrize("jobs", [*DATA.values(), *qssf.DATA.values()], ids=lambda jobs: jobs.title)
def test_every_table_with_learned_estimates_has_the_baseline_that_they_must_beat(jobs):
    assert "easypp" in [scheduler.policy for scheduler in jobs.schedulers]


def test_jobs_with_requested_times_have_the_order_by_them_beside_qssf():
    run = {scheduler.policy for scheduler in qssf.DATA["aaic"].schedulers}
    assert {"saf:estimate=limit", "saf:estimate=limit,backfill=easy"} <= run


@pytest.mark.usefixtures("_few_jobs")
def test_numbers_of_sharing_are_shares_and_those_of_sizes_make_the_mean():
    setup = setups_of(("venus",), 0)[0]["venus"]
    result = simulation.run(setup, f"lucid:{AS_PUBLISHED},estimate=rolling")
    numbers = about_sharing(result)
    assert 0 < numbers["ended in profiler share"] < numbers["profiled share"] < 1
    assert numbers["packed slowdown"] >= 1
    large = (result.trace.gpus > 8 * GPU).mean()
    mean = large * numbers["large jct_mean_s"] + (1 - large) * numbers["small jct_mean_s"]
    assert mean == pytest.approx(result.summary["jct_s"]["mean"])
    assert numbers["wait_p99.9_s"] <= result.summary["wait_s"]["max"]
    assert "packed slowdown" not in about_sharing(
        simulation.run(setup, f"lucid:{AS_PUBLISHED},packing=false,estimate=rolling")
    )
    assert set(SHARES).isdisjoint(about_sharing(simulation.run(setup, "fifo")))


@pytest.mark.usefixtures("_few_jobs")
def test_the_command_writes_a_folder(tmp_path):
    result = reproduce("--data", "venus", "--repeat", "1", "--workers", "1", "--out", "made")
    assert result.exit_code == 0, result.stderr
    assert "stand-in: The public traces were not found" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "ours without profiler" in result.stdout
    assert "mean JCT over that of ours" in result.stdout
    assert "94.1 %" in result.stdout
    told = json.loads((tmp_path / "made" / "reproduction.json").read_text())
    rows = {row["scheduler"]: row for row in told["results"]}
    assert set(rows[LUCID.label]) >= set(MEASURES) - {"packed slowdown"}
    assert rows[NO_PROFILER.label]["profiled share"]["value"] == 0
    assert rows[TIRESIAS.label]["tiresias_over_jct_mean_s"]["value"] == pytest.approx(1)
    assert [row["data"] for row in told["refitted"]] == ["venus"]
    frame = pl.read_parquet(tmp_path / "made" / "results.parquet")
    assert frame["policy"].to_list() == [s.policy for s in DATA["venus"].schedulers]
    assert "<h1>Lucid, reproduced with stand-in workloads</h1>" in (tmp_path / "made" / "page.html").read_text()


def test_the_help_names_every_data_set():
    shown = " ".join(reproduce("--help").stdout.replace("│", " ").split())
    assert "venus, venus-apart, venus-counted, aaic" in shown


def test_what_is_printed_of_the_model_stands_beside_lucid_alone():
    assert (printed(LUCID, "predicted r2"), printed(LUCID, "predicted mape")) == (0.41, 0.465)
    assert printed(LUCID, "jct_mean_s") is None
    assert printed(NO_PROFILER, "predicted r2") is None
    factors = [claim.factor for claim in EXPERIMENT.claims if claim.base == TIRESIAS and claim.better == LUCID]
    assert factors == [1.3] * len(DATA)


def test_accuracies_of_scores_on_our_tables_and_on_the_authors(data):
    found = lucid_page.accuracies()
    assert found["printed"] == 0.941
    assert found["the authors' tables, thresholds of the paper"] == pytest.approx(0.79, abs=0.005)
    assert all(0.5 < value <= 1 for value in found.values())
    assert len(found) == 7


@pytest.mark.usefixtures("_few_jobs")
def test_the_page_of_lucid_in_a_browser(visit):
    part = Part(("venus",), repeats=1, refitted=False)
    found = study.run(EXPERIMENT, part, study.prepared(EXPERIMENT, part), workers=1)
    opened = visit(lucid_page.page(found, "shunter reproduce lucid"))
    titles = opened.locator("h2").all_inner_texts()
    assert titles == ["Summary", "Venus", "What is printed", "Sharing scores", "How it was run", "What was run"]
    assert opened.locator("figure.chart .plot svg").count() == 2
    assert opened.get_by_text("run time of packed jobs over that alone").is_visible()
    assert opened.get_by_text("Venus: mean JCT over that of ours, repeat by repeat").is_visible()

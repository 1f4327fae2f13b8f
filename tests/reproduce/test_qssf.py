"""QSSF's experiment: what is run, what is printed, and how models are shared."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter

import polars as pl
import pytest
from typer.testing import CliRunner

from shunter import simulation
from shunter.cli.main import app
from shunter.predictors.fitting import Model
from shunter.reproduce import study
from shunter.reproduce.numbers import about_estimates
from shunter.reproduce.qssf import paper
from shunter.reproduce.qssf.data import setups_of
from shunter.reproduce.qssf.design import DATA, FIFO, NOISY, QSSF, SJF, WITH_LUCIDS
from shunter.reproduce.qssf.experiment import EXPERIMENT
from shunter.reproduce.qssf.page import page
from shunter.reproduce.study import Part
from shunter.reproduce.writing import STAND_IN

SMALL = ("--data", "venus", "--data", "aaic", "--repeat", "2", "--workers", "1")


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", "qssf", *arguments], prog_name="shunter")


# ------------------------------------------------------------------------------------------- data sets


def test_the_public_traces_are_cut_as_published(data):
    found, made_up = setups_of(tuple(DATA), 0)
    assert not made_up
    counts = {name: (len(setup.history), len(setup.trace)) for name, setup in found.items()}
    assert counts == {
        "philly": (5348, 58067),
        "philly-fewer": (5348, 58067),
        "venus": (99707, 12957),
        "venus" + WITH_LUCIDS: (99707, 12957),
        "venus-august": (77574, 9281),
        "venus-july": (54803, 10177),
        "aaic": (86321, 38104),
    }
    philly, fewer = ({g.vc: g.count for g in found[name].cluster.groups} for name in ("philly", "philly-fewer"))
    assert (philly["6214e9"], len(philly)) == (64, 9)
    assert {"6c71a0", "ee9e8c", "795a4c"}.isdisjoint(philly)
    assert all(fewer[vc] <= philly[vc] for vc in philly)
    trace = found["philly-fewer"].trace
    for code, vc in enumerate(trace.vcs):
        if vc in fewer:
            mine = trace.vc == code
            load = (trace.duration[mine] / 1000 * trace.gpus[mine] / 1000).sum() / (fewer[vc] * 8 * 61 * 86400)
            assert load <= 0.51
            assert trace.gpus[mine].max() <= fewer[vc] * 8000
    assert all(setup.trace.submit[0] > setup.history.submit[-1] for setup in found.values())


@pytest.mark.usefixtures("_few_jobs")
def test_repeats_are_draws_of_venus_virtual_clusters_and_move_submissions_elsewhere():
    found = setups_of(tuple(DATA), 0)[0]
    for name, setup in found.items():
        first, second = (setup.repeat(0, repeat) for repeat in (0, 1))
        assert (first.submit == second.submit).all() == name.startswith("venus")
        assert (first.vc != second.vc).any()
    mine, theirs = (found[name].repeat(0, 3) for name in ("venus", "venus" + WITH_LUCIDS))
    assert (mine.vc == theirs.vc).all()  # paired


def test_the_help_names_every_data_set():
    shown = " ".join(reproduce("--help").stdout.replace("│", " ").split())
    assert all(name in shown for name in DATA)


def test_lucids_predictions_stand_beside_the_jobs_that_have_one(data):
    found = setups_of(("venus",), 0)[0]["venus" + WITH_LUCIDS]
    with gzip.open(data / "helios/venus_gpu_jobs.csv.gz", "rt") as file:
        wanted = {row["job_id"]: row["lucid_lgb_pred"] for row in csv.DictReader(file)}
    for job, limit in zip(found.trace.job_id[:500], found.trace.limit[:500], strict=True):
        assert limit == round(float(wanted[job] or 0) * 1000)
    assert (found.history.limit == 0).all()


def test_printed_factors_are_those_of_the_notebook():
    factors = {(c.data, c.measure, c.better, c.what): c.factor for c in paper.CLAIMS}
    assert factors["philly", "jct_mean_s", NOISY, ""] == pytest.approx(2.31, abs=0.005)
    assert factors["philly", "wait_mean_s", NOISY, ""] == pytest.approx(7.26, abs=0.005)
    assert paper.printed("philly", SJF, "jct_mean_s") == 34272
    assert paper.printed("philly-fewer", NOISY, "jct_mean_s", "0e4a51") == 196886
    for nothing in (
        paper.printed("philly", QSSF, "jct_mean_s"),
        paper.printed("venus", FIFO, "jct_mean_s"),
        paper.printed("philly", FIFO, "jct_p50_s"),
        paper.printed("philly", FIFO, "jct_mean_s", "11cb48"),
        paper.printed("philly", FIFO, "wait_mean_s", "0e4a51"),
    ):
        assert nothing is None


# ------------------------------------------------------------------------------------------- runs


@pytest.mark.usefixtures("_few_jobs")
def test_all_repeats_share_a_model_that_knows_nothing_of_them(monkeypatch):
    fits, seen = Counter(), []
    fit = Model.fit

    def counted(self, jobs):
        fits[self.name] += 1
        seen.append((jobs.at, int(jobs.submit.max())))
        return fit(self, jobs)

    monkeypatch.setattr(Model, "fit", counted)
    part = Part(("aaic",), repeats=3, refitted=False)
    setups = study.prepared(EXPERIMENT, part)
    assert fits == {"blend": 1, "history": 1, "gbm": 1}
    found = study.run(EXPERIMENT, part, setups, workers=1)
    assert fits == {"blend": 1, "history": 1, "gbm": 1}
    begin = setups[0]["aaic"].trace.submit[0]
    assert all(at <= begin and last < begin for at, last in seen)
    digests = {outcome.digest for outcome in found.board.trials.outcomes[next(EXPERIMENT.data["aaic"].cases("aaic"))]}
    assert len(digests) == 3


@pytest.mark.usefixtures("_few_jobs")
def test_numbers_by_virtual_cluster_and_of_estimates_are_those_of_the_summary():
    setup = setups_of(("venus",), 0)[0]["venus"]
    result = simulation.run(setup, "qssf:estimate=rolling")
    numbers, summary = about_estimates(result), result.summary
    for vc, group in summary["by_vc"].items():
        assert numbers[f"{vc} jct_mean_s"] == pytest.approx(group["jct_s"]["mean"])
        assert numbers[f"{vc} wait_mean_s"] == pytest.approx(group["wait_s"]["mean"])
    for name in ("mean_abs_log_error", "rank_correlation"):
        assert numbers[f"predicted {name}"] == pytest.approx(summary["prediction"][name], abs=1e-3)
    assert not any(
        name.startswith("predicted") for name in about_estimates(simulation.run(setup, "sjf:estimate=oracle"))
    )


# ------------------------------------------------------------------------------------------- command and page


@pytest.mark.usefixtures("_few_jobs")
def test_the_command_writes_a_folder_and_says_that_it_is_made_up(tmp_path):
    result = reproduce(*SMALL, "--out", "made")
    assert result.exit_code == 0, result.stderr
    assert f"stand-in: {STAND_IN}" in result.stderr
    assert "page: made/page.html (open it in a browser)" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "queueing as recorded in the trace" in result.stdout
    assert "column's mean JCT over the row's" in result.stdout
    assert "printed" not in result.stdout.partition("x FIFO: ")[0]
    text = (tmp_path / "made" / "page.html").read_text()
    assert "<h1>QSSF, reproduced with stand-in workloads</h1>" in text
    assert "as recorded" in text
    assert DATA["venus"].remarks[0] not in text
    told = json.loads((tmp_path / "made" / "reproduction.json").read_text())
    assert (told["workloads"], told["claims"], list(told["data"])) == ("stand-in", [], ["venus", "aaic"])
    assert [row["scheduler"] for row in told["results"]] == [
        s.label for n in ("venus", "aaic") for s in DATA[n].schedulers
    ]
    assert [row["data"] for row in told["refitted"]] == ["venus", "aaic"]
    fifo, sjf = told["results"][:2]
    assert fifo["fifo_over_jct_mean_s"]["value"] == pytest.approx(1)
    assert sjf["fifo_over_jct_mean_s"]["value"] > 1.2
    rows = pl.read_parquet(tmp_path / "made" / "results.parquet")
    assert rows.group_by("workload", "policy").len()["len"].unique().to_list() == [2]
    assert rows.filter(pl.col("policy") == "qssf:refit=0")["predicted mape"].null_count() == 0
    assert rows.filter(pl.col("policy") == "fifo")["predicted mape"].null_count() == 4
    assert reproduce(*SMALL, "--out", "made").exit_code == 2


@pytest.mark.usefixtures("_few_jobs")
def test_a_quick_look_as_json_writes_nothing_and_fits_once(tmp_path):
    result = reproduce("--quick", "--json", "--workers", "1")
    told = json.loads(result.stdout)
    assert (list(told["data"]), told["repeats"], told["refitted"]) == (list(EXPERIMENT.quick), 1, [])
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data", "vneus"], "there is no data set 'vneus'; did you mean 'venus'?"),
        (["--repeat", "0"], "Invalid value for '--repeat'"),
        (["--workers", "0"], "Invalid value for '--workers'"),
    ],
)
@pytest.mark.usefixtures("_few_jobs")
def test_bad_options_are_refused(arguments, says, tmp_path):
    result = reproduce(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_few_jobs")
def test_the_page_in_a_browser(visit, expect):
    part = Part(("philly", "venus"), repeats=1)
    found = study.run(EXPERIMENT, part, study.prepared(EXPERIMENT, part), workers=1)
    opened = visit(page(found, "shunter reproduce qssf"))
    titles = opened.locator("h2").all_inner_texts()
    expected = ["Summary", "Philly", "Venus", "What is printed", "Fitting again", "How it was run", "What was run"]
    assert titles == expected
    drawn = opened.evaluate(
        """() => [...document.querySelectorAll("figure.chart .plot")].filter((plot) => plot.clientWidth)
        .map((plot) => plot.querySelectorAll("svg path").length)"""
    )
    assert len(drawn) == 4
    assert min(drawn) > 3
    opened.locator(".choice select").first.select_option("queueing delay mean")
    expect(opened.get_by_text("Philly: queueing delay mean by virtual cluster")).to_be_visible()

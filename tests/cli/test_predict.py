"""``shunter predict`` on the command line."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.seeding import rng


@pytest.fixture(scope="module", autouse=True)
def _needed():
    """Not while tests are collected: each process would import it."""
    pytest.importorskip("lightgbm", reason="no lightgbm; ./scripts/install all,dev has it")
    pytest.importorskip("interpret", reason="no interpret; ./scripts/install all,dev has it")


def shunter(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], prog_name="shunter")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Two weeks of ten users."""
    draw, jobs = rng(1, "cli"), 900
    user = draw.integers(0, 10, jobs)
    seconds = np.exp(draw.uniform(3, 8, 10)[user] + draw.normal(0, 0.5, jobs))
    submit = 1_600_000_000 + np.cumsum(draw.exponential(1_400, jobs))
    rows = [f"j{i},{submit[i]:.0f},{seconds[i]:.0f},1,u{user[i]}" for i in range(jobs)]
    path = tmp_path_factory.mktemp("predict") / "jobs.csv"
    path.write_text("job_id,submit,duration,gpus,user\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def model(trace):
    made = trace.parent / "ebm.model"
    done = shunter("predict", "fit", trace, "--model", "ebm:bags=2", "--out", made)
    assert done.exit_code == 0, done.stderr
    assert "run time of the nearest ended job, log s" in done.stdout
    return made


def test_eval_prints_a_table_within_100_columns(trace):
    done = shunter("predict", "eval", trace, "--model", "gbm:rounds=20,bags=2", "--refit", "never")
    assert done.exit_code == 0, done.stderr
    assert [name for name in ("mean", "user2", "history", "gbm") if f" {name} " not in done.stdout] == []
    assert " limit " not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "no limit column: the run time that users requested is not known" in " ".join(done.stderr.split())


def test_eval_for_scripts(trace):
    done = shunter("predict", "eval", trace, "-m", "history", "--train-until", "+9", "--refit", "drift", "--json")
    found = json.loads(done.stdout)
    assert [row["model"] for row in found["models"]] == ["mean", "gpus_median", "user2", "request2", "history"]
    history = found["models"][4]
    assert history["jobs"] == found["jobs"] == 900 - found["trained_on"]
    assert history["mean_abs_log_error"] < found["models"][0]["mean_abs_log_error"]
    assert 0.7 < history["held"]["p10_p90"] < 0.9
    assert history["queue_rank_correlation"] is None  # nobody waited
    assert history["estimates_per_s"] > 20_000
    assert done.stderr == ""


def test_explain_shows_shapes_and_jobs(model, trace):
    done = shunter("predict", "explain", model)
    assert re.search(r"user_mean +0\.\d{3} +[▁▂▃▄▅▆▇█ ]+ \d", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 100
    done = shunter("predict", "explain", model, "j500", "--trace", trace)
    assert "job j500:" in done.stdout
    assert "begins with the run time of the nearest ended job" in done.stdout
    found = json.loads(shunter("predict", "explain", model, "j500", "--trace", trace, "--json").stdout)
    product = (
        found["job"]["recent_s"] * found["job"]["base_factor"] * np.prod([p["factor"] for p in found["job"]["parts"]])
    )
    assert found["job"]["estimate_s"] == pytest.approx(product)
    assert len(found["shapes"]) == len(found["importance"])


def test_a_gbm_says_that_it_has_no_shapes(trace, tmp_path):
    done = shunter("predict", "fit", trace, "-m", "gbm:rounds=10,bags=2", "-o", tmp_path / "m")
    assert done.exit_code == 0, done.stderr
    assert "so it has no shapes: use ebm for those" in " ".join(done.stdout.split())
    done = shunter("predict", "explain", tmp_path / "m", "j500", "--trace", trace)
    assert "any job" in done.stdout


def test_a_blend_says_what_is_mixed(trace, tmp_path):
    shunter("predict", "fit", trace, "-m", "blend:rounds=10,bags=2", "-o", tmp_path / "m")
    done = shunter("predict", "explain", tmp_path / "m", "j500", "--trace", trace)
    assert "10.0 % of it is the rolling mean" in done.stdout


def test_the_page_draws(model, trace, visit, tmp_path):
    done = shunter("predict", "explain", model, "j500", "--trace", trace, "--html", tmp_path / "m.html")
    assert done.exit_code == 0, done.stderr
    text = (tmp_path / "m.html").read_text()
    opened = visit(text)
    assert opened.locator("figure.chart").count() > 5
    assert opened.locator("h2").all_inner_texts() == ["Overview", "What matters", "Shapes", "Job j500"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["eval", "TRACE", "--refit", "daily"], "--refit must be weekly, drift, never, got 'daily'"),
        (["eval", "TRACE", "--at", "start"], "has no recorded_wait"),
        (["eval", "TRACE", "--model", "svm"], "there is no model 'svm'"),
        (["eval", "TRACE", "--train-share", "1"], "must be between 0 and 1, got 1"),
        (["eval", "TRACE", "--train-until", "2030-01-01"], "must have jobs before and after the split"),
        (["eval", "TRACE", "--train-share", "0.05"], "must have at least 100 ended jobs to learn from, got 4"),
        (["fit", "TRACE", "--out", "MODEL"], "exists already"),
        (["fit", "TRACE", "--out", "no/where"], "there is no folder"),
        (["explain", "MODEL", "j1"], "JOB and --trace go together"),
        (["explain", "TRACE"], "is not a model, or only a part of one"),
        (["explain", "MODEL", "nobody", "--trace", "TRACE"], "has no job 'nobody'"),
    ],
)
def test_bad_input_is_a_message(arguments, said, trace, model):
    done = shunter("predict", *({"TRACE": trace, "MODEL": model}.get(each, each) for each in arguments))
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_submissions_beside_rules(trace):
    arguments = ("predict", "submissions", trace, "-m", "gbm:rounds=5,bags=2", "--train-until", "+9")
    done = shunter(*arguments)
    assert done.exit_code == 0, done.stderr
    assert [
        name for name in ("hour_ago", "day_ago", "last_hour", "time_of_day", "gbm") if name not in done.stdout
    ] == []
    assert max(map(len, done.stdout.splitlines())) <= 100
    found = {row["model"]: row for row in json.loads(shunter(*arguments, "--json").stdout)["models"]}
    best = min(row["jobs"]["mean_abs_error"] for name, row in found.items() if name != "gbm")
    gain, low, high = found["gbm"]["jobs"]["gain"]
    assert gain == pytest.approx(1 - found["gbm"]["jobs"]["mean_abs_error"] / best)
    assert low is high is None or low <= gain <= high
    done = shunter("predict", "submissions", trace, "-m", "history")
    assert (done.exit_code, "doesn't forecast submissions; use gbm or ebm" in done.stderr) == (2, True)

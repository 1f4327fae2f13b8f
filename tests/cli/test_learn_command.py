"""``shunter learn``: a model is trained, judged and used, and mistakes are said in a line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from shunter.cli.main import app

JOBS = ("synthetic:jobs=400,gpus=16,load=1.5", "-c", "2x8")


def shunter(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_model_is_trained_judged_and_used(tmp_path):
    out = tmp_path / "order.json"
    page = tmp_path / "page.html"
    settings = ("--agent", "search", "--rounds", 2, "--jobs", 32, "--visible", 20, "--filter", "1..1e6")
    made = shunter("learn", *JOBS, *settings, "--out", out, "--report", page, "--json")
    assert made.exit_code == 0, made.output
    text = page.read_text()
    assert "search for the wait: 2 rounds" in text
    assert "Change against saf:backfill=easy" in text
    page.unlink()
    assert len(json.loads(made.stdout)["curve"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["order.json"]
    found = json.loads(shunter("learn", "eval", out, *JOBS, "--windows", 6, "--json").stdout)
    assert (found["windows"], found["window"]) == (6, 32)
    beside = ["saf:backfill=easy", "scored:model=saf,visible=20"]
    assert [row["policy"] for row in found["rows"]] == ["model", *beside]
    other = shunter("learn", "eval", out, *JOBS, "--windows", 6, "-p", "fifo:backfill=conservative")
    assert "policy fifo:backfill=conservative: episodes have no stops" in other.stderr.replace("\n", " ")
    shown = shunter("learn", "eval", out, *JOBS, "--windows", 6).stdout
    assert "6 windows of 32 jobs that the model has not seen" in shown
    short = shunter("learn", "eval", out, "synthetic:jobs=60,gpus=32", *JOBS[1:], "--windows", 6)
    assert short.exit_code == 2
    assert "60 jobs are too few" in short.stderr
    run = shunter("simulate", *JOBS, "--policy", f"scored:model={out}", "--json")
    assert run.exit_code == 0, run.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("learn", *JOBS), "there is no place for the model"),
        (("learn", JOBS[0], "--out", "o.json"), "there is no cluster"),
        (("learn", *JOBS, "--jobs", 32, "--agent", "sarch", "--out", "o.json"), "did you mean 'search'"),
        (("learn", *JOBS, "--jobs", 32, "--objective", "weight", "--out", "o.json"), "did you mean 'wait'"),
        (("learn", *JOBS, "--jobs", 300, "--out", "o.json"), "400 jobs are too few for windows of 300"),
        (("learn", *JOBS, "--jobs", 32, "--base", "tiresias", "--out", "o.json"), "does not order a queue"),
        (("learn", *JOBS, "--jobs", 32, "--resume", "--out", "o.json"), "there is no such checkpoint"),
        (("learn", *JOBS, "--jobs", 32, "--estimate", "limit", "--out", "o.json"), "estimate=limit needs a 'limit'"),
        (("learn", *JOBS, "--jobs", 32, "--filter", "5", "--out", "o.json"), "--filter must be LOW..HIGH"),
        (("learn", *JOBS, "--jobs", 32, "--base", "las", "--out", "o.json"), "policy las: episodes have no stops"),
        (("learn", "eval", "nothing.json", *JOBS), "nothing.json: there is no such file"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = shunter(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_help_has_the_commands_and_the_options_of_training():
    shown = shunter("learn", "--help").stdout
    assert "Judge a model" in shown
    assert "--patience" in shown
    assert "--policy" not in shown  # an option of eval

"""``shunter learn``: a model is trained, judged and used, and mistakes are said in a line."""

from __future__ import annotations

import gzip
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.report.terminal.learning import learning_view

JOBS = ("synthetic:jobs=400,gpus=16,load=1.5", "-c", "2x8")


def shunter(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_model_is_trained_judged_and_used(tmp_path):
    out = tmp_path / "order.json"
    page = tmp_path / "page.html"
    settings = ("--agent", "search", "--rounds", 2, "--jobs", 16, "--visible", 10, "--filter", "1..1e6")
    made = shunter("learn", *JOBS, *settings, "--out", out, "--report", page, "--json")
    assert made.exit_code == 0, made.output
    text = page.read_text()
    assert "search for the wait: 2 rounds" in text
    assert "Change against saf:backfill=easy" in text
    page.unlink()
    assert len(json.loads(made.stdout)["curve"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["order.json"]
    found = json.loads(shunter("learn", "eval", out, *JOBS, "--windows", 6, "--json").stdout)
    assert (found["windows"], found["window"]) == (5, 16)  # no more fit into the last fifth without a job in two
    beside = ["saf:backfill=easy", "scored:model=saf,visible=10"]
    assert [row["policy"] for row in found["rows"]] == ["model", *beside]
    other = shunter("learn", "eval", out, *JOBS, "--windows", 6, "-p", "fifo:backfill=conservative")
    assert "policy fifo:backfill=conservative: episodes have no stops" in other.stderr.replace("\n", " ")
    shown = shunter("learn", "eval", out, *JOBS, "--windows", 6).stdout
    assert "5 windows of 16 jobs that the model has not seen (6 were asked for; no more fit" in shown
    assert "begins on an empty cluster. Estimates: history." in " ".join(shown.split())
    assert "-0" not in shown
    short = shunter("learn", "eval", out, "synthetic:jobs=60,gpus=32", *JOBS[1:], "--windows", 6)
    assert short.exit_code == 2
    assert "60 jobs are too few" in short.stderr
    run = shunter("simulate", *JOBS, "--policy", f"scored:model={out}", "--json")
    assert run.exit_code == 0, run.output
    again = "the model learned from, or was chosen by, 320 of these 400 jobs: it was trained on jobs of"
    assert json.loads(run.stdout)["remarks"][0].startswith(again)
    beside = shunter("compare", JOBS[0], "-c", "3x8", "-p", "fifo", "-p", f"scored:model={out}", "--workers", 1)
    warned = beside.stderr.replace("\n", " ")
    assert again in warned.partition("note")[0]
    assert "the model was trained on cluster 2x8, and this is 3x8" in warned


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
        (("learn", "--filter", "5", *JOBS, "--jobs", 32, "--out", "o.json"), "--filter must be LOW..HIGH"),
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


def test_a_trace_in_place_of_the_model_is_said_to_be_none(tmp_path):
    packed = tmp_path / "jobs.csv.gz"
    packed.write_bytes(gzip.compress(b"submit,duration,gpus\n0,5,1\n"))
    result = shunter("learn", "eval", packed, *JOBS)
    assert result.exit_code == 2
    assert "is not a model" in result.stderr
    assert "MODEL comes first" in result.stderr


def test_what_no_model_was_good_for_is_not_sent_on_to_be_judged():
    scores = {"change_on_checked_windows": 0.0, "change_at_the_start": 0.0}
    found = {"agent": "search", "objective": "wait", "curve": [{"change": -0.0002}], "model": {"scores": scores}}
    found |= {"stopped_early": False, "reference": "saf"}
    console = Console(width=100)
    with console.capture() as shown:
        console.print(learning_view(found))
    assert "Don't use it." in shown.get()
    assert "judge it" not in shown.get()
    assert "-0.0" not in shown.get()

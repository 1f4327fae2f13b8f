"""``shunter predict eval --what`` on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app


def shunter(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], prog_name="shunter")


@pytest.fixture
def losses(tmp_path):
    """Three families of two curves."""
    steps = np.arange(1, 201)
    for family in range(3):
        for run in range(2):
            values = 50.0 * steps ** -(0.5 + 0.3 * family) + 1 + run
            text = "iteration,loss\n" + "\n".join(
                f"{step},{loss:.6f}" for step, loss in zip(steps, values, strict=True)
            )
            (tmp_path / f"net{family}_{run}.csv").write_text(text + "\n")
    return tmp_path


def test_progress_prints_both_splits_and_which_is_honest(losses):
    done = shunter("predict", "eval", losses, "--what", "progress", "-m", "none", "-m", "power")
    assert done.exit_code == 0, done.stderr
    assert "random rows" in done.stdout
    assert "by model" in done.stdout
    assert "Honest: by model, because" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_progress_for_scripts(losses):
    done = shunter("predict", "eval", losses, "--what", "progress", "-m", "power", "--json")
    found = json.loads(done.stdout)
    assert (found["what"], found["honest"], found["curves"]) == ("progress", "by model", 6)
    assert found["families"] == ["net0", "net1", "net2"]


def test_a_metric_that_rises_is_turned_round(tmp_path):
    from shunter.traces.measurements import read_loss_curves

    (tmp_path / "net-8.csv").write_text("iteration,metric\n1,0.25\n2,0.5\n")
    (tmp_path / "seq_1.csv").write_text("iteration,metric\n1,10\n2,80\n")
    (tmp_path / "wer_1.csv").write_text("iteration,metric\n1,80\n2,10\n")
    found = {each.family: each.loss.tolist() for each in read_loss_curves(tmp_path)}
    assert found == {"net": [0.75, 0.5], "seq": [90.0, 20.0], "wer": [80.0, 10.0]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iteration,loss\n1,2\n2,x\n", "line 3"),
        ("iteration,loss\n1,2\n2,\n", "an iteration needs a loss"),
        ("iteration,loss\n1,2\n1,2\n", "iterations must rise"),
        ("iteration,loss\n1,-2\n", "0 or more"),
        ("iteration,loss\n1,inf\n", "line 2"),
        ("step,loss\n1,2\n", "one.csv line 1: column 'iteration' is missing; it has 'step', 'loss'"),
        ("iteration,loss\n", "no measurement"),
        ("", "empty"),
    ],
)
def test_bad_loss_files_are_reported_with_code_2(tmp_path, text, words):
    (tmp_path / "one.csv").write_text(text)
    done = shunter("predict", "eval", tmp_path / "one.csv", "--what", "progress")
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--what", "mood"], "unknown 'mood'"),
        (["--what", "progress", "--refit", "never"], "--refit is about run times"),
        (["--what", "progress", "-m", "magic"], "unknown method 'magic'"),
        (["--what", "peaks", "--columns", "nonsense"], "--columns must be OURS=THEIRS"),
        (["--what", "iteration-time"], "no file has the columns"),
    ],
)
def test_bad_options_are_refused_with_code_2(losses, more, words):
    done = shunter("predict", "eval", losses, *more)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())

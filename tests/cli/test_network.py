"""``shunter network``: what it prints, and what it refuses."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.cli.network import _model_names
from shunter.network.models import catalogue


def run(*arguments: str, code: int = 0):
    done = CliRunner().invoke(app, ["network", *arguments], prog_name="shunter", env=dict(os.environ))
    assert done.exit_code == code, done.output
    return done


ALLREDUCE = ("allreduce", "--bytes", "1048576", "--dim", "4,112.5,500,switch", "--dim", "2,50,2000")


def test_allreduce():
    done = run(*ALLREDUCE, "--algorithm", "ring,ring", "--scheme", "hierarchical", "--chunks", "1", "--json")
    assert json.loads(done.stdout) == {"us": 26.332}
    assert run(*ALLREDUCE).stdout == "26.332 us\n"
    assert json.loads(run(*ALLREDUCE, "--scheme", "baseline", "--json").stdout)["us"] > 26.332


def test_algorithms_one_for_each_or_one_for_all():
    one, each = (run(*ALLREDUCE, "--algorithm", way).stdout for way in ("halvingDoubling", "halving-doubling,ring"))
    assert one == each  # two units are the same either way


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("allreduce", "--bytes", "1", "--dim", "4"), "--dim 4: bandwidth is missing"),
        (("allreduce", "--bytes", "1", "--dim", "4,,5"), "bandwidth is missing"),
        (("allreduce", "--bytes", "1", "--dim", "4,1,1,ring,x"), "too much"),
        (("allreduce", "--bytes", "1", "--dim", "4,1,-5"), "latency must be 0 ns or more, got -5"),
        (("allreduce", "--bytes", "1", "--dim", "x,1,5"), "must be a whole number"),
        (("allreduce", "--bytes", "1", "--dim", "4,1,5,swich"), "did you mean 'switch'"),
        ((*ALLREDUCE, "--algorithm", "ring,ring,ring"), "one for each of the 2 dimensions, got 3"),
        ((*ALLREDUCE, "--algorithm", "tree"), "no algorithm 'tree'"),
        ((*ALLREDUCE, "--scheme", "flat"), "no scheme 'flat'"),
        (("models", "resnet5"), "did you mean 'resnet50'"),
        (("models", "--models", "nowhere.toml"), "no such file"),
        (("table", "--calibration", "papers"), "did you mean 'paper'"),
        (("table", "--data", "nowhere"), "is not a folder"),
        (("slowdown", "resnet50"), "say where"),
        (("slowdown", "resnet50", "--gpus", "9", "--placement", "4+4"), "has 8 GPUs, but --gpus says 9"),
        (("slowdown", "resnet50", "--gpus", "1000"), "at most 512, the GPUs of"),
        (("slowdown", "resnet51", "--gpus", "8"), "did you mean 'resnet50'"),
        (("slowdown", "resnet152", "--gpus", "8", "--calibration", "paper"), "use the profiled calibration"),
    ],
)
def test_what_is_wrong_is_reported(arguments, said):
    done = run(*arguments, code=2)
    assert said in done.stderr
    assert not done.stdout


def test_models():
    names = [model["name"] for model in json.loads(run("models", "--json").stdout)]
    assert names == list(catalogue()) == _model_names("")
    one = json.loads(run("models", "AlexNet", "--json").stdout)
    assert (one["name"], len(one["layers"]), one["layers"][0]["gradient_bytes"]) == ("alexnet", 8, 92_928)
    assert "features.10" in run("models", "alexnet").stdout
    assert max(map(len, run("models").stdout.splitlines())) <= 100


def test_table(data):
    told = json.loads(run("table", "--calibration", "paper", "--data", str(data), "--json").stdout)
    assert told["calibration"] == "paper"
    assert told["rows"][0]["paper_percent"] == {"machine": 1, "rack": 6, "network": 7}
    shown = run("table", "--data", str(data)).stdout
    assert "18 of 18 cells" in shown
    assert "calibration profiled" in run("table", "--calibration", "profiled").stdout


def test_slowdown(tmp_path):
    one = json.loads(
        run("slowdown", "vgg11", "--gpus", "8", "--placement", "4+4", "--json", "-c", "dally-2rack").stdout
    )
    assert (one["shape"], one["tier"], one["calibration"]) == ([4, 2, 1], "rack", "profiled")
    assert one["slowdown"] == pytest.approx(one["iteration_us"] / one["compute_us"])
    every = json.loads(run("slowdown", "vgg11", "--gpus", "8", "--json", "-c", "dally-2rack").stdout)
    assert one in every
    assert "(or uneven)" in run("slowdown", "vgg11", "--placement", "5+3").stdout
    (tmp_path / "own.toml").write_text(
        "[[model]]\nname = 'own'\n[[model.layer]]\nname = 'all'\ngradient_bytes = 1000000\nforward_us = 1\n"
    )
    assert "own on dally-8rack" in run("slowdown", "own", "--gpus", "2", "--models", str(tmp_path / "own.toml")).stdout

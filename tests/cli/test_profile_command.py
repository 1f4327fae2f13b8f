"""``shunter profile``: what it prints, writes and refuses."""

from __future__ import annotations

import importlib.util
import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.sharing import measuring
from shunter.sharing.measuring import CONFIGURATIONS, PAIRS, SOLO

NONE = "nan,nan,nan,nan"  # of what only some GPUs report


def run(*arguments: str, code: int = 0):
    done = CliRunner().invoke(app, ["profile", *arguments], prog_name="shunter", env=dict(os.environ))
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def folder(tmp_path):
    """All workloads, the busier the slower."""
    solo, pairs = [",".join(SOLO)], [",".join(PAIRS)]
    busy = np.linspace(5, 99, len(CONFIGURATIONS))
    for i, one in enumerate(CONFIGURATIONS):
        solo.append(f"{one.name},{one.kind},{one.batch},{int(one.amp)},{i},1,10,{busy[i]:.1f},10,1000,99,{NONE}")
        for j, two in enumerate(CONFIGURATIONS[: i + 1]):
            rate = 10 - 5 * max(0, busy[i] + busy[j] - 100) / 100
            pairs.append(f"{one.name},{two.name},{i},1,{rate:.4f},{rate:.4f},50,20,{NONE}")
    (tmp_path / "solo.csv").write_text("\n".join(solo))
    (tmp_path / "pairs.csv").write_text("\n".join(pairs))
    (tmp_path / "about.json").write_text(json.dumps({"gpu": "Card 1", "driver": "1.2"}))
    return tmp_path


def test_the_list():
    told = json.loads(run("--list", "--json").stdout)
    assert [each["name"] for each in told] == [each.name for each in CONFIGURATIONS]
    printed = run("--list").stdout
    assert all(each.name in printed for each in CONFIGURATIONS)


def test_a_folder(folder):
    told = json.loads(run("show", str(folder), "--json").stdout)
    assert len(told["workloads"]) == 36
    assert len(told["pairs"]) == 36 * 37 / 2
    assert told["pairs"][0]["pair"] == ["gpt-b32-amp", "gpt-b32-amp"]  # the slowest first
    assert told["interference"]["mean_error_on_pairs_not_seen"] < 0.02
    assert told["good_pairs"]["model"]["precision"] > 0.95
    printed = run("show", str(folder)).stdout
    assert max(map(len, printed.splitlines())) <= 100
    for part in ("Card 1", "driver 1.2", "resnet-imagenet-b128-amp", "gpt-b8 + gpt-b32-amp", "0-25", "94.1 %", "jumbo"):
        assert part in printed


def test_the_map(tmp_path):
    picture = tmp_path / "map.svg"
    run("show", "--sharing", "mps", "--map", str(picture))
    cells = [each for each in ElementTree.parse(picture).iter() if each.tag.endswith("title")]
    assert len(cells) == 36 * 36
    assert "ppo-b64 beside gpt-b8: 0." in picture.read_text()


def test_the_tree_as_files(folder):
    picture, tree = folder / "tree.svg", folder / "tree.json"
    run("show", str(folder), "--tree", str(picture))
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")
    run("show", str(folder), "--tree", str(tree))
    record = json.loads(tree.read_text())
    record["origin"] = "mine"
    tree.write_text(json.dumps(record))
    assert json.loads(run("show", str(folder), "--json").stdout)["tree"]["origin"] == "mine"  # it is used from now on
    assert "exists already" in run("show", str(folder), "--tree", str(tree), code=2).stderr
    run("show", str(folder), "--tree", str(tree), "--force")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say where the tables go: --out FOLDER"),
        (("--out", "x", "--only", "nothing"), "there is no configuration nothing"),
        (("--out", "x"), "PyTorch is missing"),
        (("show", "nowhere"), "nowhere: has no solo.csv"),
        (("show", "--tree", "tree.png"), "must end in .svg or .json"),
        (("show", "--tree", "nowhere/tree.svg"), "there is no folder nowhere"),
        (("show", "--map", "map.png"), "must end in .svg"),
        (("show", "--sharing", "mpi"), "--sharing must be one of time-slice, mps, got 'mpi'"),
    ],
)
def test_what_is_wrong_is_reported(arguments, said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert said in " ".join(run(*arguments, code=2).stderr.split())
    assert not list(tmp_path.iterdir())


def test_measuring(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(measuring, "measure", lambda settings: asked.append(settings) or 3)
    done = run(
        "--out", str(tmp_path), "--seconds", "2", "--only", "gpt-b8,ppo-b256", "--partners", "4", "--gpu", "1", "--json"
    )
    assert json.loads(done.stdout) == {"folder": str(tmp_path), "missing": 3}
    assert asked == [measuring.BenchSettings(tmp_path, 2.0, None, ("gpt-b8", "ppo-b256"), 4, "cuda", 1)]


@pytest.mark.parametrize(("way", "word"), [("time-slice", "time slices"), ("mps", "MPS")])
def test_what_comes_with_shunter(way, word):
    told = json.loads(run("show", "--sharing", way, "--json").stdout)
    assert told["about"]["gpu"] == "NVIDIA H200"
    assert len(told["pairs"]) == 252
    assert told["tree"]["accuracy_in_the_paper"] == 0.941
    printed = run("show", "--sharing", way).stdout
    assert f"NVIDIA H200  {word}" in printed
    assert max(map(len, printed.splitlines())) <= 100

"""Files that want to harm whoever looks at them: texts that steer a terminal, pipes, devices, deep and huge content."""

from __future__ import annotations

import dataclasses
import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.predictors import storing, trees
from shunter.predictors.features import NAMES
from shunter.predictors.fitted import QUANTILES, Fitted
from shunter.sharing.measuring import CONFIGURATIONS, PAIRS, SOLO

EVIL = "x\x1b]0;owned\x07\x1b[2J\u202egnp\u2066\x9b31m[/bold]:smile:"  # a title, a cleared screen, turned text, markup
NONE = "nan,nan,nan,nan"


def shunter(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments], prog_name="shunter")
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def check_harmless(text: str) -> None:
    assert [each for each in text if not each.isprintable() and each != "\n"] == []
    assert "[/bold]:smile:" in text.replace("\n", "")


@pytest.fixture
def tables(tmp_path):
    """A folder of measurements with a name of an attacker's."""
    solo, pairs = [",".join(SOLO)], [",".join(PAIRS)]
    names = [EVIL, *(each.name for each in CONFIGURATIONS[:9])]
    for i, one in enumerate(names):
        solo.append(f"{one},image,8,0,{i},1,10,{9 * i},10,1000,99,{NONE}")
        pairs += [f"{one},{two},{i},1,8,8,50,20,{NONE}" for two in names[: i + 1]]
    (tmp_path / "solo.csv").write_text("\n".join(solo), "utf-8")
    (tmp_path / "pairs.csv").write_text("\n".join(pairs), "utf-8")
    (tmp_path / "about.json").write_text(json.dumps({"gpu": EVIL, "driver": EVIL}))
    record = {"origin": EVIL, "accuracy": None, "tree": {"score": 1, "workloads": 3}}
    (tmp_path / "tree.json").write_text(json.dumps(record))
    return tmp_path


def own_models(folder, name: str, **fields: object):
    text = f"[[model]]\nname = {json.dumps(name)}\n" + "".join(f"{key} = {value}\n" for key, value in fields.items())
    layer = f"[[model.layer]]\nname = {json.dumps(EVIL)}\ngradient_bytes = 5\nforward_us = 2.5\n"
    (folder / "own.toml").write_text(text + ("" if "architecture" in fields else layer), "utf-8")
    return folder / "own.toml"


def model_file(folder, **changed: object):
    growing = trees.Builder()
    growing.roots.append(growing.add(0.5))
    beside = (np.zeros((2, 4)), np.array(QUANTILES), np.zeros(2), np.zeros((3, len(QUANTILES))))
    made = Fitted("gbm", {}, growing.grown(0.0), 0.0, 1.0, 10.0, *beside, 1, (0, 1), 1, 1, 0.1)
    storing.save(dataclasses.replace(made, **changed), folder / "m.model")
    return folder / "m.model"


class TestTextThatSteersATerminal:
    def test_profile_show(self, tables):
        check_harmless(shunter("profile", "show", tables))

    def test_drawings_stay_well_formed(self, tables):
        shunter("profile", "show", tables, "--tree", tables / "t.svg", "--map", tables / "m.svg")
        for name in ("t.svg", "m.svg"):
            assert "[/bold]" in "".join(ElementTree.parse(tables / name).getroot().itertext())

    def test_network_models(self, tmp_path):
        file = own_models(tmp_path, EVIL)
        check_harmless(shunter("network", "models", "--models", file))
        check_harmless(shunter("network", "models", EVIL, "--models", file))
        check_harmless(shunter("network", "slowdown", EVIL, "--gpus", 2, "--models", file))

    def test_predict_explain(self, tmp_path):
        file = model_file(tmp_path, name=EVIL, settings={EVIL: EVIL}, versions={EVIL: EVIL})
        check_harmless(shunter("predict", "explain", file))

    def test_cluster_show(self, tmp_path):
        evil = json.dumps(EVIL)
        text = f"name = {evil}\n[[nodes]]\ncount = 2\ngpus = 4\nvc = {evil}\ntype = {evil}\n"
        (tmp_path / "c.toml").write_text(text, "utf-8")
        check_harmless(shunter("cluster", "show", tmp_path / "c.toml"))
        again = shunter("cluster", "show", tmp_path / "c.toml", "--toml")
        check_harmless(again)
        (tmp_path / "again.toml").write_text(again, "utf-8")
        assert shunter("cluster", "show", tmp_path / "again.toml", "--toml") == again

    def test_trace_describe_and_errors(self, tmp_path):
        (tmp_path / "t.csv").write_text(f"job_id,submit,duration,gpus,user\n1,0,5,1,{EVIL}\n2,0,5,1,{EVIL}\n", "utf-8")
        shown = shunter("trace", "describe", tmp_path / "t.csv")
        assert [each for each in shown if not each.isprintable() and each != "\n"] == []
        (tmp_path / "t.csv").write_text(f"job_id,submit,duration,gpus\n1,0,5,{EVIL}\n", "utf-8")
        check_harmless(shunter("trace", "describe", tmp_path / "t.csv", code=2))


class TestFoldersOfMeasurements:
    @pytest.mark.parametrize("name", ["solo.csv", "pairs.csv", "about.json", "tree.json"])
    @pytest.mark.parametrize("what", ["pipe", "zero", "deep", "field"])
    def test_pipes_devices_deep_and_long(self, tables, name, what):
        (tables / name).unlink()
        if what == "pipe":
            os.mkfifo(tables / name)
        elif what == "zero":
            (tables / name).symlink_to("/dev/zero")
        else:
            (tables / name).write_text("[" * 100_000 if what == "deep" else "name," + "x" * 200_000)
        assert f"{name}" in shunter("profile", "show", tables, code=2)

    @pytest.mark.parametrize(
        ("record", "said"),
        [
            ({"accuracy": 7, "origin": "", "tree": {"score": 1}}, "accuracy must be a number from 0 to 1"),
            ({"accuracy": None, "origin": "", "tree": {"score": 9}}, "score must be 0, 1 or 2"),
            ({"accuracy": None, "origin": "", "tree": {"score": 1e400}}, "not a tree"),
            (
                {"accuracy": None, "origin": "", "tree": {"feature": "gpu_util", "at_most": float("nan")}},
                "at_most must be a number",
            ),
            ([], "not a tree"),
        ],
    )
    def test_trees_of_scores(self, tables, record, said):
        (tables / "tree.json").write_text(json.dumps(record))
        assert said in " ".join(shunter("profile", "show", tables, code=2).split())

    def test_a_deep_tree(self, tables):
        tree: dict = {"score": 1}
        for _ in range(150):
            tree = {"feature": "gpu_util", "at_most": 5, "then": {"score": 0}, "else": tree}
        (tables / "tree.json").write_text(json.dumps({"accuracy": None, "origin": "", "tree": tree}))
        assert "at most 100 splits" in " ".join(shunter("profile", "show", tables, code=2).split())

    def test_many_workloads(self, tables):
        rows = [f"w{i},image,8,0,{i},1,10,5,10,1000,99,{NONE}" for i in range(1001)]
        (tables / "solo.csv").write_text("\n".join([",".join(SOLO), *rows]))
        assert "at most 1,000 workloads, got 1,001" in " ".join(shunter("profile", "show", tables, code=2).split())


VGG = {"architecture": '"vgg"', "batch": 1}
ALEXNET = {"architecture": '"alexnet"', "batch": 1}
LARGE = "{blocks = 10000, hidden = 10000000, feed_forward = 10000000, sequence = 10000000}"


class TestModelsOfOnesOwn:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            (
                VGG | {"shape": "{stages = [10000000, 1, 1, 1, 1]}"},
                "shape.stages.0 must be less than or equal to 10000",
            ),
            (
                VGG | {"shape": "{stages = [9000, 9000, 9000, 9000, 9000], x = 1}"},
                "shape.x is not known; known: stages",
            ),
            (VGG | {"shape": "{stages = [1]}"}, "shape.stages must have at least 5 items, got [1]; correct it"),
            (VGG | {"shape": "{}"}, "shape.stages is missing; add it"),
            (
                {"architecture": '"resnet"', "batch": 1, "shape": "{stages = [9999, 9999, 9999, 9999, 9999]}"},
                "must have at most 100,000 layers in all",
            ),
            ({"architecture": '"transformer"', "batch": 10_000_000, "shape": LARGE}, "make it smaller"),
            ({"aliases": json.dumps(["a"] * 101)}, "aliases must have at most 100 items"),
            ({"aliases": '[""]'}, "aliases.0 must have at least 1 character, got ''; correct it"),
            ({"layer": "[5]", "architecture": '"vgg"'}, "layer.0 must be a table, got 5; correct it"),
            (
                ALEXNET | {"published": '{file = "../../secret", cycles = 1.0, scale = 1.0}'},
                "published.file must be the",
            ),
            (ALEXNET | {"published": '{file = "/etc/passwd", cycles = 1.0, scale = 1.0}'}, "without a folder"),
            (ALEXNET | {"published": '{file = "..", cycles = 1.0, scale = 1.0}'}, "without a folder"),
        ],
    )
    def test_bad_fields(self, tmp_path, fields, said):
        shown = " ".join(
            shunter("network", "models", "--models", own_models(tmp_path, "own", **fields), code=2).split()
        )
        assert said in shown
        assert "own.toml: " in shown
        assert "pydantic" not in shown

    def test_a_name_without_letters(self, tmp_path):
        shown = shunter("network", "models", "--models", own_models(tmp_path, "---"), code=2)
        assert "name must have a letter from a to z or a digit" in " ".join(shown.split())

    def test_pipes_and_devices(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for file in (tmp_path / "pipe", "/dev/zero"):
            assert "is a pipe or a device" in shunter("network", "models", "--models", file, code=2)

    @pytest.mark.parametrize("name", ["resnet50", "ResNet-50"])
    def test_a_model_that_replaces_one_of_ours_is_reported(self, tmp_path, name):
        file = own_models(tmp_path, name)
        said = f"model '{name}' takes the place of shunter's own 'resnet50'"
        assert said in " ".join(shunter("network", "models", "--models", file).split())
        assert said in " ".join(shunter("network", "slowdown", "resnet50", "--gpus", 2, "--models", file).split())
        options = ("-c", "2x8", "-p", "fifo", "--network", "profiled", "--models", file)
        assert said in " ".join(shunter("simulate", "synthetic:jobs=5", *options).split())

    def test_an_alias_that_has_no_effect_is_reported(self, tmp_path):
        file = own_models(tmp_path, "own", aliases='["resnet-50"]')
        said = "alias 'resnet-50' of model 'own' has no effect: shunter has a model of that name"
        assert said in " ".join(shunter("network", "models", "--models", file).split())


class TestModelFiles:
    def test_shapes_of_nodes_with_many_ways_to_them(self, tmp_path):
        """As many ways as 2 to the power of the depth lead through these nodes."""
        growing = trees.Builder()
        one = two = growing.add(1.0)
        for _ in range(60):
            nodes = [growing.join(growing.add(0.0, 0, 1.0), one, two, one) for _ in range(2)]
            one, two = nodes
        growing.roots.append(one)
        file = model_file(tmp_path, trees=growing.grown(0.0), terms=(NAMES[0],), importance={NAMES[0]: 1.0})
        assert NAMES[0] in shunter("predict", "explain", file)

    def test_a_bad_field_ends_with_code_2(self, tmp_path):
        file = model_file(tmp_path, importance={"moon": 1.0})
        assert "importance must be of its terms or features, got 'moon'" in shunter("predict", "explain", file, code=2)

    def test_an_instant_that_is_no_date(self, tmp_path):
        assert "known until" in shunter("predict", "explain", model_file(tmp_path, fitted_at=2**62))


@pytest.mark.parametrize(
    "arguments", [("cluster", "show"), ("simulate",), ("predict", "explain"), ("trace", "describe")]
)
def test_a_pipe_is_not_waited_for(tmp_path, arguments):
    os.mkfifo(tmp_path / "pipe.toml")
    assert "is a pipe or a device" in " ".join(shunter(*arguments, tmp_path / "pipe.toml", code=2).split())

"""The catalogue: sizes beside published ones and the layer files, calibrations, users' files and their mistakes."""

from __future__ import annotations

import re

import pytest

from shunter.errors import NetworkError
from shunter.network.iteration import Layer
from shunter.network.models import LAYER_FILES, catalogue, compute_ns, find, profile, read_layers

PARAMETERS = {  # as published or counted by the libraries that ship the models, in millions
    "vgg11": 132.863, "alexnet": 61.101, "mobilenetv3": 2.543, "resnet18": 11.690, "resnet50": 25.557,
    "bert-large": 335.142, "bert-base": 109.482, "resnet34": 21.798, "resnet101": 44.549, "resnet152": 60.193,
    "vgg16": 138.358, "vgg19": 143.667, "mobilenetv3-large": 5.483, "vit-base": 86.568, "vit-large": 304.327,
    "gpt2": 124.440, "gpt2-medium": 354.823, "gpt2-large": 774.030, "gpt2-xl": 1557.611, "llama-7b": 6738.416,
    "llama-13b": 13015.864,
}  # fmt: skip
GIGAMACS = {"alexnet": 0.714, "vgg16": 15.47, "resnet18": 1.814, "resnet50": 4.089, "resnet152": 11.51,
            "mobilenetv3": 0.0565, "mobilenetv3-large": 0.217, "vit-base": 17.56}  # fmt: skip
SIX = [model.name for model in catalogue().values() if model.published]


@pytest.mark.parametrize("name", catalogue())
def test_weights_are_those_of_the_architecture(name):
    model = find(name)
    bytes_per_weight = 2 if name.startswith(("gpt2", "llama")) else 4
    # biases and normalisations are left out: never more, and at most 3 % less
    assert 0.97 * PARAMETERS[name] < model.gradient_bytes / bytes_per_weight / 1e6 <= PARAMETERS[name]


@pytest.mark.parametrize("name", GIGAMACS)
def test_compute_is_that_of_the_architecture(name):
    model = find(name)
    forward = sum(layer.forward_ns for layer in model.layers) * 40_000 / 2 / model.batch  # at 40 TFLOP/s
    assert forward / 1e9 == pytest.approx(GIGAMACS[name], rel=0.03)


@pytest.mark.parametrize("name", SIX)
def test_gradients_are_those_of_the_layer_files(name, data):
    model = find(name)
    ours = {layer.name: layer.gradient_bytes for layer in model.layers}
    measured = read_layers(data / LAYER_FILES / model.published.file)
    theirs = {re.sub(r"^bert\.encoder\.|^qa_", "", layer.name): layer.gradient_bytes for layer in measured}
    assert theirs == {key: ours[key] for key in theirs}
    without = profile(model, "paper").layers  # what is used where the files are missing has the same layers
    assert [layer.name for layer in without] == list(theirs)


@pytest.mark.parametrize(
    ("name", "ms"), [("vgg11", 3.84), ("alexnet", 1.21), ("resnet50", 11.8), ("bert-large", 1.71), ("resnet18", 0.18)]
)
def test_without_layer_files_the_published_compute_is_distributed(name, ms):
    found = profile(find(name), "paper")
    first = found.layers[0].input_ns  # counted by the paper, but never done
    assert (compute_ns(found.layers) + first) / 1e6 == pytest.approx(ms, rel=0.01)
    assert "no layer files" in found.source


def test_profiled_is_measured_where_it_was_and_derived_elsewhere(data):
    assert profile(find("resnet50"), "profiled", data).source == "measured per-layer times"
    assert "40 TFLOP/s" in profile(find("resnet50"), "profiled").source
    assert "120 TFLOP/s" in profile(find("llama-7b"), "profiled", data).source


def test_scaling_leaves_updates_alone(data):
    plain, paper = (profile(find("resnet50"), how, data).layers for how in ("profiled", "paper"))
    assert sum(layer.update_ns for layer in plain) == sum(layer.update_ns for layer in paper) > 0


@pytest.mark.parametrize(
    ("text", "name"),
    [("VGG", "vgg11"), ("BERT", "bert-large"), ("MobileNetV3", "mobilenetv3"), ("ResNet-50", "resnet50"),
     ("ResNet18", "resnet18"), ("AlexNet", "alexnet"), ("gpt2_xl", "gpt2-xl"), ("LLaMA 7B", "llama-7b")],
)  # fmt: skip
def test_names_are_found_as_traces_write_them(text, name):
    assert find(text).name == name


def test_an_unknown_model_is_reported():
    with pytest.raises(NetworkError, match="no model 'resnet5'; did you mean 'resnet50'"):
        find("resnet5")


def test_only_published_models_have_the_papers_calibration():
    with pytest.raises(NetworkError, match=r"resnet152.*profiled"):
        profile(find("resnet152"), "paper")
    with pytest.raises(NetworkError, match="did you mean 'paper'"):
        profile(find("resnet50"), "papr")


# ------------------------------------------------------------------------------------------- files of users

OWN = """
[[model]]
name = "mine"
[[model.layer]]
name = "first"
gradient_bytes = 4000
forward_us = 1.5
[[model.layer]]
name = "last"
gradient_bytes = 400
forward_us = 2
weight_us = 3
input_us = 4
update_us = 5

[[model]]
name = "small-gpt"
architecture = "transformer"
batch = 4
shape = { blocks = 2, hidden = 64, feed_forward = 256, sequence = 128, vocabulary = 1000, outputs = 1000, tied = true }
"""


def test_a_file_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text(OWN)
    known = catalogue(tmp_path / "mine.toml")
    mine = find("mine", known)
    assert mine.layers == (Layer("first", 4000, 1500, 1500, 1500), Layer("last", 400, 2000, 3000, 4000, 5000))
    assert find("small-gpt", known).gradient_bytes == 4 * (1000 * 64 + 2 * 12 * 64**2)
    assert find("resnet50", known) == find("resnet50")


MISTAKES = [
    ("", ["model is missing"]),
    ("[[model]]\nname = 'a'", ["'a' must have an architecture or [[model.layer]]"]),
    ("[[model]\n", ["line 1", "not valid TOML"]),
    (OWN.replace("gradient_bytes = 4000", "gradient_bytes = -1"), ["[[model]] 1: layer.0.gradient_bytes", "got -1"]),
    (OWN.replace("forward_us = 1.5", "forward_us = -1.5"), ["layer.0.forward_us", "got -1.5"]),
    (OWN.replace("forward_us = 1.5", "forward_us = nan"), ["layer.0.forward_us", "got nan"]),
    (OWN.replace("gradient_bytes = 400\n", ""), ["layer.1.gradient_bytes is missing"]),
    (OWN.replace("update_us", "updat_us"), ["updat_us is not known", "did you mean 'update_us'"]),
    (
        OWN.replace('"transformer"', '"transfromer"'),
        ["[[model]] 2: architecture", "'transformer'", "got 'transfromer'"],
    ),
    (OWN.replace("batch = 4\n", ""), ["'small-gpt' needs a batch"]),
    (OWN.replace("hidden = 64", "hidden = 0"), ["shape.hidden", "greater than or equal to 1"]),
    (OWN.replace("hidden = 64", "hiden = 64"), ["shape.hidden", "blocks, hidden"]),
    (OWN.replace("small-gpt", "MINE"), ["'mine' twice"]),
    (re.sub(r"_us = [\d.]+", "_us = 0", OWN), ["'mine' computes nothing"]),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_in_a_file_are_reported(tmp_path, text, said):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(NetworkError) as caught:
        catalogue(path)
    assert [part for part in [str(path), *said] if part not in str(caught.value)] == [], str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(NetworkError, match="no such file"):
        catalogue(tmp_path / "nowhere.toml")
    with pytest.raises(NetworkError, match="is a folder"):
        catalogue(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(NetworkError, match="UTF-8"):
        catalogue(tmp_path / "latin.toml")


@pytest.mark.parametrize(("text", "said"), [("DATA\n1\na\t-1\tx\n", "line 3"), ("DATA\n0\n", "no layers")])
def test_mistakes_in_a_layer_file_are_reported(tmp_path, text, said):
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(NetworkError, match=said):
        read_layers(tmp_path / "a.tsv")

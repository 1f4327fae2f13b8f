"""Models as files: what is written is read again, and what can't be used is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os

import numpy as np
import pytest

from shunter import world as w
from shunter.errors import ModelError
from shunter.predictors import features as f
from shunter.predictors import storing
from shunter.predictors import throughput as tp
from shunter.predictors.fitted import estimates, quantiles
from shunter.predictors.fitting import known
from shunter.predictors.history import History
from shunter.predictors.trees import Trees, no_trees
from shunter.seeding import rng

TREES = Trees(
    np.array([[1, 1, 2, 1], [-1, 0, 0, 0], [-1, 0, 0, 0]]), np.ones(3), np.arange(3.0), np.zeros(1), np.ones(1)
)


@pytest.fixture
def fitted(habits):
    trace = habits(300)
    made = History().fit(known(trace, f.stream(trace), w.NEVER))
    return dataclasses.replace(made, trees=TREES, alpha=0.5, terms=("gpus",), importance={"gpus": 0.5})


def test_what_is_written_is_read_again(fitted, habits, tmp_path):
    storing.save(fitted, tmp_path / "m")
    again = storing.load(tmp_path / "m")
    for field in dataclasses.fields(fitted):
        if field.name not in ("trees", "errors", "levels", "edges", "spread"):
            assert getattr(again, field.name) == getattr(fitted, field.name), field.name
    rows = f.stream(habits(50))
    seconds = estimates(fitted, rows)
    np.testing.assert_array_equal(estimates(again, rows), seconds)
    np.testing.assert_array_equal(quantiles(again, seconds), quantiles(fitted, seconds))
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_forecasters_too(tmp_path):
    made = tp.ThroughputForecaster("gbm", {}, TREES, no_trees(), 300, 7)
    storing.save(made, tmp_path / "m")
    again = storing.load(tmp_path / "m")
    assert (again.fitted_at, again.features) == (7, tp.NAMES)
    np.testing.assert_array_equal(again.jobs.value, TREES.value)


def test_a_part_of_a_file_is_refused(fitted, tmp_path):
    storing.save(fitted, tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 30):
        (tmp_path / "part").write_bytes(content[:length])
        with pytest.raises(ModelError, match=r"is not a model, or only a part of one .*make it again with"):
            storing.load(tmp_path / "part")


def rewritten(path, **changed):
    """The file with other arrays; each given one is made from the one that was there."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changed.items():
        arrays[name] = change(arrays[name])
    with path.open("wb") as file:
        np.savez(file, **arrays)


def test_an_edited_file_is_refused(fitted, tmp_path):
    storing.save(fitted, tmp_path / "m")
    rewritten(tmp_path / "m", spread=lambda spread: spread + 1)
    with pytest.raises(ModelError, match="its content is not what was written"):
        storing.load(tmp_path / "m")


def test_another_version_is_refused(fitted, tmp_path):
    storing.save(fitted, tmp_path / "m")

    def newer(header):
        return np.frombuffer(json.dumps(json.loads(header.tobytes()) | {"format": 99}).encode(), np.uint8)

    rewritten(tmp_path / "m", header=newer)
    with pytest.raises(ModelError, match="must be a model of format 2, got duration of format 99"):
        storing.load(tmp_path / "m")


HEADER = {
    "name": [7, None, ["gbm"]],
    "settings": [[], {"rounds": {"deep": 1}}, {"rate": math.nan}],
    "alpha": ["0.5", True, None, math.nan, math.inf, -0.1, 1.5],
    "half_life_days": [0, -1, math.nan],
    "longest_s": [0, -5.0, math.inf],
    "rows": [-1, 1.5, "300", 10**30],
    "span": [[1], [1, 2, 3], [1, "x"], 5],
    "fitted_at": [None, 1.5, 10**40],
    "calibrated_at": ["now", -(10**40)],
    "error": [-1, math.nan, 1e9, "small"],
    "terms": [["moon"], ["gpus", "gpus"], ["gpus", "hour"], "gpus", [1]],
    "importance": [{"moon": 1.0}, {"gpus": "much"}, {"gpus": math.nan}, [["gpus", 1]]],
    "versions": [{"lightgbm": 4}, None],
    "features": [None, "gpus", [1, 2]],
}
ARRAYS = {
    "errors": [np.zeros((3, 4)), np.zeros((2, 0)), np.full((2, 2), np.nan), np.zeros((2, 2), np.int64), np.zeros(4)],
    "levels": [np.zeros(3), np.full(4, np.inf), np.array(["a"] * 4)],
    "edges": [np.zeros(5), np.array([np.nan, 0])],
    "spread": [np.zeros((3, 3)), np.full((3, 4), 1000.0), np.zeros((3, 4), np.float32)],
    "trees.nodes": [np.zeros(4, np.int64), np.zeros((3, 4)), np.zeros((3, 3), np.int64), np.zeros((0, 0), np.int64)],
    "trees.threshold": [np.zeros(2), np.zeros(3, complex), np.full(3, np.nan)],
    "trees.value": [np.zeros((3, 1)), np.full(3, np.inf)],
    "trees.roots": [np.zeros(1), np.array([-1]), np.array([3]), np.zeros(1, np.uint8)],
    "trees.base": [np.zeros(0), np.zeros(2), np.array([np.nan])],
}


def signed(path):
    """The file with the checksum of what is in it now, as an attacker would write it."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    rewritten(path, checksum=lambda _: np.frombuffer(storing._checksum(arrays), np.uint8))


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, all_ in HEADER.items() for value in all_])
def test_a_bad_field_is_refused_by_its_name(fitted, tmp_path, field, value):
    def changed(header):
        return np.frombuffer(json.dumps(json.loads(header.tobytes()) | {field: value}).encode(), np.uint8)

    storing.save(fitted, tmp_path / "m")
    rewritten(tmp_path / "m", header=changed)
    signed(tmp_path / "m")
    with pytest.raises(ModelError, match=rf"m: is not a model that shunter wrote: .*{field}.*make it"):
        storing.load(tmp_path / "m")


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, all_ in ARRAYS.items() for value in all_])
def test_a_bad_array_is_refused_by_its_name(fitted, tmp_path, field, value):
    storing.save(fitted, tmp_path / "m")
    rewritten(tmp_path / "m", **{field: lambda _: value})
    signed(tmp_path / "m")
    told = "tree" if field.startswith("trees.") else field
    with pytest.raises(ModelError, match=rf"m: is not a model that shunter wrote: .*{told}.*make it"):
        storing.load(tmp_path / "m")


@pytest.mark.parametrize("field", [*HEADER, *ARRAYS])
def test_a_missing_field_is_named(fitted, tmp_path, field):
    storing.save(fitted, tmp_path / "m")
    with np.load(tmp_path / "m") as file:
        arrays = {name: file[name] for name in file.files if name not in (field, "checksum")}
    header = json.loads(arrays["header"].tobytes())
    header.pop(field, None)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays["checksum"] = np.frombuffer(storing._checksum(arrays), np.uint8)
    with (tmp_path / "m").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(ModelError, match=f"{field} is missing"):
        storing.load(tmp_path / "m")


@pytest.mark.parametrize("header", [b"[]", b"7", b"[" * 100_000, b'{"kind": ["duration"], "format": 2}', b"{"])
def test_a_header_that_is_none(fitted, tmp_path, header):
    storing.save(fitted, tmp_path / "m")
    rewritten(tmp_path / "m", header=lambda _: np.frombuffer(header, np.uint8))
    signed(tmp_path / "m")
    with pytest.raises(ModelError, match=r"must be a model of format 2|is not a model"):
        storing.load(tmp_path / "m")


def test_flipped_bytes_never_end_in_a_traceback(fitted, tmp_path):
    storing.save(fitted, tmp_path / "m")
    content, draw = (tmp_path / "m").read_bytes(), rng(0, "bytes")
    for _ in range(300):
        changed = np.frombuffer(content, np.uint8).copy()
        changed[draw.integers(0, len(changed), 3)] = draw.integers(0, 256, 3)
        (tmp_path / "bad").write_bytes(changed.tobytes())
        with contextlib.suppress(ModelError):
            storing.load(tmp_path / "bad")


def test_a_small_file_that_unpacks_to_too_much(fitted, tmp_path, monkeypatch):
    storing.save(dataclasses.replace(fitted, errors=np.zeros((2, 200_000))), tmp_path / "m")
    with np.load(tmp_path / "m") as file, (tmp_path / "bomb").open("wb") as packed:
        np.savez_compressed(packed, **{name: file[name] for name in file.files})
    assert storing.load(tmp_path / "bomb").errors.shape == (2, 200_000)
    monkeypatch.setattr(storing, "most_parsed", lambda: 2**20)
    with pytest.raises(ModelError, match=r"bomb: is not a model.*it holds more than 1 MiB"):
        storing.load(tmp_path / "bomb")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="is a pipe or a device"):
        storing.load(tmp_path / "pipe")


def test_other_features_are_refused(fitted, tmp_path):
    storing.save(dataclasses.replace(fitted, features=("gpus", "moon")), tmp_path / "m")
    with pytest.raises(ModelError, match=r"was fitted to other features .*make it again"):
        storing.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(ModelError, match=r"there is no such file|is not a model"):
        storing.load(tmp_path / name)


def test_nothing_is_written_where_one_cannot(fitted, tmp_path):
    with pytest.raises(ModelError, match="can't be written"):
        storing.save(fitted, tmp_path / "none" / "m")
    assert list(tmp_path.iterdir()) == []


def test_the_cache(fitted, tmp_path, monkeypatch):
    monkeypatch.setenv("SHUNTER_MODELS", str(tmp_path / "kept"))
    made = []

    def make():
        made.append(1)
        return fitted

    first, again = storing.cached(("digest", "gbm"), make), storing.cached(("digest", "gbm"), make)
    assert (len(made), again.error) == (1, first.error)
    storing.cached(("digest", "ebm"), make)
    assert len(made) == 2
    (path, _) = sorted((tmp_path / "kept").iterdir())
    path.write_bytes(b"broken")
    storing.cached(("digest", "gbm"), make)
    storing.cached(("digest", "ebm"), make)
    assert len(made) == 3
    monkeypatch.setenv("SHUNTER_MODELS", str(path / "a file is no folder"))
    assert storing.cached(("digest", "gbm"), make) is fitted

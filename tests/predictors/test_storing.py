"""Models as files: what is written is read again, and what can't be used is refused."""

from __future__ import annotations

import dataclasses
import json

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

TREES = Trees(
    np.array([[1, 1, 2, 1], [-1, 0, 0, 0], [-1, 0, 0, 0]]), np.ones(3), np.arange(3.0), np.zeros(1), np.ones(1)
)


@pytest.fixture
def fitted(habits):
    trace = habits(300)
    made = History().fit(known(trace, f.stream(trace), w.NEVER))
    return dataclasses.replace(made, trees=TREES, alpha=0.5, terms=("a", "b"), importance={"a": 0.5})


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
    made = tp.Forecaster("gbm", {}, TREES, no_trees(), 300, 7)
    storing.save(made, tmp_path / "m")
    again = storing.load(tmp_path / "m")
    assert (again.fitted_at, again.features) == (7, tp.NAMES)
    np.testing.assert_array_equal(again.jobs.value, TREES.value)


def test_a_part_of_a_file_is_refused(fitted, tmp_path):
    storing.save(fitted, tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 30):
        (tmp_path / "part").write_bytes(content[:length])
        with pytest.raises(ModelError, match=r"is not a model, or only a part of one .*make it anew with"):
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


def test_other_features_are_refused(fitted, tmp_path):
    storing.save(dataclasses.replace(fitted, features=("gpus", "moon")), tmp_path / "m")
    with pytest.raises(ModelError, match=r"was fitted to other features .*make it anew"):
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

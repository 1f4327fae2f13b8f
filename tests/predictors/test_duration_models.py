"""Duration models learn what there is to learn, from what had ended, and say how sure they are."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shunter import world as w
from shunter.errors import ModelError
from shunter.predictors import features as f
from shunter.predictors.blend import Blend
from shunter.predictors.ebm import PUBLISHED, Ebm
from shunter.predictors.fitted import estimates, quantiles
from shunter.predictors.fitting import known
from shunter.predictors.gbm import Gbm
from shunter.predictors.history import History
from shunter.predictors.models import model

QUICK = {"rounds": 80, "rate": 0.1, "smallest": 20, "bags": 2}


@pytest.fixture(scope="module")
def split(habits):
    """A trace, its rows, and the instant at which two thirds of its jobs have been submitted."""
    trace = habits(3_000)
    return trace, f.stream(trace), int(trace.submit[2_000])


def error(fitted, split):
    trace, rows, at = split
    later = trace.submit > at
    return np.abs(np.log(estimates(fitted, rows[later]) / (trace.duration[later] / 1000))).mean()


@pytest.fixture(scope="module")
def gbm(split):
    pytest.importorskip("lightgbm", reason="no lightgbm; ./scripts/install all,dev has it")
    trace, rows, at = split
    return Gbm(**QUICK).fit(known(trace, rows, at))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no list of threads")
def test_a_booster_never_changes_how_many_threads_lightgbm_uses():
    """Two are trained at a time; with another number for one of them, LightGBM crashed now and then."""
    pytest.importorskip("lightgbm", reason="no lightgbm; ./scripts/install all,dev has it")
    code = (
        "import os, lightgbm, numpy as np\n"
        "from shunter.predictors.fitting import TrainingTable\n"
        "from shunter.predictors.gbm import Gbm\n"
        "rows = np.random.default_rng(0).random((400, 3))\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "Gbm(rounds=5)._boosted(lightgbm, 'l2', TrainingTable(rows, rows.sum(axis=1), 'abc'), slice(100))\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "4"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_a_model_beats_the_rolling_mean(split, gbm):
    trace, rows, at = split
    history = History().fit(known(trace, rows, at))
    assert error(gbm, split) < 0.8 * error(history, split)
    assert error(gbm, split) < 0.45  # what the users themselves do not know is 0.32
    assert next(iter(gbm.importance)) in ("request_mean", "user_gpus_mean", "request_previous")


@pytest.fixture(scope="module")
def ebm(split):
    pytest.importorskip("interpret", reason="no interpret; ./scripts/install all,dev has it")
    trace, rows, at = split
    return Ebm(bags=2).fit(known(trace, rows, at))


def test_an_ebm_has_terms(split, ebm):
    assert error(ebm, split) < 0.45
    assert len(ebm.terms) == len(ebm.trees.roots) > 10
    assert set(ebm.importance) == set(ebm.terms)
    assert {part for term in ebm.terms for part in term.split(" & ")} <= set(f.NAMES)


def test_an_ebm_as_published(habits, monkeypatch):
    pytest.importorskip("interpret", reason="no interpret; ./scripts/install all,dev has it")
    monkeypatch.setitem(PUBLISHED, "max_rounds", 20)  # all of them take long
    trace = habits(120)
    fitted = Ebm(settings="published", bags=2).fit(known(trace, f.stream(trace), w.NEVER))
    assert any(" & " in term for term in fitted.terms)


def test_quantiles_hold(split, gbm):
    trace, rows, at = split
    later = trace.submit > at
    low, middle, upper, high = quantiles(gbm, estimates(gbm, rows[later]))
    seconds = trace.duration[later] / 1000
    assert 0.74 < np.mean((seconds >= low) & (seconds <= high)) < 0.86
    assert 0.44 < np.mean(seconds <= middle) < 0.56
    assert 0.69 < np.mean(seconds <= upper) < 0.81


def test_only_what_had_ended_is_learned_from(split, gbm):
    """A model is the same whatever the jobs took that had not ended."""
    trace, _, at = split
    running = f.recorded_ends(trace) > at
    other = dataclasses.replace(trace, duration=np.where(running, 10 * trace.duration, trace.duration))
    again = Gbm(**QUICK).fit(known(other, f.stream(other), at))
    np.testing.assert_array_equal(again.trees.value, gbm.trees.value)
    np.testing.assert_array_equal(again.spread, gbm.spread)
    assert again.rows == gbm.rows == (~running).sum()


def test_known_is_in_the_order_of_ends(split):
    trace, rows, at = split
    ended = known(trace, rows, at)
    ends = f.recorded_ends(trace)
    order = [job for job in np.lexsort((np.arange(len(trace)), ends)) if ends[job] <= at]
    np.testing.assert_array_equal(ended.submit, trace.submit[order])
    first, last = ended.split(0.2)
    assert len(last) == -(-len(ended) // 5)
    np.testing.assert_array_equal(np.concatenate((first.seconds, last.seconds)), ended.seconds)


def test_a_blend_is_a_mix(split, gbm):
    trace, rows, at = split
    blend = Blend(**QUICK, weight=0.3).fit(known(trace, rows, at))
    np.testing.assert_array_equal(blend.trees.value, gbm.trees.value)
    some = rows[2_000:]
    rolling = np.exp(some[:, f.F_RECENT] + some[:, f.F_HISTORY])
    np.testing.assert_allclose(estimates(blend, some), 0.3 * rolling + 0.7 * estimates(gbm, some))


def test_what_was_fitted_is_said(split, gbm):
    trace, _, at = split
    assert (gbm.name, gbm.fitted_at, gbm.alpha) == ("gbm", at, 0.0)
    assert gbm.span[0] == trace.submit[0]
    assert gbm.settings["rounds"] == 80
    assert set(gbm.versions) == {"lightgbm"}
    assert gbm.error == pytest.approx(error(gbm, split), abs=0.08)


@pytest.mark.parametrize("cls", [History, Gbm])
def test_too_little_history_is_refused(cls, habits):
    trace = habits(99)
    with pytest.raises(ModelError, match="must have at least 100 ended jobs to learn from, got 99; give a longer"):
        cls().fit(known(trace, f.stream(trace), w.NEVER))


def test_models_are_named_by_text():
    assert model("gbm:rounds=20,objective=l1") == Gbm(rounds=20, objective="l1")
    with pytest.raises(ModelError, match="there is no model 'gmb'; did you mean 'gbm'"):
        model("gmb")
    with pytest.raises(ModelError, match=r"model 'gbm': parameter 'rounds' must be 1 .. 10000, got '0'"):
        model("gbm:rounds=0")
    with pytest.raises(ModelError, match="model 'gbm' has no parameter 'round'; did you mean 'rounds'"):
        model("gbm:round=1")

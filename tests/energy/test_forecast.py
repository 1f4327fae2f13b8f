"""Forecasts of node demand: what they may know, and what they are worth."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.energy import forecast
from shunter.energy.control import PRESETS
from shunter.energy.forecast import REACH, STEPS_A_DAY, features, fit, forecasts, mean_ahead
from shunter.energy.saving import saving
from shunter.energy.series import STEP_MS, NodeSeries
from shunter.errors import EnergyError, InputError
from shunter.seeding import rng

DAYS = 16


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch):
    """On what is as regular as this, a fit gets better and better."""
    monkeypatch.setattr(forecast, "ROUNDS", 60)


def tide(days=DAYS, seed=0):
    """Demand that comes and goes with the day, and a little by chance."""
    steps = np.arange(days * STEPS_A_DAY)
    used = 60 + 30 * np.sin(2 * np.pi * steps / STEPS_A_DAY) + rng(seed, "tide").normal(0, 2, len(steps))
    return NodeSeries("tide", steps * STEP_MS, np.clip(used.round(), 0, 120).astype(np.int64), np.full(len(steps), 120))


def changed(series, after):
    """The same up to a step, and something else from then on."""
    used = series.used.copy()
    used[after:] = 120 - used[after:]
    return NodeSeries("other", series.time, used, series.total)


def test_features_end_with_the_present():
    series = tide(3)
    for step in (40, 100, 200):
        before, after = (features(s.time, s.used)[: step + 1] for s in (series, changed(series, step + 1)))
        np.testing.assert_array_equal(before, after)
        other = features(series.time, changed(series, step).used)[step]
        assert (other != features(series.time, series.used)[step]).sum() >= 4


def test_features_reach_back_no_farther_than_they_say():
    series = tide(3)
    whole, tail = features(series.time, series.used), features(series.time[-REACH:], series.used[-REACH:])
    np.testing.assert_array_equal(whole[-1], tail[-1])
    assert not np.isnan(tail[-1]).any()
    assert np.isnan(features(series.time[-REACH + 1 :], series.used[-REACH + 1 :])[-1]).any()


def test_the_mean_ahead_is_that_of_the_steps_after():
    used = np.array([5, 1, 2, 6, 4])
    np.testing.assert_array_equal(mean_ahead(used, 2), [1.5, 4, 5, np.nan, np.nan])
    assert np.isnan(mean_ahead(used, 7)).all()


def test_a_forecast_does_not_change_with_what_comes_after():
    pytest.importorskip("lightgbm")
    series, begin = tide(), 10 * STEPS_A_DAY
    moment = begin + 100
    one, other = (forecasts("lightgbm", s, begin, 18) for s in (series, changed(series, moment + 1)))
    np.testing.assert_array_equal(one.near[: moment + 1], other.near[: moment + 1])
    np.testing.assert_array_equal(one.far[: moment + 1], other.far[: moment + 1])
    assert one.scores["near_rmse"] < forecasts("last", series, begin, 18).scores["near_rmse"] / 2
    leak, leaked = (forecasts("leak", s, begin, 18) for s in (series, changed(series, moment + 1)))
    assert leak.near[moment] != leaked.near[moment]  # that is what it is called for


@pytest.mark.parametrize("kind", ["lightgbm", "leak"])
def test_the_seed_is_that_of_the_models(kind):
    pytest.importorskip("lightgbm")
    first, again, other = (forecasts(kind, tide(), 10 * STEPS_A_DAY, 18, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.near, again.near)
    assert (first.near != other.near).any()


def test_what_it_learns_from_ends_before_the_time_to_be_forecast():
    pytest.importorskip("lightgbm")
    series, begin = tide(), 10 * STEPS_A_DAY
    whole = forecasts("lightgbm", series, begin, 18)
    past = fit(series.time[:begin], series.used[:begin], 18)
    near, far = past.at(series.time, series.used)
    np.testing.assert_array_equal(whole.near, near)
    np.testing.assert_array_equal(whole.far, far)
    assert past.now(series.time[: begin + 50], series.used[: begin + 50]) == (near[begin + 49], far[begin + 49])


def test_the_rounds_are_found_on_steps_whose_means_are_complete():
    """Between what is fitted and what it is tried on lie as many steps as the mean looks ahead."""
    seen = []

    class Trained:
        best_iteration = 7

    class Library:
        early_stopping = staticmethod(lambda *_, **__: None)

        @staticmethod
        def Dataset(rows, target):  # noqa: N802
            return rows[:, 0]

        @staticmethod
        def train(params, rows, rounds, valid_sets=(), callbacks=()):
            seen.append((rows, [*valid_sets], rounds))
            return Trained

    steps = np.arange(1000.0)
    forecast._fit(Library, steps[:, None], mean_ahead(steps.astype(np.int64), 50), seed=0)
    (early, (late,), _), (everything, _, rounds) = seen
    assert (early[0], late[-1], rounds) == (REACH, 949, 7)
    assert early[-1] + 50 < late[0]
    assert set(everything) == set(np.arange(REACH, 950.0))


def test_too_little_history_is_refused_and_last_needs_none():
    series = tide(9)
    with pytest.raises(EnergyError, match=r"learned from 7\.0 days or more, got 5\.0 .*take the forecast 'last'"):
        forecasts("lightgbm", series, 5 * STEPS_A_DAY, 18)
    with pytest.raises(EnergyError, match=r"for 180 steps is learned from 10\.0 days"):
        forecasts("leak", series, 8 * STEPS_A_DAY, 180)
    assert np.isnan(forecasts("last", series, 0, 18).near).all()


def test_an_unknown_forecast_is_refused():
    with pytest.raises(EnergyError, match="there is no forecast 'lightgmb'; did you mean 'lightgbm'"):
        forecasts("lightgmb", tide(9), 8 * STEPS_A_DAY, 18)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    with pytest.raises(InputError, match=r"needs lightgbm .*scripts/install ml"):
        forecasts("lightgbm", tide(9), 8 * STEPS_A_DAY, 18)


def test_a_time_that_is_not_in_the_series_is_refused():
    with pytest.raises(EnergyError, match=r"must be a day or more, and 0\.0 h of it are in the series"):
        saving(tide(9), 20 * STEPS_A_DAY * STEP_MS, None, "last", PRESETS["venus"])


def test_the_last_quarter_is_the_default():
    found = saving(tide(9), None, 8 * STEPS_A_DAY * STEP_MS, "last", PRESETS["venus"])
    assert (found.begin, len(found.course.used)) == (6 * STEPS_A_DAY, 2 * STEPS_A_DAY)
    assert found.time[0] == 6 * STEPS_A_DAY * STEP_MS

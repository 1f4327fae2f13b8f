"""Quantiles of run times hold for the jobs to come, also when these are not like those of the past."""

from __future__ import annotations

import numpy as np
import pytest

from shunter import world as w
from shunter.predictors import features as f
from shunter.predictors.calibrating import QUANTILES, at_quantile, moved, quantiles_of
from shunter.predictors.fitted import estimates, quantiles
from shunter.predictors.fitting import EndedJobs, known
from shunter.predictors.history import History


@pytest.fixture(scope="module")
def fitted(habits):
    trace = habits(600)
    return History().fit(known(trace, f.stream(trace), w.NEVER))


def test_errors_by_third_of_the_estimates():
    log_estimates = np.repeat([0.0, 1.0, 2.0], 99)
    residuals = np.tile(np.arange(1.0, 100.0), 3) * np.repeat([1.0, 2.0, 3.0], 99)
    _, spread = quantiles_of(np.stack((log_estimates, residuals)), np.array(QUANTILES))
    np.testing.assert_allclose(spread, np.outer([1, 2, 3], [10, 50, 75, 90]))


def test_few_errors_are_taken_together():
    _, spread = quantiles_of(np.stack((np.zeros(12), np.arange(12.0))), np.array(QUANTILES))
    assert (spread == spread[0]).all()
    assert isinstance(EndedJobs(np.zeros((1, 1)), np.ones(1), np.zeros(1, np.int64), 0).logs, np.ndarray)


def test_a_kernel_and_a_batch_say_the_same(fitted, habits):
    seconds = np.append(estimates(fitted, f.stream(habits(200))), np.exp(fitted.edges))
    batch = quantiles(fitted, seconds)
    for which in range(len(QUANTILES)):
        single = [at_quantile(fitted.edges, fitted.spread, one, which) for one in seconds]
        np.testing.assert_allclose(batch[which], single)


def drifting(fitted, pace, days=40, jobs=60):
    """The share of jobs below each quantile, of jobs that take longer from day to day, and err more."""
    draw, held = np.random.default_rng(1), np.zeros((days, len(QUANTILES)))
    for day in range(days):
        seconds = np.exp(draw.uniform(4, 8, jobs))
        actual = np.maximum(seconds * np.exp(0.02 * day + (0.4 + 0.02 * day) * draw.standard_normal(jobs)), 1)
        held[day] = (actual <= quantiles(fitted, seconds)).mean(axis=1)
        after = fitted.recalibrated(seconds, actual, fitted.calibrated_at + 86_400_000)
        fitted = after if pace else after.read_at(fitted.levels)
    return held.mean(axis=0)


def test_levels_move_until_quantiles_hold(fitted):
    """Errors of the past alone hold too few; with levels that move, the quantiles hold."""
    np.testing.assert_allclose(drifting(fitted, pace=True), QUANTILES, atol=0.04)
    assert drifting(fitted, pace=False)[-1] < 0.8


def test_quantiles_stay_in_order_whatever_happens(fitted):
    for held in (np.zeros(4), np.ones(4), np.array([1.0, 0.0, 1.0, 0.0])):
        levels = np.array(QUANTILES)
        for _ in range(50):
            levels = moved(levels, held, jobs=1000, known=2000)
            _, spread = quantiles_of(fitted.errors, levels)
            assert (np.diff(spread, axis=1) >= 0).all()
        assert (np.abs(levels) <= 2).all()


def test_a_burst_that_was_missed_is_made_up_for(fitted):
    """One day all jobs take far longer than expected: later days hold more, until so many are held in all."""
    draw, held = np.random.default_rng(2), []
    for day in range(120):
        seconds = np.full(200, 1000.0)
        actual = seconds * np.exp(0.5 * draw.standard_normal(200)) * (100 if day == 5 else 1)
        held.append((actual <= quantiles(fitted, seconds)).mean(axis=1))
        fitted = fitted.recalibrated(seconds, actual, fitted.calibrated_at + 86_400_000)
    np.testing.assert_allclose(np.mean(held, axis=0), QUANTILES, atol=0.03)


def test_without_jobs_nothing_moves(fitted):
    after = fitted.recalibrated(np.zeros(0), np.zeros(0), 7)
    assert after.calibrated_at == 7
    np.testing.assert_array_equal(after.spread, fitted.spread)

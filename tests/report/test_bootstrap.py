"""Intervals of differences: right where the answer is known, cheap, and the same every time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from growth import FAR_BELOW_QUADRATIC, growth
from shunter.report.bootstrap import drawn_means, drawn_quantiles, draws_of, estimate, means_of_repeats
from shunter.report.bootstrap import mean_difference as difference_in
from shunter.seeding import rng

RANDOM = np.random.default_rng(1)


def mean_difference(first, other, seed=0, redrawn=True):
    return difference_in(first, other, draws_of([len(one) for one in first], redrawn, seed))


def test_a_constant_difference_is_certain():
    base = RANDOM.normal(size=500)
    found = mean_difference([base], [base + 3])
    assert [found[key] for key in ("mean_s", "low_s", "high_s")] == pytest.approx([3, 3, 3])


def test_luck_that_lasts_for_long_is_in_the_interval():
    """Blocks of n^(1/3) jobs held the mean 1 time in 5 here; five stretches hold it most of the time."""
    held = 0
    for seed in range(200):
        luck = np.repeat(rng(seed, "luck").normal(size=20), 50)  # jobs of a busy day share theirs
        found = mean_difference([np.zeros(1000)], [luck + rng(seed, "job").normal(size=1000)])
        held += found["low_s"] <= 0 <= found["high_s"]
    assert 0.85 * 200 <= held <= 0.99 * 200


def test_enough_repeats_with_jobs_of_their_own_are_what_is_drawn():
    shifts = [1.0, 3.0, 2.0, 1.5, 2.5]
    zeros = [np.zeros(100)] * 5
    found = mean_difference(zeros, [np.full(100, shift) for shift in shifts])
    assert found["mean_s"] == pytest.approx(2)
    assert 1 <= found["low_s"] < 1.5
    assert 2.5 < found["high_s"] <= 3
    assert draws_of([100] * 5, redrawn=True).over == "repeats"


def test_repeats_of_the_same_jobs_make_no_interval_narrower():
    luck = np.repeat(RANDOM.normal(size=5), 200)
    once, often = (mean_difference([np.zeros(1000)] * n, [luck] * n, redrawn=False) for n in (1, 20))
    assert (once["low_s"], once["high_s"]) == pytest.approx((often["low_s"], often["high_s"]))


def test_a_few_repeats_are_cut_into_stretches_too():
    draws = draws_of([100, 100], redrawn=True)
    assert (draws.over, draws.parts) == ("stretches", 6)
    assert [sorted(set(part.tolist())) for part in draws.part] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("count", [1000, 30_000])
def test_quantiles_of_all_are_those_of_the_values(count):
    values = rng(3, "values").lognormal(sigma=2, size=count)
    found = drawn_quantiles(draws_of([count], redrawn=True), [values], (0.5, 0.99))[:, 0]
    assert found == pytest.approx(np.quantile(values, (0.5, 0.99)), rel=0.02)


def test_what_did_not_finish_counts_for_nothing():
    draws = draws_of([4], redrawn=True)
    values = np.array([1.0, np.nan, 3.0, np.nan])
    assert drawn_means(draws, [values])[0] == 2
    assert drawn_quantiles(draws, [values], (0.5,))[0, 0] == 1


def test_only_jobs_that_finished_under_both_count():
    found = mean_difference([np.array([1.0, np.nan, 5.0])], [np.array([2.0, 2.0, np.nan])])
    assert (found["mean_s"], found["pairs"]) == (1.0, 1)
    assert mean_difference([np.array([np.nan])], [np.array([1.0])])["mean_s"] is None


def test_the_same_seed_gives_the_same_interval():
    values = RANDOM.exponential(size=100_000)
    first = mean_difference([np.zeros(100_000)], [values], seed=4)
    assert mean_difference([np.zeros(100_000)], [values], seed=4) == first


def test_an_interval_takes_as_long_as_there_are_values():
    def difference(count):
        return mean_difference([np.zeros(count)], [np.linspace(0, 1, count)], seed=4)

    assert growth(difference, 20_000, 320_000) < FAR_BELOW_QUADRATIC


@pytest.mark.parametrize("repeats", [5, 10, 30])
def test_intervals_of_few_repeats_hold_the_mean_about_as_often_as_they_say(repeats):
    """The plain percentiles of 5 draws would hold it 81 times in a hundred."""
    draws = rng(1, "test").normal(3.0, 1.0, (400, repeats))
    found = [estimate(means_of_repeats(values, seed), repeats) for seed, values in enumerate(draws)]
    share = sum(each.low <= 3.0 <= each.high for each in found) / len(found)
    assert 0.91 <= share <= 0.99


def test_too_few_repeats_have_no_interval():
    assert math.isnan(estimate(means_of_repeats(np.array([1.0, 2.0])), 2).low)

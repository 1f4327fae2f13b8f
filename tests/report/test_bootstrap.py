"""Intervals of differences: right where the answer is known, cheap, and the same every time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from growth import growth
from shunter.report.bootstrap import estimate, mean_difference, means_of_repeats
from shunter.seeding import rng

RANDOM = np.random.default_rng(1)


def test_a_constant_difference_is_certain():
    base = RANDOM.normal(size=500)
    found = mean_difference([base], [base + 3])
    assert [found[key] for key in ("mean_s", "low_s", "high_s")] == pytest.approx([3, 3, 3])


def test_independent_differences_give_the_interval_of_the_textbook():
    noise = RANDOM.normal(loc=1, scale=10, size=20_000)
    found = mean_difference([np.zeros(20_000)], [noise])
    width = 2 * 1.96 * 10 / np.sqrt(20_000)
    assert found["high_s"] - found["low_s"] == pytest.approx(width, rel=0.15)
    assert found["low_s"] < noise.mean() < found["high_s"]


def test_luck_that_neighbours_share_widens_the_interval():
    alone = RANDOM.normal(size=8000)
    shared = np.repeat(RANDOM.normal(size=400), 20)
    widths = [f["high_s"] - f["low_s"] for f in (mean_difference([np.zeros(8000)], [x]) for x in (alone, shared))]
    assert widths[1] > 2.5 * widths[0]


def test_repeats_that_disagree_widen_the_interval():
    zeros = np.zeros(1000)
    found = mean_difference([zeros, zeros], [zeros + 1, zeros + 3])
    assert (found["mean_s"], found["low_s"], found["high_s"]) == (2, 1, 3)


def test_only_jobs_that_finished_under_both_count():
    found = mean_difference([np.array([1.0, np.nan, 5.0])], [np.array([2.0, 2.0, np.nan])])
    assert (found["mean_s"], found["pairs"]) == (1.0, 1)
    assert mean_difference([np.array([np.nan])], [np.array([1.0])])["mean_s"] is None


def test_the_same_seed_gives_the_same_interval():
    values = RANDOM.exponential(size=100_000)
    first = mean_difference([np.zeros(100_000)], [values], seed=4)
    assert mean_difference([np.zeros(100_000)], [values], seed=4) == first


def test_four_times_as_many_values_take_no_more_than_that():
    def difference(count):
        return mean_difference([np.zeros(count)], [np.linspace(0, 1, count)], seed=4)

    assert growth(difference, 50_000, 200_000) < 6


@pytest.mark.parametrize("repeats", [5, 10, 30])
def test_intervals_of_few_repeats_hold_the_mean_about_as_often_as_they_say(repeats):
    """The plain percentiles of 5 draws would hold it 81 times in a hundred."""
    draws = rng(1, "test").normal(3.0, 1.0, (400, repeats))
    found = [estimate(means_of_repeats(values, seed), repeats) for seed, values in enumerate(draws)]
    share = sum(each.low <= 3.0 <= each.high for each in found) / len(found)
    assert 0.91 <= share <= 0.99


def test_too_few_repeats_have_no_interval():
    assert math.isnan(estimate(means_of_repeats(np.array([1.0, 2.0])), 2).low)

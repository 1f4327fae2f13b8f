"""Which past hour is replayed."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.errors import RunError
from shunter.generating.arrivals import (
    DISTANCES,
    RULES,
    STEP,
    HoursAgo,
    NearestHour,
    SeasonalMean,
    counts_before,
    distances,
    periodic_part,
    rule_named,
)
from shunter.generating.backtest import backtested, best_rule, hours_before
from shunter.generating.known_jobs import DAY, HOUR, MINUTE, KnownJobs


def jobs_at(submit: list[int] | np.ndarray, duration: int = 10 * MINUTE) -> KnownJobs:
    """Jobs with one GPU that ran at once."""
    times = np.sort(np.asarray(submit, np.int64))
    ran, none = np.full(len(times), duration), np.full(len(times), -1)
    return KnownJobs(times, ran, times + ran, ran, np.full(len(times), 1000), none, none, none)


def spread(begin: int, count: int) -> list[int]:
    """So many jobs evenly within the hour from ``begin`` on."""
    return [begin + k * HOUR // count for k in range(count)]


def daily(days: int, sizes: dict[int, int]) -> KnownJobs:
    """The same hours of every day, other hours have two jobs."""
    return jobs_at([t for hour in range(24 * days) for t in spread(hour * HOUR, sizes.get(hour % 24, 2))])


def test_counts_are_those_of_five_minutes() -> None:
    jobs = jobs_at([0, STEP - 1, STEP, 3 * STEP, 4 * STEP - 1])
    assert counts_before(jobs, 4 * STEP).tolist() == [2, 1, 0, 2]
    assert counts_before(jobs, 3 * STEP).tolist() == [2, 1, 0]


def test_the_last_hour_and_yesterday() -> None:
    jobs = jobs_at([*spread(0, 3), *spread(23 * HOUR, 5)])
    rows, submit = HoursAgo("last-hour", 1).replay(jobs, 24 * HOUR, 0)
    assert rows.tolist() == [3, 4, 5, 6, 7]
    assert submit.tolist() == [t + 24 * HOUR for t in spread(0, 5)]
    rows, submit = HoursAgo("yesterday", 24).replay(jobs, 24 * HOUR, 0)
    assert rows.tolist() == [0, 1, 2]
    assert submit.tolist() == [t + 24 * HOUR for t in spread(0, 3)]
    assert HoursAgo("last-week", 168).replay(jobs, 24 * HOUR, 0).rows.tolist() == [
        3,
        4,
        5,
        6,
        7,
    ]  # no history: the last


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_nearest_hour_is_found_and_itself_or_the_next_one_replayed(distance: str) -> None:
    """The last hour of day 5 has a burst at its end; so has that of day 2, and only there 7 jobs come after it."""
    background = [t for hour in range(24 * 5) for t in spread(hour * HOUR, 12)]
    burst = [h * HOUR + 58 * MINUTE + k for h in (24 * 2 + 23, 24 * 4 + 23) for k in range(40)]
    after = [24 * 3 * HOUR + 1000 + k for k in range(7)]
    jobs, now = jobs_at([*background, *burst, *after]), 24 * 5 * HOUR
    found = NearestHour(distance, periodic=False, after=True).replay(jobs, now, 0)
    assert len(found.rows) == 12 + 7
    assert jobs.submit[found.rows[0]] == 24 * 3 * HOUR
    assert found.submit[0] == now
    itself = NearestHour(distance, periodic=False, after=False).replay(jobs, now, 0)
    assert len(itself.rows) == 12 + 40
    assert jobs.submit[itself.rows[0]] == (24 * 2 + 23) * HOUR


def test_distances_by_hand() -> None:
    windows, reference = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 1.0]]), np.array([1.0, 2.0])
    assert distances(windows, reference, "manhattan").tolist() == [0, 3, 3]
    assert distances(windows, reference, "euclidean").tolist() == pytest.approx([0, 5**0.5, 5**0.5])
    assert distances(windows, reference, "cosine").tolist() == pytest.approx([0, 0, 1 - 5 / 50**0.5])
    assert distances(windows, reference, "pearson").tolist() == pytest.approx([0, 0, 2])
    flat = np.zeros((1, 2))
    assert distances(flat, reference, "cosine").tolist() == [1]
    with pytest.raises(RunError, match="manhattan"):
        distances(windows, reference, "manhatan")


def test_the_periodic_part_keeps_the_day_and_drops_noise() -> None:
    points = np.arange(288 * 8)
    day = 10 + 5 * np.cos(2 * np.pi * points / 288)
    noisy = np.random.default_rng(0).poisson(day)
    assert np.abs(periodic_part(noisy) - day).mean() < 0.3 * np.abs(noisy - day).mean()
    assert periodic_part(np.array([0, 0, 0, 50, 0, 0, 0, 0] * 100)).min() >= 0


def test_a_seasonal_mean_has_the_mean_number_of_jobs() -> None:
    jobs = daily(5, {9: 30})
    rows, submit = SeasonalMean().replay(jobs, (24 * 5 + 9) * HOUR, 3)
    assert len(rows) == 30
    assert (np.diff(submit) >= 0).all()
    assert ((submit >= (24 * 5 + 9) * HOUR) & (submit < (24 * 5 + 10) * HOUR)).all()
    assert (jobs.submit[rows] // HOUR % 24 == 9).all()


@pytest.mark.parametrize("name", RULES)
def test_no_rule_sees_what_is_submitted_later(name: str) -> None:
    draws = np.random.default_rng(1)
    times = np.sort(draws.integers(0, 12 * DAY, 3000))
    now = 9 * DAY + 7 * HOUR
    others = jobs_at([*times[times < now], *draws.integers(now, 12 * DAY, 500)])
    jobs, rule = jobs_at(times), rule_named(name)
    one, two = (rule.replay(each.select(each.between(0, now)), now, 5) for each in (jobs, others))
    assert one.submit.tolist() == two.submit.tolist()
    assert len(one.rows) > 0


def test_the_backtest_prefers_the_rule_that_is_right() -> None:
    jobs, now = daily(16, {8: 40, 9: 10, 13: 60, 20: 25}), 16 * DAY
    last, yesterday = backtested(jobs, hours_before(jobs, now), (HoursAgo("last", 1), HoursAgo("day", 24)))
    assert yesterday.requests == yesterday.service == yesterday.error == 0
    assert last.requests > 0.5
    assert best_rule(jobs, now, (HoursAgo("last", 1), HoursAgo("day", 24))).name == "day"
    assert best_rule(jobs.select(np.arange(50)), 6 * HOUR, RULES.values()).name == "last-hour"

"""Evaluations are honest: split by time, nothing of the future, models fitted again when that is due."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.errors import ModelError
from shunter.predictors import evaluating as e
from shunter.predictors import features as f
from shunter.predictors.fitted import estimates
from shunter.predictors.fitting import known
from shunter.predictors.history import History
from shunter.predictors.missing import missing
from shunter.predictors.models import model
from shunter.predictors.updating import DAY_MS, NEVER, Schedule

WEEKLY = Schedule(drift=float("inf"))


@pytest.fixture(scope="module")
def trace(habits):
    return habits(6_000)  # three weeks


@pytest.fixture(scope="module")
def given_task(trace):
    return e.task(trace, int(trace.submit[3_000]))


def test_the_split_is_by_time(trace):
    at = e.split_at(trace, 0.5)
    assert at == trace.submit[3_000]
    assert e.task(trace, at).asked.tolist() == list(range(3_000, 6_000))


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_both_sides_must_have_jobs(trace, share):
    with pytest.raises(ModelError, match=f"must be between 0 and 1, got {share:g}"):
        e.split_at(trace, share)
    with pytest.raises(ModelError, match="must have jobs before and after the split"):
        e.task(trace, 0)


def test_each_estimate_is_of_the_model_of_its_week(trace, given_task):
    pytest.importorskip("lightgbm", reason="no lightgbm; ./scripts/install all,dev has it")
    quick = model("gbm:rounds=10,bags=2,objective=l2")
    outcome = e.live(quick, given_task, WEEKLY)
    assert outcome.fits == 2
    second = int(given_task.at + 7 * DAY_MS)
    later = given_task.asked[trace.submit[given_task.asked] >= second]
    again = quick.fit(known(trace, given_task.rows, second))
    np.testing.assert_array_equal(outcome.seconds[-len(later) :], estimates(again, given_task.rows[later]))
    first = quick.fit(known(trace, given_task.rows, given_task.at))
    before = given_task.asked[: len(given_task.asked) - len(later)]
    np.testing.assert_array_equal(outcome.seconds[: len(before)], estimates(first, given_task.rows[before]))


def test_what_comes_later_changes_no_estimate(trace, given_task):
    other = dataclasses.replace(trace, duration=np.where(np.arange(6_000) >= 5_000, 1, trace.duration))
    outcomes = [e.live(History(), given, WEEKLY) for given in (given_task, e.task(other, given_task.at))]
    np.testing.assert_array_equal(outcomes[0].seconds[:2_000], outcomes[1].seconds[:2_000])
    assert (outcomes[0].seconds != outcomes[1].seconds).any()


def test_drift_brings_the_next_fit_forward(trace, given_task):
    longer = np.where(np.arange(6_000) >= 3_300, 50 * trace.duration, trace.duration)
    changed = e.task(dataclasses.replace(trace, duration=longer), given_task.at)
    assert e.live(History(), changed, NEVER).fits == 1
    assert e.live(History(), changed, WEEKLY).fits < e.live(History(), changed, Schedule()).fits


def test_rules_are_what_they_say(trace, given_task):
    found = {rule.name: rule.seconds for rule in e.rules(given_task)}
    job = 4_321
    at, now, ends = job - 3_000, trace.submit[job], f.recorded_ends(trace)
    seconds = e.seconds_of(trace)
    past = [j for j in np.argsort(ends, kind="stable") if ends[j] <= now]
    own = [j for j in past if trace.user[j] == trace.user[job]]
    assert found["limit"][at] == trace.limit[job] / 1000
    assert found["mean"][at] == pytest.approx(seconds[past].mean())
    assert found["user2"][at] == pytest.approx(seconds[own[-2:]].mean())


def test_a_trace_without_users_and_limits_has_only_the_mean(trace):
    plain = dataclasses.replace(trace, user=np.full(6_000, -1), limit=np.zeros(6_000, np.int64))
    assert [rule.name for rule in e.rules(e.task(plain, int(trace.submit[10])))] == ["mean"]
    lost = " ".join(missing(plain))
    assert "no user column" in lost
    assert "no limit column" in lost
    assert "no dates" not in lost
    undated = dataclasses.replace(plain, submit=trace.submit - trace.submit[0])
    assert "no dates" in " ".join(missing(undated))


def test_scores_by_hand():
    quantiles = np.array([[5.0, 1.0, 0.0], [7.0, 1.0, 0.0], [8.0, 20.0, 1.0], [9.0, 99.0, 1.0]])
    outcome = e.Outcome("m", np.array([10.0, 20.0, np.nan]), quantiles)
    found = e.scores(outcome, np.array([20.0, 10.0, 7.0]))
    assert found["jobs"] == 2
    assert found["mape"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["mean_abs_log_error"] == pytest.approx(np.log(2))
    assert found["r2"] == pytest.approx(1 - 200 / 50)
    assert found["rank_correlation"] == pytest.approx(-1)
    assert found["bias"] == pytest.approx(0)
    assert found["p10_p90_coverage"] == pytest.approx(1 / 3)
    assert found["held"] == pytest.approx({"p10": 0, "p50": 0, "p75": 1 / 3, "p90": 1 / 3})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_rank_correlation_with_ties(pairs):
    a, b = np.array(pairs, float).T

    def ranks(values):
        return [1 + sum(x < y for x in values) + (sum(x == y for x in values) - 1) / 2 for y in values]

    found = e.rank_correlation(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(ranks(a), ranks(b))[0, 1])


def test_aaic_a_model_beats_history_and_the_last_two(data):
    """One month of it, with a small model; docs/reference/predict.md has the whole."""
    pytest.importorskip("lightgbm", reason="no lightgbm; ./scripts/install all,dev has it")
    from shunter.traces import read

    whole = read(data / "aaic" / "aaicwl-201807-201812.csv.gz")
    trace = whole.select(whole.submit < 1_543_622_400_000)  # December
    november = 1_541_030_400_000
    small = model("gbm:objective=l1,bags=2,rounds=60,rate=0.1,leaves=15")
    rows = {row["model"]: row["mean_abs_log_error"] for row in e.evaluate(trace, november, [History(), small], NEVER)}
    assert rows["gbm"] < 0.85 * min(rows["history"], rows["user2"])
    assert rows["history"] < rows["mean"] < rows["limit"]

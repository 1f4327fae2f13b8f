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
    np.testing.assert_array_equal(outcomes[0].quantiles[:, :2_000], outcomes[1].quantiles[:, :2_000])
    assert (outcomes[0].seconds != outcomes[1].seconds).any()


def test_drift_brings_the_next_fit_forward(trace, given_task):
    longer = np.where(np.arange(6_000) >= 3_300, 50 * trace.duration, trace.duration)
    changed = e.task(dataclasses.replace(trace, duration=longer), given_task.at)
    assert e.live(History(), changed, NEVER).fits == 1
    assert e.live(History(), changed, WEEKLY).fits < e.live(History(), changed, Schedule()).fits


@pytest.mark.parametrize("when", e.WHEN)
def test_rules_are_what_they_say(trace, when):
    """At the submission, and at the start, when more has ended."""
    waited = dataclasses.replace(trace, recorded_wait=7_200_000 * (np.arange(6_000) % 3))
    task = e.task(waited, int(trace.submit[3_000]), when=when)
    found = {rule.name: rule.seconds for rule in e.rules(task)}
    ends, seconds = f.recorded_ends(waited), e.seconds_of(trace)
    for at in (0, 1, 500, 1_321):
        job = task.asked[at]
        now = trace.submit[job] + (waited.recorded_wait[job] if when == "start" else 0)
        past = [j for j in np.argsort(ends, kind="stable") if ends[j] <= now]
        own = [j for j in past if trace.user[j] == trace.user[job]]
        alike = [j for j in own if (trace.gpus[j], trace.limit[j]) == (trace.gpus[job], trace.limit[job])]
        assert found["limit"][at] == trace.limit[job] / 1000
        assert found["mean"][at] == pytest.approx(seconds[past].mean())
        as_large = [j for j in past if trace.gpus[j] == trace.gpus[job]]
        assert found["gpus_median"][at] == pytest.approx(np.median(seconds[as_large[-e.MEDIAN_OF :]]))
        assert found["user2"][at] == pytest.approx(seconds[own[-2:]].mean())
        assert found["request2"][at] == pytest.approx(seconds[alike[-2:]].mean())


def test_rules_for_jobs_without_a_past(trace):
    """A new user has nothing of their own; a new request has what the user's last two took."""
    few = trace.select(np.arange(40))
    task = e.task(few, int(few.submit[1]))
    found = {rule.name: rule.seconds for rule in e.rules(task)}
    new = [job for job in range(1, 40) if few.user[job] not in few.user[:job]]
    assert new
    np.testing.assert_allclose(found["user2"][np.array(new) - 1], np.exp(task.rows[new, f.F_RECENT]))
    assert not np.isnan(found["request2"]).any()
    first = [job for job in range(1, 40) if few.gpus[job] not in few.gpus[:job]]
    assert first
    assert (found["gpus_median"][np.array(first) - 1] == found["mean"][np.array(first) - 1]).all()


def test_estimates_at_the_start_need_recorded_waits(trace):
    with pytest.raises(ModelError, match="has no recorded_wait, so it is unknown when jobs started; use submission"):
        e.task(trace, int(trace.submit[10]), when="start")
    with pytest.raises(ModelError, match="a job is estimated at its submission or start, got 'end'"):
        e.task(trace, int(trace.submit[10]), when="end")


def test_at_the_start_more_is_known(habits):
    """Users turn to other work while jobs wait for a day."""
    trace = habits(2_000)
    changing = (trace.duration * np.exp(2 * np.sin(np.arange(2_000) / 100))).astype(np.int64)
    waited = dataclasses.replace(trace, recorded_wait=np.full(2_000, DAY_MS), duration=changing)
    errors = {}
    for when in e.WHEN:
        task = e.task(waited, int(trace.submit[1_000]), when=when)
        outcome = e.live(History(), task, WEEKLY)
        assert (np.diff(task.moment[task.asked]) >= 0).all()
        errors[when] = e.scores(outcome, task.actual)["mean_abs_log_error"]
    assert errors["start"] < 0.9 * errors["submission"]


def test_ranks_are_of_jobs_that_wait_together(trace):
    """Estimates that are right within a queue and wrong from queue to queue: the order is right all the same."""
    few = trace.select(np.arange(301))
    queue = np.arange(301) // 20
    submit = few.submit[0] + queue * DAY_MS + np.arange(301)
    waits = np.full(301, DAY_MS // 2)
    together = dataclasses.replace(few, submit=submit, recorded_wait=waits)
    task = e.task(together, int(submit[1]))
    found = task.actual * np.exp(10.0 * (queue[1:] % 2))
    assert e.rank_correlation(found, task.actual) < 0.7
    assert e.queue_rank(task, found) == pytest.approx(1)
    assert e.queue_rank(task, -found) == pytest.approx(-1)
    assert e.queue_rank(task, np.ones(300)) == 0
    assert e.queue_rank(e.task(few, int(few.submit[1])), found) is None


def test_a_trace_without_users_and_limits_has_only_what_needs_neither(trace):
    plain = dataclasses.replace(trace, user=np.full(6_000, -1), limit=np.zeros(6_000, np.int64))
    assert [rule.name for rule in e.rules(e.task(plain, int(trace.submit[10])))] == ["mean", "gpus_median"]
    lost = " ".join(missing(plain))
    assert "no user column" in lost
    assert "no limit column" in lost
    assert "no dates" not in lost
    undated = dataclasses.replace(plain, submit=trace.submit - trace.submit[0])
    assert "no dates" in " ".join(missing(undated))


def test_scores_by_hand():
    quantiles = np.array([[5.0, 1.0, 0.0], [7.0, 1.0, 0.0], [8.0, 20.0, 1.0], [9.0, 99.0, 1.0]])
    outcome = e.ModelEstimates("m", np.array([10.0, 20.0, np.nan]), quantiles)
    found = e.scores(outcome, np.array([20.0, 10.0, 7.0]))
    assert found["jobs"] == 2
    assert found["mape"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["mean_abs_log_error"] == pytest.approx(np.log(2))
    assert found["r2"] == pytest.approx(1 - 200 / 50)
    assert found["rank_correlation"] == pytest.approx(-1)
    assert found["bias"] == pytest.approx(0)
    assert found["held"] == pytest.approx({"p10": 0, "p50": 0, "p75": 1 / 3, "p90": 1 / 3, "p10_p90": 1 / 3})


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
    task, outcomes = e.evaluate(trace, november, [History(), small], NEVER)
    rows = {outcome.name: e.scores(outcome, task.actual)["mean_abs_log_error"] for outcome in outcomes}
    assert rows["gbm"] < 0.85 * min(rows["history"], rows["user2"])
    assert rows["gbm"] < rows["request2"] < rows["user2"]
    assert rows["history"] < rows["mean"] < rows["limit"]

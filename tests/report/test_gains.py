"""What models gain on rules, by month."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shunter.predictors.evaluating import EvaluationTask, ModelEstimates
from shunter.report.gains import by_month
from shunter.traces.synthetic import synthetic

DAY = 86_400_000


@pytest.fixture(scope="module")
def task():
    """Twelve jobs a day for 90 days from January on, of which the first is past."""
    trace = synthetic(jobs=1080, gpus=16)
    submit = 1_514_764_800_000 + np.arange(1080) * DAY // 12
    trace = dataclasses.replace(trace, submit=submit)
    return EvaluationTask(trace, int(submit[12]), submit, np.zeros((1080, 1)))


def outcome(task, name, error):
    seconds = task.actual * np.exp(error)
    return ModelEstimates(name, seconds, np.stack([seconds * factor for factor in (0.5, 1.0, 2.0, 4.0)]))


def test_gains_by_month_by_hand(task):
    n = len(task.asked)
    rule, model = ModelEstimates("user2", task.actual * np.exp(1.0)), outcome(task, "gbm", np.full(n, -0.5))
    found = by_month(task, [rule, model])
    assert [(part["month"], part["jobs"]) for part in found[:2]] == [("2018-01", 360), ("2018-02", 336)]
    assert [part["month"] for part in found[2:]] == ["2018-03", "all"]
    for part in found:
        assert part["models"]["gbm"]["gain"]["user2"] == pytest.approx([0.5] * 3)
        assert part["models"]["gbm"]["held"] == {"p10": 0, "p50": 0, "p75": 1, "p90": 1, "p10_p90": 1}


def test_an_interval_covers_no_gain_where_days_differ_by_chance(task):
    draw = np.random.default_rng(0)
    by_day = np.repeat(np.exp(draw.standard_normal(89)), 12)  # whole days err alike
    rule, model = outcome(task, "user2", by_day), outcome(task, "gbm", draw.permutation(by_day.reshape(89, 12)).ravel())
    gains = [part["models"]["gbm"]["gain"]["user2"] for part in by_month(task, [rule, model])]
    assert all(low < 0 < high for _, low, high in gains)
    assert all(high - low > 0.2 for _, low, high in gains)  # of 12 jobs a day as if alone it would be a third of this


def test_a_share_of_jobs_whose_days_err_alike_may_be_off_by_more(task):
    draw = np.random.default_rng(0)
    each = draw.standard_normal(1068)
    days = np.repeat(draw.standard_normal(89), 12)
    alike, apart = (by_month(task, [outcome(task, "gbm", error)])[-1]["models"]["gbm"] for error in (days, each))
    assert 0.08 < alike["held_within"]["p50"] < 0.13  # 1.96 * 0.5 / sqrt(89 days)
    assert 0.02 < apart["held_within"]["p50"] < 0.04  # ... of 1,068 jobs

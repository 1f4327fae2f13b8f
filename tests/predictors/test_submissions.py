"""Forecasts of submissions beside rules that look at what is an hour old or older."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.errors import ModelError
from shunter.predictors.submissions import RULES, evaluate, rule
from shunter.predictors.throughput import AHEAD, DAY


def test_rules_by_hand():
    counts = np.stack([np.arange(40.0 * DAY), np.ones(40 * DAY)])
    at = 35 * DAY
    assert rule("hour_ago", counts)[0, at] == at - 6
    assert rule("day_ago", counts)[0, at] == at - 144
    assert rule("last_hour", counts)[0, at] == np.mean([at - 6 - i for i in range(6)])
    assert rule("time_of_day", counts)[0, at] == np.mean([at - 144 * day for day in range(1, 29)])
    assert all(rule(name, counts)[1, at] == 1 for name in RULES)


@pytest.mark.parametrize("name", list(RULES))
def test_no_rule_knows_the_last_hour(name):
    draw = np.random.default_rng(0)
    counts = draw.integers(0, 9, (2, 3 * DAY)).astype(float)
    changed = counts.copy()
    changed[:, 2 * DAY - AHEAD + 1 :] = 99
    np.testing.assert_array_equal(rule(name, counts)[:, : 2 * DAY + 1], rule(name, changed)[:, : 2 * DAY + 1])


def test_there_must_be_a_day_to_forecast(habits):
    trace = habits(600)
    with pytest.raises(ModelError, match="must have jobs before the split and a day of them after it"):
        evaluate(trace, int(trace.submit[-1]), [])
    actual, found = evaluate(trace, int(trace.submit[100]), [])
    assert actual.shape == found[0].counts.shape
    assert actual.sum() > 2 * 400

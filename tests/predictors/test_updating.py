"""When a model is fitted again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter import world as w
from shunter.predictors import features as f
from shunter.predictors.fitting import known
from shunter.predictors.history import History
from shunter.predictors.updating import DAY_MS, NEVER, Schedule, has_drifted, next_fit


@pytest.fixture(scope="module")
def fitted(habits):
    trace = habits(150)
    return dataclasses.replace(History().fit(known(trace, f.stream(trace), w.NEVER)), fitted_at=0, error=1.0)


def test_by_schedule(fitted):
    assert next_fit(Schedule(), fitted, np.zeros(0, np.int64), np.zeros(0)) == 7 * DAY_MS
    assert next_fit(NEVER, fitted, np.arange(1000), np.full(1000, 99.0)) == float("inf")


def test_by_drift(fitted):
    ends = np.arange(1, 1001) * 3_600_000
    errors = np.where(np.arange(1000) < 30, 1.0, 4.0)
    schedule = Schedule(watched=20, drift=2.0, every_days=100)
    # of the last 20, seven with 4.0 make a mean of 2.05
    assert next_fit(schedule, fitted, ends, errors) == ends[36]


def test_after_a_fit_it_rests(fitted):
    ends, errors = np.arange(1, 101) * 3_600_000, np.full(100, 9.0)
    assert next_fit(Schedule(watched=10), fitted, ends, errors) == DAY_MS


@given(st.lists(st.floats(0, 4), max_size=60), st.integers(1, 10), st.floats(0.5, 3))
def test_the_next_fit_is_the_first_instant_of_drift(fitted, errors, watched, drift):
    schedule = Schedule(every_days=1000, watched=watched, drift=drift, rest_days=0)
    ends = np.arange(1, len(errors) + 1) * 1000
    drifted = [n for n in range(1, len(errors) + 1) if has_drifted(schedule, fitted, np.array(errors[:n]))]
    found = next_fit(schedule, fitted, ends, np.array(errors))
    close = any(abs(np.mean(errors[max(n - watched, 0) : n]) - drift) < 1e-9 for n in range(1, len(errors) + 1))
    assert close or found == (ends[drifted[0] - 1] if drifted else 1000 * DAY_MS)

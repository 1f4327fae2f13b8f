"""Philly's node series, December 1 to 14, 2017: what the rule reaches there, with and without knowing the future."""

from __future__ import annotations

import pytest

from shunter.energy.control import PRESETS
from shunter.energy.saving import saving
from shunter.energy.series import read
from shunter.report.energy import of_course

DECEMBER = 1_512_086_400_000, 1_513_296_000_000  # 1st, 15th


@pytest.fixture(scope="module")
def outcome(data):
    pytest.importorskip("lightgbm")
    series = read(data / "philly" / "node_sequence_per_minute.csv.gz")
    found = {kind: saving(series, *DECEMBER, kind, PRESETS["philly"]) for kind in ("lightgbm", "last", "leak")}
    return {kind: of_course(each.course) | each.scores for kind, each in found.items()}


def test_the_causal_forecast_reaches_the_figure_that_it_must(outcome):
    found = outcome["lightgbm"]
    assert found["days"] == 14
    assert found["node_utilization"] == pytest.approx(0.6898, abs=1e-4)  # as others found
    assert found["node_utilization_awake"] >= 0.86
    assert found["wake_ups_per_day"] < 0.5
    assert found["shortage_node_steps"] < 60


def test_without_a_forecast_more_sleep_and_far_more_wake_ups(outcome):
    """Others found 94.81 %, 115.2 asleep, 2.07 wake-ups and 14.9 changes a day, shortage 461; none of it is random."""
    found = outcome["last"]
    assert found["node_utilization_awake"] == pytest.approx(0.9481, abs=1e-4)
    assert found["asleep_nodes"] == pytest.approx(115.2, abs=0.05)
    assert found["wake_ups_per_day"] == pytest.approx(2.07, abs=0.005)
    assert found["changes_per_day"] == pytest.approx(14.9, abs=0.05)
    assert found["shortage_node_steps"] == 461


def test_the_authors_forecast_is_about_as_good_as_others_found(outcome):
    """Others found an RMSE of 22.66 and a SMAPE of 5.31; with other seeds ours is 24 to 27."""
    found = outcome["leak"]
    assert 20 < found["one_step_rmse"] < 28
    assert 5 < found["one_step_smape"] < 8
    assert 0.85 < found["node_utilization_awake"] < 0.91
    assert found["wake_ups_per_day"] < 0.5


def test_the_causal_forecast_is_better_than_taking_the_present_for_the_future(outcome):
    assert outcome["lightgbm"]["near_rmse"] < outcome["last"]["near_rmse"]
    assert outcome["lightgbm"]["far_rmse"] < outcome["last"]["far_rmse"]

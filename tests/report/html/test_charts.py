"""Charts as data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shunter.report.html.charts import Axis, bars, cdf, lines, numbers

TIME, COUNT = Axis("time", "elapsed"), Axis("jobs", "count")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, 0), (1 / 3, 0.3333), (123456.789, 123457), (1e-9, 1e-9), (2.0, 2), (-0.123456, -0.1235),
        (float("nan"), None), (float("inf"), None), (99999999.4, 99999999),
    ],
)  # fmt: skip
def test_numbers_are_short_and_json(value, written):
    (found,) = numbers([value])
    assert found == written
    assert type(found) is type(written)
    json.dumps(found, allow_nan=False)


def test_times_stay_in_order_however_long_the_trace():
    times = 1.5e9 + np.arange(50) * 7
    assert np.all(np.diff(numbers(times)) > 0)


def test_a_cdf_says_how_many_are_at_most_so_large():
    chart = cdf({"a": [5, 1, 3, 2, 4], "none": []}, Axis("wait", "duration"))
    shares, values = chart["y"]["values"], chart["series"][0]["values"]
    for share, value in zip(shares, values, strict=True):
        assert np.mean(np.array([1, 2, 3, 4, 5]) <= value) >= share
    assert (values[0], values[-1], shares[-1]) == (1, 5, 1)
    assert set(chart["series"][1]["values"]) == {None}


def test_every_chart_keeps_its_series_in_order_and_style():
    series = {"b": [1, 2], "a": [3, 4]}
    for chart in (
        lines([0, 1], series, TIME, COUNT),
        lines([0, 1], series, TIME, COUNT, kind="steps"),
        bars(["x", "y"], series, "name", COUNT),
    ):
        assert [(one["name"], one["style"]) for one in chart["series"]] == [("b", 0), ("a", 1)]
    chart = lines([0, 1], series, TIME, COUNT, kind="stacked", styles=[4, 2], zoom="time")
    assert [one["style"] for one in chart["series"]] == [4, 2]
    assert (chart["kind"], chart["zoom"]) == ("stacked", "time")

"""What a description says, against small traces counted by hand."""

from __future__ import annotations

import dataclasses
import io
import json
from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from shunter import clusters
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import TraceError
from shunter.model import Trace
from shunter.report import demand
from shunter.report.calendar import local_ms, text_of, weekday, zone_of
from shunter.report.describe import describe
from shunter.report.quality import validate
from shunter.report.terminal.blocks import bar, binned, columns
from shunter.report.terminal.quality import validate_view
from shunter.report.terminal.trace import describe_view
from shunter.traces import read
from shunter.traces.synthetic import synthetic

HOUR, DAY = 3_600_000, 86_400_000
MONDAY = 1_599_436_800_000  # 7 September 2020


def jobs(**given_) -> Trace:
    """Four jobs of two users on a Monday and a Tuesday."""
    columns_ = {
        "submit": [MONDAY, MONDAY + 500, MONDAY + 9 * HOUR, MONDAY + DAY + 23 * HOUR],
        "duration": [HOUR, 2 * HOUR, 4 * HOUR, HOUR],
        "gpus": [1000, 8000, 1000, 500],
        "user": [0, 1, 0, 0],
        "users": ("ann", "bob"),
    }
    return Trace.of("four", ["a", "b", "c", "d"], **(columns_ | given_))


# ------------------------------------------------------------------------------------------- numbers


def test_sizes_and_their_shares():
    sizes = describe(jobs())["sizes"]
    assert [(row["gpus"], row["jobs"], row["job_share"]) for row in sizes] == [
        ("0.5", 1, 0.25),
        ("1", 2, 0.5),
        ("8", 1, 0.25),
    ]
    assert [row["gpu_time_share"] for row in sizes] == pytest.approx([0.5 / 21.5, 5 / 21.5, 16 / 21.5])
    assert sizes[1]["duration_s"]["mean"] == 2.5 * 3600
    many = jobs(gpus=[3000, 4000, 9000, 16000])
    assert [row["gpus"] for row in describe(many)["sizes"]] == ["3-4", "9-16"]


def test_arrivals_by_hour_and_weekday():
    arrivals = describe(jobs())["arrivals"]
    assert [(hour, n) for hour, n in enumerate(arrivals["by_hour"]) if n] == [(0, 2), (9, 1), (23, 1)]
    assert arrivals["by_weekday"] == [3, 1, 0, 0, 0, 0, 0]
    assert arrivals["same_second_share"] == 0.5
    assert arrivals["per_day"] == {"min": 1, "mean": 2.0, "max": 3}
    gaps = np.array([0.5, 9 * 3600 - 0.5, 38 * 3600])
    assert arrivals["gap_cv"] == pytest.approx(gaps.std() / gaps.mean())


def test_hours_of_another_zone():
    arrivals = describe(jobs(), zone=zone_of("+08:00"))["arrivals"]
    assert [hour for hour, n in enumerate(arrivals["by_hour"]) if n] == [7, 8, 17]
    assert arrivals["by_weekday"] == [3, 0, 1, 0, 0, 0, 0]


def test_a_trace_without_dates_has_numbered_days():
    about = describe(jobs(submit=[0, 1, 2, 8 * DAY]))
    assert about["arrivals"]["weekdays"][0] == "day 1"
    assert about["arrivals"]["by_weekday"] == [3, 1, 0, 0, 0, 0, 0]
    assert about["span"] == {"first": "0 s", "last": "691,200 s", "days": 8.0, "dated": False, "timezone": None}
    assert about["arrivals"]["per_day"] == {"min": 0, "mean": 0.0, "max": 0}


def test_users_and_recurrence():
    about = describe(jobs(job_name=[0, 0, 0, 1], job_names=("x", "y")))
    assert about["users"]["count"] == 2
    assert about["users"]["top_5_percent"] == {
        "users": 1,
        "job_share": 0.75,
        "gpu_time_share": pytest.approx(5.5 / 21.5),
    }
    assert [row["name"] for row in about["users"]["top"]] == ["ann", "bob"]
    assert about["recurrence"] == {"same_user_and_name": 0.25, "same_user_and_size": 0.25}
    nobody = describe(jobs(user=[-1] * 4))
    assert nobody["users"] is nobody["recurrence"] is nobody["estimates"]["history"] is None


def test_history_knows_only_what_has_ended():
    error = describe(jobs())["estimates"]["history"]  # c: 1 h against 4 h; d: the mean of 1 h and 4 h against 1 h
    assert error == {"jobs": 2, "mean_abs_log_error": pytest.approx((np.log(4) + np.log(2.5)) / 2)}
    late = describe(jobs(recorded_wait=[9 * HOUR, 0, 0, 0]))["estimates"]["history"]  # a ends after c came
    assert late == {"jobs": 1, "mean_abs_log_error": pytest.approx(np.log(2.5))}
    last_two = describe(jobs(recorded_wait=[9 * HOUR, 0, 0, 0]))["estimates"]["last_two"]
    assert last_two == error
    limit = describe(jobs(limit=[HOUR, 4 * HOUR, 0, 0]))["estimates"]["limit"]
    assert limit == {"jobs": 2, "mean_abs_log_error": pytest.approx(np.log(2) / 2)}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=15))
def test_history_is_what_a_plain_loop_says(rows):
    rows = sorted(rows)
    submit, duration, user = (
        np.array(column) * unit for column, unit in zip(zip(*rows, strict=True), (1000, 1000, 1), strict=True)
    )
    trace = Trace.of(
        "t",
        list(map(str, range(len(rows)))),
        submit=submit,
        duration=duration,
        gpus=np.full(len(rows), 1000),
        user=user,
        users=("a", "b", "c"),
    )
    errors = []
    for i, (at, length, who) in enumerate(rows):
        past = sorted((s + d, j, d) for j, (s, d, u) in enumerate(rows) if u == who and j != i and s + d <= at)
        if past:
            errors.append(abs(np.log(np.mean([d for *_, d in past[-2:]]) / length)))
    found = describe(trace)["estimates"]["history"]
    assert (found["mean_abs_log_error"] if found else None) == (pytest.approx(np.mean(errors)) if errors else None)


def test_groups_have_the_load_on_their_part_of_the_cluster():
    trace = jobs(vc=[0, 1, 0, -1], vcs=("x", "y"), gpu_type=[0, 0, -1, -1], gpu_types=("v100",))
    cluster = Cluster("c", (NodeGroup(1, 8, "v100", vc="y"), NodeGroup(2, 8, "p100", vc="z")))
    about = describe(trace, cluster)
    span = 47
    assert about["vcs"] == [
        {
            "name": "y",
            "jobs": 1,
            "job_share": 0.25,
            "gpu_time_share": 16 / 21.5,
            "gpus": 8,
            "load": pytest.approx(16 / 8 / span),
        },
        {"name": "x", "jobs": 2, "job_share": 0.5, "gpu_time_share": 5 / 21.5, "gpus": 0, "load": None},
    ]
    assert about["gpu_types"][0]["load"] == pytest.approx(17 / 8 / span)
    assert "load" not in describe(trace)["vcs"][0]


def test_load_by_day_and_at_once():
    load = describe(jobs(), clusters.load("1x8"))["load"]
    assert load["load"] == pytest.approx(21.5 / (8 * 47))
    assert [(row["day"], row["load"]) for row in load["by_day"]] == [
        ("2020-09-07", pytest.approx(21 / 192)),
        ("2020-09-08", pytest.approx(0.5 / 192)),
    ]
    assert load["peak_day"]["day"] == "2020-09-07"
    assert load["wanted_at_once_gpus"]["max"] == 9
    assert load["wanted_at_once_gpus"]["mean"] == pytest.approx(21.5 / 48)
    assert not load["suggested"]


def test_a_cluster_is_suggested_where_none_is_given():
    load = describe(synthetic(2000))["load"]
    assert load["suggested"]
    assert load["load"] == pytest.approx(0.9, rel=0.1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=12))
def test_gpus_in_use_at_each_instant(rows):
    begin, length, gpus = (np.array(column) for column in zip(*rows, strict=True))
    times, level = demand.in_use(begin, begin + length, gpus)
    for t in range(31):
        at = np.searchsorted(times, t, side="right") - 1
        assert (level[at] if at >= 0 else 0) == sum(g for b, d, g in rows if b <= t < b + d)


def test_a_wrong_time_does_not_list_millions_of_days():
    about = describe(jobs(submit=[0, 1, 2, 10**15]))
    assert about["load"]["by_day"] == []
    assert about["load"]["peak_day"] is None
    json.dumps(about)


def test_times_beyond_all_calendars_are_described():
    about = describe(jobs(submit=np.arange(4) * DAY + 10**15), zone=ZoneInfo("Europe/Berlin"))
    assert about["span"]["first"] == "1,000,000,000,000 s"
    assert about["load"]["by_day"][0]["day"].startswith("day 11,")


def test_the_description_of_a_single_job():
    one = Trace.of("one", ["a"], submit=[0], duration=[0], gpus=[1000])
    assert "one" in drawn(describe_view(describe(one)))
    on_cluster = drawn(describe_view(describe(one, clusters.load("1x8"))))
    assert "day 1 day 1" not in on_cluster  # a chart of one day has one label


def test_venus_has_its_published_day(data):
    about = describe(read(data / "helios" / "venus_gpu_jobs.csv.gz"))
    assert about["duration_s"]["p50"] == 204
    hours = np.array(about["arrivals"]["by_hour"])
    assert (hours / hours.mean())[[6, 17]] == pytest.approx([0.19, 1.73], rel=0.1)


def test_the_users_of_aaic_are_as_published(data):
    about = describe(read(data / "aaic" / "aaicwl-201807-201812.csv.gz"))
    assert 0.53 <= about["users"]["top_5_percent"]["job_share"] <= 0.90
    assert 0.31 <= about["estimates"]["last_two"]["mean_abs_log_error"] <= 0.55
    assert 2.9 <= about["estimates"]["limit"]["mean_abs_log_error"] <= 4.7


# ------------------------------------------------------------------------------------------- zones


@pytest.mark.parametrize(
    ("text", "hours"), [("UTC", 0), ("z", 0), ("+08:00", 8), ("-0330", -3.5), ("Asia/Shanghai", 8)]
)
def test_zones(text, hours):
    trace = jobs()
    assert (local_ms(trace, zone_of(text)) - trace.submit).tolist() == [hours * HOUR] * 4


@pytest.mark.parametrize("text", ["", "Mars/Phobos", "+25:00", "../etc/passwd", "8"])
def test_what_is_no_zone_is_reported(text):
    with pytest.raises(TraceError, match="there is no time zone"):
        zone_of(text)


def test_summer_time_is_heeded():
    berlin = ZoneInfo("Europe/Berlin")
    change = 1_585_443_600_000  # 29 March 2020, 01:00 UTC: 2 o'clock becomes 3
    trace = jobs(submit=[change - 1, change, change + 1, change + 2])
    assert (local_ms(trace, berlin) - trace.submit).tolist() == [HOUR, 2 * HOUR, 2 * HOUR, 2 * HOUR]


def test_weekdays_and_moments():
    assert weekday(np.array([0, MONDAY, MONDAY - 1])).tolist() == [3, 0, 6]
    assert text_of(MONDAY, UTC, True) == "2020-09-07 00:00:00"
    assert text_of(10**16, UTC, True) == "10,000,000,000,000 s"


# ------------------------------------------------------------------------------------------- the terminal


def drawn(view) -> str:
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(view)
    return out.getvalue()


def test_deadlines_and_elastic_jobs_are_counted():
    about = describe(jobs(deadline=[0, 2 * HOUR, 4 * HOUR, 0], max_gpus=[4, 0, 0, 0]))
    assert (about["deadline_s"]["jobs"], about["deadline_s"]["mean"], about["elastic_jobs"]) == (2, 3 * 3600, 1)
    text = drawn(describe_view(about))
    assert "after submission: mean 3.00 h" in text
    assert "1 of 4 give a range of GPUs" in text
    plain = describe(jobs())
    assert (plain["deadline_s"], plain["elastic_jobs"]) == (None, 0)
    assert "deadlines" not in drawn(describe_view(plain))


def test_the_description_fits_and_shows_everything():
    trace = dataclasses.replace(synthetic(3000), vc=np.arange(3000) % 15, vcs=tuple(f"vc{i}" for i in range(15)))
    trace = dataclasses.replace(
        trace, limit=trace.duration * 2, recorded_wait=trace.duration // 2, remarks=("something",),
        outcome=np.zeros(3000, np.int64), outcomes=("completed",),
    )  # fmt: skip
    text = drawn(describe_view(describe(trace, clusters.load("16x8"))))
    assert max(map(len, text.splitlines())) <= 100
    for part in ("of GPU time", "by weekday", "█", "busiest 5 %", "requested limit", "recorded waits", "and 5 more",
                 "16x8 (128 GPUs)", "remark: something", "outcome", "day 1"):  # fmt: skip
        assert part in text


def test_findings_fit_and_say_what_to_do():
    trace = synthetic(200)
    findings = validate(trace, clusters.load("1x8"))
    text = drawn(validate_view(trace.name, len(trace), findings))
    assert max(map(len, text.splitlines())) <= 100
    assert "1 error, 2 warnings" in text or "1 error, 1 warning" in text
    assert text.count("->") == len(findings)
    assert "nothing found" in drawn(validate_view("t", 5, []))


@pytest.mark.parametrize(("fraction", "text"), [(0, "    "), (1, "████"), (0.5, "██  "), (0.001, "▏   "), (9, "████")])
def test_bars(fraction, text):
    assert bar(fraction, 4) == text


def test_columns_stand_on_the_last_line():
    assert columns([1, 2, 0], 2, 1) == [" █", "██"]
    assert columns([0, 0], 1, 1) == [""]
    assert columns([4, 1], 1, 2, gap=1) == ["██ ▂▂"]


def test_long_series_are_binned():
    assert binned([1, 2, 3, 4, 5], 3) == ([1.5, 3.5, 5], 2)
    assert binned([1.0], 3) == ([1.0], 1)
    assert binned([], 3) == ([], 1)

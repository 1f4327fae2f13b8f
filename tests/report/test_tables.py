"""What people read: numbers in words, and tables that fit."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from shunter.report.terminal.tables import comparison_view, duration, number, summary_view

POINTS = ("mean", "p50", "p90", "p95", "p99", "max")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (59.9, "59.9 s"),
        (60, "1.00 m"),
        (5400, "1.50 h"),
        (86400 * 123, "123 d"),
        (-7200, "-2.00 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(0.001, "0"), (9.999, "10.0"), (99.99, "100"), (12345.6, "12,346")])
def test_numbers(value, text):
    assert number(value) == text


def a_summary(policy, jct=3600.0, oracle=False, difference=None):
    spread = dict.fromkeys(POINTS, jct)
    group = {"jobs": 10, "jct_s": spread, "wait_s": spread, "bsld": spread}
    return {
        "policy": policy, "oracle": oracle, "estimate": "oracle" if oracle else "none", "seed": 0, "jobs": 10,
        "finished": 10, "jct_s": spread, "wait_s": spread, "recorded_wait_s": None, "bsld": spread, "makespan_s": 9e5,
        "communication_s": None, "tiers": {},
        "utilization": 0.98765, "remarks": [],
        "fragmentation": 0.5, "preemptions": 123_456, "lost_gpu_hours": 1.0, "gpu_hours": 1e5, "by_size": {"1": group},
        "by_vc": {}, "fairness": {"jain": 0.5, "over": "users", "count": 3, "worst_bsld": 2.0}, "digest": "abc",
        "elapsed_s": 0.1, "jobs_per_s": 1e5, "difference": difference,
    }  # fmt: skip


def printed(view, width=100):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(view)
    return console.file.getvalue()


def test_a_comparison_fits_100_columns_even_with_long_names():
    names = ["sjf:estimate=oracle,backfill=conservative", "saf:backfill=easy,blocking=skip,placement=first-fit", "fifo"]
    difference = {"mean_s": -86400.0 * 123, "low_s": -86400.0 * 124, "high_s": -86400.0 * 122, "pairs": 10}
    rows = [
        a_summary(name, 86400 * 9.87, name.startswith("sjf"), difference if at else None)
        for at, name in enumerate(names)
    ]
    text = printed(comparison_view(rows))
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "…" not in text
    for part in (
        "estimate=oracle,",
        "backfill=conservative*",
        "placement=first-fit",
        "123,456",
        "-124 d .. -122 d",
        "98.8 %",
    ):
        assert part in text
    assert "\x1b" not in text


def test_the_best_of_a_column_stands_out_on_a_terminal():
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard", _environ={})
    console.print(comparison_view([a_summary("fifo", 7200), a_summary("sjf", 3600, True)]))
    text = console.file.getvalue()
    assert "\x1b[1;32m1.00 h" in text
    assert "\x1b[1;32m2.00 h" not in text


def test_oracles_are_marked_and_explained():
    text = printed(summary_view(a_summary("sjf:estimate=oracle", oracle=True)))
    assert "sjf:estimate=oracle*" in text
    assert "* an oracle" in text
    assert "* an oracle" not in printed(summary_view(a_summary("fifo")))


def test_recorded_waits_are_reported_where_the_trace_has_them():
    row = {**a_summary("fifo"), "recorded_wait_s": dict.fromkeys(POINTS, 60.0)}
    for view in (comparison_view([row]), summary_view(row)):
        assert "waits as recorded in the trace: mean 1.00 m" in printed(view)
    assert "as recorded" not in printed(summary_view(a_summary("fifo")))


def test_preemption_without_cost_is_reported():
    free = {**a_summary("las"), "lost_gpu_hours": 0.0}
    assert "costs nothing here" in " ".join(printed(comparison_view([free])).split())
    assert "costs nothing" not in printed(comparison_view([a_summary("las")]))


def test_what_a_stop_costs_is_said_policy_by_policy():
    def said(**costs: str) -> str:
        rows = [a_summary(name) | {"stop_costs": cost} for name, cost in costs.items()]
        return " ".join(printed(comparison_view([a_summary("fifo"), *rows])).split())

    assert "a job costs 0 + 62 s here (checkpoint + restart)" in said(las="0 + 62 s", srtf="0 + 62 s")
    assert "a job costs 600 + 600 s under las; nothing under srtf" in said(las="600 + 600 s", srtf="nothing")
    assert "costs nothing here" in said(las="nothing")
    assert "restarting" not in said()


def test_communication_and_tiers_are_reported_where_the_network_costs_time():
    tiers = {name: {"jobs": 0.2, "gpu_time": 0.125} for name in ("machine", "rack", "pod", "building", "network")}
    row = {**a_summary("sjf:estimate=oracle,backfill=conservative"), "tiers": tiers}
    assert "building" not in printed(comparison_view([row])) + printed(summary_view(row))
    on = {**row, "communication_s": dict.fromkeys(POINTS, 86400 * 123.0)}
    for text in (printed(comparison_view([on, on])), printed(summary_view(on))):
        assert max(len(line) for line in text.splitlines()) <= 100
        assert "building" in text
        assert "20 / 12 %" in text
        assert "123 d" in text

"""What ``shunter energy`` prints: before and after, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group, RenderableType

from shunter.report.terminal.tables import Below, duration, number, share, table

Found = dict[str, Any]
Line = tuple[str, Callable[[Found], str]]

_SLEEP: tuple[Line, ...] = (
    ("nodes asleep, mean", lambda f: f"{number(f['asleep_nodes'])} ({share(f['asleep_share'])})"),
    ("wake-ups a day", lambda f: number(f["wake_ups_per_day"])),
    ("nodes per wake-up", lambda f: number(f["nodes_per_wake_up"])),
)


def _saved(found: Found) -> str:
    saved = found["kwh_without_sleep"] - found["kwh"]
    return f"{number(saved)} ({share(saved / found['kwh_without_sleep'])})" if saved else "-"


_KWH: tuple[Line, ...] = (
    ("kWh", lambda f: number(f["kwh"])),
    ("kWh saved", _saved),
)
SERIES: tuple[Line, ...] = (
    ("nodes in use, of those awake", lambda f: share(f["node_utilization_awake"])),
    *_SLEEP,
    ("changes a day", lambda f: number(f["changes_per_day"])),
    ("shortage, node-steps", lambda f: f"{f['shortage_node_steps']:,}"),
    *_KWH,
    ("RMSE, next steps", lambda f: _score(f, "near_rmse")),
    ("RMSE, twice as many", lambda f: _score(f, "far_rmse")),
    ("RMSE of the authors' one-step forecast", lambda f: _score(f, "one_step_rmse")),
    ("SMAPE of it", lambda f: _score(f, "one_step_smape")),
)
_TRACE: tuple[Line, ...] = (
    ("nodes in use, of those awake", lambda f: share(f["node_utilization_awake"])),
    *_SLEEP,
    ("jobs delayed by waking", lambda f: f"{f['delayed_jobs']:,}" if "delayed_jobs" in f else "-"),
    ("their delay, mean", lambda f: duration(f["delay_s"]["mean"]) if "delay_s" in f else "-"),
    ("wait, mean", lambda f: duration(f["wait_s"]["mean"]) if "wait_s" in f else "-"),
    ("wait, p99", lambda f: duration(f["wait_s"]["p99"]) if "wait_s" in f else "-"),
    ("JCT, mean", lambda f: duration(f["jct_s"]["mean"]) if "jct_s" in f else "-"),
    ("shortage, node-steps", lambda f: f"{f['shortage_node_steps']:,}" if "shortage_node_steps" in f else "-"),
    *_KWH,
)


def series_view(record: Found) -> RenderableType:
    """A controlled node series: all awake, then with sleep, by forecast."""
    columns = {"all awake": record["before"], **record["after"]}
    return Group(_table(columns, SERIES), *_about(record, record["series"]))


def trace_view(record: Found) -> RenderableType:
    """A trace: without sleep, then for each forecast on the node series of that run, and simulated with sleep."""
    shown = {"all awake": record["before"]}
    for kind, found in record["after"].items():
        if "series" in record:
            shown[f"{kind},\non its series"] = record["series"][kind]
        shown[f"{kind},\nsimulated"] = found
    what = f"{record['trace']} on {record['cluster']} under {record['policy']}"
    legend = "on its series: the rule on the nodes in use under 'all awake', as in the paper: jobs don't notice"
    return Group(_table(shown, _TRACE), *_about(record, what, *([legend] if "series" in record else [])))


def _table(columns: dict[str, Found], lines: Sequence[Line]) -> RenderableType:
    made = table("", *columns)
    for row in rows(columns, lines):
        made.add_row(*row)
    return made


def rows(columns: dict[str, Found], lines: Sequence[Line]) -> list[list[str]]:
    """The cells of a table, without the lines that say nothing."""
    found = [[name, *(text(each) for each in columns.values())] for name, text in lines]
    return [row for row in found if set(row[1:]) != {"-"}]


def _about(record: Found, what: str, *more: str) -> list[RenderableType]:
    settings = " ".join(f"{key}={value:g}" for key, value in record["settings"].items())
    watts = " ".join(f"{key}={value:g}" for key, value in record["power"].items())
    notes = (f"{what}, {record['from']} to {record['until']}", f"thresholds: {settings}", f"power: {watts}", *more)
    return [Below(line, style="dim") for line in notes]


def _score(found: Found, key: str) -> str:
    return number(found["scores"][key]) if key in found.get("scores", {}) else "-"

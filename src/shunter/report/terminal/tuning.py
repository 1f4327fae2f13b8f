"""What settings were tried, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import duration, table

SHOWN = 12
WHAT = {"jct": "mean JCT", "wait": "mean wait", "tail": "P99 of the wait"}


def tuning_view(tried: Sequence[tuple[str, dict[str, Any]]], objective: str) -> RenderableType:
    """The settings that did best by an objective, the best first."""
    made = table("policy", "JCT\nmean", "wait\nmean", "wait\np99")
    for policy, summary in tried[:SHOWN]:
        numbers = (summary["jct_s"]["mean"], summary["wait_s"]["mean"], summary["wait_s"]["p99"])
        made.add_row(Text(policy), *(Text(duration(value)) for value in numbers))
    left = f"; the best {SHOWN} are shown" if len(tried) > SHOWN else ""
    end = f" {len(tried)} settings tried, ordered by {WHAT[objective]}{left}. Best: {tried[0][0]}"
    warning = " Chosen on these jobs, so it looks better on them than it will on others."
    return Group(made, Text(end), Text(warning, style="dim"))

"""Sweeps for a terminal: what is planned, how far it is, and what it shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import Below, duration, number, share, table
from shunter.texts import counted

MOST_SHOWN = 25  # policies of a ranking
MOST_FAILED = 5  # failed runs that are shown
SHOWN = 64  # characters of the values of an axis


def value_text(value: float, measure: str) -> str:
    """A value in its unit."""
    if "_s." in measure or measure.endswith("_s"):
        return duration(value)
    return share(value) if measure in ("utilization", "fragmentation") else number(value)


def ranking_view(found: Mapping[str, Any], measure: str) -> RenderableType:
    """The policies of a sweep, the best first, then what failed."""
    rows: Sequence[Mapping[str, Any]] = found["ranking"]
    made = table("", "policy", measure, "relative\nto the best", "95 %\ninterval", "p", "best at")
    for number_, row in enumerate(rows[:MOST_SHOWN], 1):
        cells = (
            value_text(row["value"], measure),
            f"{row['relative']:.3f}",
            _interval(row),
            chance_text(row["chance"]),
        )
        made.add_row(
            Text(str(number_)), Text(row["policy"]), *map(Text, cells), Text(f"{row['best_at']} of {found['places']}")
        )
    left = f" The best {MOST_SHOWN} of {len(rows)} are shown." if len(rows) > MOST_SHOWN else ""
    about = (
        f" {counted(found['runs'], 'run')}: {counted(len(rows), 'policy')} at"
        f" {counted(found['places'], 'place')} with {counted(found['seeds'], 'seed')}.{left}"
        " p: how likely such a difference from the best is by chance, corrected for all pairs of policies;"
        " each interval is of one policy alone."
    )
    dropped = (
        f" {counted(found['left_out'], 'run', 'do')} not count: some policy has none at the same place and seed."
        if found["left_out"]
        else ""
    )
    parts: list[RenderableType] = [made, Below(found["verdict"]), Text(about + dropped, style="dim")]
    return Group(*parts, *_failures(found["failed"]))


def _interval(row: Mapping[str, Any]) -> str:
    known = row["low"] is not None and math.isfinite(row["low"])
    return f"{row['low']:.3f} to {row['high']:.3f}" if known else "-"


def chance_text(chance: float | None) -> str:
    """How likely something is by chance."""
    if chance is None or math.isnan(chance):
        return "-"
    return "< 0.001" if chance < 0.001 else f"{chance:.3f}"


def _failures(failed: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    if not failed:
        return []
    lines = [f" {counted(len(failed), 'run')} failed:"]
    for row in failed[:MOST_FAILED]:
        lines += [f"   {str(row['error']).partition(chr(10))[0]}", f"     {row['command']}"]
    if len(failed) > MOST_FAILED:
        lines.append(f"   and {len(failed) - MOST_FAILED:,} more; 'shunter sweep export' writes all")
    return [Text("\n".join(lines), style="yellow")]


def plan_view(found: Mapping[str, Any]) -> RenderableType:
    """How large a sweep is, and what it costs."""
    made = table("axis", "values", "")
    for axis, values in found["axes"].items():
        shown = ", ".join(map(str, values))
        shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
        made.add_row(Text(axis), Text(f"{len(values):,}"), Text(shown))
    there = f", of which {found['there']:,} are there" if found["there"] else ""
    lines = [f" {counted(found['runs'], 'run')}{there}; {found['todo']:,} to do."]
    if found["todo"]:
        lines.append(
            f" About {duration(found['cpu_s'])} of CPU time, {duration(found['wall_s'])} on {found['workers']} workers,"
            f" and {found['disk_bytes'] / 2**20:,.1f} MiB of disk."
        )
        lines.append(
            f" Estimated from {found['tried']} short runs: {duration(found['simulating_s'])} for runs,"
            f" {duration(found['drawing_s'])} to draw jobs, {duration(found['starting_s'])} to start workers; fitting"
            " models and compiling kernels come on top."
        )
    return Group(made, Text("\n".join(lines)))


def progress_view(progress: Any) -> RenderableType:
    """How far a sweep is, in two lines."""
    ended = progress.found + progress.done
    left = f"about {duration(progress.left_s)} left" if progress.left_s is not None else "estimating"
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    filled = 40 * ended // max(progress.total, 1)
    bar = Text("━" * filled, style="green") + Text("━" * (40 - filled), style="dim")
    head = Text.assemble(bar, f" {ended:,} of {progress.total:,} runs{failed}")
    tail = f"{progress.rate:,.1f} runs/s on {progress.workers} workers, {left}"
    return Group(head, Text(tail, style="dim"))

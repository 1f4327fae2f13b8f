"""Training and judging of a learned order, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.blocks import binned, columns
from shunter.report.terminal.tables import Below, duration, table
from shunter.texts import percent

WIDTH, HEIGHT = 60, 5
HEADINGS = {"wait": "wait\nmean", "bsld": "slowdown\nmean", "jct": "JCT\nmean", "p99": "wait\np99"}


def learning_view(found: Mapping[str, Any]) -> RenderableType:
    """What training did: the learning curve, and the best model (see ``cli/learn.py``)."""
    changes = [row["change"] for row in found["curve"]]
    scored = found["model"]["scores"]
    ended = "stopped early" if found["stopped_early"] else "done"
    return Group(
        Below(f"{found['agent']} for the {found['objective']}: {len(changes)} rounds, {ended}."),
        *curve(changes),
        Text(_verdict(scored["change_on_checked_windows"], scored["change_at_the_start"], found["reference"])),
        *_next_step(scored["change_on_checked_windows"]),
    )


def _next_step(best: float) -> list[RenderableType]:
    """What to do with a model that may be of use."""
    said = " Chosen on these windows, so judge it on others before use: shunter learn eval."
    return [Text(said, style="dim")] if best < 0 else []


def _verdict(best: float, start: float, reference: str) -> str:
    """What the best model is worth on the windows by which it was chosen."""
    which = "the untrained one, which is kept" if best == start else "after training"
    if best < 0:
        return f" Best on the windows that were checked: {percent(best)} against {reference} ({which})."
    return (
        f" No model was better than {reference} on the windows that were checked; the best: {percent(best)} ({which})."
        " Don't use it."
    )


def curve(changes: list[float]) -> list[RenderableType]:
    """How much worse than the reference each round was, as columns; the lower the better."""
    if not changes:
        return []
    means, each = binned(changes, WIDTH)
    least = min(means)
    drawn = columns([value - least for value in means], HEIGHT, 1)
    said = f"{percent(max(means))} at most, {percent(least)} at least"
    per = f"; a column is {each} rounds" if each > 1 else ""
    return [*(Text(f" {line}") for line in drawn), Below(f"change against the reference, by round: {said}{per}")]


def judging_view(found: Mapping[str, Any]) -> RenderableType:
    """Every objective of a model and of other policies, with the change against the reference below each number."""
    made = table("policy", *HEADINGS.values())
    for row in found["rows"]:
        cells = [_cell(name, row["objectives"][name]) for name in HEADINGS]
        lines = max(cell.count("\n") for cell in cells)
        made.add_row(
            Text(row["policy"] + "\n" * lines), *(Text(cell + "\n" * (lines - cell.count("\n"))) for cell in cells)
        )
    legend = f"Below a number: its change against {found['reference']}, and the 95 % interval over windows."
    first = (Text(f" Warning: {remark}.", style="bold yellow") for remark in found["remarks"])
    return Group(*first, Text(_grounds(found)), made, Below(legend, style="dim"), Below(found["verdict"]))


def _grounds(found: Mapping[str, Any]) -> str:
    """What is judged on."""
    count, asked = found["windows"], found["windows_asked"]
    which = "that the model has not seen" if found["same_trace"] else f"of {found['trace']}"
    fit = f" ({asked} were asked for; no more fit without a job in two)" if count < asked else ", no job in two"
    return (
        f" {count} window{'s' * (count > 1)} of {found['window']} jobs {which}{fit}. Each begins on an empty cluster."
        f" Estimates: {found['estimate']}."
    )


def _cell(name: str, number: Mapping[str, Any]) -> str:
    value = f"{number['value']:.2f}" if name == "bsld" else duration(number["value"])
    if number["low"] is None or number["value"] == number["base"]:
        return value
    share, low, high = (percent(number[part]) for part in ("share", "low", "high"))
    return f"{value}\n{share} ({low.removesuffix(' %')}..{high.removesuffix(' %')})"

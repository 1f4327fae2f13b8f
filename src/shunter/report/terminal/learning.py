"""Training and judging of a learned order, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.blocks import binned, columns
from shunter.report.terminal.tables import duration, table

WIDTH, HEIGHT = 60, 5
HEADINGS = {"wait": "wait\nmean", "bsld": "slowdown\nmean", "jct": "JCT\nmean", "p99": "wait\np99"}


def learning_view(found: Mapping[str, Any]) -> RenderableType:
    """What training did: the learning curve, and the best model (see ``cli/learn.py``)."""
    changes = [row["change"] for row in found["curve"]]
    scored = found["model"]["scores"]
    ended = "stopped early" if found["stopped_early"] else "done"
    return Group(
        Text(f" {found['agent']} for the {found['objective']}: {len(changes)} rounds, {ended}."),
        *curve(changes),
        Text(_verdict(scored["change_on_checked_windows"], scored["change_at_the_start"], found["reference"])),
        Text(" Chosen on these windows, so judge it on others: shunter learn eval.", style="dim"),
    )


def _verdict(best: float, start: float, reference: str) -> str:
    """What the best model is worth on the windows by which it was chosen."""
    which = "the untrained one, which is kept" if best == start else "after training"
    if best < 0:
        return f" Best on the windows that were checked: {best:+.1%} against {reference} ({which})."
    return (
        f" No model was better than {reference} on the windows that were checked; the best: {best:+.1%} ({which})."
        " Don't use it."
    )


def curve(changes: list[float]) -> list[Text]:
    """How much worse than the reference each round was, as columns; the lower the better."""
    if not changes:
        return []
    means, each = binned(changes, WIDTH)
    least = min(means)
    drawn = columns([value - least for value in means], HEIGHT, 1)
    said = f"{max(means):+.1%} at most, {least:+.1%} at least"
    per = f"; a column is {each} rounds" if each > 1 else ""
    return [*(Text(f" {line}") for line in drawn), Text(f" change against the reference, by round: {said}{per}")]


def judging_view(found: Mapping[str, Any]) -> RenderableType:
    """Every objective of a model and of other policies, with the change against the reference below each number."""
    made = table("policy", *HEADINGS.values())
    for row in found["rows"]:
        cells = [_cell(name, row["objectives"][name]) for name in HEADINGS]
        lines = max(cell.count("\n") for cell in cells)
        made.add_row(
            Text(row["policy"] + "\n" * lines), *(Text(cell + "\n" * (lines - cell.count("\n"))) for cell in cells)
        )
    unseen = "that the model has not seen" if found["same_trace"] else "of another trace than it was trained on"
    head = f" {found['windows']} windows of {found['window']} jobs {unseen}; estimates: {found['estimate']}."
    below = f" Below a number: its change against {found['reference']} in percent, and the 95 % interval."
    return Group(Text(head), made, Text(below, style="dim"), Text(f" {found['verdict']}"))


def _cell(name: str, number: Mapping[str, Any]) -> str:
    value = f"{number['value']:.2f}" if name == "bsld" else duration(number["value"])
    if number["low"] is None or number["value"] == number["base"]:
        return value
    share, low, high = (100 * number[part] for part in ("share", "low", "high"))
    return f"{value}\n{share:+.0f} % ({low:+.0f}..{high:+.0f})"

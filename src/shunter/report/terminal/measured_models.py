"""Models of iteration times, progress and peaks side by side, by random rows and by model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import Below, table
from shunter.texts import counted

HONEST = {
    "iteration-time": (
        "repeats of one configuration are nearly equal, so with random rows a model has seen\n"
        " the answers; a new job has a new model"
    ),
    "progress": "runs of one family are alike, and a new training is of a family that no network has seen",
    "peaks": "jobs of one model are alike, so with random rows a model has seen the answers",
}
Write = Callable[[float], str]


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


_FIT: tuple[tuple[str, str, Write], ...] = (
    ("R2", "r2", lambda value: f"{value:.2f}"),
    ("median\nerror", "median_ape", _percent),
)
_COLUMNS: dict[str, tuple[tuple[str, str, Write], ...]] = {
    "iteration-time": _FIT,
    "peaks": _FIT,
    "progress": (
        ("mean\nerror", "mean_error", _percent),
        ("interval\nholds", "interval_holds", lambda value: f"{100 * value:.0f} %"),
        ("upper\nholds", "upper_holds", lambda value: f"{100 * value:.0f} %"),
        ("width", "width", lambda value: f"{100 * value:.0f} %"),
    ),
}
_LEGENDS = {
    "iteration-time": (
        " scaled: one measurement of the same model in another configuration, scaled; rows: those that\n have one"
    ),
    "peaks": " median: of all jobs, without any model",
    "progress": (
        " error: of the iterations until it converges, as a share of the declared run; interval: 90 %,\n"
        " its width from errors on other runs (by model: other families); upper: its upper end, 95 % is right"
    ),
}


def splits_view(found: dict[str, Any]) -> RenderableType:
    """A row per model, and for each split its numbers."""
    columns, peaks = _COLUMNS[found["what"]], found["what"] == "peaks"
    made = table("split", *(["peak"] if peaks else []), "model", "rows", *(head for head, _, _ in columns))
    for split in found["splits"]:
        for at, row in enumerate(split["models"]):
            named = ["" if at else split["split"], *([row["peak"]] if peaks else []), row["model"]]
            made.add_row(*named, f"{row['rows']:,}", *(_cell(row[key], write) for _, key, write in columns))
    return Group(
        Below(f"{found['data']}: {_size(found)}"),
        made,
        Text(f" Honest: {found['honest']}, because\n {found['why']}."),
        Text(_LEGENDS[found["what"]], style="dim"),
    )


def _cell(value: float | None, write: Write) -> str:
    return "" if value is None else write(value)


def _size(found: dict[str, Any]) -> str:
    if found["what"] == "progress":
        short = f"; {found['left_out']} have too few measurements" if found["left_out"] else ""
        families = len(found["families"])
        return f"{found['curves']:,} curves of {families} families, {found['rows']:,} questions{short}"
    more = f", {found['configurations']:,} configurations" if "configurations" in found else ""
    return f"{counted(found['rows'], 'measurement')}, {counted(found['groups'], 'model')}{more}"

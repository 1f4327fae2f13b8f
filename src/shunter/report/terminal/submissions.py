"""Forecasts of submissions beside simple rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from shunter.predictors.submissions import RULES, SubmissionForecast
from shunter.predictors.throughput import DAY
from shunter.report.gains import gain_by_day, gain_text
from shunter.report.terminal.tables import Below, table
from shunter.world import F64

SERIES = ("jobs", "gpus")
_LEGEND = "error: mean |error| in ten minutes; gain: on the best rule, with its 95 % interval over days"


def records(actual: F64, found: Sequence[SubmissionForecast]) -> list[dict[str, Any]]:
    """The error of each forecast, and of models what they gain on the best rule."""
    errors = {forecast.name: np.abs(forecast.counts - actual) for forecast in found}
    best = [min(RULES, key=lambda name: errors[name][series].mean()) for series in range(len(SERIES))]
    day = np.arange(actual.shape[1]) // DAY
    rows = []
    for name, error in errors.items():
        row: dict[str, Any] = {"model": name}
        for series, what in enumerate(SERIES):
            row[what] = {"mean_abs_error": float(error[series].mean())}
            if name not in RULES:
                rule = errors[best[series]][series]
                row[what] |= {"best_rule": best[series], "gain": gain_by_day(rule, error[series], day)}
        rows.append(row)
    return rows


def submissions_view(found: dict[str, Any]) -> RenderableType:
    """Rules and models side by side."""
    head = Text(
        f" {found['trace']}: submissions from {found['split']} on, {found['bins']:,} bins of ten minutes,\n"
        " each forecast an hour before"
    )
    made = table("model", "jobs\nerror", "gain", "GPUs\nerror", "gain")
    for row in found["models"]:
        cells = [
            cell
            for what in SERIES
            for cell in (
                f"{row[what]['mean_abs_error']:.2f}",
                gain_text(row[what]["gain"]) if "gain" in row[what] else "",
            )
        ]
        made.add_row(row["model"], *cells)
    meanings = "\n".join(f" {name}: {doc}" for name, doc in RULES.items())
    return Group(head, made, Below(f"{_LEGEND}\n{meanings}", style="dim"))

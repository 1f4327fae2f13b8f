"""``shunter predict eval --what``: estimates of iteration times, progress and peaks, judged on measurements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from shunter.cli.console import answer, note, progress
from shunter.errors import ModelError, did_you_mean

TAKEN = ("ctx", "trace", "what", "model", "columns", "json")  # options that mean something for measurements


def refuse_others(ctx: typer.Context, what: str) -> None:
    """Refuse options that are about run times alone."""
    for name in ctx.params:
        source = ctx.get_parameter_source(name)
        if name not in TAKEN and source is not None and source.name == "COMMANDLINE":
            raise ModelError(f"--{name.replace('_', '-')} is about run times; leave it out with --what {what}")


def judged(what: str, path: Path, models: list[str] | None, columns: str | None, json: bool) -> None:
    """Judge the models on a table by both splits, and print it."""
    from shunter.report.terminal.measured_models import HONEST, splits_view

    if what not in JUDGES:
        raise ModelError(f"--what: unknown '{what}'; {did_you_mean(what, ('run-time', *JUDGES))}")
    with progress("judging", "splits") as on_progress:
        found = JUDGES[what](path, models, columns, on_progress)
    answer({"what": what, "data": path.name, "honest": "by model", "why": HONEST[what]} | found, splits_view, json)


def _progress(path: Path, models: list[str] | None, columns: str | None, on_progress: Any) -> dict[str, Any]:
    from shunter.predictors.progress import judging
    from shunter.traces.measurements import read_loss_curves

    if columns:
        raise ModelError("--columns is not used with --what progress: files have the columns iteration and loss")
    if not models:
        note("'lstm' is left out, because training it takes long; --model lstm judges it")
    return judging.judge(read_loss_curves(path), models, on_progress)


def _iteration_time(path: Path, models: list[str] | None, columns: str | None, on_progress: Any) -> dict[str, Any]:
    from shunter.predictors import iteration_time
    from shunter.traces.measurements import columns_given, read_measurements

    needed = (*iteration_time.FEATURES, iteration_time.TARGET)
    table = iteration_time.TimeTable.of(read_measurements(path, needed, columns_given(columns)).numbers)
    return iteration_time.judge(table, models, on_progress)


def _peaks(path: Path, models: list[str] | None, columns: str | None, on_progress: Any) -> dict[str, Any]:
    from shunter.predictors import peaks
    from shunter.traces.measurements import columns_given, read_measurements

    found = read_measurements(path, (), columns_given(columns))
    return peaks.judge(peaks.PeakTable.of(found.numbers, found.texts), models, on_progress)


JUDGES: dict[str, Callable[[Path, list[str] | None, str | None, Any], dict[str, Any]]] = {
    "iteration-time": _iteration_time,
    "progress": _progress,
    "peaks": _peaks,
}

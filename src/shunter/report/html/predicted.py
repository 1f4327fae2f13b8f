"""Predicted against actual run times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shunter.model import GPU
from shunter.report.html.charts import Axis, bars
from shunter.report.html.density import DensityAxes, density, frame_of
from shunter.report.html.findings import Row
from shunter.report.html.page import figure, grid, note, table, text_of
from shunter.report.metrics import SIZES
from shunter.report.prediction_error import log_errors
from shunter.report.terminal.tables import duration, number, share
from shunter.texts import counted
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

    from shunter.run_folder import Run

LENGTHS = (("under 1 m", 60), ("1 m to 10 m", 600), ("10 m to 1 h", 3600), ("1 h to 6 h", 21_600),
           ("6 h to 1 d", 86_400), ("over 1 d", math.inf))  # fmt: skip
FAR = 10  # times too long or too short


def predicted(names: Sequence[str], runs: Sequence[Run], rows: Sequence[Row]) -> list[str]:
    """Numbers and charts for the policies that used estimates of their own; nothing if none did."""
    judged_runs = {name: judged(run) for name, run in zip(names, runs, strict=True) if "predicted" in run.jobs.columns}
    judged_runs = {name: jobs for name, jobs in judged_runs.items() if len(jobs)}
    if not judged_runs:
        return []
    frame = frame_of(*(jobs[column].to_numpy() for jobs in judged_runs.values() for column in ("actual", "predicted")))
    drawn = [_plane(name, jobs, frame) for name, jobs in judged_runs.items()]
    judging = [
        (name, row) for name, row in zip(names, rows, strict=True) if name in judged_runs and row.get("prediction")
    ]
    return [
        _table(judging),
        grid([*drawn, _by_size(judged_runs)]),
        note(
            "Predicted: the estimate with which a job entered the queue; later estimates don't count. Actual: the run"
            " time alone at full speed. Finished jobs only; times under 1 s count as 1 s."
        ),
    ]


def judged(run: Run) -> pl.DataFrame:
    """The jobs of which both times are known."""
    return run.jobs.drop_nulls(["predicted", "actual"])


def _errors(jobs: pl.DataFrame) -> F64:
    return log_errors(jobs["predicted"].to_numpy() * 1000, jobs["actual"].to_numpy() * 1000)


def _table(judging: Sequence[tuple[str, Row]]) -> str:
    lines = []
    for name, row in judging:
        scores = row["prediction"]
        error, rank, bias = scores["mean_abs_log_error"], scores["rank_correlation"], scores["bias"]
        order = "–" if rank is None else f"{rank:.2f}"
        cells = [f"{error:.2f}", f"{number(math.exp(error))}x", order, f"{bias:+.2f}"]
        lines.append([name, scores["model"], f"{scores['jobs']:,.0f}", *cells])
    headings = ["policy", "estimates", "jobs", "mean |log error|", "as a factor", "rank correlation", "bias"]
    return table("How well run times were predicted; bias: mean log of predicted over actual", headings, lines, (1,))


def _plane(name: str, jobs: pl.DataFrame, frame: DensityAxes) -> str:
    """Predicted over actual run time of one policy's jobs, and the numbers behind it."""
    title, size = f"Predicted and actual run times under {name}", np.abs(_errors(jobs))
    finding = (
        f"Half of the estimates are within a factor of {number(math.exp(float(np.median(size))))};"
        f" {share(float((size > math.log(FAR)).mean()))} are more than {FAR} times too long or too short."
    )
    drawing = density(
        f"Chart: {title}. {finding}",
        jobs["actual"].to_numpy(),
        jobs["predicted"].to_numpy(),
        ("actual run time", "predicted run time"),
        frame,
    )
    return (
        f'<figure class="density"><figcaption><h3>{text_of(title)}</h3><p>{text_of(finding)}</p></figcaption>{drawing}'
        f"<details><summary>By run time</summary>{_by_length(jobs, size)}</details></figure>"
    )


def _by_length(jobs: pl.DataFrame, size: F64) -> str:
    actual, said = jobs["actual"].to_numpy(), jobs["predicted"].to_numpy()
    group = np.searchsorted([top for _, top in LENGTHS], actual, side="right")
    lines = []
    for at, (length, _) in enumerate(LENGTHS):
        mine = group == at
        if mine.any():
            low, middle, high = np.percentile(said[mine], (10, 50, 90)).tolist()
            times = [duration(time) for time in (low, middle, high)]
            lines.append([length, f"{mine.sum():,}", *times, f"{size[mine].mean():.2f}"])
    headings = ["actual run time", "jobs", "predicted p10", "predicted p50", "predicted p90", "mean |log error|"]
    return table("Predictions by actual run time", headings, lines)


def _by_size(judged_runs: dict[str, pl.DataFrame]) -> str:
    """The error by the GPUs of a job."""
    tops = [top for _, top in SIZES]
    groups = {name: np.searchsorted(tops, jobs["gpus"].to_numpy() - 0.5 / GPU) for name, jobs in judged_runs.items()}
    errors = {name: np.abs(_errors(jobs)) for name, jobs in judged_runs.items()}
    shown = [at for at in range(len(SIZES)) if any((group == at).any() for group in groups.values())]
    means = {name: [_mean(errors[name][group == at]) for at in shown] for name, group in groups.items()}
    worst = max(means, key=lambda name: float(np.nanmax(means[name])))
    at = shown[int(np.nanargmax(means[worst]))]
    where = f" under {worst}" if len(judged_runs) > 1 else ""
    finding = f"Jobs of {counted(SIZES[at][0], 'GPU')} are predicted worst{where}."
    chart = bars([SIZES[at][0] for at in shown], means, "GPUs of the job", Axis("mean |log error|"))
    return figure("Prediction error by job size", finding, chart)


def _mean(values: F64) -> float:
    return float(values.mean()) if len(values) else math.nan

"""The section about deadlines: slack over time, and which jobs met theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shunter.report.html.charts import Axis, bars, lines
from shunter.report.html.course import MOST_NAMES, ZOOM, span, time_axis
from shunter.report.html.findings import Row
from shunter.report.html.page import figure, grid, note
from shunter.report.html.words import span_of
from shunter.report.slack import MOST_JOBS, levels, slack, with_deadlines
from shunter.report.terminal.tables import duration, share
from shunter.world import F64

if TYPE_CHECKING:
    from shunter.run_folder import Run

BINS = 300
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
GROUPS = (  # key, title, axis
    ("by_size", "job size", "GPUs of the job"),
    ("by_user", "user", "user, fewest deadlines met first"),
)
DEFINED = (
    "Slack is the time to a job's deadline, less the time that it still runs from then on. It falls while the job"
    " waits; below 0 the job will be late. Only unfinished jobs count."
)


def due(names: Sequence[str], runs: Sequence[Run], rows: Sequence[Row]) -> list[str]:
    """Slack over time, and deadlines met and lateness by size and user; nothing where no job has a deadline."""
    if not all("deadlines" in row for row in rows):
        return []
    jobs = with_deadlines(runs[0])
    many = runs[0].jobs["deadline"].is_not_null().sum() > MOST_JOBS
    sampled = f" {MOST_JOBS:,} jobs were taken, evenly by submission." if many else ""
    drawn = _courses(names, runs) if len(jobs) else []
    return [*drawn, note(DEFINED + sampled), grid(_grouped(names, rows))]


def _courses(names: Sequence[str], runs: Sequence[Run]) -> list[str]:
    origin, end = span(runs)
    edges = np.linspace(origin, end, BINS + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    found = {
        name: levels(slack(run, with_deadlines(run), middle), (LOW, MIDDLE, HIGH))
        for name, run in zip(names, runs, strict=True)
    }

    def chart(title: str, finding: str, series: dict[str, F64]) -> str:
        drawn = lines(middle - origin, series, time_axis(origin), Axis("slack", "duration"), zoom=ZOOM)
        return figure(title, finding, drawn)

    below = {name: _share_below(values[0]) for name, values in found.items()}
    finding = f"For {span_of(below, share)} of the time, the tightest tenth of the unfinished jobs can't be in time."
    if len(names) == 1:
        (values,) = found.values()
        parts = dict(zip(("tightest tenth", "median", "loosest tenth"), values, strict=True))
        return [chart("Slack of unfinished jobs", finding, parts)]
    halves = {name: _share_below(values[1]) for name, values in found.items()}
    lost = f"For {span_of(halves, share)} of the time, half of the unfinished jobs can't be in time."
    return [
        chart("Slack of unfinished jobs, tightest tenth", finding, {name: found[name][0] for name in names}),
        chart("Slack of unfinished jobs, median", lost, {name: found[name][1] for name in names}),
    ]


def _share_below(values: F64) -> float:
    """The share of the time with unfinished jobs in which this is below 0."""
    known = values[np.isfinite(values)]
    return float((known < 0).mean()) if len(known) else 0.0


def _grouped(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    found = []
    for key, what, label in GROUPS:
        groups = list(rows[0]["deadlines"][key])
        if not groups:
            continue
        if key == "by_user":
            groups = sorted(groups, key=lambda group: min(row["deadlines"][key].get(group, 1.0) for row in rows))
        shown = groups[:MOST_NAMES]
        more = f"{MOST_NAMES} of {len(groups):,}." if len(groups) > MOST_NAMES else ""
        for part, title, axis in (
            ("", "Deadlines met", Axis("share of those possible alone", "share", top=1)),
            ("lateness_", "Lateness", Axis("mean lateness, 0 in time", "duration")),
        ):
            values = {
                name: [row["deadlines"][part + key].get(group, np.nan) for group in shown]
                for name, row in zip(names, rows, strict=True)
            }
            finding = _extremes(values, shown, bool(part), what)
            found.append(figure(f"{title} by {what}", finding, bars(shown, values, label, axis), more))
    return found


def _extremes(values: dict[str, list[float]], groups: Sequence[str], most: bool, what: str) -> str:
    """Which group is worst off under which policy."""
    worst, where, under = 0.0 if most else 1.0, "", ""
    for name, row in values.items():
        for group, value in zip(groups, row, strict=True):
            if np.isfinite(value) and (value > worst if most else value < worst):
                worst, where, under = value, group, name
    if not where:
        return "No job with a deadline is late." if most else "All deadlines that were possible alone are met."
    text = duration(worst) if most else share(worst)
    by = f", under {under}" if len(values) > 1 else ""
    return f"Worst off: {what} {where}{by}, {text}{' late on average, 0 for jobs in time' if most else ' met'}."

"""The charts of a report: how times are distributed, and how the cluster fared over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.report.html.charts import Axis, bars, cdf, lines
from shunter.report.html.findings import Row
from shunter.report.html.page import figure, grid, note
from shunter.report.tables import duration, number, share
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

    from shunter.folders import Run

BINS = 800  # of every course over time
MOST_NAMES = 12  # users or virtual clusters beside each other
TIME = Axis("time since the first submission", "elapsed")
ZOOM = "time"  # all courses are zoomed together


def distributions(names: Sequence[str], runs: Sequence[Run], rows: Sequence[Row]) -> list[str]:
    """How completion times and waits are spread over jobs, sizes, users and virtual clusters."""
    found = [_cdf(names, runs, "jct", "Completion time (JCT)"), _cdf(names, runs, "wait", "Wait in the queue")]
    found.append(_by_size(names, rows))
    found += _by_user(names, runs)
    found += _by_vc(names, rows)
    return [grid(found)]


def _cdf(names: Sequence[str], runs: Sequence[Run], column: str, title: str) -> str:
    samples = {name: _finished(run)[column].to_numpy() for name, run in zip(names, runs, strict=True)}
    halves = {name: float(np.median(values)) if len(values) else 0.0 for name, values in samples.items()}
    tails = {name: float(np.percentile(values, 95)) if len(values) else 0.0 for name, values in samples.items()}
    what = "are complete" if column == "jct" else "have waited no longer than that"
    finding = f"{_range(halves, 'Half of the jobs')} {what}; {_range(tails, '95 %').lower()}."
    return figure(title, finding, cdf(samples, Axis(title.lower(), "duration", log=True)))


def _finished(run: Run) -> pl.DataFrame:
    return run.jobs.filter(run.jobs["state"] == "done")


def _range(values: Mapping[str, float], whose: str) -> str:
    """``Half of the jobs: 12.0 m (las) to 4.00 h (fifo)``."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    if duration(values[low]) == duration(values[high]):
        return f"{whose}: {duration(values[low])}"
    return f"{whose}: {duration(values[low])} ({low}) to {duration(values[high])} ({high})"


def _by_size(names: Sequence[str], rows: Sequence[Row]) -> str:
    sizes = [size for size, group in rows[0]["by_size"].items() if group["jobs"]]
    means = {n: [row["by_size"][size]["wait_s"]["mean"] for size in sizes] for n, row in zip(names, rows, strict=True)}
    finding = _worst(means, sizes, "jobs of {} GPUs")
    return figure("Wait by job size", finding, bars(sizes, means, "GPUs of the job", Axis("mean wait", "duration")))


def _by_vc(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    counts = {vc: group["jobs"] for vc, group in rows[0]["by_vc"].items()}
    if not counts:
        return []
    shown = sorted(counts, key=lambda vc: -counts[vc])[:MOST_NAMES]
    means = {
        name: [row["by_vc"][vc]["wait_s"]["mean"] if vc in row["by_vc"] else np.nan for vc in shown]
        for name, row in zip(names, rows, strict=True)
    }
    chart = bars(shown, means, "virtual cluster", Axis("mean wait", "duration"))
    finding = _worst(means, shown, "jobs of {}")
    return [figure("Wait by virtual cluster", finding, chart, _left_out(len(counts), "virtual clusters"))]


def _by_user(names: Sequence[str], runs: Sequence[Run]) -> list[str]:
    import polars as pl

    means = [_finished(run).group_by("user").agg(pl.col("wait").mean(), pl.len()).drop_nulls() for run in runs]
    top = means[0].sort(["len", "user"], descending=[True, False])["user"].to_list()
    if not top:
        return []
    shown = top[:MOST_NAMES]
    waits = [dict(zip(mean["user"].to_list(), mean["wait"].to_list(), strict=True)) for mean in means]
    series = {n: [wait.get(user, np.nan) for user in shown] for n, wait in zip(names, waits, strict=True)}
    chart = bars(shown, series, "user, most jobs first", Axis("mean wait", "duration"))
    return [figure("Wait by user", _worst(series, shown, "jobs of {}"), chart, _left_out(len(top), "users"))]


def _left_out(count: int, what: str) -> str:
    return f"The {MOST_NAMES} with the most jobs, of {count:,} {what}." if count > MOST_NAMES else ""


def _worst(means: Mapping[str, Sequence[float]], groups: Sequence[str], whose: str) -> str:
    """Who waits longest, under the best and the worst policy for them."""
    table = np.nan_to_num(np.array(list(means.values()), np.float64))
    policies, at = list(means), int(table.max(axis=0).argmax())
    column = table[:, at]
    who = whose.format(groups[at])
    head = f"{who[0].upper()}{who[1:]} wait longest: {duration(column.max())} on average"
    if len(policies) == 1 or duration(column.max()) == duration(column.min()):
        return head + "."
    best, worst = policies[int(column.argmin())], policies[int(column.argmax())]
    return f"{head} under {worst}, {duration(column.min())} under {best}."


# ------------------------------------------------------------------------------------------- over time


def courses(names: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """GPUs in use, the queue and fragmentation over time."""
    origin, end = span(runs)
    edges = np.linspace(origin, end, BINS + 1)
    gpus = runs[0].cluster.gpus
    middle = (edges[:-1] + edges[1:]) / 2 - origin

    def drawn(title: str, column: str, y: Axis, scale: float, finding: Callable[[dict[str, F64]], str]) -> str:
        series = {
            name: binned(run.series["time"].to_numpy(), run.series[column].to_numpy() / scale, edges)
            for name, run in zip(names, runs, strict=True)
        }
        return figure(title, finding(series), lines(middle, series, TIME, y, zoom=ZOOM))

    return [
        drawn("GPUs in use", "busy_gpus", Axis("share of all GPUs", "share", top=1), gpus, _busy),
        drawn("Jobs that wait", "queue", Axis("jobs in the queue", "count"), 1, _queue),
        drawn("Fragmentation", "fragmentation", Axis("share of free GPUs", "share", top=1), 1, _broken),
        note(
            f"Each point is the mean over {duration((end - origin) / BINS)}. Drag over a chart to zoom all of them in,"
            " double-click for the whole time, or use the buttons."
        ),
    ]


def span(runs: Sequence[Run]) -> tuple[float, float]:
    """From the first submission to the last event of any run, in seconds."""
    first = min(float(run.events[0, 0]) if len(run.events) else 0.0 for run in runs) / 1000
    last = max(float(run.events[-1, 0]) if len(run.events) else 0.0 for run in runs) / 1000
    return first, max(last, first + 1)


def binned(time: F64, value: F64, edges: F64) -> F64:
    """The mean of a step function in each bin; NaN for bins that begin after its last point."""
    if not len(time):
        return np.full(len(edges) - 1, np.nan)
    total = np.concatenate([[0.0], np.cumsum(value[:-1] * np.diff(time))])
    at = np.interp(edges, time, total)
    held = np.diff(np.clip(edges, time[0], time[-1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(held > 0, np.diff(at) / held, np.nan)


def _busy(series: dict[str, F64]) -> str:
    full = {name: float(np.mean(values[~np.isnan(values)] > 0.95)) for name, values in series.items() if len(values)}
    return _extremes(full, lambda v: f"more than 95 % of the GPUs are in use {share(v)} of the time")


def _queue(series: dict[str, F64]) -> str:
    peaks = {name: float(np.nanmax(values)) for name, values in series.items()}
    return _extremes(peaks, lambda v: f"the queue is longest with {number(round(v))} jobs")


def _broken(series: dict[str, F64]) -> str:
    means = {name: float(np.nanmean(values)) for name, values in series.items()}
    return (
        _extremes(means, lambda v: f"{share(v)} of the free GPUs are on partly used nodes, on average")
        + " Jobs that need whole nodes can't use those."
    )


def _extremes(values: dict[str, Any], tell: Callable[[float], str]) -> str:
    """``Under a, ...; under b, ...`` for the lowest and the highest."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    if tell(values[low]) == tell(values[high]):
        text = tell(values[low])
        return f"{text[0].upper()}{text[1:]}."
    return f"Under {low}, {tell(values[low])}; under {high}, {tell(values[high])}."

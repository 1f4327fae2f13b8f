"""The charts of a report: how times are distributed, and how the cluster was used over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from shunter.model import EARLIEST_DATE_MS
from shunter.report.calendar import LAST_DATE_MS
from shunter.report.finish_fairness import has_rho
from shunter.report.html.charts import Axis, bars, cdf, lines
from shunter.report.html.findings import Row
from shunter.report.html.page import figure, grid, note
from shunter.report.html.words import span_of
from shunter.report.terminal.tables import duration, number, share
from shunter.texts import counted
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

    from shunter.run_folder import Run

Step: TypeAlias = tuple[F64, F64]  # when a value begins to hold, and the value

BINS = 1000  # of every course over time
FULL = 0.95  # of the GPUs in use
MOST_NAMES = 12  # users or virtual clusters beside each other
MOST_TIMERS = 8  # in one chart
ZOOM = "time"  # all courses are zoomed together


def distributions(names: Sequence[str], runs: Sequence[Run], rows: Sequence[Row]) -> list[str]:
    """How completion times and waits are spread over jobs, sizes, users and virtual clusters."""
    found = [_cdf(names, runs, "jct", "Completion time (JCT)"), _cdf(names, runs, "wait", "Wait in the queue")]
    found.append(_by_size(names, rows))
    found += _by_user(names, runs)
    found += _by_vc(names, rows)
    found += [_rho(names, runs, rows)] if has_rho(rows) else []
    return [grid(found)]


def _cdf(names: Sequence[str], runs: Sequence[Run], column: str, title: str) -> str:
    samples = {name: _finished(run)[column].to_numpy() for name, run in zip(names, runs, strict=True)}
    halves = {name: float(np.median(values)) if len(values) else 0.0 for name, values in samples.items()}
    tails = {name: float(np.percentile(values, 95)) if len(values) else 0.0 for name, values in samples.items()}
    half, most = span_of(halves, duration), span_of(tails, duration)
    finding = (
        f"Half of the jobs are complete within {half}, 95 % within {most}."
        if column == "jct"
        else f"Half of the jobs wait at most {half}, 95 % at most {most}."
    )
    return figure(
        title, finding, cdf(samples, Axis("completion time" if column == "jct" else "wait", "duration", log=True))
    )


def _rho(names: Sequence[str], runs: Sequence[Run], rows: Sequence[Row]) -> str:
    samples = {name: _finished(run)["rho"].to_numpy() for name, run in zip(names, runs, strict=True)}
    fair = {name: float(row["fairness"]["rho_at_most_1"]) for name, row in zip(names, rows, strict=True)}
    finding = f"{span_of(fair, share)} of the jobs finish no later than with a fair share of the cluster."
    return figure("Finish-time fairness (rho)", finding, cdf(samples, Axis("rho", log=True)))


def _finished(run: Run) -> pl.DataFrame:
    return run.jobs.filter(run.jobs["state"] == "done")


def _by_size(names: Sequence[str], rows: Sequence[Row]) -> str:
    sizes = [size for size, group in rows[0]["by_size"].items() if group["jobs"]]
    means = {n: [row["by_size"][size]["wait_s"]["mean"] for size in sizes] for n, row in zip(names, rows, strict=True)}
    finding = _worst(means, [f"jobs of {counted(size, 'GPU')}" for size in sizes])
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
    finding = _worst(means, [f"jobs of {vc}" for vc in shown])
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
    return [
        figure(
            "Wait by user",
            _worst(series, [f"jobs of {_user(user)}" for user in shown]),
            chart,
            _left_out(len(top), "users"),
        )
    ]


def _user(name: str) -> str:
    """Some are numbers, which say nothing alone."""
    return name if name.lower().startswith("user") else f"user {name}"


def _left_out(count: int, what: str) -> str:
    return f"The {MOST_NAMES} with the most jobs, of {count:,} {what}." if count > MOST_NAMES else ""


def _worst(means: Mapping[str, Sequence[float]], groups: Sequence[str]) -> str:
    """The users that wait longest, under the best and the worst policy for them."""
    table = np.nan_to_num(np.array(list(means.values()), np.float64))
    policies, at = list(means), int(table.max(axis=0).argmax())
    column = table[:, at]
    head = f"{groups[at][0].upper()}{groups[at][1:]} wait longest: {duration(column.max())} on average"
    if len(policies) == 1 or duration(column.max()) == duration(column.min()):
        return head + "."
    best, worst = policies[int(column.argmin())], policies[int(column.argmax())]
    return f"{head} under {worst}, {duration(column.min())} under {best}."


# ------------------------------------------------------------------------------------------- over time


def courses(names: Sequence[str], runs: Sequence[Run], rows: Sequence[Row]) -> list[str]:
    """GPUs in use, the queue and fragmentation over time."""
    origin, end = span(runs)
    edges = np.linspace(origin, end, BINS + 1)
    gpus = runs[0].cluster.gpus
    middle = (edges[:-1] + edges[1:]) / 2 - origin

    def drawn(title: str, column: str, y: Axis, scale: float, sentence: Callable[[dict[str, Step]], str]) -> str:
        steps = {
            name: (run.series["time"].to_numpy(), run.series[column].to_numpy() / scale)
            for name, run in zip(names, runs, strict=True)
        }
        series = {name: binned(*step, edges) for name, step in steps.items()}
        peaks = {name: highest(*step, edges) for name, step in steps.items()} if column == "queue" else None
        return figure(title, sentence(steps), lines(middle, series, time_axis(origin), y, zoom=ZOOM, peaks=peaks))

    broken = _broken({name: float(row["fragmentation"]) for name, row in zip(names, rows, strict=True)})
    return [
        drawn(
            "GPUs in use",
            "busy_gpus",
            Axis("share of all GPUs", "share", top=1, mean=True),
            gpus,
            lambda s: _extremes(s, _busy),
        ),
        drawn(
            "Jobs that wait", "queue", Axis("jobs in the queue", "count", mean=True), 1, lambda s: _extremes(s, _queue)
        ),
        drawn(
            "Fragmentation", "fragmentation", Axis("share of free GPUs", "share", top=1, mean=True), 1, lambda _: broken
        ),
        *(_timers(name, run, edges) for name, run in zip(names, runs, strict=True) if run.timers is not None),
        note(
            "Drag over a chart to zoom in on all of them, double-click for the whole time, or use the buttons. At the"
            f" highest zoom, a point is the mean over {duration((end - origin) / BINS)}."
        ),
    ]


def _timers(name: str, run: Run, edges: F64) -> str:
    """How long jobs of some sizes waited for a tier at most, where the policy tunes that."""
    assert run.timers is not None
    tuned = run.timers.group_by("tier", "gpus").len().sort(["len", "tier", "gpus"], descending=[True, False, False])
    series, longest = {}, (0.0, "")
    for tier, gpus, _ in tuned.head(MOST_TIMERS).sort(["tier", "gpus"]).iter_rows():
        found = run.timers.filter((run.timers["tier"] == tier) & (run.timers["gpus"] == gpus))
        time, timer = (found[column].to_numpy() for column in ("time", "timer"))
        label = f"{tier}, {counted(gpus, 'GPU')}"
        series[label] = binned(np.append(time, run.events[-1, 0] / 1000), np.append(timer, timer[-1]), edges)
        longest = max(longest, (float(timer.max()), label))
    caption = f"Under {name}, jobs wait for a better tier for up to {duration(longest[0])} ({longest[1]})."
    left = f"The {MOST_TIMERS} timers that changed most often, of {len(tuned)}." if len(tuned) > MOST_TIMERS else ""
    middle, axis = (edges[:-1] + edges[1:]) / 2 - edges[0], Axis("timer", "duration", mean=True)
    return figure(f"Timers of {name}", caption, lines(middle, series, time_axis(edges[0]), axis, zoom=ZOOM), left)


def time_axis(origin: float) -> Axis:
    """Time since ``origin``, in seconds; with dates where it is one."""
    if EARLIEST_DATE_MS <= 1000 * origin <= LAST_DATE_MS:
        return Axis("time (UTC)", "elapsed", origin=origin)
    return Axis("time since the first submission", "elapsed")


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


def highest(time: F64, value: F64, edges: F64) -> F64:
    """The largest value of a step function in each bin; NaN for bins that it does not reach."""
    if not len(time):
        return np.full(len(edges) - 1, np.nan)
    begin = np.maximum(np.searchsorted(time, edges[:-1], side="right") - 1, 0)
    end = np.searchsorted(time, edges[1:], side="left")
    reached = (end > begin) & (edges[:-1] < time[-1])
    bounds = np.stack([begin, np.maximum(end, begin + 1)], axis=1).ravel()
    return np.where(reached, np.maximum.reduceat(np.append(value, -np.inf), bounds)[::2], np.nan)


def _mean(time: F64, value: F64) -> float:
    """The mean of a step function over its whole time."""
    return float(value[:-1] @ np.diff(time)) / (time[-1] - time[0]) if len(time) > 1 else 0.0


def _busy(time: F64, value: F64) -> str:
    full = share(_mean(time, (value > FULL).astype(np.float64)))
    return f"the cluster is full (over {100 * FULL:.0f} % of its GPUs in use) {full} of the time"


def _queue(time: F64, value: F64) -> str:
    most = int(value.max()) if len(value) else 0
    return f"up to {counted(most, 'job', 'wait')} at once, {number(_mean(time, value))} on average"


def _broken(fragmentation: Mapping[str, float]) -> str:
    """By the measure of the summary, which ignores times without waiting jobs."""
    between = span_of(fragmentation, share)
    return (
        f"While jobs wait, {between} of the free GPUs are on partly used nodes, where jobs that need whole nodes can't"
        " run. The chart also includes times without waiting jobs."
    )


def _extremes(steps: Mapping[str, Step], sentence: Callable[[F64, F64], str]) -> str:
    """``Under a, ...; under b, ...``: where the mean is lowest, and where it is highest."""
    means = {name: _mean(*step) for name, step in steps.items()}
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    first, last = sentence(*steps[low]), sentence(*steps[high])
    if first == last:
        return f"{first[0].upper()}{first[1:]}."
    return f"Under {low}, {first}; under {high}, {last}."

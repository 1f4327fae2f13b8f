"""Runs that are under way, as charts that grow: their simulated time so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shunter.report.html.charts import Axis, lines
from shunter.report.html.page import figure, grid
from shunter.report.terminal.tables import duration, share
from shunter.under_way import RunPoint
from shunter.web.folder import RunsFolder
from shunter.world import F64

MOST_RUNS = 8  # in one chart


@dataclass(frozen=True)
class GrowingRun:
    """A run so far."""

    name: str
    points: Sequence[RunPoint]
    jobs: int
    gpus: float  # of the cluster; 0: not known


def charts(runs: Sequence[GrowingRun]) -> str:
    """Jobs that have ended, jobs that wait and GPUs in use, over the simulated time so far."""
    shown = [run for run in runs[:MOST_RUNS] if len(run.points) > 1]
    if not shown:
        return ""
    x = np.unique(np.concatenate([[point.time_s for point in run.points] for run in shown]))
    last = [run.points[-1] for run in shown]
    ended = _words(f"{point.ended:,} of {run.jobs:,}" for run, point in zip(shown, last, strict=True))
    waiting = _words(f"{point.waiting:,}" for point in last)
    busy = _words(share(_used(run, point)) for run, point in zip(shown, last, strict=True))
    reached = _words(duration(point.time_s) for point in last)
    axis = Axis("simulated time", "elapsed")
    drawn = (
        ("Jobs that have ended", f"{ended} after {reached} of simulated time.", Axis("jobs", "count"), "ended"),
        ("Jobs that wait", f"{waiting} in the queue now.", Axis("jobs in the queue", "count"), "waiting"),
        ("GPUs in use", f"{busy} of all GPUs now.", Axis("share of all GPUs", "share", top=1), "busy"),
    )
    return grid(
        figure(title, finding, lines(x, {run.name: _values(run, what, x) for run in shown}, axis, y))
        for title, finding, y, what in drawn
    )


def _words(texts: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(texts))


def _used(run: GrowingRun, point: RunPoint) -> float:
    return min(point.busy_gpus / run.gpus, 1.0) if run.gpus > 0 else 0.0


def _values(run: GrowingRun, what: str, x: F64) -> F64:
    """One number of a run at these times; NaN after the last that is known."""
    found = [_used(run, point) if what == "busy" else float(getattr(point, what)) for point in run.points]
    times = np.array([point.time_s for point in run.points])
    return np.where(x <= times[-1], np.interp(x, times, found), np.nan)


@dataclass(frozen=True)
class RunsSoFar:
    """What is known of work that is under way in the folder."""

    name: str
    done: int = 0
    total: int = 0
    unit: str = "jobs"
    runs: tuple[GrowingRun, ...] = ()
    ended: int = 0  # runs of a comparison
    alive: bool = False

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total > 0 else 0.0


def so_far(folder: RunsFolder, name: str) -> RunsSoFar:
    """How far the work of this name is; not ``alive``: it is over."""
    about = folder.work_on(name)
    if about is None:
        return RunsSoFar(name)
    single = [about] if about.kind == "run" else folder.running(name)
    runs = tuple(GrowingRun(", ".join(one.policies) or name, one.course, int(one.total), one.gpus) for one in single)
    return RunsSoFar(
        name, int(about.done), int(about.total), about.unit, runs, len(folder.unfinished(name)), alive=True
    )

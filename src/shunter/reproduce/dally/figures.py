"""The charts of the page: our runs, drawn as the paper draws its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shunter.report.bootstrap import Estimate
from shunter.report.html.charts import Axis, Unit, cdf, intervals, lines
from shunter.report.html.course import Step, binned
from shunter.report.html.page import choice, figure, grid
from shunter.report.html.words import span_of
from shunter.report.terminal.tables import duration, number, share
from shunter.reproduce.dally.design import DALLY, HOUR, LEASES_S, MANUAL, TABLE_I, TIMERS_H, WORDS, NetworkSetting
from shunter.reproduce.trials import RunCourse, Scheduler
from shunter.texts import counted
from shunter.world import F64

if TYPE_CHECKING:
    from shunter.reproduce.dally.study import DallyStudy

BOTH = (("Makespan", "makespan_s", "makespan"), ("Mean JCT", "jct_mean_s", "mean JCT"))
POINTS = 1000  # of a curve over time
NEARLY = 0.99  # of the jobs
WIDE = 20  # times the least value
OFTEN = 10  # changes of a timer, so that it is drawn
LONGEST = 3  # maximum length of a chart over time, relative to what most schedulers take for nearly all jobs
SIZES = (  # what is drawn by cluster size: title, measure, axis, how far Dally is below Tiresias in print (batch)
    ("Makespan (Fig. 7)", "makespan_s", "makespan", "up to 69 %"),
    ("Mean JCT (Fig. 13)", "jct_mean_s", "mean JCT", "19 % to 36 %"),
    ("P95 of queueing delay (Fig. 8 a)", "wait_p95_s", "P95 of the time in the queue", "58 % to 71 %"),
    ("P99 of queueing delay (Fig. 8 a)", "wait_p99_s", "P99 of the time in the queue", "67 % to 78 %"),
    ("Communication (Fig. 8 b)", "communication_mean_s", "mean exposed communication of a job", "53 % to 83 %"),
    ("GPUs in use", "utilization", "share of the GPU time", ""),
)


def by_size(study: DallyStudy, world: NetworkSetting, titles: Sequence[str] = ()) -> str:
    """Measures by cluster size, one workload after the other."""
    shown = [row for row in SIZES if not titles or row[1] in titles]
    return choice(
        "Workload",
        {
            WORDS[workload]: [grid(_by_size(study, world, workload, *row) for row in shown)]
            for workload in study.design.workloads
        },
    )


def _by_size(
    study: DallyStudy, world: NetworkSetting, workload: str, title: str, measure: str, label: str, below: str
) -> str:
    design = study.design
    unit: Unit = "share" if measure == "utilization" else "duration"
    series = {
        scheduler.label: [
            study.trials.of(study.case(workload, scheduler, racks, world), measure) for racks in design.racks
        ]
        for scheduler in design.schedulers
    }
    at = design.racks.index(design.shown)
    means = {name: points[at].value for name, points in series.items()}
    finding = f"On {design.shown} racks: {span_of(means, share if unit == 'share' else duration)}."
    names = [counted(racks, "rack") for racks in design.racks]
    styles = [scheduler.style for scheduler in design.schedulers]
    axis = Axis(label, unit, log=_wide(series), top=1 if unit == "share" else None)
    chart = intervals(names, series, "cluster size", axis, styles=styles)
    compared = below and workload == "batch" and world is TABLE_I
    note = f"Printed: Dally {below} below Tiresias." if compared else ""
    return figure(title if world is TABLE_I else title.partition(" (Fig")[0], finding, chart, note)


def _wide(series: Mapping[str, Sequence[Estimate]]) -> bool:
    """Whether points differ so much that a linear axis would show only the largest."""
    values = [point.value for points in series.values() for point in points]
    return min(values) > 0 and max(values) / min(values) > WIDE


# ------------------------------------------------------------------------------------------- over time


def over_time(study: DallyStudy) -> str:
    """GPUs in use, jobs that remain, and how completion times are spread, on the shown size."""
    return choice("Workload", {WORDS[workload]: _over_time(study, workload) for workload in study.design.workloads})


def _over_time(study: DallyStudy, workload: str) -> list[str]:
    schedulers, racks = study.design.schedulers, study.design.shown
    courses = {s.label: _course(study, workload, s) for s in schedulers}
    edges = np.linspace(0, _end(courses), POINTS + 1)
    middle, time = (edges[:-1] + edges[1:]) / 2, Axis("time since the first submission", "elapsed")

    def drawn(title: str, finding: str, column: str, y: Axis, note: str = "") -> str:
        series = {name: binned(course.time, getattr(course, column), edges) for name, course in courses.items()}
        chart = lines(middle, series, time, y, styles=[s.style for s in schedulers], zoom=workload)
        return figure(title, f"{racks} racks, first repeat. {finding}", chart, note)

    used = {s.label: study.trials.of(study.case(workload, s), "utilization").value for s in schedulers}
    many = study.jobs[workload] / 2
    halves = {name: float(course.time[_last(course.remaining > many) + 1]) for name, course in courses.items()}
    most = {name: float(course.remaining.max()) for name, course in courses.items()}
    caption = f"At most {span_of(most, number)} jobs are there at once."
    if min(most.values()) > many:
        caption = f"No more than half of all jobs remain after {span_of(halves, duration)}."
    return [
        drawn(
            "GPUs in use over time (Fig. 11)",
            f"In the mean of all repeats {span_of(used, share)} of the GPU time is used.",
            "busy",
            Axis("share of all GPUs", "share", top=1, mean=True),
            _beyond(courses),
        ),
        drawn(
            "Jobs that remain (Fig. 12)",
            caption,
            "remaining",
            Axis("jobs that have come and not ended", "count", mean=True),
        ),
        _completion(study, workload),
    ]


def _completion(study: DallyStudy, workload: str) -> str:
    schedulers = study.design.schedulers
    jct = {s.label: np.concatenate([o.jct for o in study.trials.outcomes[study.case(workload, s)]]) for s in schedulers}
    medians = {name: float(np.median(values)) for name, values in jct.items()}
    return figure(
        f"Completion times ({'Fig. 9' if workload == 'batch' else 'Fig. 10'})",
        f"{study.design.shown} racks, all repeats. Half of the jobs are complete within {span_of(medians, duration)}.",
        cdf(jct, Axis("completion time", "duration", log=True), styles=[s.style for s in schedulers]),
    )


def _course(study: DallyStudy, workload: str, scheduler: Scheduler, racks: int = 0) -> RunCourse:
    found = study.trials.outcomes[study.case(workload, scheduler, racks)][0].course
    assert found is not None  # the design keeps those that are drawn
    return found


def _last(true: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    return int(np.flatnonzero(true)[-1]) if true.any() else 0


def _nearly_over(course: RunCourse) -> float:
    """When nearly all jobs have ended."""
    still = _last(course.remaining > (1 - NEARLY) * course.remaining.max())
    return float(course.time[min(still + 1, len(course.time) - 1)])


def _end(courses: Mapping[str, RunCourse]) -> float:
    """Where charts over time end: later, a few jobs of the slowest would be all that is to be seen."""
    ends = [_nearly_over(course) for course in courses.values()]
    return min(max(ends), LONGEST * float(np.median(ends)))


def _beyond(courses: Mapping[str, RunCourse]) -> str:
    ends = {name: float(course.time[-1]) for name, course in courses.items() if course.time[-1] > _end(courses)}
    return f"Beyond the end of the chart the last job ends after {span_of(ends, duration)}." if ends else ""


# ------------------------------------------------------------------------------------------- timers


def timers(study: DallyStudy) -> str:
    """Dally's tuned timers over time by cluster size, for each tier and number of GPUs."""
    parts: dict[str, list[str]] = {}
    for workload in study.design.workloads:
        steps: dict[tuple[str, int], dict[str, Step]] = {}
        for racks in study.design.racks:
            for kind, step in _changes_of_timers(_course(study, workload, DALLY, racks)).items():
                steps.setdefault(kind, {})[counted(racks, "rack")] = step
        changes = {kind: sum(len(time) for time, _ in found.values()) for kind, found in steps.items()}
        for tier, gpus in sorted(steps, key=lambda kind: (kind[0] != "rack", -changes[kind])):
            name = f"{WORDS[workload]}, {tier}, {counted(gpus, 'GPU')}"
            parts[name] = [_timer(tier, gpus, steps[tier, gpus])]
    return choice("Timer", parts) if parts else ""


def _changes_of_timers(course: RunCourse) -> dict[tuple[str, int], Step]:
    """By tier and number of GPUs when a timer changed, and what it was from then on; of those that often did."""
    import polars as pl

    if course.timers is None:
        return {}
    found: dict[tuple[str, int], Step] = {}
    for tier, gpus in course.timers.select("tier", "gpus").unique().rows():
        rows = course.timers.filter((pl.col("tier") == tier) & (pl.col("gpus") == gpus)).sort("time")
        if len(rows) >= OFTEN:
            found[tier, gpus] = (rows["time"].to_numpy(), rows["timer"].to_numpy())
    return found


def _timer(tier: str, gpus: int, steps: Mapping[str, Step]) -> str:
    at = np.linspace(0, max(float(time[-1]) for time, _ in steps.values()), POINTS)
    means = {name: _mean(*step) for name, step in steps.items()}
    chart = lines(
        at,
        {name: _held(*step, at) for name, step in steps.items()},
        Axis("time since the first submission", "elapsed"),
        Axis("timer", "duration"),
        kind="steps",
    )
    return figure(
        "Tuned timers over time (Fig. 4)",
        f"Jobs of {counted(gpus, 'GPU')} wait for one {tier} for {span_of(means, duration)}, in the mean over time.",
        chart,
        "First repeat, up to the last change. The paper says that timers are longer on smaller clusters.",
    )


def _mean(time: F64, value: F64) -> float:
    """Over the time from the first change to the last."""
    held = np.diff(time)
    return float(value[:-1] @ held / held.sum()) if held.sum() > 0 else float(value[-1])


def _held(time: F64, value: F64, at: F64) -> F64:
    """A step function at these times; NaN before its first and after its last."""
    index = np.searchsorted(time, at, side="right") - 1
    return np.where((index >= 0) & (at <= time[-1]), value[np.maximum(index, 0)], np.nan)


# ------------------------------------------------------------------------------------------- sensitivity


def sensitivity(study: DallyStudy) -> list[str]:
    """How much depends on the length of timers and leases."""
    parts: dict[str, list[str]] = {}
    for workload in study.design.workloads:
        charts = [*_by_timer(study, workload), *_by_lease(study, workload)]
        if charts:
            parts[WORDS[workload]] = [grid(charts)]
    return [choice("Workload", parts)] if parts else []


def _by_timer(study: DallyStudy, workload: str) -> list[str]:
    if not study.design.has(MANUAL):
        return []
    names = [counted(hours, "hour") for hours in TIMERS_H]
    found = []
    for title, measure, label in BOTH:
        points = [study.trials.of(study.design.timed(workload, hours), measure) for hours in TIMERS_H]
        series, styles = {MANUAL.label: points}, [MANUAL.style]
        if study.design.has(DALLY):
            series[DALLY.label] = [study.trials.of(study.case(workload, DALLY), measure)] * len(points)
            styles.append(DALLY.style)
        values = dict(zip(names, (point.value for point in points), strict=True))
        chart = intervals(names, series, "timer of a machine", Axis(label, "duration"), styles=styles)
        caption = f"{study.design.shown} racks: {span_of(values, duration)}. The timer of a rack is twice as long."
        found.append(figure(f"{title} by length of manual timers", caption, chart))
    return found


def _by_lease(study: DallyStudy, workload: str) -> list[str]:
    schedulers = study.design.with_leases()
    if not schedulers:
        return []
    names = [duration(seconds) for seconds in LEASES_S]
    found = []
    for title, measure, label in BOTH:
        series = {
            s.label: [study.trials.of(study.design.leased(workload, s, seconds), measure) for seconds in LEASES_S]
            for s in schedulers
        }
        at = names.index(duration(HOUR))
        means = {name: points[at].value for name, points in series.items()}
        chart = intervals(names, series, "lease", Axis(label, "duration"), styles=[s.style for s in schedulers])
        caption = f"{study.design.shown} racks, with a lease of one hour: {span_of(means, duration)}."
        found.append(figure(f"{title} by length of the lease", caption, chart))
    return found

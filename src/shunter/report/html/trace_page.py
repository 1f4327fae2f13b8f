"""A described trace as a page: the same numbers as in the terminal, as charts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from shunter.model import Trace
from shunter.report.html import charts, page
from shunter.report.html.charts import Axis
from shunter.report.html.page import Section
from shunter.report.quality import Finding
from shunter.report.terminal.tables import duration, number, share
from shunter.report.terminal.trace import lines_of
from shunter.texts import counted

POINTS = ("mean", "p50", "p90", "p95", "p99", "max")
MOST_BARS = 20
ENOUGH = 20  # jobs that a size needs for a curve of its own
MOST_CURVES = 7


def trace_page(trace: Trace, about: dict[str, Any], findings: Sequence[Finding]) -> str:
    """The whole page, from a trace, what ``describe`` says about it, and what ``validate`` found in it."""
    span = about["span"]
    zone = f" {span['timezone']}" if span["timezone"] else ""
    lead = f"{counted(about['jobs'], 'job')}, {span['first']} to {span['last']}{zone}"
    sections = [_overview(about), _sizes(trace, about), _arrivals(about), *_users(about), *_groups(about), _load(about)]
    return page.render(f"Trace {about['trace']}", lead, [*sections, _quality(findings)])


def _overview(about: dict[str, Any]) -> Section:
    pairs = [
        ("jobs", f"{about['jobs']:,}"),
        ("GPU-hours", number(about["gpu_hours"])),
        ("GPUs per job", f"{number(about['mean_gpus'])} on average"),
        ("days", number(about["span"]["days"])),
        *lines_of(about),
        ("digest", about["digest"]),
    ]
    return Section("Overview", [page.facts(pairs), *([page.points(about["remarks"])] if about["remarks"] else [])])


def _sizes(trace: Trace, about: dict[str, Any]) -> Section:
    sizes = about["sizes"]
    names = [row["gpus"] for row in sizes]
    most_jobs, most_work = (max(sizes, key=lambda row: row[key]) for key in ("job_share", "gpu_time_share"))
    shares = {
        "of the jobs": [row["job_share"] for row in sizes],
        "of the GPU time": [row["gpu_time_share"] for row in sizes],
    }
    mix = page.figure(
        "Job sizes",
        f"{share(most_jobs['job_share'])} of the jobs request {_gpus(most_jobs)};"
        f" jobs with {_gpus(most_work)} take {share(most_work['gpu_time_share'])} of the GPU time.",
        charts.bars(names, shares, "GPUs of a job", Axis("share", "share")),
    )
    median, tail = about["duration_s"]["p50"], about["duration_s"]["p95"]
    curves = page.figure(
        "Run times",
        f"Half of the jobs run for at most {duration(median)}, one in twenty for more than {duration(tail)}.",
        charts.cdf(_run_times(trace, sizes), Axis("run time", "duration", log=True)),
    )
    rows = [(row["gpus"], row["jobs"], row["duration_s"]) for row in sizes] + [
        ("all", about["jobs"], about["duration_s"])
    ]
    table = page.table(
        "Run times by size",
        ["GPUs", "jobs", *POINTS],
        [[name, f"{jobs:,}", *(duration(times[point]) for point in POINTS)] for name, jobs, times in rows],
    )
    return Section("Sizes and run times", [page.grid([mix, curves]), table])


def _run_times(trace: Trace, sizes: list[dict[str, Any]]) -> dict[str, Any]:
    """Run times in seconds: of all jobs, and of the sizes that are common enough for a curve."""
    common = sorted(sizes, key=lambda row: -row["jobs"])[:MOST_CURVES]
    samples = {"all jobs": trace.duration / 1000}
    for row in sizes:
        if row in common and row["jobs"] >= ENOUGH and len(sizes) > 1:
            low, _, high = row["gpus"].partition("-")
            bounds = (round(float(low) * 1000), round(float(high or low) * 1000))
            inside = (trace.gpus >= bounds[0]) & (trace.gpus <= bounds[1])
            samples[_gpus(row)] = trace.duration[inside] / 1000
    return samples


def _gpus(row: dict[str, Any]) -> str:
    return counted(row["gpus"], "GPU")


def _arrivals(about: dict[str, Any]) -> Section:
    arrivals, day = about["arrivals"], about["arrivals"]["per_day"]
    zone = about["span"]["timezone"] or "of the trace's own clock"
    hours, weekdays = np.array(arrivals["by_hour"]), np.array(arrivals["by_weekday"])
    by_hour = page.figure(
        "Submissions by hour",
        f"Most jobs come from {hours.argmax():02d}:00 to {hours.argmax() + 1:02d}:00,"
        f" {number(hours.max() / max(hours.mean(), 1e-9))} times the mean.",
        charts.bars([f"{hour:02d}" for hour in range(24)], {"jobs": hours}, f"hour ({zone})", Axis("jobs", "count")),
    )
    by_weekday = page.figure(
        "Submissions by weekday",
        f"{number(day['mean'])} jobs a day, {day['min']:,} to {day['max']:,}.",
        charts.bars(arrivals["weekdays"], {"jobs": weekdays}, "day of the week", Axis("jobs", "count")),
    )
    return Section("Arrivals", [page.grid([by_hour, by_weekday])])


def _users(about: dict[str, Any]) -> Iterator[Section]:
    users = about["users"]
    if users is None:
        return
    top = users["top_5_percent"]
    finding = (
        f"The busiest 5 % of {users['count']:,} users submit {share(top['job_share'])} of the jobs"
        f" and {share(top['gpu_time_share'])} of the GPU time."
    )
    yield Section("Users", [_shares("Busiest users", finding, "user", users["top"])])


def _groups(about: dict[str, Any]) -> Iterator[Section]:
    for title, what, key in (
        ("Virtual clusters", "virtual cluster", "vcs"),
        ("GPU types", "GPU type", "gpu_types"),
        ("Outcomes", "outcome", "outcomes"),
    ):
        rows = about[key]
        if not rows:
            continue
        part = share(rows[0]["gpu_time_share"])
        finding = f"Jobs with the {what} '{rows[0]['name']}' use the most GPU time, {part}."
        body = [_shares(f"{title} by share", finding, what, rows[:MOST_BARS])]
        if "load" in rows[0]:
            cells = [
                [row["name"], f"{row['gpus']:,}", number(row["load"]) if row["load"] is not None else "–"]
                for row in rows
            ]
            body.append(page.table(f"{title}: load", [what, "GPUs", "load"], cells))
        yield Section(title, body)


def _shares(title: str, finding: str, what: str, rows: list[dict[str, Any]]) -> str:
    names = [row["name"] for row in rows]
    series = {
        "of the jobs": [row["job_share"] for row in rows],
        "of the GPU time": [row["gpu_time_share"] for row in rows],
    }
    return page.figure(title, finding, charts.bars(names, series, what, Axis("share", "share")))


def _load(about: dict[str, Any]) -> Section:
    load = about["load"]
    where = f"{load['cluster']} ({counted(load['gpus'], 'GPU')})"
    chosen = " No cluster was given; this size suits the trace." if load["suggested"] else ""
    body = [
        page.paragraph(
            f"The jobs request {number(load['load'])} times the GPU time that {where} offers over"
            f" {number(load['span_days'])} days.{chosen}"
        )
    ]
    if load["by_day"]:
        days = [row["day"] for row in load["by_day"]]
        values = [row["load"] for row in load["by_day"]]
        finding = (
            f"On {sum(value > 1 for value in values):,} of {len(values):,} days jobs request more than the cluster has;"
            f" most on {load['peak_day']['day']}: {number(load['peak_day']['load'])}."
        )
        body.append(page.figure("Load by day of submission", finding, _load_chart(days, values)))
    at_once = load["wanted_at_once_gpus"]
    body.append(page.paragraph("If no job ever waited, this many GPUs would be in use at once:"))
    body.append(page.facts([(point, number(value)) for point, value in at_once.items()]))
    return Section("Load", body)


def _load_chart(days: Sequence[str], values: Sequence[float]) -> charts.Chart:
    """Bars for few days, else a curve; without dates, days are counted."""
    if len(days) <= MOST_BARS:
        return charts.bars(days, {"requested": values}, "day of submission", Axis("load"))
    series = {"requested": values, "offered": [1.0] * len(values)}
    x = Axis(f"time since {days[0]}", "elapsed")
    if re.fullmatch(r"\d{4}-\d\d-\d\d", days[0]):
        x = Axis("day of submission", "elapsed", origin=datetime.fromisoformat(f"{days[0]}T00:00+00:00").timestamp())
    return charts.lines(np.arange(len(days)) * 86400, series, x, Axis("load", mean=True), kind="steps", zoom="load")


def _quality(findings: Sequence[Finding]) -> Section:
    if not findings:
        return Section("Data quality", [page.paragraph("The checks found nothing.")])
    sentences = [
        f"{finding.severity.capitalize()}, {finding.check}: {finding.says}; {finding.means}. To do: {finding.remedy}."
        for finding in findings
    ]
    return Section("Data quality", [page.points(sentences)])

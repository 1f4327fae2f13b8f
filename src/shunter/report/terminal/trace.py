"""A described trace for people, made for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shunter.report.terminal.blocks import bar, binned, columns
from shunter.report.terminal.tables import Below, duration, number, share, table
from shunter.texts import counted

_POINTS = ("mean", "p50", "p90", "p95", "max")
_BAR = 9  # characters for a whole
_CHART = 4  # lines of a chart
_MOST_COLUMNS = 90
_MOST_ROWS = 10
_COLOUR = "cyan"
_ESTIMATES = {
    "history": "by the mean of the user's last two ended runs",
    "last_two": "by the last two, ended or not",
    "limit": "by the requested limit",
}


def describe_view(about: dict[str, Any]) -> RenderableType:
    """Everything that ``shunter trace describe`` prints."""
    parts = [*_head(about), _sizes(about), _arrivals(about), *_facts(about)]
    if about["users"]:
        parts += [_groups("busiest users", about["users"]["top"])]
    for title, key in (("virtual cluster", "vcs"), ("GPU type", "gpu_types"), ("outcome", "outcomes")):
        parts += [_groups(title, about[key])] if about[key] else []
    parts += _load(about["load"])
    return Group(*parts, *(Text(f" remark: {remark}", style="dim") for remark in about["remarks"]))


def _head(about: dict[str, Any]) -> Iterator[RenderableType]:
    span = about["span"]
    zone = f" {span['timezone']}" if span["timezone"] else ""
    width = counted(number(about["mean_gpus"]), "GPU")
    counts = f"{counted(about['jobs'], 'job')}, {number(about['gpu_hours'])} GPU-hours, {width} a job"
    yield Text.assemble((f" {about['trace']}", "bold"), f"  {counts}")
    yield Below(f"{span['first']} to {span['last']}{zone} ({number(span['days'])} days), digest {about['digest']}")


def _sizes(about: dict[str, Any]) -> Table:
    headings = ("run time\nmean", *_POINTS[1:])
    found = _with_bars(table("GPUs", "jobs", "of jobs", "of GPU time", *headings))
    rows = [(row["gpus"], row) for row in about["sizes"]]
    for name, row in rows:
        times = (duration(row["duration_s"][point]) for point in _POINTS)
        found.add_row(name, f"{row['jobs']:,}", _part(row["job_share"]), _part(row["gpu_time_share"]), *times)
    if len(rows) > 1:
        times = (duration(about["duration_s"][point]) for point in _POINTS)
        found.add_section()
        found.add_row("all", f"{about['jobs']:,}", "", "", *times)
    return found


def _with_bars(made: Table) -> Table:
    """The same table, its third and fourth column made for bars."""
    for column in made.columns[2:4]:
        column.justify = "left"
    return made


def _part(value: float) -> Text:
    return Text.assemble(f"{share(value):>7} ", (bar(value, _BAR), _COLOUR))


def _arrivals(about: dict[str, Any]) -> Table:
    """Two charts side by side: submissions by hour and by weekday."""
    arrivals = about["arrivals"]
    zone = f", {about['span']['timezone']}" if about["span"]["dated"] else " of its own clock"
    by_hour = columns(arrivals["by_hour"], _CHART, 2)
    by_day = columns(arrivals["by_weekday"], _CHART, 4, gap=2)
    grid = Table.grid(padding=(0, 3))
    grid.add_row(Text(f" submissions by hour{zone}", style="bold"), Text("by weekday", style="bold"))
    for left, right in zip(by_hour, by_day, strict=True):
        grid.add_row(Text(f" {left}", style=_COLOUR), Text(right, style=_COLOUR))
    hours = "".join(f"{hour:02d}".ljust(6) for hour in range(0, 24, 3))
    days = "".join(day.replace("day ", "d").ljust(6) for day in arrivals["weekdays"])
    grid.add_row(Text(f" {hours}", style="dim"), Text(days.rstrip(), style="dim"))
    return grid


def _facts(about: dict[str, Any]) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 2))
    for name, text in lines_of(about):
        grid.add_row(Text(f" {name}", style="dim"), text)
    yield Text()
    yield grid


def lines_of(about: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """What gets a line each: names and texts."""
    arrivals, users, again = about["arrivals"], about["users"], about["recurrence"]
    day = arrivals["per_day"]
    yield "jobs a day", f"{number(day['mean'])} ({day['min']:,} to {day['max']:,})"
    yield (
        "bursts",
        (
            f"variation of the gaps {number(arrivals['gap_cv'])} (1: at random);"
            f" {share(arrivals['same_second_share'])} in the same second as another"
        ),
    )
    if users:
        top = users["top_5_percent"]
        yield (
            "users",
            (
                f"{users['count']:,}; the busiest 5 % ({top['users']:,}) submit {share(top['job_share'])} of the jobs"
                f" and {share(top['gpu_time_share'])} of the GPU time"
            ),
        )
    if again:
        named = again["same_user_and_name"]
        with_name = f"{share(named)} by name, " if named is not None else ""
        by_size = f"{share(again['same_user_and_size'])} by size"
        yield "recurrence", f"jobs that their user had submitted before: {with_name}{by_size}"
    errors = [
        f"{number(about['estimates'][key]['mean_abs_log_error'])} {what}"
        for key, what in _ESTIMATES.items()
        if about["estimates"][key]
    ]
    if errors:
        yield "run-time estimates", f"mean |ln error|: {', '.join(errors)}"
    waits = about["recorded_wait_s"]
    if waits:
        points = ", ".join(f"{point} {duration(waits[point])}" for point in _POINTS)
        yield "recorded waits", f"{points} ({counted(waits['jobs'], 'job')})"
    if due := about["deadline_s"]:
        points = ", ".join(f"{point} {duration(due[point])}" for point in _POINTS)
        yield "deadlines", f"after submission: {points} ({counted(due['jobs'], 'job')})"
    if about["elastic_jobs"]:
        yield "elastic jobs", f"{about['elastic_jobs']:,} of {about['jobs']:,} give a range of GPUs"


def _groups(title: str, rows: list[dict[str, Any]]) -> RenderableType:
    loaded = any("load" in row for row in rows)
    found = _with_bars(table(title, "jobs", "of jobs", "of GPU time", *(("GPUs", "load") if loaded else ())))
    for row in rows[:_MOST_ROWS]:
        cells: list[RenderableType] = [f"{row['jobs']:,}", _part(row["job_share"]), _part(row["gpu_time_share"])]
        if loaded:
            cells += [f"{row['gpus']:,}", "-" if row["load"] is None else number(row["load"])]
        found.add_row(Text(row["name"]), *cells)
    more = len(rows) - _MOST_ROWS
    return Group(found, Text(f" and {more:,} more; --json lists all", style="dim")) if more > 0 else found


def _load(load: dict[str, Any]) -> Iterator[RenderableType]:
    at_once = load["wanted_at_once_gpus"]
    where = f"{load['cluster']} ({counted(load['gpus'], 'GPU')})"
    if load["suggested"]:
        head = f"without --cluster: {where} would have {number(load['load'])}"
    else:
        head = f"{number(load['load'])} on {where} over {number(load['span_days'])} days"
        if load["span_days"] > 1.01 * load["submission_days"] > 0.01:
            days = number(load["submission_days"])
            head += (
                f", which the longest job takes; {number(load['load_of_submissions'])} over {days} days of submissions"
            )
    yield Text.assemble((" load  ", "bold"), head)
    yield Text(
        " if no job waited, GPUs in use at once: "
        + ", ".join(f"{point} {number(at_once[point])}" for point in ("mean", "p50", "p95", "max"))
    )
    if not load["by_day"]:
        return
    values, each = binned([day["load"] for day in load["by_day"]], _MOST_COLUMNS)
    above = sum(day["load"] > 1 for day in load["by_day"])
    title = "by day of submission" + (f", means of {each} days" if each > 1 else "")
    peak = load["peak_day"]
    yield Text(
        f" {title}; {above:,} of {len(load['by_day']):,} days above 1; most on {peak['day']}: {number(peak['load'])}"
    )
    width = max(1, min(4, _MOST_COLUMNS // len(values)))
    for line in columns(values, _CHART, width):
        yield Below(line, style=_COLOUR)
    first, last = load["by_day"][0]["day"], load["by_day"][-1]["day"]
    more = last.rjust(max(len(values) * width - len(first), len(last) + 1)) if last != first else ""
    yield Below(f"{first}{more}", style="dim")

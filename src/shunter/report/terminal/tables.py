"""Tables for people, made for a terminal of 100 columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from shunter.report.finish_fairness import has_rho
from shunter.texts import counted

_NAME_WIDTH = 22
_POINTS = ("mean", "p50", "p95", "p99")
_FREE = "stopping and starting jobs costs nothing here; --overhead sets what it does, in seconds: 60,120"
_LEGEND = "bsld: mean bounded slowdown; in use: of all GPU time; fragm.: free GPUs on partly used nodes"
_TIERS = "comm.: communication beyond what computing hides; tiers: jobs by their widest / GPU time by tier"
RHO = "rho: completion time over that in a fair share of the cluster; at most 1 is fair"
_DUE = (
    "possible: alone on the cluster, at its best width, the job would meet its deadline; late: 0 for jobs in time; "
    "moves: stops and resizes"
)
_MET_LATE = "met: of the deadlines that could be met alone; late: the mean, 0 for jobs in time"
_MOST_USERS = 5  # of those with deadlines, in a terminal
_SLEEP = "jobs delayed: they started when a node was awake again; MWh: what nodes, GPUs and cooling draw"
DECLARED = "† by declarations: it knows the run times that users declared, exact ones if the trace has no others"
ORACLE = "* an oracle: it knows the true run times, which no live cluster does"


def duration(seconds: float) -> str:
    """A time in the unit that suits its size, three digits: ``45.0 s``, ``12.3 m``, ``4.52 h``, ``2.10 d``."""
    size = abs(seconds)
    for unit, length, below in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 86400), ("d", 86400, float("inf"))):
        if size < below:
            return f"{number(seconds / length)} {unit}"
    raise ValueError(f"not a time: {seconds}")


def number(value: float) -> str:
    """A number with three digits, and none of them behind the point from 100 on."""
    size = abs(value)
    if size < 0.005:
        return "0"
    return f"{value:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def share(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def comparison_view(rows: Sequence[dict[str, Any]], verdict: str = "", about: str = "") -> RenderableType:
    """Policies side by side: their times, then everything else; the best of each column stands out.

    It ends with the ``verdict``, after what intervals are ``about``.
    """
    points = [(what, key, point) for what, key in (("JCT", "jct_s"), ("wait", "wait_s")) for point in _POINTS]
    times = table("policy", "estimates", *(f"{what}\n{point}" for what, _, point in points))
    best = [_best([row[key][point] for row in rows], duration, min) for _, key, point in points]
    _fill(times, rows, [[Text(_estimate(row)) for row in rows], *best])
    rest = table("policy", "bsld", "in use", "fragm.", "preempt.", "mean JCT vs first", "95 % interval")
    columns = [
        _best([row["bsld"]["mean"] for row in rows], number, min),
        _best([row["utilization"] for row in rows], share, max),
        _best([row["fragmentation"] for row in rows], share, min),
        [Text(f"{row['preemptions']:,.0f}") for row in rows],
        *map(list, zip(*(_difference(row, rows[0]) for row in rows), strict=True)),
    ]
    _fill(rest, rows, columns)
    recorded = _recorded(rows[0])
    return Group(
        times,
        *([recorded] if recorded else []),
        rest,
        Below(_LEGEND, style="dim"),
        *([_own(rows)] if "measures" in rows[0] else []),
        *(_network(rows) if rows[0]["communication_s"] else ()),
        *(_rho(rows) if has_rho(rows) else ()),
        *(_deadlines(rows) if all("deadlines" in row for row in rows) else ()),
        *(_energy(rows) if any("energy" in row for row in rows) else ()),
        *([Below(about, style="dim")] if about and len(rows) > 1 else []),
        *_notes(rows),
        *((Text(""), Below(verdict, style="bold")) if verdict else ()),
    )


def _deadlines(rows: Sequence[dict[str, Any]]) -> Iterable[RenderableType]:
    """How many deadlines were met, and how late jobs ended."""
    points = ("mean", "p95", "max")
    met = f"deadlines\nmet of {rows[0]['deadlines']['jobs']:,.0f}"
    made = table("policy", met, "of those\npossible", *(f"late\n{point}" for point in points), "moves\na job")
    kept = [row["deadlines"] for row in rows]
    columns = [
        _best([found["met"] for found in kept], lambda met: f"{met:,.0f}", max),
        _best([found["met_share"] for found in kept], share, max),
        *(_best([found["lateness_s"][point] for found in kept], duration, min) for point in points),
        [Text(number(found["moves_per_job"])) for found in kept],
    ]
    _fill(made, rows, columns)
    return made, Below(_DUE, style="dim"), *_due_groups(rows)


def _due_groups(rows: Sequence[dict[str, Any]]) -> Iterable[RenderableType]:
    """Deadlines met and mean lateness by size, and by user: those with the fewest met."""
    shown = False
    for key, name in (("by_size", "GPUs"), ("by_user", "user")):
        kept = [row["deadlines"] for row in rows]
        groups = list(kept[0][key])
        if key == "by_user":
            groups = sorted(groups, key=lambda group: min(found[key].get(group, 1.0) for found in kept))[:_MOST_USERS]
        if len(groups) < 2:
            continue
        made = table(f"deadlines\nby {name}", *(f"{_name(row)}\nmet, late" for row in rows))
        for group in groups:
            cells = [_due_cell(found[key].get(group), found[f"lateness_{key}"].get(group)) for found in kept]
            made.add_row(group, *cells)
        shown = True
        yield made
        if len(groups) < len(kept[0][key]):
            yield Below(f"{len(groups)} of {len(kept[0][key])} users: those with the fewest deadlines met", style="dim")
    if shown:
        yield Below(_MET_LATE, style="dim")


def _due_cell(met: float | None, late: float | None) -> str:
    return "-" if met is None or late is None else f"{share(met)}, {duration(late)}"


def _energy(rows: Sequence[dict[str, Any]]) -> Iterable[RenderableType]:
    """What sleep saved and what it cost."""
    made = table(
        "policy", "nodes\nasleep", "wake-ups\na day", "jobs\ndelayed", "nodes in use\nof awake", "MWh", "MWh\nsaved"
    )
    slept = [row for row in rows if "energy" in row]
    for row in slept:
        found = row["energy"]
        numbers = (number(found[key]) for key in ("asleep_nodes", "wake_ups_per_day"))
        saved = (number(value / 1000) for value in (found["kwh"], found["kwh_without_sleep"] - found["kwh"]))
        made.add_row(
            _name(row), *numbers, f"{found['delayed_jobs']:,.0f}", share(found["node_utilization_awake"]), *saved
        )
    return made, Below(_SLEEP, style="dim")


def _rho(rows: Sequence[dict[str, Any]]) -> Iterable[RenderableType]:
    """How fairly jobs were treated by finish time."""
    points = ("mean", "p50", "p90", "p99", "max")
    made = table("policy", "rho <= 1", *(f"rho\n{point}" for point in points))
    fair = _best([row["fairness"]["rho_at_most_1"] for row in rows], share, max)
    _fill(made, rows, [fair, *(_best([row["rho"][point] for row in rows], number, min) for point in points)])
    return made, Below(RHO, style="dim")


def _own(rows: Sequence[dict[str, Any]]) -> RenderableType:
    """Measures of third parties."""
    names = list(rows[0]["measures"])
    made = table("policy", *names)
    _fill(made, rows, [[Text(number(row["measures"][name])) for row in rows] for name in names])
    return made


def _network(rows: Sequence[dict[str, Any]]) -> Iterable[RenderableType]:
    """What communication took, and how far jobs were spread."""
    points, tiers = ("mean", "p95"), list(rows[0]["tiers"])
    made = table("policy", *(f"comm.\n{point}" for point in points), *tiers)
    times = [_best([row["communication_s"][point] for row in rows], duration, min) for point in points]
    shares = [[Text(_spread(row["tiers"][tier])) for row in rows] for tier in tiers]
    _fill(made, rows, [*times, *shares])
    return made, Below(_TIERS, style="dim")


def _spread(tier: dict[str, float]) -> str:
    return f"{100 * tier['jobs']:.0f} / {100 * tier['gpu_time']:.0f} %"


def summary_view(summary: dict[str, Any]) -> RenderableType:
    """One run: its times, its times by size, and the other numbers."""
    times = table(summary["policy"] + mark(summary), "mean", "p50", "p90", "p95", "p99", "max")
    for name, key, form in (
        ("JCT", "jct_s", duration),
        ("wait", "wait_s", duration),
        ("bounded slowdown", "bsld", number),
        *([("rho", "rho", number)] if has_rho([summary]) else []),
        *([("communication", "communication_s", duration)] if summary["communication_s"] else []),
    ):
        times.add_row(name, *(form(summary[key][point]) for point in ("mean", "p50", "p90", "p95", "p99", "max")))
    sizes = table("GPUs", "jobs", "JCT mean", "JCT p95", "wait mean", "wait p95", "bsld mean")
    for name, group in summary["by_size"].items():
        if group["jobs"]:
            jct, wait = group["jct_s"], group["wait_s"]
            cells = [duration(value) for value in (jct["mean"], jct["p95"], wait["mean"], wait["p95"])]
            sizes.add_row(name, f"{group['jobs']:,}", *cells, number(group["bsld"]["mean"]))
    facts = Table.grid(padding=(0, 2))
    for name, text in _facts(summary):
        facts.add_row(Text(f" {name}", style="dim"), text)
    due = _due_groups([summary]) if "deadlines" in summary else ()
    return Group(times, sizes, *due, facts, *_notes([summary]))


def _facts(summary: dict[str, Any]) -> Iterable[tuple[str, str]]:
    fairness = summary["fairness"]
    yield "jobs finished", f"{summary['finished']:,} of {summary['jobs']:,} in {duration(summary['makespan_s'])}"
    yield "GPUs in use", f"{share(summary['utilization'])} ({number(summary['gpu_hours'])} GPU-hours)"
    yield "fragmentation", f"{share(summary['fragmentation'])} of free GPUs are on partly used nodes while jobs wait"
    if summary["communication_s"]:
        shares = (f"{name} {_spread(tier)}" for name, tier in summary["tiers"].items())
        yield "widest tier", f"{', '.join(shares)} (of jobs / of GPU time)"
    yield "preemptions", f"{summary['preemptions']:,} ({number(summary['lost_gpu_hours'])} GPU-hours lost)"
    over = counted(fairness["count"], fairness["over"].removesuffix("s"))
    yield "fairness", f"{fairness['jain']:.3f} (Jain's index over {over})"
    if has_rho([summary]):
        yield "rho <= 1", f"{share(fairness['rho_at_most_1'])} of jobs (finish time over that in a fair share)"
    yield from _insights(summary)
    if "deadlines" in summary:
        yield "deadlines met", _met(summary["deadlines"])
    if "energy" in summary:
        yield "nodes asleep", _slept(summary["energy"])
    recorded = _recorded(summary)
    if recorded:
        yield "as recorded", recorded.plain.strip()
    yield "estimates", _estimate(summary)
    yield "digest", f"{summary['digest']} (seed {summary['seed']})"
    yield "simulated in", f"{summary['elapsed_s']:.2f} s ({summary['jobs_per_s']:,.0f} jobs a second)"


def _insights(summary: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """What the policy expected of jobs, and which jobs shared GPUs; nothing if it reports nothing."""
    if (found := summary.get("prediction")) and found["jobs"]:
        error, rank = found["mean_abs_log_error"], found["rank_correlation"]
        order = "" if rank is None else f", rank correlation {rank:.2f}"
        off = f"mean |log error| {error:.2f} (a factor of {number(math.exp(error))})"
        yield "run times expected", f"{off}{order}, bias {found['bias']:+.2f}"
    if found := summary.get("sharing"):
        slower = (
            "" if found["mean_slowdown"] is None else f", {found['mean_slowdown']:.2f}x as long as alone on average"
        )
        yield "GPUs shared", f"{_jobs(found['packed_jobs'])} in {counted(round(found['pairs']), 'pair')}{slower}"
        jobs = f"{_jobs(found['profiled'])} ({share(found['share'])}), {found['ended_in_profiler']:,.0f} ended there"
        yield "profiled", jobs


def _jobs(count: float) -> str:
    return counted(round(count), "job")


def _met(found: dict[str, Any]) -> str:
    possible = f"{share(found['met_share'])} of the {found['feasible']:,.0f} that could be met alone"
    late = f"{duration(found['lateness_s']['mean'])} late in the mean, 0 for those in time"
    moves = f"{number(found['moves_per_job'])} moves a job"
    return f"{found['met']:,.0f} of {found['jobs']:,.0f}: {possible}; {late}; {moves}"


def _slept(found: dict[str, Any]) -> str:
    saved = found["kwh_without_sleep"] - found["kwh"]
    nodes = f"{number(found['asleep_nodes'])} ({share(found['asleep_share'])})"
    wakes = f"{number(found['wake_ups_per_day'])} wake-ups a day"
    return f"{nodes}, {wakes}, {_jobs(found['delayed_jobs'])} delayed; {number(saved)} kWh saved"


@dataclass(frozen=True)
class Below:
    """A text below a table, indented by a space, also where it is broken into lines."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Text(self.text, self.style).wrap(console, max(options.max_width - 1, 1)):
            line.rstrip()
            yield Text.assemble(" ", line)


def table(*headings: str) -> Table:
    """A table with its first column to the left and all others to the right."""
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, collapse_padding=True)
    for index, heading in enumerate(headings):
        side: Literal["left", "right"] = "right" if index else "left"
        made.add_column(heading, justify=side, vertical="bottom", overflow="fold", no_wrap=bool(index))
    return made


def _fill(into: Table, rows: Sequence[dict[str, Any]], columns: Sequence[Sequence[Text]]) -> None:
    for row, cells in zip(rows, zip(*columns, strict=True), strict=True):
        into.add_row(_name(row), *cells)


def mark(row: dict[str, Any]) -> str:
    """The sign after the name of a policy that knows more than requests and history: the truth, or declarations."""
    return "*" if row["oracle"] else "†" if "declared" in row["estimate"] else ""


def _name(row: dict[str, Any]) -> Text:
    return Text(broken(row["policy"] + mark(row), _NAME_WIDTH))


def broken(policy: str, width: int) -> str:
    """A policy's text, broken after a ``:`` or ``,`` where it is too long for a line."""
    lines = [""]
    for part in re.findall(r"[^:,]+[:,]?", policy):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append(" ")
        lines[-1] += part
    return "\n".join(lines)


def _best(values: Sequence[float], form: Callable[[float], str], choose: Callable[..., float]) -> list[Text]:
    winner = choose(values) if len(set(values)) > 1 else None
    return [Text(form(value), style="bold green" if value == winner else "") for value in values]


def _difference(row: dict[str, Any], first: dict[str, Any]) -> tuple[Text, Text]:
    found = row["difference"]
    if found is None or found["mean_s"] is None:
        return Text("-"), Text("-")
    sure = found["low_s"] > 0 or found["high_s"] < 0
    style = "" if not sure else "green" if found["mean_s"] < 0 else "red"
    base = first["jct_s"]["mean"]
    relative = f" ({100 * found['mean_s'] / base:+.0f} %)" if base else ""
    interval = f"{_signed(found['low_s'])} .. {_signed(found['high_s'])}"
    return Text(_signed(found["mean_s"]) + relative, style=style), Text(interval)


def _recorded(row: dict[str, Any]) -> Text | None:
    """The waits that the trace has, to hold the simulated ones against."""
    waits = row["recorded_wait_s"]
    if waits is None:
        return None
    points = ", ".join(f"{point} {duration(waits[point])}" for point in _POINTS)
    return Text(f" waits as recorded in the trace: {points}", style="dim")


def _signed(seconds: float) -> str:
    return ("+" if seconds > 0 else "") + duration(seconds)


def _estimate(row: dict[str, Any]) -> str:
    return "-" if row["estimate"] == "none" else str(row["estimate"])


def stop_costs(rows: Sequence[dict[str, Any]]) -> str:
    """What a stop costs under the policies that stop jobs, in words; "": none does, or it is not known."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if "stop_costs" in row:
            found.setdefault(row["stop_costs"], []).append(row["policy"])
    if list(found) == ["nothing"]:
        return _FREE
    if len(found) == 1:
        return (
            f"stopping and restarting a job costs {next(iter(found))} here (checkpoint + restart); --overhead sets it"
        )
    texts = [f"{costs} under {', '.join(policies)}" for costs, policies in found.items()]
    return f"stopping and restarting a job costs {'; '.join(texts)}" if texts else ""


def _notes(rows: Sequence[dict[str, Any]]) -> Iterable[Below]:
    if costs := stop_costs(rows):
        yield Below(costs, style="dim")
    elif any(row["preemptions"] and not row["lost_gpu_hours"] for row in rows):
        yield Below(_FREE, style="dim")
    for sign, legend in (("*", ORACLE), ("†", DECLARED)):
        if any(mark(row) == sign for row in rows):
            yield Below(legend, style="dim")

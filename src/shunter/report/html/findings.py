"""What a report says first: which policy is best by which measure, and what that costs elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from shunter.report.finish_fairness import has_rho
from shunter.report.html.page import Cell, note, points, table
from shunter.report.intervals import shown, value_at
from shunter.report.terminal.tables import duration, mark, number, share
from shunter.texts import counted

Row: TypeAlias = dict[str, Any]  # a summary, with `difference` where there are several policies

ORACLE = "* an oracle: it knows the true run times, which no live cluster does. It bounds what can be reached."
DECLARED = "† by declarations: it knows the run times that users declared, exact ones if the trace has no others."
_WORSE = 1.1  # a cost is mentioned from this multiple of the first policy's on
_TIE = 0.01  # what differs by less is no headline
_MOST_COSTS = 4
_POINTS = ("mean", "p50", "p95", "p99", "max")  # of times, in tables


@dataclass(frozen=True)
class Measure:
    """One number by which policies are judged."""

    name: str
    best: str  # what the best policy has: "the shortest mean JCT"
    key: str  # where the number is in a summary
    write: Callable[[float], str] = duration
    high: bool = False  # the higher, the better

    def of(self, row: Row) -> float:
        """The number of a policy."""
        return value_at(row, self.key)

    def winner(self, rows: Iterable[Row]) -> Row:
        """The best policy; the first of equals."""
        return (max if self.high else min)(rows, key=self.of)

    def text(self, row: Row) -> str:
        """The number as people read it."""
        return self.write(self.of(row))


def _point(key: str, point: str) -> Callable[[Row], float]:
    return lambda row: float(row[key][point])


MEASURES = (
    Measure("mean JCT", "the shortest mean JCT", "jct_s.mean"),
    Measure("median JCT", "the shortest median JCT", "jct_s.p50"),
    Measure("p95 of JCT", "the shortest p95 of JCT", "jct_s.p95"),
    Measure("p99 of JCT", "the shortest p99 of JCT", "jct_s.p99"),
    Measure("mean wait", "the shortest mean wait", "wait_s.mean"),
    Measure("p99 of wait", "the shortest p99 of wait", "wait_s.p99"),
    Measure("longest wait", "the smallest maximum wait", "wait_s.max"),
    Measure("mean bounded slowdown", "the lowest mean slowdown", "bsld.mean", number),
    Measure("GPUs in use", "the most GPUs in use", "utilization", share, True),
    Measure("fragmentation", "the least fragmentation", "fragmentation", share),
    Measure("fairness (Jain)", "the fairest slowdowns", "fairness.jain", number, True),
    Measure("preemptions", "the fewest preemptions", "preemptions", lambda n: f"{n:,.0f}"),
    Measure("GPU-hours lost", "the fewest GPU-hours lost", "lost_gpu_hours", number),
)
DEADLINES = Measure("deadlines met", "the most deadlines met", "deadlines.met", lambda n: f"{n:,.0f}", True)
_COSTS = (
    "p99 of JCT",
    "p99 of wait",
    "longest wait",
    "mean JCT",
    "mean bounded slowdown",
    "fairness (Jain)",
    "GPUs in use",
)


def label(row: Row) -> str:
    """A policy's name in charts and tables, marked if it knows more than requests and history."""
    return str(row["policy"]) + mark(row)


def _marks(rows: Sequence[Row]) -> list[str]:
    """What the marks in these names mean."""
    return [note(legend) for sign, legend in (("*", ORACLE), ("†", DECLARED)) if any(mark(row) == sign for row in rows)]


def several(rows: Sequence[Row]) -> list[str]:
    """The summary of a comparison; the first policy is what the others are compared with."""
    stars = "★ marks the best of a column" + (", oracles left aside." if any(row["oracle"] for row in rows) else ".")
    notes = [note(stars), *_marks(rows), *_recorded_note(rows)]
    return [points([*sentences(rows), *_free(rows), *recorded(rows[0])]), winners(rows), *tables(rows), *notes]


def one(row: Row) -> list[str]:
    """The summary of a single run."""
    notes = [*_marks([row]), *_recorded_note([row])]
    return [points([*_story(row), *_free([row]), *recorded(row)]), *tables([row]), *notes]


def sentences(rows: Sequence[Row]) -> list[str]:
    """The winners and what they cost, in words."""
    known = [row for row in rows if not row["oracle"]] or list(rows)
    praised = [(_praise(winner, known, rows[0]), winner) for winner in _winners(known)]
    sentences = [praise + _price(winner, rows[0]) for praise, winner in praised if praise]
    if not sentences and len(known) > 1:
        sentences = ["No policy is clearly better than the others by any measure here."]
    oracles = [row for row in rows if row["oracle"]]
    if oracles and len(known) < len(rows):
        mean, reached = MEASURES[0], MEASURES[0].winner(oracles)
        best = mean.winner(known)
        gap = _relative(mean.of(reached), mean.of(best), f"{label(best)}, the best policy without that knowledge")
        sentences.append(f"With true run times known, {label(reached)} has a mean JCT of {mean.text(reached)}, {gap}.")
    return sentences


def _free(rows: Sequence[Row]) -> list[str]:
    """Warn readers of a report in which stopping jobs costs nothing."""
    if not any(row["preemptions"] and not row["lost_gpu_hours"] for row in rows):
        return []
    return [
        "Stopping and starting jobs costs nothing on this cluster; --overhead 60,120 sets what it costs, in seconds."
    ]


def recorded(row: Row) -> list[str]:
    """How far a policy's waits are from those in the trace, where it has any."""
    waits = row.get("recorded_wait_s")
    if not waits:
        return []
    mean = row["wait_s"]["mean"]
    was = f"As recorded in the trace, jobs waited {duration(waits['mean'])} on average (p95: {duration(waits['p95'])})"
    gap = f", {_relative(mean, waits['mean'], 'that')}" if waits["mean"] else ""
    return [f"{was}; under {label(row)} they wait {duration(mean)} (p95: {duration(row['wait_s']['p95'])}){gap}."]


def _recorded_note(rows: Sequence[Row]) -> list[str]:
    legend = "As recorded: the waits that the trace has, from the machines and the scheduler that it was recorded on."
    return [note(legend)] if rows[0].get("recorded_wait_s") else []


def _winners(rows: Sequence[Row]) -> list[Row]:
    """The policies that are best by mean JCT, by its tail, by wait and by slowdown, each once."""
    found = [measure.winner(rows) for measure in MEASURES[:8]]
    return list({id(row): row for row in found}.values())


def _praise(winner: Row, rows: Sequence[Row], first: Row) -> str:
    best = [measure for measure in MEASURES if _clearly(measure, winner, rows)]
    if not best:
        return ""
    head = f"{label(winner)} has {best[0].best}, {best[0].text(winner)}"
    if winner is not first:
        head += ", " + _relative(best[0].of(winner), best[0].of(first), f"{label(first)} ({best[0].text(first)})")
        head += _doubt(winner, best[0])
    others = [measure.name for measure in best[1:]]
    return head + "." + (f" It is also best by {_list(others)}." if others else "")


def _clearly(measure: Measure, winner: Row, rows: Sequence[Row]) -> bool:
    """Whether it is the only best one, and by a margin that matters."""
    others = [row for row in rows if row is not winner]
    if measure.winner(rows) is not winner or not others:
        return measure.winner(rows) is winner
    best, second = measure.of(winner), measure.of(measure.winner(others))
    alike = measure.text(winner) in map(measure.text, others)
    return not alike and abs(best - second) > _TIE * max(abs(best), abs(second))


def _times(count: float) -> str:
    return counted(f"{count:,.0f}", "time")


def _doubt(row: Row, measure: Measure) -> str:
    found = (row.get("differences") or {}).get(measure.key)
    if found and found["low"] is not None and not shown(found):
        return ", which may be chance (the 95 % interval of the difference has 0 in it)"
    return ""


def _price(winner: Row, first: Row) -> str:
    if winner is first:
        return ""
    costs = []
    for measure in (m for name in _COSTS for m in MEASURES if m.name == name):
        mine, base = measure.of(winner), measure.of(first)
        if base > 0 and (mine * _WORSE < base if measure.high else mine > _WORSE * base):
            costs.append(f"its {measure.name} is {mine / base:.1f}x {label(first)}'s ({measure.text(winner)})")
    if winner["preemptions"] > first["preemptions"]:
        costs.append(f"it stops running jobs {_times(winner['preemptions'])}")
    if costs:
        return f" The price: {_list(costs[:_MOST_COSTS])}."
    return f" By no measure here is it worse than {label(first)}." if _nowhere_worse(winner, first) else ""


def _nowhere_worse(winner: Row, first: Row) -> bool:
    return all(measure.winner((winner, first)) is winner for measure in MEASURES)


def _relative(value: float, base: float, whose: str) -> str:
    if base == 0:
        return f"where {whose} has none"
    change = value / base - 1
    if abs(change) < 0.005:
        return f"the same as {whose}"
    return f"{abs(100 * change):.0f} % {'below' if change < 0 else 'above'} {whose}"


def _list(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""


def _story(row: Row) -> list[str]:
    jct, wait = row["jct_s"], row["wait_s"]
    sizes = {name: group for name, group in row["by_size"].items() if group["jobs"]}
    sentences = [
        f"{row['finished']:,} of {row['jobs']:,} jobs finished, the last of them {duration(row['makespan_s'])} after"
        " the first was submitted.",
        f"Half of them were complete {duration(jct['p50'])} after submission or sooner, 95 % within"
        f" {duration(jct['p95'])}; the mean is {duration(jct['mean'])}.",
        f"Half of them waited {duration(wait['p50'])} or less; the longest wait is {duration(wait['max'])}.",
        f"{share(row['utilization'])} of the GPU time was used. While jobs waited, {share(row['fragmentation'])} of the"
        " free GPUs were on partly used nodes.",
    ]
    if len(sizes) > 1:
        worst = max(sizes, key=lambda name: sizes[name]["wait_s"]["mean"])
        sentences.append(
            f"Jobs of {counted(worst, 'GPU')} waited longest: {duration(sizes[worst]['wait_s']['mean'])} on average."
        )
    if row["preemptions"]:
        lost = number(row["lost_gpu_hours"])
        sentences.append(f"Running jobs were stopped {_times(row['preemptions'])}, which lost {lost} GPU-hours.")
    return sentences


# ------------------------------------------------------------------------------------------- tables


def winners(rows: Sequence[Row]) -> str:
    """Per measure the best policy, and the best oracle beside it."""
    groups = [
        ("best policy", [row for row in rows if not row["oracle"]]),
        ("best oracle*", [r for r in rows if r["oracle"]]),
    ]
    groups = [(name, group) for name, group in groups if group]
    measures = [*MEASURES, *([DEADLINES] if all("deadlines" in row for row in rows) else [])]
    lines = [[measure.name, *(cell for _, group in groups for cell in _best(measure, group))] for measure in measures]
    headings = [heading for name, _ in groups for heading in (name, "its value")]
    return table("The best by each measure", ["measure", *headings], lines, words=(1, 3))


def _best(measure: Measure, rows: Sequence[Row]) -> tuple[str, str]:
    """The best policy, and its number."""
    value = measure.text(measure.winner(rows))
    who = [label(row) for row in rows if measure.text(row) == value]
    if len(who) == len(rows) > 1:
        return "all alike", value
    return who[0] + (f" and {len(who) - 1} more" if len(who) > 1 else ""), value


def tables(rows: Sequence[Row]) -> list[str]:
    """All numbers of all policies: the times, then the rest."""
    times = [
        (f"{what} {point}", _point(key, point), duration, min)
        for what, key in (("JCT", "jct_s"), ("wait", "wait_s"))
        for point in _POINTS
    ]
    rest: list[tuple[str, Callable[[Row], float], Callable[[float], str], Any]] = [
        ("bounded slowdown", _point("bsld", "mean"), number, min),
        ("GPUs in use", lambda row: row["utilization"], share, max),
        ("fragmentation", lambda row: row["fragmentation"], share, min),
        ("fairness", lambda row: row["fairness"]["jain"], number, max),
        ("preemptions", lambda row: row["preemptions"], lambda n: f"{n:,.0f}", None),
        ("GPU-hours lost", lambda row: row["lost_gpu_hours"], number, None),
    ]
    second = [_column(rows, *column[1:]) for column in rest]
    headings = ["policy", *(name for name, *_ in rest)]
    if len(rows) > 1:
        headings += [f"mean JCT against {label(rows[0])}"]
        second.append([_difference(row, rows[0]) for row in rows])
    first = [_column(rows, *column[1:]) for column in times]
    lines = _lines(rows, first)
    if waits := rows[0].get("recorded_wait_s"):  # no policy: nothing of it is the best
        cells = [duration(waits[point]) for point in _POINTS]
        lines.append(["as recorded", *["–" for _ in _POINTS], *cells])
    return [
        table("Times: completion (JCT, submission to end) and wait in the queue", ["policy", *(t[0] for t in times)],
              lines),
        table("Everything else", headings, _lines(rows, second)),
        *([_network(rows)] if rows[0].get("communication_s") else []),
        *([_rho(rows)] if has_rho(rows) else []),
        *([_deadlines(rows)] if all("deadlines" in row for row in rows) else []),
        *([_own(rows)] if "measures" in rows[0] else []),
    ]  # fmt: skip


def _own(rows: Sequence[Row]) -> str:
    """Measures of third parties, for which it is unknown whether more is better."""
    names = list(rows[0]["measures"])
    columns = [_column(rows, _point("measures", name), number, None) for name in names]
    return table("Measures of your own", ["policy", *names], _lines(rows, columns))


def _deadlines(rows: Sequence[Row]) -> str:
    """How many deadlines were met, and how late jobs ended."""
    points = ("mean", "p95", "max")
    late = [_column(rows, partial(_late, point), duration, min) for point in points]
    columns = [
        _column(rows, _point("deadlines", "met"), lambda met: f"{met:,.0f}", max),
        _column(rows, _point("deadlines", "met_share"), share, max),
        *late,
        _column(rows, _point("deadlines", "moves_per_job"), number, None),
    ]
    caption = "Deadlines: met, of those that could be met alone on the cluster; how late, 0 for jobs in time; moves"
    met = f"met of {rows[0]['deadlines']['jobs']:,.0f}"
    headings = ["policy", met, "of those possible", *(f"late {point}" for point in points), "moves a job"]
    return table(caption, headings, _lines(rows, columns))


def _late(point: str, row: Row) -> float:
    return float(row["deadlines"]["lateness_s"][point])


def _rho(rows: Sequence[Row]) -> str:
    """How fairly jobs were treated by finish time."""
    points = ("mean", "p50", "p90", "p99", "max")
    fair = _column(rows, lambda row: row["fairness"]["rho_at_most_1"], share, max)
    columns = [fair, *(_column(rows, _point("rho", point), number, min) for point in points)]
    caption = "Finish-time fairness: rho is completion time over that in a fair share of the cluster"
    return table(caption, ["policy", "rho at most 1", *(f"rho {point}" for point in points)], _lines(rows, columns))


def _network(rows: Sequence[Row]) -> str:
    """What communication took of the jobs' time, and how far they were spread."""
    title = "Network: communication that no computing hides, jobs by the widest tier of their runs, GPU time by tier"
    times = [_column(rows, _point("communication_s", point), duration, min) for point in _POINTS]
    tiers = [(tier, key) for key in ("jobs", "gpu_time") for tier in rows[0]["tiers"]]
    shares = [[share(row["tiers"][tier][key]) for row in rows] for tier, key in tiers]
    headings = [f"communication {point}" for point in _POINTS]
    headings += [f"{'jobs' if key == 'jobs' else 'GPU time'}: {tier}" for tier, key in tiers]
    return table(title, ["policy", *headings], _lines(rows, [*times, *shares]))


def _column(
    rows: Sequence[Row], of: Callable[[Row], float], write: Callable[[float], str], choose: Any
) -> list[str | Cell]:
    """The cells of a column; of the policies that are no oracles (of all, if all are) the best are marked."""
    texts = [write(of(row)) for row in rows]
    judged = [row for row in rows if not row["oracle"]] or rows
    best = write(choose(map(of, judged))) if choose and len(set(texts)) > 1 else None
    return [Cell(text, best=text == best and row in judged) for text, row in zip(texts, rows, strict=True)]


def _lines(rows: Sequence[Row], columns: Sequence[Sequence[str | Cell]]) -> list[list[str | Cell]]:
    return [[label(row), *cells] for row, cells in zip(rows, zip(*columns, strict=True), strict=True)]


def _difference(row: Row, first: Row) -> Cell:
    found = row.get("difference")
    if not found or found["mean_s"] is None:
        return Cell("–")
    relative = f" ({100 * found['mean_s'] / first['jct_s']['mean']:+.0f} %)" if first["jct_s"]["mean"] else ""
    interval = f"95 %: {_signed(found['low_s'])} .. {_signed(found['high_s'])}"
    return Cell(_signed(found["mean_s"]) + relative, hint=interval)


def _signed(seconds: float) -> str:
    return ("+" if seconds > 0 else "") + duration(seconds)

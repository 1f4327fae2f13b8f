"""Parts of a page that several reproductions have: tables and charts of data sets, claims, and what was run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shunter.report.bootstrap import FEWEST
from shunter.report.html.charts import Axis, cdf, intervals
from shunter.report.html.page import Cell, Section, choice, code, facts, figure, note, paragraph, points, render, table
from shunter.report.terminal.tables import ORACLE, duration, number, share
from shunter.reproduce.board import Board, case_of, marked
from shunter.reproduce.claims import RULE, ClaimResult
from shunter.reproduce.study import Study
from shunter.reproduce.trials import Scheduler, Trials
from shunter.reproduce.writing import STAND_IN, cell, interval, percent
from shunter.run_folder import versions
from shunter.texts import counted

Write: TypeAlias = Callable[[float], str]
Measure: TypeAlias = tuple[str, str, Write]  # heading, name of the number, how it is written
Printed: TypeAlias = Callable[[Scheduler, str], float | None]  # what is printed, if anything

JCT: tuple[Measure, ...] = (
    ("JCT mean", "jct_mean_s", duration),
    ("median", "jct_p50_s", duration),
    ("P95", "jct_p95_s", duration),
    ("P99", "jct_p99_s", duration),
)
QUEUEING: tuple[Measure, ...] = (
    ("queueing delay mean", "wait_mean_s", duration),
    ("median", "wait_p50_s", duration),
    ("P95", "wait_p95_s", duration),
    ("P99", "wait_p99_s", duration),
)
REST: tuple[Measure, ...] = (
    ("makespan", "makespan_s", duration),
    ("GPUs in use", "utilization", share),
    ("preemptions", "preemptions", "{:,.0f}".format),
)
PREDICTIONS: tuple[Measure, ...] = (
    ("mean |log error|", "predicted mean_abs_log_error", number),
    ("rank correlation", "predicted rank_correlation", "{:.2f}".format),
    ("R²", "predicted r2", "{:.2f}".format),
    ("MAPE", "predicted mape", "{:,.0%}".format),
    ("median APE", "predicted median_ape", "{:,.0%}".format),
)
REFITTED = (JCT[0], QUEUEING[0], PREDICTIONS[0])
BY_VC = (("JCT mean", "jct_mean_s"), ("queueing delay mean", "wait_mean_s"))


def times(factor: float) -> str:
    """How many times."""
    return f"{number(factor)}×"


def nothing_printed(scheduler: Scheduler, measure: str) -> float | None:
    """Nothing is printed."""
    return None


def optional(title: str, body: Sequence[str]) -> list[Section]:
    """A section, if anything is in it."""
    return [Section(title, [part for part in body if part])] if any(body) else []


def whole(name: str, lead: str, sections: Sequence[Section], stands_in: bool) -> str:
    """The page of a reproduction."""
    return render(f"{name}, reproduced" + (" with stand-in workloads" if stands_in else ""), lead, sections)


# ------------------------------------------------------------------------------------------- a data set


def scheduler_table(
    board: Board,
    data: str,
    what: str,
    measures: Sequence[Measure],
    printed: Printed = nothing_printed,
    more: Sequence[Sequence[str | Cell]] = (),
) -> str:
    """The schedulers that have such numbers, with intervals and the printed ones if any; nothing if there are none."""
    schedulers = board.sets[data].schedulers
    shown = [s for s in schedulers if any(board.has(data, s, name) for _, name, _ in measures)]
    if not shown:
        return ""
    beside = {name for _, name, _ in measures if any(printed(s, name) is not None for s in shown)}
    heads = ["scheduler"]
    for heading, name, _ in measures:
        heads += [heading, "printed"] if name in beside else [heading]
    rows = []
    for scheduler in shown:
        cells: list[str | Cell] = [marked(scheduler)]
        for _, name, write in measures:
            cells.append(cell(board.of(data, scheduler, name), write) if board.has(data, scheduler, name) else "–")
            if name in beside:
                figure = printed(scheduler, name)
                cells.append("–" if figure is None else write(figure))
        rows.append(cells)
    return table(f"{board.sets[data].title}: {what}", heads, [*rows, *more])


def queueing_table(board: Board, data: str, printed: Printed = nothing_printed) -> str:
    """Queueing delay, with what was recorded in the last row."""
    found = board.facts[data].recorded
    recorded = [["as recorded", *(duration(found[point]) for point in ("mean", "p50", "p95", "p99"))]] if found else []
    return scheduler_table(board, data, "queueing delay", QUEUEING, printed, recorded)


def factor_table(board: Board, data: str) -> str:
    """How many times as large the numbers of the base are as those of the others."""
    shown = [measure for part in (JCT, QUEUEING) for measure in (part[0], *part[2:])]
    rows: list[list[str | Cell]] = [
        [marked(s), *(cell(board.factor(data, s, name), times) for _, name, _ in shown)]
        for s in board.sets[data].schedulers
        if s != board.base
    ]
    caption = f"{board.sets[data].title}: {board.base.label}'s numbers over those of the others"
    return table(caption, ["scheduler", *(heading for heading, _, _ in shown)], rows)


def beside_table(board: Board, data: str, bases: Sequence[Scheduler]) -> str:
    """How many times as large the mean JCT is under some as under each, repeat by repeat."""
    rows: list[list[str | Cell]] = [
        [marked(s), *(cell(board.factor(data, s, "jct_mean_s", base), times) if s != base else "" for base in bases)]
        for s in board.sets[data].schedulers
    ]
    caption = f"{board.sets[data].title}: the column's mean JCT over the row's, repeat by repeat"
    return table(caption, ["scheduler", *map(marked, bases)], rows)


def vc_tables(board: Board, data: str, printed: Callable[[str, Scheduler, str], float | None]) -> str:
    """Means of each virtual cluster, beside the printed ones where there are some."""
    vcs = board.vcs(data)
    if not vcs:
        return ""
    parts = {name: [_vc_table(board, data, vcs, name, key, printed)] for name, key in BY_VC}
    return choice("By virtual cluster", parts)


def _vc_table(
    board: Board,
    data: str,
    vcs: Sequence[str],
    name: str,
    key: str,
    printed: Callable[[str, Scheduler, str], float | None],
) -> str:
    schedulers = board.sets[data].schedulers
    rows: list[list[str | Cell]] = []
    for vc in vcs:
        cells = [cell(board.of(data, s, f"{vc} {key}")) for s in schedulers]
        rows.append([f"{vc}, {counted(board.facts[data].nodes[vc], 'node')}", *cells])
        figures = [printed(vc, s, key) for s in schedulers]
        if any(figures):
            rows.append([f"{vc}, printed", *(duration(figure) if figure else "–" for figure in figures)])
    caption = f"{board.sets[data].title}: {name} by virtual cluster"
    return table(caption, ["virtual cluster", *map(marked, schedulers)], rows)


def means_chart(board: Board, data: str) -> str:
    """Mean completion time and queueing delay of all schedulers."""
    shown = board.sets[data].schedulers
    series = {marked(s): [board.of(data, s, name) for name in ("jct_mean_s", "wait_mean_s")] for s in shown}
    best = min(shown, key=lambda s: board.of(data, s, "jct_mean_s").value)
    finding = f"The least mean JCT has {marked(best)}: {duration(board.of(data, best, 'jct_mean_s').value)}."
    styles = [s.style for s in shown]
    chart = intervals(["JCT", "queueing delay"], series, "mean over jobs", Axis("time", "duration"), styles=styles)
    return figure("Means", finding, chart)


def curves_chart(board: Board, data: str, other: Scheduler) -> str:
    """Completion times of all jobs, of the first repeat."""
    shown = board.sets[data].schedulers
    samples = {marked(s): board.trials.outcomes[case_of(data, s)][0].jct for s in shown}
    halves = [f"{duration(board.of(data, s, 'jct_p50_s').value)} under {s.label}" for s in (board.base, other)]
    chart = cdf(samples, Axis("completion time", "duration", log=True), styles=[s.style for s in shown])
    finding = f"Half of the jobs are done after {', '.join(halves)}."
    return figure("Completion times", finding, chart, "Of the first repeat.")


# ------------------------------------------------------------------------------------------- all of them


@dataclass(frozen=True)
class Own:
    """What the page of one experiment of data sets x schedulers has of its own."""

    name: str
    lead: str
    compared: tuple[Scheduler, ...]  # with the base, in the summary
    data: Callable[[Board, str], list[str]]  # the parts of a data set's section
    departures: tuple[str, ...]  # how it was run
    more: Callable[[], list[Section]] = list


def study_page(study: Study, own: Own, command: str) -> str:
    """The whole page of such an experiment; ``command`` leads there again."""
    board = study.board
    titles = {name: about.title for name, about in board.sets.items()}
    sections = [
        Section("Summary", overview(study, [_gains(board, name, own.compared) for name in titles])),
        *(Section(title, own.data(board, name)) for name, title in titles.items()),
        Section("What is printed", claims_section(study.findings(), titles)),
        *own.more(),
        *optional("Fitting again", refitting_section(study)),
        Section("How it was run", [points(own.departures)]),
        Section("What was run", study_provenance(study, command)),
    ]
    return whole(own.name, f"{study.experiment.paper}: {own.lead}", sections, board.stands_in)


def _gains(board: Board, data: str, compared: Sequence[Scheduler]) -> str:
    """By what these are better than the base."""
    parts = []
    for scheduler in compared:
        factor = board.factor(data, scheduler, "jct_mean_s")
        ends = interval(factor, times)
        parts.append(f"{marked(scheduler)} {times(factor.value)}" + (f" ({ends})" if ends else ""))
    mean = duration(board.of(data, board.base, "jct_mean_s").value)
    return f"{board.sets[data].title}: mean JCT of {board.base.label} ({mean}) over that of {', '.join(parts)}."


def overview(study: Study, sentences: Sequence[str]) -> list[str]:
    """What was run, what is to be said of it, and what became of the claims."""
    found, board = study.findings(), study.board
    first = (
        f"{counted(len(board.sets), 'data set')}; {counted(study.part.repeats, 'repeat')} of each run. What a repeat"
        " changes is said with each data set."
    )
    sides = sum(one.direction == "yes" for one in found)
    sizes = sum(one.direction == "yes" and one.size == "yes" for one in found)
    last = f"Of {counted(len(found), 'printed factor')}, {sides} come out in direction, {sizes} of them also in size."
    if study.part.repeats < FEWEST:
        last = f"No printed factor is counted: that takes {FEWEST} repeats at least, for intervals."
    stand_in = [paragraph(STAND_IN)] if board.stands_in else []
    return [*stand_in, points([first, *sentences, *([last] if found else [])]), note(ORACLE)]


def facts_of(board: Board, data: str) -> str:
    """What a data set has, and what one must know of it."""
    about, has = board.sets[data], board.facts[data]
    nodes = f" in {len(has.nodes)} virtual clusters of {sum(has.nodes.values()):,} nodes" if has.nodes else ""
    sentences = f"{has.jobs:,} jobs{nodes}; models are fitted to {has.learned:,} jobs before them."
    return points([sentences, *(() if board.stands_in else about.remarks)])


def refitting_section(study: Study) -> list[str]:
    """The effect of fitting the model again."""
    rows = []
    for row in study.changes():
        cells = [
            write(row[part][name]) if name in row[part] else "–"
            for _, name, write in REFITTED
            for part in ("once", "refitted")
        ]
        change = row["refitted"]["jct_mean_s"] / row["once"]["jct_mean_s"] - 1
        rows.append([study.board.sets[row["data"]].title, *cells, percent(change)])
    if not rows:
        return []
    heads = [head for heading, _, _ in REFITTED for head in (f"{heading}, fitted once", "refitted")]
    sentences = (
        f"Above, the model of {study.experiment.once.label} is fitted once, before the window, so that repeats share"
        " it. Here it is fitted again every week, or earlier if it errs more than it used to, in one run of each."
    )
    return [paragraph(sentences), table("One run, models fitted once and again", ["data set", *heads, "JCT"], rows)]


def claims_section(found: Sequence[ClaimResult], titles: Mapping[str, str]) -> list[str]:
    """What is printed, beside ours."""
    if not found:
        return [paragraph("What is printed is about jobs or schedulers that were not run.")]
    rows: list[list[str | Cell]] = [
        [
            one.claim.text,
            titles[one.claim.data],
            one.claim.printed,
            cell(one.ours, times),
            Cell(one.direction, hint="" if one.size == "-" else f"size: {one.size}"),
            one.claim.source,
        ]
        for one in found
    ]
    sentences = (
        "Ours: the factor of the means over repeats, with the 95 % interval of paired draws. Direction: yes where the"
        f" whole interval is above 1. {RULE}"
    )
    return [
        table("Printed factors, and ours", ["claim", "jobs", "printed", "ours", "direction", "from"], rows, {1, 4, 5}),
        note(sentences),
    ]


def provenance(workloads: str, trials: Trials, policies: Sequence[tuple[str, str]], command: str) -> list[str]:
    """What leads to the same page again."""
    found = versions()
    packages = ", ".join(f"{name} {version}" for name, version in found.items() if name not in ("shunter", "platform"))
    about = [
        ("workloads", workloads),
        ("runs", f"{sum(len(outcomes) for outcomes in trials.outcomes.values()):,}"),
        ("seed", str(trials.seed)),
        ("shunter", found["shunter"]),
        ("with", packages),
        ("on", found["platform"]),
    ]
    caption = "Schedulers, with the settings that differ from their defaults"
    return [facts(about), table(caption, ["scheduler", "policy"], policies, (1,)), code(command)]


def study_provenance(study: Study, command: str) -> list[str]:
    """The same for data sets x schedulers."""
    shown = dict.fromkeys(s for about in study.board.sets.values() for s in about.schedulers)
    policies = [(marked(s), s.policy) for s in (*shown, *((study.experiment.refitted,) if study.refitted else ()))]
    workloads = "made-up stand-ins" if study.board.stands_in else "public traces"
    return provenance(workloads, study.board.trials, policies, command)

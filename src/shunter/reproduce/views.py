"""Tables of data sets x schedulers for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import RenderableType
from rich.text import Text

from shunter.report.bootstrap import Estimate
from shunter.report.terminal.tables import Below, duration, table
from shunter.reproduce import sheets
from shunter.reproduce.board import Board, marked
from shunter.reproduce.study import Study
from shunter.reproduce.trials import Scheduler
from shunter.reproduce.writing import interval


def data_table(
    board: Board,
    data: str,
    means: Sequence[tuple[str, str]],
    tails: Sequence[tuple[str, str]],
    printed: sheets.Printed = sheets.nothing_printed,
) -> RenderableType:
    """Means with their intervals and what is printed, other times without, and the base's mean JCT over each."""
    made = table(board.sets[data].title, *(name for name, _ in (*means, *tails)), f"x {board.base.label}")
    for s in board.sets[data].schedulers:
        cells = [_cell(board.of(data, s, measure), printed(s, measure)) for _, measure in means]
        rest = [_plain(board, data, s, measure) for _, measure in tails]
        factor = factor_cell(board.factor(data, s, "jct_mean_s")) if s != board.base else Text("")
        made.add_row(marked(s), *cells, *rest, factor)
    return made


def beside_table(board: Board, data: str, bases: Sequence[Scheduler]) -> RenderableType:
    """How many times as large the mean JCT is under some as under each, repeat by repeat."""
    made = table(f"{board.sets[data].title}:\ncolumn's mean JCT over the row's", *map(marked, bases))
    for s in board.sets[data].schedulers:
        factors = (Text("") if s == base else factor_cell(board.factor(data, s, "jct_mean_s", base)) for base in bases)
        made.add_row(marked(s), *factors)
    return made


def _plain(board: Board, data: str, scheduler: Scheduler, measure: str) -> Text:
    return Text(duration(board.of(data, scheduler, measure).value) if board.has(data, scheduler, measure) else "–")


def _cell(ours: Estimate, figure: float | None) -> Text:
    ends = [(f"\n{interval(ours)}", "dim")] if interval(ours) else []
    theirs = [(f"\nprinted {duration(figure)}", "cyan")] if figure else []
    return Text.assemble((duration(ours.value), "bold"), *ends, *theirs)


def factor_cell(found: Estimate) -> Text:
    """How many times as large, with its interval."""
    ends = interval(found, sheets.times)
    return Text.assemble((sheets.times(found.value), "bold"), *([(f"\n{ends}", "dim")] if ends else []))


def numbers_table(
    board: Board, data: str, title: str, columns: Sequence[tuple[str, str, Callable[[float], str]]]
) -> list[RenderableType]:
    """Other numbers of those schedulers that have them; nothing if none has."""
    shown = [s for s in board.sets[data].schedulers if any(board.has(data, s, name) for _, name, _ in columns)]
    if not shown:
        return []
    made = table(f"{board.sets[data].title}:\n{title}", *(heading for heading, _, _ in columns))
    for s in shown:
        cells = (
            write(board.of(data, s, name).value) if board.has(data, s, name) else "–" for _, name, write in columns
        )
        made.add_row(marked(s), *cells)
    return [made]


def recorded(board: Board, data: str) -> list[RenderableType]:
    """Waits as recorded in the trace, if they were."""
    found = board.facts[data].recorded
    if not found:
        return []
    points = ", ".join(f"{point} {duration(found[point])}" for point in ("mean", "p50", "p95", "p99"))
    return [Text(f" queueing as recorded in the trace: {points}", style="dim")]


def claims_table(study: Study) -> list[RenderableType]:
    """What is printed, beside ours; nothing, where it is about something else."""
    found = study.findings()
    if not found:
        return []
    made = table("printed: how many times as much", "jobs", "printed", "ours", "direction", "size")
    for one in found:
        ours, jobs = sheets.times(one.ours.value), study.board.sets[one.claim.data].title
        made.add_row(one.claim.text, jobs, one.claim.printed, ours, one.direction, one.size)
    return [made]


def notes(*texts: str) -> list[RenderableType]:
    """Remarks below all."""
    return [Below(text, style="dim") for text in texts]

"""The page that puts what is printed and ours side by side."""

from __future__ import annotations

from functools import partial

from shunter.report.html.page import Section, grid, points, render
from shunter.report.tables import duration
from shunter.reproduce import sheets
from shunter.reproduce.board import Board, marked
from shunter.reproduce.qssf import paper
from shunter.reproduce.qssf.design import EASY, FIFO, NOISY, QSSF, SRTF, TOLD
from shunter.reproduce.study import Study
from shunter.reproduce.trials import Scheduler
from shunter.reproduce.writing import interval

DEPARTURES = (
    "Each virtual cluster is empty when the window begins, and all that was submitted in it runs to its end.",
    "QSSF's estimate is made once per job, when it is submitted, from what had ended by then; the artifact makes it"
    " when a job first has to wait.",
    "The artifact's own Philly experiment does not predict: it perturbs true run times (three in ten by more than their"
    " own size, one in ten by more than ten times that). 'QSSF, noisy truth' does the same, and what is printed for"
    " QSSF stands beside it.",
    "Who is stopped pays 7 s (1 GPU), 30 s (up to 8) or 60 s when it goes on, as in the artifact; only SRTF stops"
    " anybody.",
    "'QSSF with EASY' is ours: a job may pass others if it does not delay the first one, by the same estimates.",
)


def page(study: Study, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    board = study.board
    titles = {name: about.title for name, about in board.sets.items()}
    sections = [
        Section("Summary", sheets.overview(study, [_gains(board, data) for data in board.sets])),
        *(Section(title, _data(board, name)) for name, title in titles.items()),
        Section("What is printed", sheets.claims_section(study.findings(), titles)),
        *sheets.optional("Fitting anew", sheets.anew_section(study)),
        Section("How it was run", [points(DEPARTURES)]),
        Section("What was run", sheets.study_provenance(study, command)),
    ]
    lead = f"{paper.TITLE}: its scheduler, QSSF, run again, beside what is printed."
    return render("QSSF, reproduced" + (" with stand-in workloads" if board.stands_in else ""), lead, sections)


def _gains(board: Board, data: str) -> str:
    """By what QSSF is better than FIFO, and how far from the best."""
    parts = []
    for scheduler in (QSSF, EASY, NOISY, TOLD, SRTF):
        factor = board.factor(data, scheduler, "jct_mean_s")
        ends = interval(factor, sheets.times)
        parts.append(f"{marked(scheduler)} {sheets.times(factor.value)}" + (f" ({ends})" if ends else ""))
    fifo = duration(board.of(data, FIFO, "jct_mean_s").value)
    return f"{board.sets[data].title}: mean JCT of FIFO ({fifo}) over that of {', '.join(parts)}."


def _printed(board: Board, data: str, vc: str, scheduler: Scheduler, measure: str) -> float | None:
    return None if board.stands_in else paper.printed(data, scheduler, measure, vc)


def _data(board: Board, data: str) -> list[str]:
    printed = partial(_printed, board, data)
    return [
        sheets.facts_of(board, data),
        sheets.scheduler_table(board, data, "completion times", sheets.JCT, partial(printed, "")),
        sheets.queueing_table(board, data, partial(printed, "")),
        sheets.factor_table(board, data),
        sheets.scheduler_table(board, data, "how good the estimates were", sheets.PREDICTIONS),
        sheets.scheduler_table(board, data, "everything else", sheets.REST),
        grid([sheets.means_chart(board, data), sheets.curves_chart(board, data, QSSF)]),
        sheets.vc_tables(board, data, printed),
    ]

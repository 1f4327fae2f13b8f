"""The page that puts what is printed and ours side by side."""

from __future__ import annotations

from functools import partial

from shunter.report.html.page import grid
from shunter.reproduce import sheets
from shunter.reproduce.board import Board
from shunter.reproduce.qssf import paper
from shunter.reproduce.qssf.design import BESIDE, EASY, NOISY, QSSF, SRTF, TRUTH
from shunter.reproduce.study import Study
from shunter.reproduce.trials import Scheduler

DEPARTURES = (
    "Each virtual cluster is empty when the window begins, and all that was submitted in it runs to its end.",
    "QSSF's estimate is made once per job, when it is submitted, from what had ended by then; the artifact makes it"
    " when a job first has to wait.",
    "The artifact's own Philly experiment does not predict: it perturbs true run times (three in ten by more than their"
    " own size, one in ten by more than ten times that). 'QSSF, noisy truth' does the same, and what is printed for"
    " QSSF stands beside it.",
    "A job that is stopped pays 7 s (1 GPU), 30 s (up to 8) or 60 s when it goes on, as in the artifact; only SRTF"
    " stops jobs, without the minimum run that ours has by default (min_run=0).",
    "What has EASY is ours: a job may pass others if it does not delay the first one, by bounds that nine of ten jobs"
    " keep. EASY++ (Tsafrir et al., TPDS 2007) is FIFO, and the shortest job passes, by the mean run time of the user's"
    " last two, raised step by step once it has run out.",
)


def _printed(board: Board, data: str, vc: str, scheduler: Scheduler, measure: str) -> float | None:
    return None if board.stands_in else paper.printed(data, scheduler, measure, vc)


def _data(board: Board, data: str) -> list[str]:
    printed = partial(_printed, board, data)
    return [
        sheets.facts_of(board, data),
        sheets.scheduler_table(board, data, "completion times", sheets.JCT, partial(printed, "")),
        sheets.queueing_table(board, data, partial(printed, "")),
        sheets.factor_table(board, data),
        sheets.beside_table(board, data, BESIDE),
        sheets.scheduler_table(board, data, "how good the estimates were", sheets.PREDICTIONS),
        sheets.scheduler_table(board, data, "everything else", sheets.REST),
        grid([sheets.means_chart(board, data), sheets.curves_chart(board, data, QSSF)]),
        sheets.vc_tables(board, data, printed),
    ]


OWN = sheets.Own(
    "QSSF",
    "its scheduler, QSSF, run again, beside what is printed.",
    (QSSF, EASY, NOISY, TRUTH, SRTF),
    _data,
    DEPARTURES,
)


def page(study: Study, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    return sheets.study_page(study, OWN, command)

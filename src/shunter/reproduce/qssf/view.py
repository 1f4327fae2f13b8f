"""The main tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from shunter.report.terminal.tables import ORACLE
from shunter.reproduce import sheets, views
from shunter.reproduce.board import Board
from shunter.reproduce.qssf import paper
from shunter.reproduce.qssf.design import BESIDE
from shunter.reproduce.study import Study

MEANS = (("JCT\nmean", "jct_mean_s"), ("queueing\nmean", "wait_mean_s"))
TAILS = (("JCT\nP95", "jct_p95_s"), ("JCT\nP99", "jct_p99_s"), ("queueing\nP95", "wait_p95_s"))
LEGEND = "x FIFO: FIFO's mean JCT over this one's; below a number its 95 % interval, and what is printed"


def view(study: Study) -> RenderableType:
    """The tables of each data set, and what is printed."""
    parts = [part for data in study.board.sets for part in _data(study.board, data)]
    return Group(*parts, *views.claims_table(study), *views.notes(LEGEND, ORACLE))


def _data(board: Board, data: str) -> list[RenderableType]:
    return [
        views.data_table(
            board, data, MEANS, TAILS, lambda s, m: None if board.stands_in else paper.printed(data, s, m)
        ),
        *views.recorded(board, data),
        views.beside_table(board, data, BESIDE),
        *views.numbers_table(board, data, "estimates", sheets.PREDICTIONS),
    ]

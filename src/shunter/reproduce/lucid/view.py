"""The main tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import ORACLE, share, table
from shunter.reproduce import sheets, views
from shunter.reproduce.board import Board
from shunter.reproduce.lucid import page
from shunter.reproduce.lucid.design import COMPARED, OURS
from shunter.reproduce.study import Study
from shunter.reproduce.trials import Scheduler

MEANS = (("JCT\nmean", "jct_mean_s"), ("queueing\nmean", "wait_mean_s"))
TAILS = (
    ("queueing\nP99.9", "wait_p99.9_s"),
    ("JCT\n> 8 GPUs", "large jct_mean_s"),
    ("JCT\n<= 8", "small jct_mean_s"),
)
SHARING = (
    ("profiled", "profiled share", share),
    ("ended\nthere", "ended in profiler share", share),
    ("packed", "packed share", share),
    ("packed jobs'\nrun time", "packed slowdown", sheets.times),
    ("estimates'\nrank corr.", "predicted rank_correlation", "{:.2f}".format),
    ("R²", "predicted r2", "{:.2f}".format),
    ("MAPE", "predicted mape", "{:,.0%}".format),
)
AGAINST = (("all jobs", "jct_mean_s"), ("> 8 GPUs", "large jct_mean_s"), ("<= 8", "small jct_mean_s"))
LEGEND = "x Tiresias: Tiresias' mean JCT over this one's; below a number its 95 % interval"
PRINTED = "printed of Lucid's estimates: R² 0.41, MAPE 46.5 %"


def view(study: Study) -> RenderableType:
    """The tables of each data set, and what is printed."""
    parts = [part for data in study.board.sets for part in _data(study.board, data)]
    scores = table("sharing scores", "right")
    for name, value in page.accuracies().items():
        scores.add_row(name, share(value))
    return Group(*parts, *views.claims_table(study), scores, *views.notes(LEGEND, PRINTED, ORACLE))


def _data(board: Board, data: str) -> list[RenderableType]:
    return [
        views.data_table(board, data, MEANS, TAILS),
        _against(board, data),
        *views.numbers_table(board, data, "sharing and estimates", SHARING),
    ]


def _against(board: Board, data: str) -> RenderableType:
    made = table(f"{board.sets[data].title}:\nmean JCT over that of ours", *(heading for heading, _ in AGAINST))
    for rival in COMPARED:
        made.add_row(rival.label, *(_over_ours(board, data, rival, measure) for _, measure in AGAINST))
    return made


def _over_ours(board: Board, data: str, rival: Scheduler, measure: str) -> Text:
    if not board.has(data, OURS, measure):
        return Text("–")
    return views.factor_cell(board.factor(data, OURS, measure, base=rival))

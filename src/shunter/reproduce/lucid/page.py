"""The page that puts what is printed and ours side by side."""

from __future__ import annotations

from shunter import extras
from shunter.report.html.page import Cell, Section, code, grid, note, table
from shunter.report.terminal.tables import duration, share
from shunter.reproduce import sheets
from shunter.reproduce.board import Board
from shunter.reproduce.lucid import paper
from shunter.reproduce.lucid.design import COMPARED, LUCID, NO_ESTIMATE, NO_PACKING, NO_PROFILER, OURS, TRUTH
from shunter.reproduce.study import Study
from shunter.reproduce.writing import cell
from shunter.safe_files import data_folder
from shunter.sharing import published
from shunter.sharing.profiles import measured
from shunter.sharing.score import THRESHOLDS, accuracy, agreement, labels, shipped_tree

SIZES: tuple[sheets.Measure, ...] = (
    ("JCT mean, above 8 GPUs", "large jct_mean_s", duration),
    ("queueing delay mean, above 8 GPUs", "large wait_mean_s", duration),
    ("JCT mean, up to 8", "small jct_mean_s", duration),
    ("queueing delay mean, up to 8", "small wait_mean_s", duration),
)
TAIL: tuple[sheets.Measure, ...] = (*sheets.QUEUEING, ("P99.9", "wait_p99.9_s", duration))
SHARING: tuple[sheets.Measure, ...] = (
    ("profiled", "profiled share", share),
    ("ended in the profiler", "ended in profiler share", share),
    ("packed", "packed share", share),
    ("run time of packed jobs over that alone", "packed slowdown", sheets.times),
)
DEPARTURES = (
    "A job enters the main queue when its profiling has ended. The artifact lets it in at once, so that profiling"
    " delays no job.",
    "A job that shares GPUs is slowed down as measured for the two workloads, also where the artifact takes"
    " full speed for granted; when a partner ends, the other runs at full speed again.",
    "The tree computes scores from what the profiler saw. The artifact reads them off its table.",
    "A job that Tiresias stops pays 40 s (up to 8 GPUs) or 60 s when it continues, as in the artifact. Where a stop"
    " costs 62 s, ours runs on the same machines, and a job that leaves the profiler pays them as well.",
    "Tiresias' jobs above 8 GPUs may take parts of nodes; all others need whole ones.",
    "Lucid's estimates are judged on the jobs that get one: as published, those that outlast the profiler; under ours"
    " also those that skip it, of which the model expects too much.",
    "The order of Lucid and QSSF uses models fitted to the months before the window; the order of SJF, and the"
    " backfilling of EASY, use true run times.",
)


def _data(board: Board, data: str) -> list[str]:
    return [
        sheets.facts_of(board, data),
        sheets.scheduler_table(board, data, "completion times (Table 4)", sheets.JCT),
        sheets.scheduler_table(board, data, "queueing delay (Table 4)", TAIL),
        sheets.factor_table(board, data),
        _against(board, data),
        sheets.scheduler_table(board, data, "large and small jobs (Table 5)", SIZES),
        sheets.scheduler_table(board, data, "profiling and packing", SHARING),
        sheets.scheduler_table(board, data, "how good the estimates were", sheets.PREDICTIONS, paper.printed),
        sheets.scheduler_table(board, data, "everything else", sheets.REST),
        grid([sheets.means_chart(board, data), sheets.curves_chart(board, data, LUCID)]),
        sheets.vc_tables(board, data, lambda vc, scheduler, measure: None),
    ]


def _against(board: Board, data: str) -> str:
    """How many times as large the mean JCT is under each of those that ours is compared with as under ours."""
    shown = [(heading, name) for heading, name, _ in (*sheets.JCT[:1], *SIZES[::2]) if board.has(data, OURS, name)]
    rows: list[list[str | Cell]] = [
        [rival.label, *(cell(board.factor(data, OURS, name, base=rival), sheets.times) for _, name in shown)]
        for rival in COMPARED
    ]
    caption = f"{board.sets[data].title}: mean JCT over that of ours, repeat by repeat"
    return table(caption, ["", *(heading for heading, _ in shown)], rows)


def accuracies() -> dict[str, float]:
    """How often a sharing score is right: printed, and of trees and thresholds on our tables and on the authors'."""
    profiles, tree = measured(), shipped_tree()
    wanted, found = labels(profiles), {"printed": paper.SCORES}
    if tree.accuracy is not None:
        found["our tables, tree learned without the workload"] = tree.accuracy
    found["our tables, tree learned with it"] = agreement(tree, profiles, wanted)
    found["our tables, thresholds of the paper"] = agreement(THRESHOLDS, profiles, wanted)
    folder = data_folder()
    if folder is not None and (folder / "colocation").is_dir():
        theirs, by_hand = published.read(folder)
        if extras.is_there("sklearn.tree"):
            found["the authors' tables, tree learned without the workload"] = accuracy(theirs, by_hand)
            found["the authors' tables, tree learned without its model"] = accuracy(theirs, by_hand, by_model=True)
        found["the authors' tables, thresholds of the paper"] = agreement(THRESHOLDS, theirs, by_hand)
    return found


def _scores() -> list[Section]:
    profiles = measured()
    rows = [[name, share(value)] for name, value in accuracies().items()]
    legend = (
        f"Our numbers are over the {len(profiles)} workloads that were measured on {profiles.about['gpu']}; each is"
        f" {share(1 / len(profiles))} of them. A score is right if it follows from a workload's mean speed beside all"
        " others; in the authors' tables, of 66 workloads on an RTX 3090, if it is the one that they set by hand."
    )
    scores = table("How often the sharing score is right", ["", "accuracy"], rows)
    return [Section("Sharing scores", [scores, note(legend), code(shipped_tree().as_text())])]


OWN = sheets.Own(
    "Lucid",
    "its evaluation on Venus, run again, beside what is printed.",
    (*COMPARED, LUCID, OURS, NO_PROFILER, NO_PACKING, NO_ESTIMATE, TRUTH),
    _data,
    DEPARTURES,
    _scores,
)


def page(study: Study, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    return sheets.study_page(study, OWN, command)

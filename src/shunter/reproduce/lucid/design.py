"""What is run: the artifact's schedulers, Lucid and Lucid without each of its parts, on Venus under two rules."""

from __future__ import annotations

from shunter.reproduce import venus
from shunter.reproduce.board import DataSet
from shunter.reproduce.trials import Scheduler

RESTART = ((8, 40.0), (9, 60.0))  # what the artifact's Tiresias pays for a stop: up to so many GPUs, seconds
STOPS = " (stops cost)"  # the same jobs, on machines where who was stopped pays that

FIFO = Scheduler("FIFO", "fifo", 7)
SJF = Scheduler("SJF", "sjf:estimate=oracle", 5)
EASY = Scheduler("FIFO with EASY", "fifo:backfill=easy,estimate=oracle", 9)
QSSF = Scheduler("QSSF", "qssf:refit=0", 3)
TIRESIAS = Scheduler("Tiresias", "tiresias", 1, STOPS)
LUCID = Scheduler("Lucid", "lucid:refit=0", 0)
NO_PROFILER = Scheduler("Lucid without profiler", "lucid:profiling=false,refit=0", 2)
NO_PACKING = Scheduler("Lucid without packing", "lucid:packing=false,refit=0", 4)
NO_ESTIMATE = Scheduler("Lucid without estimates", "lucid:estimate=none", 6)
TOLD = Scheduler("Lucid, told the truth", "lucid:estimate=oracle", 8)
ANEW = Scheduler("Lucid, fitted anew weekly", "lucid", 0)
SCHEDULERS = (FIFO, SJF, EASY, QSSF, TIRESIAS, LUCID, NO_PROFILER, NO_PACKING, NO_ESTIMATE, TOLD)

COMMON = (
    "The public file names neither virtual cluster nor user nor model, and has the jobs up to 14 September; the paper's"
    " are 1 to 26 September. Run times are clamped at 48 h (1.8 % of these jobs).",
    "Which workload a job is was drawn by chance from the twelve that were measured on an H200, so that what the"
    " profiler sees of a job says nothing about its run time.",
)
DATA = {
    "venus": DataSet(
        "Venus",
        SCHEDULERS,
        venus.SINCE,
        venus.UNTIL,
        (
            "Each job was put into one of the 15 virtual clusters that can hold it, by chance, in proportion to their"
            " nodes. So jobs of all sizes are mixed in every one of them, and who never stops a job seldom finds 16"
            " idle nodes.",
            *COMMON,
        ),
    ),
    "venus-apart": DataSet(
        "Venus, sizes apart",
        SCHEDULERS,
        venus.SINCE,
        venus.UNTIL,
        (
            "The same jobs under another rule: those with more than 8 GPUs go only to the largest virtual clusters, as"
            " many as have their part of the GPU time in nodes, and all others to the rest. It shows how much hangs on"
            " what the public file does not say.",
            *COMMON,
        ),
    ),
}
QUICK = ("venus",)

"""What is run: the artifact's schedulers, EASY++, Lucid and Lucid without each of its parts, on Venus and AAIC."""

from __future__ import annotations

from shunter.reproduce import venus
from shunter.reproduce.board import DataSet
from shunter.reproduce.trials import Scheduler

RESTART = ((8, 40.0), (9, 60.0))  # what the artifact's Tiresias pays for a stop: up to this many GPUs, seconds
STOPS = " (stops cost)"  # the same jobs, on machines where a job that was stopped pays that ...
DEARER = " (stops cost 62 s)"  # ... or 62 s
COSTS = {"": (), STOPS: RESTART, DEARER: ((8, 62.0), (9, 62.0))}
AUTHORS = " (the authors' estimates)"  # what the artifact predicted stands in the column 'limit'

AS_PUBLISHED = (
    "profile_when=always,profile_time=200,profile_nodes=2,profile_gpus=8,profile_queue=10,pack_when=always,dynamic=true,"
    "capacity=2,blocking=skip"
)
FIFO = Scheduler("FIFO", "fifo", 7)
SJF = Scheduler("SJF", "sjf:estimate=oracle", 5)
EASY = Scheduler("FIFO with EASY", "fifo:backfill=easy,estimate=oracle", 9)
PLUS_PLUS = Scheduler("EASY++", "easypp", 9)  # no oracle, unlike the one before: what learned estimates must beat
QSSF = Scheduler("QSSF", "qssf:refit=0", 3)
TIRESIAS = Scheduler("Tiresias", "tiresias", 1, STOPS)
DEAR_TIRESIAS = Scheduler("Tiresias, 62 s a stop", "tiresias", 1, DEARER)
NO_QUEUES = Scheduler("... and no queues", "tiresias:limits=none", 1, DEARER)
FIVE_QUEUES = Scheduler("... and five queues", "tiresias:limits=3600/18000/72000/288000", 1, DEARER)
GITTINS = Scheduler(  # the best that benchmarks.lucid_search found
    "... no queues, Gittins", "tiresias:order=gittins,limits=none,horizon=72000,min_run=30", 1, DEARER
)
LUCID = Scheduler("Lucid as published", f"lucid:{AS_PUBLISHED},refit=0", 0)
OURS = Scheduler("Lucid, ours", "lucid:refit=0", 2, DEARER)
SKIPS = Scheduler("ours, jobs skipped", "lucid:blocking=skip,refit=0", 4, DEARER)
NO_PROFILER = Scheduler("ours without profiler", "lucid:profiling=false,refit=0", 2, DEARER)
NO_PACKING = Scheduler("ours without packing", "lucid:packing=false,refit=0", 4, DEARER)
NO_ESTIMATE = Scheduler("ours without estimates", "lucid:estimate=none", 6, DEARER)
THEIR_ESTIMATE = Scheduler("ours, authors' estimates", "lucid:estimate=limit,refit=0", 6, AUTHORS)
TRUTH = Scheduler("ours with true run times", "lucid:estimate=oracle", 8, DEARER)
PUBLISHED_TRUTH = Scheduler("published, true run times", f"lucid:{AS_PUBLISHED},estimate=oracle", 8)
REFITTED = Scheduler("Lucid as published, fitted weekly", f"lucid:{AS_PUBLISHED}", 0)
SEARCHED = (
    DEAR_TIRESIAS,
    NO_QUEUES,
    FIVE_QUEUES,
    GITTINS,
)  # on the same machines as ours, which are compared with each
COMPARED = (*SEARCHED, PLUS_PLUS, LUCID, SKIPS, NO_ESTIMATE)  # with ours, repeat by repeat
RIVALS = (FIFO, SJF, EASY, PLUS_PLUS, QSSF, TIRESIAS, *SEARCHED, LUCID, PUBLISHED_TRUTH, OURS)
VARIANTS = (SKIPS, NO_PROFILER, NO_PACKING, NO_ESTIMATE, TRUTH)
SCHEDULERS = (*RIVALS, *VARIANTS, THEIR_ESTIMATE)

COMMON = (
    "The public file names neither virtual cluster nor user nor model, and has the jobs up to 14 September; the paper's"
    " are 1 to 26 September. Run times are clamped at 48 h (1.8 % of these jobs).",
    "Which workload a job is was drawn by chance from those that were measured on an H200.",
    "Repeats are draws of the virtual clusters; intervals are over the draws. Models learn from the jobs before"
    " September, under the first draw.",
    "Our settings were chosen on 15 July to 31 August, before the window.",
)
DATA = {
    "venus": DataSet(
        "Venus",
        SCHEDULERS,
        venus.SINCE,
        venus.UNTIL,
        (
            "Each job was put into one of the 15 virtual clusters that can hold it, by chance, in proportion to their"
            " nodes. So jobs of all sizes are mixed in every one of them.",
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
            " many as have their part of the GPU time in nodes, and all others to the rest.",
            *COMMON,
        ),
    ),
    "venus-counted": DataSet(
        "Venus, counted jobs",
        SCHEDULERS,
        venus.SINCE,
        venus.UNTIL,
        (
            "The same jobs in proportion to those that the artifact counts in five virtual clusters (vcEwI 7,603 on 9"
            " nodes, vcWoR 2,826 on 5, vcHvQ 2,654 on 8, vcvGl 1,452 on 20, vc8Gr 710 on 6), and the rest in proportion"
            " to nodes. The loads differ: vcEwI and vcWoR get more work than they can do.",
            *COMMON,
        ),
    ),
    "aaic": DataSet(
        "AAIC",
        (*RIVALS, *VARIANTS),
        "2018-11-01",
        "2018-12-01",
        (
            "November on 40 nodes of 8 GPUs in one cluster; jobs have users and requested times. Models learn from July"
            " to October. The AAIC workload log was graciously provided by AIRC, AIST.",
            "Repeats move every submission by up to 30 s.",
        ),
    ),
}
RULES = {"venus": venus.ANY, "venus-apart": venus.APART, "venus-counted": venus.COUNTED}
QUICK = ("venus",)

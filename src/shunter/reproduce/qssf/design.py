"""What is run: four data sets x the published schedulers, QSSF with several estimates, and ours."""

from __future__ import annotations

from shunter.reproduce import venus
from shunter.reproduce.board import DataSet
from shunter.reproduce.trials import Scheduler

RESTART = ((1, 7.0), (8, 30.0), (9, 60.0))  # what the artifact's SRTF pays for a stop: up to this many GPUs, seconds
LOAD = 0.5  # of each of Philly's virtual clusters where it has fewer nodes; FIFO then waits about as long as printed

FIFO = Scheduler("FIFO", "fifo", 7)
SJF = Scheduler("SJF", "sjf:estimate=oracle", 5)
SRTF = Scheduler("SRTF", "srtf:estimate=oracle,min_run=0", 4)  # as published: it stops jobs at once
QSSF = Scheduler("QSSF", "qssf:refit=0", 0)
ROLLING = Scheduler("QSSF, rolling means", "qssf:estimate=rolling", 2)
NOISY = Scheduler("QSSF, noisy truth", "qssf:estimate=noisy", 1)
TRUTH = Scheduler("QSSF, true run times", "qssf:estimate=oracle", 6)
EASY = Scheduler("QSSF with EASY", "qssf:backfill=easy,refit=0", 3)
WITH_LUCIDS = " (Lucid's predictions)"  # the same jobs; what Lucid's authors predicted stands in the column 'limit'
LUCIDS = Scheduler("QSSF, Lucid's predictions", "qssf:estimate=limit", 8, WITH_LUCIDS)
LIMIT = Scheduler("SAF by requested time", "saf:estimate=limit", 9)
GBM = Scheduler("SAF, gbm", "saf:estimate=gbm,refit=0", 10)
GBM_EASY = Scheduler("SAF, gbm, with EASY", "saf:estimate=gbm,refit=0,backfill=easy", 11)
LIMIT_EASY = Scheduler("SAF by requested time, with EASY", "saf:estimate=limit,backfill=easy", 12)
PLUS_PLUS = Scheduler("EASY++", "easypp", 13)
REFITTED = Scheduler("QSSF, fitted again weekly", "qssf", 0)
BESIDE = (QSSF, PLUS_PLUS)  # with which all others are compared as well, repeat by repeat
COMMON = (FIFO, SJF, SRTF, QSSF, ROLLING, NOISY, TRUTH, EASY, GBM, GBM_EASY, PLUS_PLUS)

NO_USERS = (
    "Jobs have no user, no name and no requested time: a predictor can go only by GPUs, virtual cluster and calendar,"
    " and EASY++ by the mean run time of jobs with as many GPUs."
)
SPARSE = (
    "The printed figures cover more jobs: two of their 11 virtual clusters, 6c71a0 and ee9e8c, are not in the public"
    " file (the four tiny ones are left out, as published), and of multi-GPU jobs only a part is. The mean run time is"
    " 9,348 s; the printed JCT less the printed queueing delay is 29,541 s."
)
MOVED = "Repeats move every submission by up to 30 s."
NO_VCS = (
    "The public file names neither user nor virtual cluster. Each job was put into one of the 15 that can hold it, by"
    " chance, in proportion to their nodes. Run times are clamped at 48 h (1.8 % of the jobs in September).",
    "Repeats are draws of the virtual clusters; intervals are over the draws.",
    "QSSF learns from the jobs before the window, from March on, under the first draw; it can go only by GPUs,"
    " calendar, and the virtual cluster, which was drawn and so says nothing.",
)
DATA = {
    "philly": DataSet(
        "Philly",
        COMMON,
        "2017-10-01",
        "2017-12-01",
        (
            SPARSE,
            "On the published numbers of nodes these jobs need 5 % to 37 % of a virtual cluster, so that hardly any job"
            " waits and no order can gain much.",
            NO_USERS,
            MOVED,
        ),
    ),
    "philly-fewer": DataSet(
        "Philly, fewer nodes",
        COMMON,
        "2017-10-01",
        "2017-12-01",
        (
            "The same jobs. Every virtual cluster has as many nodes as make its load a half (never more than published,"
            " and enough for its largest job): the load, in steps of 5 %, at which FIFO's mean queueing delay is"
            " nearest to the printed one. That choice uses FIFO alone.",
            NO_USERS,
            MOVED,
        ),
    ),
    "venus": DataSet(
        "Venus",
        (*COMMON, LUCIDS),
        venus.SINCE,
        venus.UNTIL,
        (
            *NO_VCS,
            f"'{LUCIDS.label}': for September the file has what the LightGBM model of Lucid's artifact predicted, which"
            " knew users.",
        ),
    ),
    "venus-august": DataSet("Venus, August", COMMON, "2020-08-01", "2020-08-15", NO_VCS),
    "venus-july": DataSet("Venus, July", COMMON, "2020-07-01", "2020-07-15", NO_VCS),
    "aaic": DataSet(
        "AAIC",
        (*COMMON, LIMIT, LIMIT_EASY),
        "2018-11-01",
        "",
        (
            "Jobs have users and requested times. QSSF learns from July to October. The AAIC workload log was"
            " graciously provided by AIRC, AIST.",
            "Recorded waits are from the live cluster: FCFS with backfilling and limits per queue, on 32 to 40 nodes."
            " Here all 40 nodes are there all the time, and no user has a limit.",
            MOVED,
        ),
    ),
}
VENUS = ("venus", "venus-august", "venus-july")  # the same cluster, in three windows
QUICK = ("philly-fewer", "venus")

"""AutoSched's trace aggregator: waiting jobs that are alike become one job, in a simulation of its own.

An excerpt can only repeat requests of its trace, and a merged job asks for more GPUs than any of them.  So the
unfinished jobs and the arrivals become a new trace.  Running jobs stay as they are, on their GPUs.  Times of merged
jobs are means, GPUs and GPU time are sums.  What policies themselves remember of jobs from before is lost.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.generating.known_jobs import MINUTE
from shunter.sim.engine import Simulator
from shunter.sim.scenario import Scenario, Warm
from shunter.world import F64, I64

BIN = 5 * MINUTE  # jobs that arrive within it may become one
LARGEST = 8  # a merged job has at most this part of the GPUs of the cluster


def aggregated(outlook: Simulator, now: int, merge: bool = True) -> tuple[Simulator, F64]:
    """The simulation, and how many jobs each of its rows stands for; ``merge=False``: one each, for comparison."""
    rows, runs, done = _unfinished(outlook, now)
    table = outlook.world.jobs[:, rows]
    left, submit = np.maximum(outlook.durations[rows] - done, 1), np.maximum(table[w.SUBMIT], now)
    group = _groups(table, submit, left, runs, int(outlook.cluster.gpus)) if merge else np.arange(len(rows))
    found = _merged(group, outlook.trace.gpus[rows], left, submit)
    order = np.lexsort((found.first, found.submit))
    first, count, gpus = found.first[order], found.jobs[order], found.gpus[order]
    ran = (np.bincount(group, done) / found.jobs)[order].astype(np.int64)  # times are means, services are sums
    attained = np.bincount(group, table[w.ATTAINED] + np.where(runs, now - table[w.BEGUN], 0) * table[w.GPUS])[order]
    trace = dataclasses.replace(
        outlook.trace.select(rows[first]), submit=found.submit[order], gpus=gpus,
        duration=np.maximum(found.service[order] // gpus, 1) + ran, after=np.full(len(first), -1, np.int64),
    )  # fmt: skip
    warm = _warm(outlook, rows[first], runs[first], ran)
    made = Simulator(trace, outlook.cluster, scenario=Scenario(warm=warm, begin=now))
    made.world.jobs[w.EXECUTED], made.world.jobs[w.ATTAINED] = ran, attained
    made.world.progress[[w.WORK, w.SAVED]] = ran
    return made, count.astype(np.float64)


def _unfinished(outlook: Simulator, now: int) -> tuple[I64, NDArray[np.bool_], I64]:
    """Rows of jobs that have not ended, which of them run, and for how long each has run (ms)."""
    assert outlook.rows is not None
    table = outlook.world.jobs
    unfinished = table[w.STATE] < w.DONE
    unfinished[outlook.rows.standing] = False
    rows = np.flatnonzero(unfinished)
    runs = (table[w.STATE, rows] == w.RUNNING) | (table[w.STATE, rows] == w.STOPPING)
    return rows, runs, table[w.EXECUTED, rows] + np.where(runs, now - table[w.BEGUN, rows], 0)


def _groups(table: I64, submit: I64, left: I64, runs: NDArray[np.bool_], cluster_gpus: int) -> I64:
    """A number for each job that those share which become one."""
    columns = [submit // BIN, np.log2(np.maximum(left / 1000, 1)).astype(np.int64)]
    columns += [table[name] for name in (w.GPUS, w.SHARE, w.VC, w.TYPE, w.CPU, w.MEM, w.CHECKPOINTABLE)]
    alone = np.where(runs, np.arange(len(runs)) + 1, 0)  # running jobs stay as they are
    _, kind = np.unique(np.column_stack([*columns, alone]), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    most = np.maximum(cluster_gpus // LARGEST // np.maximum(table[w.GPUS], 1), 1)
    order = np.argsort(kind, kind="stable")
    begins = np.searchsorted(kind[order], kind[order])
    place = np.empty(len(kind), np.int64)
    place[order] = np.arange(len(kind)) - begins  # its place among those of its kind
    _, group = np.unique(np.column_stack([kind, place // most]), axis=0, return_inverse=True)
    return np.asarray(group.reshape(-1), np.int64)


class MergedJobs(NamedTuple):
    """A row per group."""

    first: I64  # its first job
    gpus: I64  # of all, in thousandths
    service: I64  # of all: GPUs times ms
    submit: I64  # the mean
    jobs: I64  # how many


def _merged(group: I64, gpus: I64, left: I64, submit: I64) -> MergedJobs:
    _, first, count = np.unique(group, return_index=True, return_counts=True)
    total, service = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    np.add.at(total, group, gpus)
    np.add.at(service, group, gpus * left)
    begin = int(submit.min()) if len(submit) else 0
    arrival = np.round(np.bincount(group, submit - begin) / count) + begin
    return MergedJobs(first, total, service, np.asarray(arrival, np.int64), count)


def _warm(outlook: Simulator, rows: I64, runs: NDArray[np.bool_], done: I64) -> tuple[Warm, ...]:
    """The running jobs by their new rows, on their GPUs."""
    slots = outlook.world.slots
    return tuple(
        Warm(at, tuple(sorted({int(gpu) for gpu in slots[w.SLOT_GPU, slots[w.SLOT_JOB] == rows[at]]})), int(done[at]))
        for at in np.flatnonzero(runs).tolist()
    )

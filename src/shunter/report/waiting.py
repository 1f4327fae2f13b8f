"""Where waiting time went: what policies said of classes, pools and jobs, put together into a reason per job and time.

For a job that waits, the first of these that says something holds: what was said of the job itself, of all, of its
demand class, and last of its pool, unless it is the job that stops the pool.  So a reservation or an earlier job is to
blame only if the job would fit without it; one that is behind another and would not fit either is listed as
``queued``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import reasons as r
from shunter import world as w
from shunter.arrays import I1, I2, Arrays
from shunter.compiled import kernel
from shunter.errors import RunError
from shunter.report.metrics import SIZES
from shunter.world import F64, I64

if TYPE_CHECKING:
    from shunter.run_folder import Run

BINS = 200


@dataclass(frozen=True, eq=False)
class Waiting:
    """The time that jobs waited, by reason."""

    codes: tuple[str, ...]
    per_job: I64  # (codes, jobs) ms
    edges: F64  # (bins + 1,) s
    over_time: F64  # (codes, bins) jobs that wait, on average over the bin

    def by_size(self, gpus: F64) -> dict[str, I64]:
        """Per size class of jobs, the waiting time by code in ms."""
        bins = np.searchsorted([top for _, top in SIZES], gpus)
        return {name: self.per_job[:, bins == at].sum(axis=1) for at, (name, _) in enumerate(SIZES)}

    def main(self) -> I64:
        """The code that cost each job most; meaningless for one that did not wait."""
        codes: I64 = self.per_job.argmax(axis=0)
        return codes


def rows_of(run: Run) -> tuple[I64, tuple[str, ...]]:
    """What was said, as numbers (time, scope, subject, code, a, b, c), and the names of the codes."""
    if run.decisions is None:
        raise RunError("the run did not record why jobs waited; make it again with --decisions")
    table = run.decisions
    codes = tuple(dict.fromkeys((*r.CODES, *table["code"].unique(maintain_order=True).to_list())))
    numbers = [table[name].to_numpy() for name in ("time", "subject", "a", "b", "c")]
    texts = (("scope", r.SCOPES), ("code", codes))
    scope, code = (np.array([known.index(text) for text in table[name].to_list()], np.int64) for name, known in texts)
    rows = np.stack([numbers[0], scope, numbers[1], code, *numbers[2:]], axis=1)
    return np.ascontiguousarray(rows.astype(np.int64)), codes


def waiting(run: Run, bins: int = BINS) -> Waiting:
    """Add up the waiting time of a run by reason."""
    rows, codes = rows_of(run)
    jobs = len(run.jobs)
    class_of, pool_of = groups(run.jobs)
    classes, pools = int(class_of.max(initial=-1)) + 2, int(pool_of.max(initial=-1)) + 2  # the last: of no class, pool
    first, last = (int(run.events[at, 0]) for at in (0, -1)) if len(run.events) else (0, 0)
    width = max(-(-(last - first) // bins), 1)
    of_class = np.full(classes, pools - 1, np.int64)
    of_class[class_of] = pool_of
    sweep = _Sweep(
        events=run.events,
        rows=rows,
        class_of=class_of % classes,
        pool_of_class=of_class % pools,
        said=np.zeros((4, max(classes, pools, jobs, 1)), np.int64),
        head=np.full(pools, -1, np.int64),
        waits=np.zeros(jobs, np.int64),
        alone=np.full((2, jobs), -1, np.int64),
        members=np.zeros(classes, np.int64),
        counted=np.zeros(classes, np.int64),
        spent=np.zeros((len(codes), classes), np.int64),
        per_job=np.zeros((len(codes), jobs), np.int64),
        binned=np.zeros((len(codes), bins), np.int64),
        axis=np.array([first, width]),
    )
    _sweep(sweep)
    edges = (first + width * np.arange(bins + 1)) / 1000
    return Waiting(codes, sweep.per_job, edges, sweep.binned / width)


def groups(jobs: Any) -> tuple[I64, I64]:
    """The demand class and the pool of each job; -1 where the policy spoke only of single jobs."""
    found = [jobs[name].to_numpy().astype(np.int64) for name in ("demand_class", "pool")]
    return found[0], found[1]


class _Sweep(Arrays):
    """One pass over the log and what was said."""

    events: I2  # (events, 5)
    rows: I2  # (rows, 7)
    class_of: I1  # (jobs,)
    pool_of_class: I1  # (classes,)
    said: I2  # (scopes, subjects) the code that holds
    head: I1  # (pools,) the job that stops it, -1: none
    waits: I1  # (jobs,) 1: it waits
    alone: I2  # (2, jobs) a job that is counted by itself: its code and since when; code -1: with its class
    members: I1  # (classes,) jobs that wait and are counted with their class
    counted: I1  # (classes,) up to when
    spent: I2  # (codes, classes) time under each code, up to then
    per_job: I2  # (codes, jobs)
    binned: I2  # (codes, bins) job-ms
    axis: I1  # (first time, width of a bin)


@kernel
def code_of(sweep: _Sweep, cls: int, job: int) -> int:
    """What holds for a job, or (job -1) for the jobs of a class that don't stop their pool."""
    said, pool = sweep.said, sweep.pool_of_class[cls]
    if job >= 0 and said[r.OF_JOB, job] != r.NONE:
        return int(said[r.OF_JOB, job])
    shared = r.NONE if job >= 0 and sweep.head[pool] == job else said[r.OF_POOL, pool]
    own = said[r.OF_ALL, 0] if said[r.OF_ALL, 0] != r.NONE else said[r.OF_CLASS, cls]
    if shared == r.BEHIND and own != r.NONE:
        return r.QUEUED
    return int(own) if own != r.NONE else int(shared)


@kernel
def add(sweep: _Sweep, code: int, begin: int, end: int, jobs: int) -> None:
    """Put the time of this many jobs into the bins."""
    first, width = sweep.axis[0], sweep.axis[1]
    while begin < end and jobs > 0:
        at = min((begin - first) // width, sweep.binned.shape[1] - 1)
        until = end if at == sweep.binned.shape[1] - 1 else min(end, first + (at + 1) * width)
        sweep.binned[code, at] += (until - begin) * jobs
        begin = until


@kernel
def settle_class(sweep: _Sweep, cls: int, now: int) -> None:
    """Count a class up to now, under the code that has held."""
    begin = sweep.counted[cls]
    if begin < now:
        code = code_of(sweep, cls, -1)
        sweep.spent[code, cls] += now - begin
        add(sweep, code, begin, now, sweep.members[cls])
        sweep.counted[cls] = now


@kernel
def settle_alone(sweep: _Sweep, job: int, now: int) -> None:
    """Count a job that is counted by itself up to now."""
    code, begin = sweep.alone[0, job], sweep.alone[1, job]
    sweep.per_job[code, job] += now - begin
    add(sweep, code, begin, now, 1)
    sweep.alone[1, job] = now


@kernel
def move(sweep: _Sweep, job: int, now: int, sign: int) -> None:
    """A job joins its class (+1) or leaves it (-1): what the class spent meanwhile is what it spent."""
    cls = sweep.class_of[job]
    settle_class(sweep, cls, now)
    sweep.members[cls] += sign
    for code in range(len(sweep.spent)):
        sweep.per_job[code, job] -= sign * sweep.spent[code, cls]


@kernel
def review(sweep: _Sweep, job: int, now: int) -> None:
    """Count a waiting job by itself if something is said of it alone, else with its class."""
    if sweep.waits[job] == 0:
        return
    cls = sweep.class_of[job]
    if sweep.alone[0, job] >= 0:
        settle_alone(sweep, job, now)
    special = sweep.said[r.OF_JOB, job] != r.NONE or sweep.head[sweep.pool_of_class[cls]] == job
    if special and sweep.alone[0, job] < 0:
        move(sweep, job, now, -1)
        sweep.alone[1, job] = now
    elif not special and sweep.alone[0, job] >= 0:
        move(sweep, job, now, +1)
    sweep.alone[0, job] = code_of(sweep, cls, job) if special else -1


@kernel
def begin_wait(sweep: _Sweep, job: int, now: int) -> None:
    """A job comes into the queue; what was said of it before is over."""
    sweep.said[r.OF_JOB, job] = r.NONE
    sweep.waits[job], sweep.alone[0, job] = 1, -1
    move(sweep, job, now, +1)
    review(sweep, job, now)


@kernel
def end_wait(sweep: _Sweep, job: int, now: int) -> None:
    """A job starts."""
    if sweep.alone[0, job] >= 0:
        settle_alone(sweep, job, now)
    else:
        move(sweep, job, now, -1)
    sweep.waits[job], sweep.alone[0, job] = 0, -1


@kernel
def hear(sweep: _Sweep, row: int) -> None:
    """Apply a change of reasons: first count the jobs that it concerns under their old reason, then set the new one."""
    said = sweep.rows[row]
    now, scope, subject, code = said[0], said[1], said[2], said[3]
    if scope == r.OF_JOB:
        sweep.said[scope, subject] = code
        review(sweep, subject, now)
        return
    if code != sweep.said[scope, subject]:
        for cls in range(len(sweep.counted)):
            of_pool = scope == r.OF_POOL and sweep.pool_of_class[cls] == subject
            if scope == r.OF_ALL or of_pool or (scope == r.OF_CLASS and cls == subject):
                settle_class(sweep, cls, now)
    before = sweep.head[subject] if scope == r.OF_POOL else -1
    sweep.said[scope, subject] = code
    if scope == r.OF_POOL:
        sweep.head[subject] = said[4] if code != r.NONE else -1
        if before >= 0:
            review(sweep, before, now)
    for pool in range(len(sweep.head)):
        if sweep.head[pool] >= 0:
            review(sweep, sweep.head[pool], now)


@kernel
def _sweep(sweep: _Sweep) -> None:
    """Go through the log and what was said in the order of time; at one instant what happened comes first."""
    events, row = sweep.events, 0
    for at in range(len(events)):
        now, kind, job = events[at, 0], events[at, 1], events[at, 2]
        while row < len(sweep.rows) and sweep.rows[row, 0] < now:
            hear(sweep, row)
            row += 1
        if kind == w.START and sweep.waits[job] == 1:
            end_wait(sweep, job, now)
        elif kind in (w.ARRIVE, w.PREEMPT) or (kind == w.FAIL and events[at, 3] == 0):
            begin_wait(sweep, job, now)

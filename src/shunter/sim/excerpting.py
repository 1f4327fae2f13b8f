"""A part of a simulation's jobs as a simulation of its own: those that are unfinished, and given arrivals.

Rows are renumbered.  One ended job stays for every kind of job that would be missing, so that what a policy derives
from the kinds of jobs (demand classes, numbers of GPUs, the shortest restart) is as before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.model import Trace
from shunter.sim.links import Traffic
from shunter.sim.state import (
    BASE,
    CHILD,
    FAILURES,
    HEAP_SIZE,
    KEPT_FIRST,
    KEPT_LAST,
    KEPT_NEXT,
    LOG_ROWS,
    NEXT_ARRIVAL,
    ORDER,
    PRIORITY,
    REASON_ROWS,
    SIBLING,
    TIME,
    UNFINISHED,
    WHERE,
    SimulationState,
    paper_for,
)
from shunter.world import I64, World

KIND = (w.GPUS, w.SHARE, w.VC, w.TYPE, w.CPU, w.MEM, w.SPAN, w.MODEL)
COSTS = (w.RESTART, w.STOP_COST, w.STOP_LOSS, w.CHECKPOINTABLE)
FIRST_COURSE, LAST_COURSE = w.STATE, w.SINCE  # columns of what a job did so far
UNSET = (w.STARTED, w.ENDED_AT, w.HEAD, w.AT)  # those of them that are -1 before


@dataclass(frozen=True, eq=False)
class ExcerptRows:
    """Which row of an excerpt is which job."""

    taken: I64  # (rows,) the row whose request it has in the simulation that it was taken from ...
    moved: I64  # (rows there,) ... and where a job of that simulation goes on, -1: it does not
    begins: int  # before this row: jobs that are there, or stand for their kind; from it on: arrivals
    standing: I64  # rows that only stand for their kind
    repeats: I64  # rows of jobs that arrive again, as others


@dataclass(frozen=True, eq=False)
class JobKinds:
    """Jobs of one kind ask for the same and cost the same to stop."""

    of_job: I64  # (jobs,)
    first: I64  # (kinds,) the first job of each

    def select(self, rows: I64) -> JobKinds:
        """Those of these jobs."""
        return numbered(self.of_job[rows])


def numbered(code: I64) -> JobKinds:
    """Kinds by any number that jobs of one kind share."""
    _, first, of_job = np.unique(code, return_index=True, return_inverse=True)
    return JobKinds(of_job, first)


def kinds_of(world: World) -> JobKinds:
    """The kinds of all jobs."""
    code = np.zeros(world.jobs.shape[1], np.int64)
    for column in (*KIND, *COSTS):
        values, inverse = np.unique(world.jobs[column], return_inverse=True)
        if len(values) > 1:
            code = np.unique(code * len(values) + inverse, return_inverse=True)[1]
    return numbered(code)


def rows_for(state: SimulationState, kinds: JobKinds, arrivals: I64) -> ExcerptRows:
    """The rows of an excerpt with these arrivals, which are in the order of their submission."""
    world, count = state.world, state.world.jobs.shape[1]
    states = world.jobs[w.STATE]
    stays = (states >= w.HELD) & (states < w.DONE)
    stays[world.lists[w.L_ENDED, : world.clock[w.N_ENDED]]] = True
    stays[world.lists[w.L_ARRIVED, : world.clock[w.N_ARRIVED]]] = True
    there = np.flatnonzero(stays)
    goes_on = (states[arrivals] == w.FUTURE) & _first_of_its_row(arrivals)
    standing = _standing(world, kinds, np.concatenate((there, arrivals)))
    ended = standing[states[standing] != w.FUTURE]
    before = np.sort(np.concatenate((there, ended)))
    taken = np.concatenate((before, standing[states[standing] == w.FUTURE], arrivals))
    moved = np.full(count, -1, np.int64)
    moved[before] = np.arange(len(before))
    begins = len(taken) - len(arrivals)
    moved[arrivals[goes_on]] = begins + np.flatnonzero(goes_on)
    only = np.concatenate((np.flatnonzero(np.isin(before, ended)), np.arange(len(before), begins)))
    return ExcerptRows(taken, moved, begins, only, begins + np.flatnonzero(~goes_on))


def _first_of_its_row(rows: I64) -> NDArray[np.bool_]:
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(rows, return_index=True)[1]] = True
    return first


def _standing(world: World, kinds: JobKinds, present: I64) -> I64:
    """Rows that stand for kinds which are not present, for the beginning of the trace, and for its last user."""
    missing = np.ones(len(kinds.first), np.bool_)
    missing[kinds.of_job[present]] = False
    if not len(kinds.of_job):
        return kinds.first
    ends = np.array([0, np.argmax(world.jobs[w.USER])])
    wanted = np.unique(np.concatenate((kinds.first[missing], ends)))
    return wanted[~np.isin(wanted, present)]


def excerpt_of(state: SimulationState, trace: Trace, rows: ExcerptRows, submit: I64) -> SimulationState:
    """The state of an excerpt whose arrivals come at these times; what never changes is shared."""
    world, taken = _world(state.world, rows, submit), rows.taken
    truth = state.truth[:, taken]
    truth[FAILURES, rows.repeats], truth[BASE, rows.repeats] = trace.failures[taken[rows.repeats]], 0
    _link(truth, world.jobs[w.AFTER])
    truth[KEPT_NEXT] = _moved(rows, truth[KEPT_NEXT])
    truth[KEPT_NEXT, rows.repeats] = -1
    quota = state.quota.copy()
    for row in (KEPT_FIRST, KEPT_LAST):
        quota[row] = _moved(rows, quota[row])
    counts = state.counts.copy()
    counts[NEXT_ARRIVAL], counts[LOG_ROWS], counts[REASON_ROWS] = rows.begins, 0, 0
    counts[UNFINISHED] = np.count_nonzero(world.jobs[w.STATE] < w.DONE)
    return state.replace(
        world=world,
        truth=truth,
        counts=counts,
        heap=_heap(state, rows),
        log=np.empty_like(state.log),
        reasons_log=np.empty_like(state.reasons_log),
        quota=quota,
        network=state.network.replace(row=state.network.row[taken]),
        traffic=_traffic(state.traffic, rows),
        workload=state.workload[taken],
        paper=paper_for(world),
        tried=np.zeros((2, len(taken)), np.int64),
    )


def _moved(rows: ExcerptRows, jobs: I64) -> I64:
    """Jobs by their new rows; -1 for those that are gone, and for none."""
    return np.where(jobs >= 0, rows.moved[jobs], -1)


def _world(world: World, rows: ExcerptRows, submit: I64) -> World:
    taken = rows.taken
    jobs, progress, use, clock = world.jobs[:, taken], world.progress[:, taken], world.use[:, taken], world.clock.copy()
    jobs[w.AFTER] = _moved(rows, jobs[w.AFTER])
    jobs[w.AFTER, rows.repeats] = -1
    jobs[w.STATE, rows.standing] = w.DONE
    jobs[w.SUBMIT, len(taken) - len(submit) :] = submit
    late = rows.standing[jobs[w.SUBMIT, rows.standing] > clock[w.NOW]]
    jobs[w.SUBMIT, late] = clock[w.NOW]
    jobs[FIRST_COURSE : LAST_COURSE + 1, rows.repeats] = 0
    for column in UNSET:
        jobs[column, rows.repeats] = -1
    jobs[w.UNTIL, rows.repeats] = w.NEVER
    progress[:, rows.repeats], use[:, rows.repeats] = 0.0, np.nan
    jobs[w.NUMBER, rows.repeats] = _numbers(jobs[w.NUMBER, rows.repeats], int(clock[w.NUMBERS]))
    slots = world.slots.copy()
    slots[w.SLOT_JOB] = _moved(rows, slots[w.SLOT_JOB])
    lists = np.zeros((4, len(taken)), np.int64)
    for row, length in ((w.L_PENDING, w.N_PENDING), (w.L_RUNNING, w.N_RUNNING), (w.L_ENDED, w.N_ENDED),
                        (w.L_ARRIVED, w.N_ARRIVED)):  # fmt: skip
        count = clock[length]
        lists[row, :count] = rows.moved[world.lists[row, :count]]
    return world.replace(
        clock=clock, jobs=jobs, progress=progress, nodes=world.nodes.copy(), gpus=world.gpus.copy(), slots=slots,
        lists=lists, use=use, instances=_instances(world, rows),
    )  # fmt: skip


def _instances(world: World, rows: ExcerptRows) -> I64:
    """What jobs say of their instances; those that come again have what they ask for."""
    if not world.instances.shape[1]:
        return world.instances
    found, again = world.instances[:, rows.taken], rows.repeats
    found[w.CPU_NOW, again], found[w.MEM_NOW, again] = world.jobs[w.CPU : w.MEM + 1, rows.taken[again]]
    found[w.SERVERS_NOW, again] = found[w.SERVERS, again]
    return found


def _numbers(numbers: I64, jobs: int) -> I64:
    """Numbers of jobs that come again: the first time of a job its own and that of all jobs, and so on."""
    found = numbers.copy()
    seen: dict[int, int] = {}
    for at, number in enumerate(numbers.tolist()):
        seen[number] = seen.get(number, 0) + 1
        found[at] = number + jobs * seen[number]
    return found


def _link(truth: I64, after: I64) -> None:
    """The jobs that wait for another, as linked lists."""
    truth[[CHILD, SIBLING]] = -1
    for job in np.flatnonzero(after >= 0)[::-1]:
        truth[SIBLING, job], truth[CHILD, after[job]] = truth[CHILD, after[job]], job


def _heap(state: SimulationState, rows: ExcerptRows) -> I64:
    before, jobs, size = len(rows.moved), len(rows.taken), int(state.counts[HEAP_SIZE])
    heap = np.zeros((4, jobs + state.heap.shape[1] - before), np.int64)
    heap[WHERE] = -1
    old = state.heap[ORDER, :size]
    new = np.where(old < before, rows.moved[np.minimum(old, before - 1)] if before else old, old - before + jobs)
    heap[ORDER, :size] = new
    heap[WHERE, new] = np.arange(size)
    for row in (TIME, PRIORITY):
        heap[row, new] = state.heap[row, old]
    return heap


def _traffic(traffic: Traffic, rows: ExcerptRows) -> Traffic:
    if not traffic.jobs.shape[1]:
        return traffic
    count = int(traffic.count[0])
    listed, jobs, stretch = (
        np.zeros(len(rows.taken), np.int64),
        traffic.jobs[:, rows.taken],
        traffic.stretch[rows.taken],
    )
    listed[:count] = rows.moved[traffic.listed[:count]]
    jobs[:, rows.repeats], stretch[rows.repeats] = 0, 1.0
    return traffic.replace(
        senders=traffic.senders.copy(), fair=traffic.fair.copy(), jobs=jobs, stretch=stretch, listed=listed,
        count=traffic.count.copy(),
    )  # fmt: skip

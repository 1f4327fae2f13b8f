"""Rows of the log, and the lists of jobs that wait, run, ended or arrived."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.sim.state import LOG_ROWS, SimulationState
from shunter.world import World


@kernel
def record(state: SimulationState, kind: int, job: int, a: int, b: int) -> None:
    """Append a row to the event log; the loop sees to it that there is room."""
    row = state.counts[LOG_ROWS]
    state.counts[LOG_ROWS] += 1
    state.log[row, 0] = state.world.clock[w.NOW]
    state.log[row, 1] = kind
    state.log[row, 2] = job
    state.log[row, 3] = a
    state.log[row, 4] = b


@kernel
def enlist(world: World, row: int, length: int, job: int) -> None:
    """Append a job to one of the lists without order."""
    at = world.clock[length]
    world.lists[row, at] = job
    world.clock[length] += 1
    if row <= w.L_RUNNING:
        world.jobs[w.AT, job] = at


@kernel
def strike(world: World, row: int, length: int, job: int) -> None:
    """Take a job off the pending or running list: the last one fills its place."""
    at = world.jobs[w.AT, job]
    world.clock[length] -= 1
    last = world.lists[row, world.clock[length]]
    world.lists[row, at] = last
    world.jobs[w.AT, last] = at


@kernel
def trade_places(world: World, job: int, other: int) -> None:
    """A running job and a pending one change lists, as if the first were struck and enlisted, and then the second."""
    jobs, lists = world.jobs, world.lists
    at, place, last = jobs[w.AT, job], jobs[w.AT, other], world.clock[w.N_RUNNING] - 1
    lists[w.L_RUNNING, at] = lists[w.L_RUNNING, last]
    jobs[w.AT, lists[w.L_RUNNING, at]] = at
    lists[w.L_RUNNING, last] = other
    lists[w.L_PENDING, place] = job
    jobs[w.AT, job], jobs[w.AT, other] = place, last

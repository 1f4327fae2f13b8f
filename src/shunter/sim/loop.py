"""From one decision to the next: the events of an instant, the actions of a plan, the compiled form of ``drive``."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from numba import types

from shunter import world as w
from shunter.arrays import type_of
from shunter.capabilities import Compiled
from shunter.compiled import copy_into, kernel, pointer
from shunter.sim.checking import check, timer_source
from shunter.sim.events import K_FAILURE, K_FINISH, K_REPAIR, K_TIMER, KIND_SHIFT, cancel, next_time, schedule
from shunter.sim.node_changes import announce, assign, break_down, bring_up, power
from shunter.sim.state import (
    EXPIRED,
    FAULT_DRAINS,
    FAULT_END,
    FAULT_NODE,
    FAULT_TIME,
    LOG_MARGIN,
    LOG_ROWS,
    MORE,
    NEXT_ARRIVAL,
    NEXT_FAULT,
    ORDER,
    PRIORITY,
    REASON_ROWS,
    UNFINISHED,
    WHERE,
    SimulationState,
)
from shunter.sim.transitions import (
    admit,
    checkpointed,
    fail,
    finish,
    may_replace,
    move,
    preempt,
    renew,
    replace,
    start,
)
from shunter.world import I64, Decision, World

# -- what `advance` and `run` answer
OVER, DECIDE, LOG_FULL, PAUSED, REFUSED = range(5)


@kernel
def advance(state: SimulationState, until: int) -> int:
    """Let everything happen that happens at the next instant; then the policy is to decide."""
    clock, counts = state.world.clock, state.counts
    if counts[MORE] == 0:
        clock[w.N_ENDED] = 0
        clock[w.N_ARRIVED] = 0
        if counts[EXPIRED] == 1 and end_leases(state):
            return DECIDE
        time = next_instant(state)
        if time == w.NEVER:
            return OVER
        if time > until:
            return PAUSED
        clock[w.NOW] = time
    counts[MORE] = 1
    while next_event(state):
        if counts[LOG_ROWS] + counts[LOG_MARGIN] > len(state.log):
            return LOG_FULL
    counts[MORE] = 0
    return DECIDE


@kernel
def next_instant(state: SimulationState) -> int:
    """When something happens next."""
    if state.counts[UNFINISHED] == 0:
        return w.NEVER
    time = next_time(state.heap, state.counts)
    if state.counts[NEXT_ARRIVAL] < state.world.jobs.shape[1]:
        time = min(time, state.world.jobs[w.SUBMIT, state.counts[NEXT_ARRIVAL]])
    if state.counts[NEXT_FAULT] < len(state.faults):
        time = min(time, state.faults[state.counts[NEXT_FAULT], FAULT_TIME])
    return int(max(time, state.world.clock[w.NOW]))


@kernel
def next_event(state: SimulationState) -> bool:
    """Handle one event of this instant, in the order of kinds; false if there is none left."""
    world, counts, heap = state.world, state.counts, state.heap
    now = world.clock[w.NOW]
    kind, source = K_TIMER + 1, -1
    if next_time(heap, counts) == now:
        source = heap[ORDER, 0]
        kind = heap[PRIORITY, source] >> KIND_SHIFT
    if kind <= K_FAILURE:
        cancel(heap, counts, source)
        if world.jobs[w.STATE, source] == w.STOPPING:
            checkpointed(state, source, w.BY_POLICY if world.jobs[w.UNTIL, source] == w.NEVER else w.BY_LEASE)
        elif kind == K_FINISH:
            finish(state, source)
        else:
            fail(state, source)
        return True
    if counts[NEXT_FAULT] < len(state.faults) and state.faults[counts[NEXT_FAULT], FAULT_TIME] <= now:
        fault = state.faults[counts[NEXT_FAULT]]
        counts[NEXT_FAULT] += 1
        announce(state, fault[FAULT_NODE])
        break_down(state, fault[FAULT_NODE], fault[FAULT_END], fault[FAULT_DRAINS] == 1)
        return True
    if kind == K_REPAIR:
        cancel(heap, counts, source)
        bring_up(state, source - world.jobs.shape[1])
        return True
    arrival = counts[NEXT_ARRIVAL]
    if arrival < world.jobs.shape[1] and world.jobs[w.SUBMIT, arrival] <= now:
        counts[NEXT_ARRIVAL] += 1
        if world.jobs[w.STATE, arrival] == w.FUTURE:
            admit(state, arrival)
        return True
    if kind == K_TIMER:
        cancel(heap, counts, source)
        if source < world.jobs.shape[1]:
            counts[EXPIRED] = 1
        return True
    return False


@kernel
def end_leases(state: SimulationState) -> bool:
    """Stop the jobs whose lease ended without being renewed; true if there were any."""
    world = state.world
    state.counts[EXPIRED] = 0
    stopped = False
    for at in range(world.clock[w.N_RUNNING] - 1, -1, -1):
        job = world.lists[w.L_RUNNING, at]
        if world.jobs[w.UNTIL, job] <= world.clock[w.NOW] and world.jobs[w.STATE, job] == w.RUNNING:
            preempt(state, job, True, w.BY_LEASE)
            stopped = True
    return stopped


@kernel
def perform(state: SimulationState, plan: Decision) -> bool:
    """Do a checked plan; true if it did more than set timers, so that the policy is to be asked again."""
    clock = state.world.clock
    clock[w.N_ENDED] = 0
    clock[w.N_ARRIVED] = 0
    used, replaced, changed = 0, -1, False
    for i in range(plan.counts[0]):
        kind, target, arg = plan.actions[i, w.KIND], plan.actions[i, w.TARGET], plan.actions[i, w.ARG]
        cpu, mem, servers = plan.actions[i, w.EACH_CPU], plan.actions[i, w.EACH_MEM], plan.actions[i, w.SERVING]
        size = plan.actions[i, w.SIZE] % w.SHARED
        gpu_ids = plan.gpu_ids[used : used + size]
        used += size
        changed = changed or kind != w.A_TIMER
        if kind == w.A_START:
            if replaced >= 0:
                replace(state, replaced, target, gpu_ids, arg)
                replaced = -1
            elif state.world.jobs[w.STATE, target] == w.RUNNING:
                renew(state, target, arg)
            else:
                start(state, target, gpu_ids, arg, cpu, mem, servers)
        elif kind == w.A_PREEMPT:
            if arg == 1 and starts_there_next(state, plan, i, plan.gpu_ids[used:]):
                replaced = target
            else:
                preempt(state, target, arg == 1, w.BY_POLICY)
        elif kind == w.A_POWER:
            power(state, target, arg == 1)
        elif kind == w.A_ASSIGN:
            assign(state, target, arg)
        elif kind == w.A_TIMER:
            source = timer_source(state, arg)
            if state.heap[WHERE, source] < 0:
                schedule(state.heap, state.counts, source, arg, K_TIMER)
        else:
            move(state, target, gpu_ids, cpu, mem, servers)
    return changed


@kernel
def starts_there_next(state: SimulationState, plan: Decision, index: int, gpu_ids: I64) -> bool:
    """Whether the action after a Preempt starts another job on the very GPUs, which come first in ``gpu_ids``."""
    following = index + 1
    if following == plan.counts[0] or plan.actions[following, w.KIND] != w.A_START:
        return False
    size = plan.actions[following, w.SIZE] % w.SHARED
    return may_replace(state, plan.actions[index, w.TARGET], plan.actions[following, w.TARGET], gpu_ids[:size])


@kernel
def keep_reasons(state: SimulationState, plan: Decision) -> None:
    """Note what a plan says about why jobs wait."""
    for i in range(plan.counts[2]):
        row = state.reasons_log[state.counts[REASON_ROWS]]
        row[0] = state.world.clock[w.NOW]
        copy_into(row[1:], plan.reasons[i])
        state.counts[REASON_ROWS] += 1


@kernel
def have_started(world: World, jobs: I64) -> bool:
    """Whether all of these jobs have started; false if there are none."""
    for at in range(len(jobs)):
        if world.jobs[w.STARTED, jobs[at]] < 0:
            return False
    return len(jobs) > 0


class EnginePointers(NamedTuple):
    """Pointers to what the loop of every policy calls: it is compiled once for all of them."""

    advance: Any
    check: Any
    perform: Any


@cache
def engine() -> EnginePointers:
    """The engine as machine code."""
    state, plan = type_of(SimulationState), type_of(Decision)
    return EnginePointers(
        pointer(advance, types.int64(state, types.int64)),
        pointer(check, types.int64(state, plan)),
        pointer(perform, types.boolean(state, plan)),
    )


@kernel
def run(
    state: SimulationState,
    engine: EnginePointers,
    form: Compiled,
    plan: Decision,
    until: int,
    budget: int,
    awaited: I64,
) -> int:
    """``drive`` compiled: advance, decide, apply, until the end, ``until``, the last awaited start or the budget."""
    for _ in range(budget):
        if have_started(state.world, awaited):
            return PAUSED
        status: int = engine.advance(state, until)
        if status != DECIDE:
            return status
        while True:
            if state.counts[LOG_ROWS] + state.counts[LOG_MARGIN] > len(state.log):
                state.counts[MORE] = 1  # come back to this very decision with an empty log
                return LOG_FULL
            if state.counts[REASON_ROWS] + len(plan.reasons) > len(state.reasons_log):
                state.counts[MORE] = 1
                return LOG_FULL
            plan.counts[0] = 0
            plan.counts[1] = 0
            plan.counts[2] = 0
            form.decide(state.world, form.memory, form.parts, plan)
            keep_reasons(state, plan)
            if plan.counts[0] == 0:
                break
            if engine.check(state, plan) > 0:
                return REFUSED
            if not engine.perform(state, plan):
                break
    return DECIDE

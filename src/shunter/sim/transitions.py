"""What can happen to a job."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import copy_into, kernel
from shunter.sim.events import K_FINISH, cancel, pass_on, schedule
from shunter.sim.lists import enlist, record, strike, trade_places
from shunter.sim.occupying import equip, hand_over, may_hand_over, release, take, unequip
from shunter.sim.progress import SLACK, retime, retime_beside, settle
from shunter.sim.state import (
    ADMITTED,
    BASE,
    CHILD,
    DURATION,
    FAILURES,
    INTERVAL,
    KEPT_FIRST,
    KEPT_LAST,
    KEPT_NEXT,
    SIBLING,
    UNFINISHED,
    SimulationState,
)
from shunter.world import I64, World


@kernel
def enqueue(state: SimulationState, job: int) -> None:
    """A job begins to wait."""
    world = state.world
    enlist(world, w.L_PENDING, w.N_PENDING, job)
    wait(world, job)


@kernel
def wait(world: World, job: int) -> None:
    """A job that is on the pending list has waited since now."""
    world.jobs[w.STATE, job] = w.PENDING
    world.jobs[w.WAITING_SINCE, job] = world.clock[w.NOW]
    enlist(world, w.L_ARRIVED, w.N_ARRIVED, job)


@kernel
def admit(state: SimulationState, job: int) -> None:
    """A job was submitted: it waits in the queue, or is held until the job that it comes after has ended."""
    world = state.world
    parent = world.jobs[w.AFTER, job]
    if parent >= 0 and world.jobs[w.STATE, parent] < w.DONE:
        world.jobs[w.STATE, job] = w.HELD
        return
    world.jobs[w.ELIGIBLE, job] = world.clock[w.NOW]
    if kept_back(state, job):
        world.jobs[w.STATE, job] = w.HELD
    else:
        enqueue(state, job)
    record(state, w.ARRIVE, job, 0, 0)


@kernel
def asked(world: World, job: int) -> int:
    """Thousandths of GPUs that a job asks for."""
    return int(world.jobs[w.GPUS, job] * world.jobs[w.SHARE, job])


@kernel
def kept_back(state: SimulationState, job: int) -> bool:
    """Whether a job must wait outside the queue, behind others of its user, because these have all that one may have.

    A job that asks for more than that runs alone.
    """
    user, quota = state.world.jobs[w.USER, job], state.quota
    if user < 0 or user >= quota.shape[1]:
        return False
    wanted = quota[ADMITTED, user] + asked(state.world, job)
    if quota[KEPT_FIRST, user] < 0 and (wanted <= state.cap[0] or quota[ADMITTED, user] == 0):
        quota[ADMITTED, user] = wanted
        return False
    if quota[KEPT_FIRST, user] < 0:
        quota[KEPT_FIRST, user] = job
    else:
        state.truth[KEPT_NEXT, quota[KEPT_LAST, user]] = job
    quota[KEPT_LAST, user] = job
    return True


@kernel
def let_in(state: SimulationState, job: int) -> None:
    """A job has ended: others of its user that were kept back come into the queue; they have waited since they came."""
    world, quota, user = state.world, state.quota, state.world.jobs[w.USER, job]
    if user < 0 or user >= quota.shape[1]:
        return
    quota[ADMITTED, user] -= asked(world, job)
    other = quota[KEPT_FIRST, user]
    while other >= 0 and (quota[ADMITTED, user] == 0 or quota[ADMITTED, user] + asked(world, other) <= state.cap[0]):
        quota[ADMITTED, user] += asked(world, other)
        enqueue(state, other)
        world.jobs[w.WAITING_SINCE, other] = world.jobs[w.ELIGIBLE, other]
        other = state.truth[KEPT_NEXT, other]
    quota[KEPT_FIRST, user] = other


@kernel
def start(state: SimulationState, job: int, gpu_ids: I64, until: int, cpu: int, mem: int, servers: int) -> None:
    """A pending job begins to run; one that ran before pays for its restart first."""
    strike(state.world, w.L_PENDING, w.N_PENDING, job)
    enlist(state.world, w.L_RUNNING, w.N_RUNNING, job)
    begin(state.world, job, until)
    equip(state, job, len(gpu_ids), cpu, mem, servers)
    take(state, job, gpu_ids)
    set_off(state, job, gpu_ids)


@kernel
def begin(world: World, job: int, until: int) -> None:
    """A job that is on the running list runs from now on."""
    jobs, now = world.jobs, world.clock[w.NOW]
    jobs[w.WAITED, job] += now - jobs[w.WAITING_SINCE, job]
    jobs[w.STATE, job] = w.RUNNING
    jobs[w.BEGUN, job] = now
    jobs[w.UNTIL, job] = until if jobs[w.CHECKPOINTABLE, job] == 1 else w.NEVER
    jobs[w.SINCE, job] = now


@kernel
def set_off(state: SimulationState, job: int, gpu_ids: I64) -> None:
    """A job that has got its GPUs starts to work there, at once or after its restart."""
    world = state.world
    if world.jobs[w.STARTED, job] < 0:
        if state.uses.shape[1] > 0:
            copy_into(world.use[:, job], state.uses[:, state.workload[job]])
        world.jobs[w.STARTED, job] = world.clock[w.NOW]
        world.jobs[w.ATTEMPTS, job] = 1
    else:
        pay(state, job, world.jobs[w.RESTART, job])
    retime(state, job)
    retime_beside(state, job, gpu_ids)


@kernel
def pay(state: SimulationState, job: int, cost: int) -> None:
    """The job holds its GPUs for ``cost`` ms from now on without progress."""
    state.world.jobs[w.SINCE, job] = state.world.clock[w.NOW] + cost
    state.world.jobs[w.LOST, job] += gpu_time(state.world, job, cost)


@kernel
def refund(state: SimulationState, job: int) -> None:
    """What was to be paid but is cut short by something else was not lost after all."""
    left = state.world.jobs[w.SINCE, job] - state.world.clock[w.NOW]
    if left > 0:
        state.world.jobs[w.LOST, job] -= gpu_time(state.world, job, left)


@kernel
def gpu_time(world: World, job: int, time: int) -> int:
    """GPU-ms that a job takes in so long on what it holds."""
    return int(time * world.jobs[w.WORKERS, job] * world.jobs[w.SHARE, job] // 1000)


@kernel
def account(state: SimulationState, job: int) -> None:
    """Close the present stretch of running: what was executed and attained in it."""
    jobs, now = state.world.jobs, state.world.clock[w.NOW]
    ran = now - jobs[w.BEGUN, job]
    jobs[w.EXECUTED, job] += ran
    jobs[w.ATTAINED, job] += gpu_time(state.world, job, ran)
    jobs[w.BEGUN, job] = now


@kernel
def leave(state: SimulationState, job: int) -> None:
    """A job gives up its GPUs, whatever becomes of it."""
    account(state, job)
    refund(state, job)
    cancel(state.heap, state.counts, job)
    strike(state.world, w.L_RUNNING, w.N_RUNNING, job)
    release(state, job)
    unequip(state.world, job)
    stand_idle(state.world, job)


@kernel
def stand_idle(world: World, job: int) -> None:
    """A job that has no GPUs any more does nothing."""
    world.jobs[w.UNTIL, job] = w.NEVER
    world.jobs[w.WORKERS, job] = 0
    world.progress[w.RATE, job] = 0.0


@kernel
def end(state: SimulationState, job: int, outcome: int) -> None:
    """A job has ended for good; those that come after it may wait in the queue now."""
    world = state.world
    leave(state, job)
    world.jobs[w.STATE, job] = outcome
    world.jobs[w.ENDED_AT, job] = world.clock[w.NOW]
    enlist(world, w.L_ENDED, w.N_ENDED, job)
    state.counts[UNFINISHED] -= 1
    let_in(state, job)
    child = state.truth[CHILD, job]
    while child >= 0:
        if world.jobs[w.STATE, child] == w.HELD:
            admit(state, child)
        child = state.truth[SIBLING, child]


@kernel
def finish(state: SimulationState, job: int) -> None:
    """A job has done all its work."""
    settle(state, job)
    state.world.progress[w.WORK, job] = state.truth[DURATION, job]
    record(state, w.FINISH, job, 0, 0)
    end(state, job, w.DONE)


@kernel
def roll_back(state: SimulationState, job: int) -> int:
    """A job loses what it did since its last checkpoint; returns the lost work in ms, on the GPUs that it asked for."""
    settle(state, job)
    progress = state.world.progress
    kept, interval = progress[w.SAVED, job], state.truth[INTERVAL, job]
    if interval > 0:
        kept += math.floor((progress[w.WORK, job] - kept + SLACK) / interval) * interval
    lost: int = round(progress[w.WORK, job] - kept)
    progress[w.WORK, job] = kept
    progress[w.SAVED, job] = kept
    state.world.jobs[w.LOST, job] += lost * state.world.jobs[w.GPUS, job] * state.world.jobs[w.SHARE, job] // 1000
    return lost


@kernel
def fail(state: SimulationState, job: int) -> None:
    """An attempt failed by itself: the job is tried again from its last checkpoint, or given up."""
    world = state.world
    roll_back(state, job)
    state.truth[FAILURES, job] -= 1
    state.truth[BASE, job] = int(world.progress[w.WORK, job])
    if world.jobs[w.RETRIES, job] <= 0:
        record(state, w.FAIL, job, 1, 0)
        end(state, job, w.FAILED)
        return
    world.jobs[w.RETRIES, job] -= 1
    world.jobs[w.ATTEMPTS, job] += 1
    record(state, w.FAIL, job, 0, 0)
    leave(state, job)
    enqueue(state, job)


@kernel
def kill(state: SimulationState, job: int, cause: int) -> None:
    """A job is thrown off its GPUs at once and waits again."""
    lost = roll_back(state, job)
    state.truth[BASE, job] = int(state.world.progress[w.WORK, job])
    evict(state, job, cause, lost)


@kernel
def evict(state: SimulationState, job: int, cause: int, lost: int) -> None:
    """A job goes back into the queue."""
    record(state, w.PREEMPT, job, cause, lost)
    state.world.jobs[w.PREEMPTIONS, job] += 1
    leave(state, job)
    enqueue(state, job)


@kernel
def checkpointed(state: SimulationState, job: int, cause: int) -> None:
    """All that the job did is safe; it goes back into the queue."""
    state.world.progress[w.SAVED, job] = state.world.progress[w.WORK, job]
    evict(state, job, cause, 0)


@kernel
def preempt(state: SimulationState, job: int, keep: bool, cause: int) -> None:
    """A running job is stopped; with ``keep`` it is checkpointed first, if it can be, and holds its GPUs that long."""
    if not keep or state.world.jobs[w.STOP_LOSS, job] > 0:
        kill(state, job, cause)
        return
    settle(state, job)
    world, cost = state.world, state.world.jobs[w.STOP_COST, job]
    if cost == 0:
        checkpointed(state, job, cause)
        return
    world.jobs[w.STATE, job] = w.STOPPING
    world.progress[w.RATE, job] = 0.0
    if cause == w.BY_POLICY:
        world.jobs[w.UNTIL, job] = w.NEVER  # else it says until the end why the job was stopped
    refund(state, job)
    pay(state, job, cost)
    record(state, w.STOP, job, cause, cost)
    schedule(state.heap, state.counts, job, world.clock[w.NOW] + cost, K_FINISH)


@kernel
def may_replace(state: SimulationState, job: int, other: int, gpu_ids: I64) -> bool:
    """Whether stopping a running job, which is checkpointed, and starting another that waits is a plain exchange."""
    jobs = state.world.jobs
    if job == other or jobs[w.STATE, job] != w.RUNNING or jobs[w.STATE, other] != w.PENDING:
        return False
    if jobs[w.STOP_COST, job] > 0 or jobs[w.STOP_LOSS, job] > 0:
        return False
    return may_hand_over(state, job, other, gpu_ids)


@kernel
def replace(state: SimulationState, job: int, other: int, gpu_ids: I64, until: int) -> None:
    """What ``preempt`` and ``start`` come to where ``other`` starts on the GPUs that a job leaves."""
    world = state.world
    settle(state, job)
    world.progress[w.SAVED, job] = world.progress[w.WORK, job]
    record(state, w.PREEMPT, job, w.BY_POLICY, 0)
    world.jobs[w.PREEMPTIONS, job] += 1
    account(state, job)
    refund(state, job)
    trade_places(world, job, other)
    wait(world, job)
    stand_idle(world, job)
    begin(world, other, until)
    hand_over(state, job, other, gpu_ids)
    pass_on(state.heap, job, other)
    set_off(state, other, gpu_ids)


@kernel
def move(state: SimulationState, job: int, gpu_ids: I64, cpu: int, mem: int, servers: int) -> None:
    """A running job goes on elsewhere, on as many GPUs or on more or fewer, after a checkpoint and a restart."""
    world = state.world
    if world.jobs[w.STOP_LOSS, job] > 0:
        roll_back(state, job)
        state.truth[BASE, job] = int(world.progress[w.WORK, job])
    settle(state, job)
    account(state, job)
    refund(state, job)
    world.progress[w.SAVED, job] = world.progress[w.WORK, job]
    record(state, w.MOVE, job, world.jobs[w.WORKERS, job], len(gpu_ids))
    release(state, job)
    equip(state, job, len(gpu_ids), cpu, mem, servers)
    take(state, job, gpu_ids)
    pay(state, job, world.jobs[w.STOP_COST, job] + world.jobs[w.RESTART, job])
    retime(state, job)
    retime_beside(state, job, gpu_ids)


@kernel
def renew(state: SimulationState, job: int, until: int) -> None:
    """The lease of a job that keeps its GPUs is prolonged; that costs nothing."""
    state.world.jobs[w.UNTIL, job] = until
    retime(state, job)

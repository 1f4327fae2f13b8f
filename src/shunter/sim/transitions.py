"""What can happen to a job and to a node.  Every change of the state is made here."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import copy_into, kernel
from shunter.sim.events import K_FAILURE, K_FINISH, K_REPAIR, K_TIMER, cancel, schedule
from shunter.sim.links import PLACE, REACH, enter, may_meet, stretch_of
from shunter.sim.links import leave as leave_links
from shunter.sim.speed import note_spread, speed, spread_speed
from shunter.sim.state import (
    ADMITTED,
    BASE,
    CHILD,
    DURATION,
    FAIL_AFTER,
    FAILURES,
    FAULT_KNOWN,
    FAULT_NODE,
    FAULT_TIME,
    INTERVAL,
    KEPT_FIRST,
    KEPT_LAST,
    KEPT_NEXT,
    LOG_ROWS,
    NEXT_FAULT,
    SIBLING,
    TIME,
    UNFINISHED,
    WHERE,
    SimulationState,
)
from shunter.world import I64, World

SLACK = 1e-6  # ms; what sums of floats may be off without an end or a checkpoint moving by a whole step


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


# ------------------------------------------------------------------------------------------- progress and speed


@kernel
def settle(state: SimulationState, job: int) -> None:
    """Count the work done up to now at the speed so far, and the time that went into communication."""
    now, progress = state.world.clock[w.NOW], state.world.progress
    if now > state.world.jobs[w.SINCE, job]:
        elapsed = now - state.world.jobs[w.SINCE, job]
        progress[w.WORK, job] += elapsed * progress[w.RATE, job]
        if progress[w.SPREAD, job] != 1.0:
            progress[w.COMMUNICATION, job] += elapsed * (1.0 - progress[w.SPREAD, job])
        state.world.jobs[w.SINCE, job] = now


@kernel
def retime(state: SimulationState, job: int) -> None:
    """Take the job's present speed and move its next event: its end, its failure, or the end of its lease."""
    settle(state, job)
    rate = speed(state, job)
    state.world.progress[w.RATE, job] = rate
    target, kind = float(state.truth[DURATION, job]), K_FINISH
    if state.truth[FAILURES, job] > 0:
        target = min(target, float(state.truth[BASE, job] + state.truth[FAIL_AFTER, job]))
        kind = K_FAILURE
    remaining = max(target - state.world.progress[w.WORK, job], 0.0)
    end = state.world.jobs[w.SINCE, job] + math.ceil(remaining / rate - SLACK)
    if state.world.jobs[w.UNTIL, job] < end:
        end, kind = state.world.jobs[w.UNTIL, job], K_TIMER
    schedule(state.heap, state.counts, job, end, kind)


@kernel
def retime_all(state: SimulationState) -> None:
    """Move the next event of every job that runs."""
    for at in range(state.world.clock[w.N_RUNNING]):
        job = state.world.lists[w.L_RUNNING, at]
        if state.world.jobs[w.STATE, job] == w.RUNNING:
            retime(state, job)


@kernel
def is_on(world: World, job: int, gpu: int) -> bool:
    """Whether a job is on a GPU; none is on -1."""
    per_gpu = world.clock[w.SLOTS_PER_GPU]
    for slot in range(gpu * per_gpu, (gpu + 1) * per_gpu if gpu >= 0 else gpu * per_gpu):
        if world.slots[w.SLOT_JOB, slot] == job:
            return True
    return False


@kernel
def retime_neighbours(state: SimulationState, gpu: int, job: int, following: int) -> None:
    """A job came to or left a GPU: the other tenants' speeds change.

    Jobs that are also on the ``following`` GPU (-1: none) are left for then, or large ones would be retimed once
    for every GPU.
    """
    per_gpu = state.world.clock[w.SLOTS_PER_GPU]
    for slot in range(gpu * per_gpu, (gpu + 1) * per_gpu):
        other = state.world.slots[w.SLOT_JOB, slot]
        if other < 0 or other == job or is_on(state.world, other, following):
            continue
        if state.world.jobs[w.STATE, other] == w.RUNNING:
            retime(state, other)


@kernel
def retime_beside(state: SimulationState, job: int, gpu_ids: I64) -> None:
    """A job came to these GPUs: those that it shares them with change their speed."""
    for i in range(len(gpu_ids)):
        if state.world.gpus[w.TENANTS, gpu_ids[i]] > 1:
            retime_neighbours(state, gpu_ids[i], job, gpu_ids[i + 1] if i + 1 < len(gpu_ids) else -1)


@kernel
def share_links(state: SimulationState, job: int) -> None:
    """A job came to or left its links: it and those that share one with it get what is theirs now."""
    world, traffic = state.world, state.traffic
    for at in range(traffic.count[0]):
        other = traffic.listed[at]
        if not may_meet(world, traffic, job, other):
            continue
        stretch = stretch_of(world, traffic, other)
        if stretch != traffic.stretch[other]:
            settle(state, other)
            traffic.stretch[other] = stretch
            widest, place = traffic.jobs[REACH, other], traffic.jobs[PLACE, other]
            world.progress[w.SPREAD, other] = spread_speed(state, other, widest, place, stretch)
            if other != job and world.jobs[w.STATE, other] == w.RUNNING:
                retime(state, other)


@kernel
def spread_out(state: SimulationState, job: int) -> None:
    """A job was put on several GPUs: that may cost it speed, and others whose links it uses."""
    note_spread(state, job)
    if len(state.traffic.capacity) > 0 and state.traffic.jobs[REACH, job] > 0:
        enter(state.world, state.traffic, job)
        share_links(state, job)


# ------------------------------------------------------------------------------------------- taking and releasing GPUs


@kernel
def take(state: SimulationState, job: int, gpu_ids: I64) -> None:
    """Put a job on GPUs (ascending) and log it, one row per node."""
    world = state.world
    jobs, gpus, nodes = world.jobs, world.gpus, world.nodes
    per_gpu, share = world.clock[w.SLOTS_PER_GPU], jobs[w.SHARE, job]
    jobs[w.HEAD, job] = -1
    here, count = -1, 0
    for i in range(len(gpu_ids)):
        gpu = gpu_ids[i]
        slot = gpu * per_gpu
        while world.slots[w.SLOT_JOB, slot] >= 0:
            slot += 1
        world.slots[w.SLOT_JOB, slot] = job
        world.slots[w.SLOT_NEXT, slot] = jobs[w.HEAD, job]
        jobs[w.HEAD, job] = slot
        node = gpus[w.NODE, gpu]
        if gpus[w.TENANTS, gpu] == 0:
            nodes[w.FREE, node] -= 1
        gpus[w.TENANTS, gpu] += 1
        gpus[w.USED, gpu] += share
        nodes[w.CHANGES, node] += 1
        nodes[w.CPU_FREE, node] -= jobs[w.CPU, job]
        nodes[w.MEM_FREE, node] -= jobs[w.MEM, job]
        if node != here and count > 0:
            record(state, w.START, job, here, count * share)
            count = 0
        here = node
        count += 1
    record(state, w.START, job, here, count * share)
    jobs[w.WORKERS, job] = len(gpu_ids)
    world.progress[w.SPREAD, job] = 1.0
    if len(gpu_ids) > 1 and len(state.tier_speed) + len(state.network.key) > 0:
        spread_out(state, job)


@kernel
def release(state: SimulationState, job: int) -> None:
    """Take a job off its GPUs; the jobs that stay run faster."""
    world = state.world
    if len(state.traffic.capacity) > 0 and state.traffic.jobs[REACH, job] > 0:
        leave_links(world, state.traffic, job)
        share_links(state, job)
        state.traffic.jobs[REACH, job] = 0
    jobs, gpus, nodes, slots = world.jobs, world.gpus, world.nodes, world.slots
    slot, share = jobs[w.HEAD, job], jobs[w.SHARE, job]
    while slot >= 0:
        gpu, following = slots[w.SLOT_GPU, slot], slots[w.SLOT_NEXT, slot]
        node = gpus[w.NODE, gpu]
        slots[w.SLOT_JOB, slot] = -1
        gpus[w.TENANTS, gpu] -= 1
        gpus[w.USED, gpu] -= share
        nodes[w.CHANGES, node] += 1
        nodes[w.CPU_FREE, node] += jobs[w.CPU, job]
        nodes[w.MEM_FREE, node] += jobs[w.MEM, job]
        if gpus[w.TENANTS, gpu] == 0:
            if nodes[w.NODE_STATE, node] == w.UP:
                nodes[w.FREE, node] += 1
        else:
            retime_neighbours(state, gpu, job, slots[w.SLOT_GPU, following] if following >= 0 else -1)
        slot = following
    jobs[w.HEAD, job] = -1
    world.clock[w.RELEASES] += 1


# ------------------------------------------------------------------------------------------- the course of a job


@kernel
def enqueue(state: SimulationState, job: int) -> None:
    """A job begins to wait."""
    world = state.world
    world.jobs[w.STATE, job] = w.PENDING
    world.jobs[w.WAITING_SINCE, job] = world.clock[w.NOW]
    enlist(world, w.L_PENDING, w.N_PENDING, job)
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
def start(state: SimulationState, job: int, gpu_ids: I64, until: int) -> None:
    """A pending job begins to run; one that ran before pays for its restart first."""
    world = state.world
    jobs, now = world.jobs, world.clock[w.NOW]
    strike(world, w.L_PENDING, w.N_PENDING, job)
    enlist(world, w.L_RUNNING, w.N_RUNNING, job)
    jobs[w.WAITED, job] += now - jobs[w.WAITING_SINCE, job]
    jobs[w.STATE, job] = w.RUNNING
    jobs[w.BEGUN, job] = now
    jobs[w.UNTIL, job] = until if jobs[w.CHECKPOINTABLE, job] == 1 else w.NEVER
    state.world.jobs[w.SINCE, job] = now
    take(state, job, gpu_ids)
    if jobs[w.STARTED, job] < 0:
        if state.uses.shape[1] > 0:
            copy_into(world.use[:, job], state.uses[:, state.workload[job]])
        jobs[w.STARTED, job] = now
        jobs[w.ATTEMPTS, job] = 1
    else:
        pay(state, job, state.world.jobs[w.RESTART, job])
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
    state.world.jobs[w.UNTIL, job] = w.NEVER
    state.world.jobs[w.WORKERS, job] = 0
    state.world.progress[w.RATE, job] = 0.0


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
def move(state: SimulationState, job: int, gpu_ids: I64) -> None:
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
    take(state, job, gpu_ids)
    pay(state, job, world.jobs[w.STOP_COST, job] + world.jobs[w.RESTART, job])
    retime(state, job)
    retime_beside(state, job, gpu_ids)


@kernel
def renew(state: SimulationState, job: int, until: int) -> None:
    """The lease of a job that keeps its GPUs is prolonged; that costs nothing."""
    state.world.jobs[w.UNTIL, job] = until
    retime(state, job)


# ------------------------------------------------------------------------------------------- nodes


@kernel
def node_source(state: SimulationState, node: int) -> int:
    """The event source of a node: they come after the jobs'."""
    return int(state.world.jobs.shape[1] + node)


@kernel
def bring_up(state: SimulationState, node: int) -> None:
    """A node is repaired or awake: its free GPUs count again."""
    world = state.world
    world.nodes[w.NODE_STATE, node] = w.UP
    first = world.nodes[w.FIRST_GPU, node]
    free = 0
    for gpu in range(first, first + world.nodes[w.TOTAL, node]):
        if world.gpus[w.TENANTS, gpu] == 0:
            free += 1
    world.nodes[w.FREE, node] = free
    world.clock[w.RELEASES] += 1
    record(state, w.NODE_UP, -1, node, 0)


@kernel
def break_down(state: SimulationState, node: int, until: int, drains: bool) -> None:
    """A node fails or goes into maintenance: its jobs go back to the queue, or, where it drains, run to their end."""
    world = state.world
    source = node_source(state, node)
    if state.heap[WHERE, source] >= 0:  # it is down already, or waking up: it is not back before that is over too
        until = max(until, state.heap[TIME, source])
    if world.nodes[w.NODE_STATE, node] != w.DOWN:
        world.nodes[w.NODE_STATE, node] = w.DOWN
        world.nodes[w.FREE, node] = 0
        world.clock[w.RELEASES] += 1  # a blocked head may fit no better, but reservations must be made again
        record(state, w.NODE_DOWN, -1, node, int(drains))
    if not drains:
        kill_all(state, node)
    schedule(state.heap, state.counts, source, until, K_REPAIR)


@kernel
def kill_all(state: SimulationState, node: int) -> None:
    """Throw all jobs off a node."""
    world = state.world
    per_gpu, first = world.clock[w.SLOTS_PER_GPU], world.nodes[w.FIRST_GPU, node]
    for slot in range(first * per_gpu, (first + world.nodes[w.TOTAL, node]) * per_gpu):
        job = world.slots[w.SLOT_JOB, slot]
        if job >= 0:
            if world.jobs[w.STATE, job] == w.STOPPING:  # it was being checkpointed: that never finished
                world.jobs[w.STATE, job] = w.RUNNING
            kill(state, job, w.BY_FAILURE)


@kernel
def announce(state: SimulationState, node: int) -> None:
    """Set a node's next known outage."""
    state.world.nodes[w.OUTAGE, node] = w.NEVER
    for row in range(state.counts[NEXT_FAULT], len(state.faults)):
        if state.faults[row, FAULT_NODE] == node and state.faults[row, FAULT_KNOWN] == 1:
            state.world.nodes[w.OUTAGE, node] = state.faults[row, FAULT_TIME]
            return


@kernel
def power(state: SimulationState, node: int, on: bool) -> None:
    """Put an idle node to sleep at once, or wake a sleeping one, which takes a while."""
    world = state.world
    if not on:
        world.nodes[w.NODE_STATE, node] = w.ASLEEP
        world.nodes[w.FREE, node] = 0
        world.clock[w.RELEASES] += 1
        record(state, w.SLEEP, -1, node, 0)
        return
    world.nodes[w.NODE_STATE, node] = w.WAKING
    record(state, w.WAKE, -1, node, 0)
    schedule(state.heap, state.counts, node_source(state, node), world.clock[w.NOW] + state.wake[0], K_REPAIR)


@kernel
def assign(state: SimulationState, node: int, vc: int) -> None:
    """Move a node to another virtual cluster; what runs there runs on."""
    state.world.nodes[w.NODE_VC, node] = vc
    state.world.clock[w.RELEASES] += 1
    record(state, w.REASSIGN, -1, node, vc)

"""How far jobs are, how fast they run, and when their next event is."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.sim.events import K_FAILURE, K_FINISH, K_TIMER, schedule
from shunter.sim.links import PLACE, REACH, enter, may_meet, stretch_of
from shunter.sim.speed import note_spread, speed, spread_speed
from shunter.sim.state import BASE, DURATION, FAIL_AFTER, FAILURES, SimulationState
from shunter.world import I64, World

SLACK = 1e-6  # ms; what sums of floats may be off without an end or a checkpoint moving by a whole step


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

"""Lucid's reservations: nodes kept for the oldest job of a virtual cluster that is larger than a node."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.lucid.memory import LEVELS, QUEUED, LucidState, is_own
from shunter.policies.lucid.places import chosen, largest_node, suits
from shunter.scheduling.backfill.easy import sink_end
from shunter.world import I64, World


@kernel
def left_to_run(state: LucidState, expected: float, age: float) -> float:
    """The time that half of the jobs with this estimate which got so old still run (ms); as long again, if none did."""
    over = 0
    while over < LEVELS and expected * math.exp(state.odds[over]) <= age:
        over += 1
    if over == LEVELS or expected <= 0:
        return max(age, 1.0)
    return max(expected * math.exp(state.odds[(over + LEVELS) // 2]) - age, 1.0)


@kernel
def expected_end(world: World, state: LucidState, job: int) -> int:
    """When a running job should end, given how long it has run."""
    now = world.clock[w.NOW]
    return int(now + left_to_run(state, state.run_time[job], float(now - world.jobs[w.BEGUN, job])))


@kernel
def free_at(world: World, state: LucidState, gpu: int) -> int:
    """When a GPU should be free; 0: it is."""
    per_gpu, last = world.clock[w.SLOTS_PER_GPU], 0
    for slot in range(gpu * per_gpu, (gpu + 1) * per_gpu):
        job = world.slots[w.SLOT_JOB, slot]
        if job >= 0:
            last = max(last, expected_end(world, state, job))
    return int(last)


@kernel
def note_ends(world: World, state: LucidState, job: int) -> int:
    """Put on paper what is free where a job may run, and when the other GPUs should be; returns how many those are."""
    scratch, vc, count = state.scratch, world.jobs[w.VC, job], 0
    for node in range(world.nodes.shape[1]):
        mine = is_own(world, state, vc, node) and suits(world, job, node)
        scratch.usable[node] = world.nodes[w.FREE, node] if mine else 0
        scratch.total[node] = world.nodes[w.TOTAL, node] if mine else 0
        first = world.nodes[w.FIRST_GPU, node]
        for gpu in range(first, first + scratch.total[node]):
            end = free_at(world, state, gpu)
            if end > 0:
                scratch.ends[count], scratch.end_nodes[count] = end, node
                count += 1
    for at in range(count // 2 - 1, -1, -1):
        sink_end(scratch.ends, scratch.end_nodes, at, count)
    return count


@kernel
def keep(world: World, state: LucidState, job: int) -> None:
    """Keep the nodes for a job on which it should have room first; none, if it never has."""
    scratch, vc = state.scratch, world.jobs[w.VC, job] + 1
    ends, count = scratch.ends, note_ends(world, state, job)
    while count > 0:
        time = ends[0]
        while count > 0 and ends[0] == time:
            scratch.usable[scratch.end_nodes[0]] += 1
            count -= 1
            ends[0], scratch.end_nodes[0] = ends[count], scratch.end_nodes[count]
            sink_end(ends, scratch.end_nodes, 0, count)
        used = chosen(world, scratch, job)
        if used > 0:
            for i in range(used):
                state.kept[vc, scratch.nodes[i]] = 1
            state.kept_for[vc], state.kept_until[vc] = job, time
            return


@kernel
def keep_no_more(state: LucidState, vc: int) -> None:
    """Open the nodes of a virtual cluster that are kept to all."""
    state.kept[vc, :] = 0
    state.kept_for[vc] = -1


@kernel
def reconsider(world: World, state: LucidState, vc: int) -> None:
    """Drop a reservation whose job runs or is gone; make one again whose job should have had room by now."""
    job = state.kept_for[vc]
    if job < 0:
        return
    waits = state.stage[job] == QUEUED
    if waits and state.kept_until[vc] > world.clock[w.NOW]:
        return
    keep_no_more(state, vc)
    if waits:
        keep(world, state, job)


@kernel
def oldest_large(world: World, queue: I64) -> int:
    """The oldest job of a queue that is larger than a node; -1: there is none. Smaller ones seldom wait long."""
    oldest, node = -1, largest_node(world)
    for at in range(len(queue)):
        job = queue[at]
        if world.jobs[w.GPUS, job] > node and (oldest < 0 or job < oldest):  # jobs are numbered by their submissions
            oldest = job
    return int(oldest)


@kernel
def must_pass(world: World, state: LucidState, job: int) -> int:
    """1: a job must leave alone what is kept, because it should run longer than that, or for an unknown time."""
    vc = world.jobs[w.VC, job] + 1
    if state.kept_for[vc] < 0 or state.kept_for[vc] == job:
        return 0
    left = state.kept_until[vc] - world.clock[w.NOW]
    level = min(int(state.config.certainty * LEVELS), LEVELS - 1)
    longest = state.run_time[job] * math.exp(state.odds[level])
    return 0 if 0 < longest <= left else 1

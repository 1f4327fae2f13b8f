"""Lucid's indolent packing: a job may join another on the same GPUs if both are light enough."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.lucid.memory import (
    HEAVIEST,
    SCORES,
    UNKNOWN,
    LucidState,
)
from shunter.policies.lucid.places import largest_node, suits
from shunter.world import World


@kernel
def rate(world: World, state: LucidState, job: int) -> int:
    """The sharing score of a job, from what was seen of it; UNKNOWN if that is nothing."""
    if state.score[job] == UNKNOWN and not math.isnan(world.use[w.GPU_USE, job]):
        node = 0
        while state.tree.feature[node] >= 0:
            light = world.use[state.tree.feature[node], job] <= state.tree.bound[node]
            node = state.tree.below[node] if light else state.tree.above[node]
        state.score[job] = state.tree.score[node]
    return int(state.score[job])


@kernel
def may_share(world: World, state: LucidState, job: int) -> bool:
    """Whether a job is of a kind that is ever packed: whole GPUs of one node, and seen before."""
    if world.jobs[w.SHARE, job] != 1000 or world.jobs[w.GPUS, job] > largest_node(world):
        return False
    return rate(world, state, job) != UNKNOWN


@kernel
def group_of(world: World, state: LucidState, job: int, score: int) -> int:
    """The group of jobs that run alone, of a job's virtual cluster and size, with a score."""
    return int(((world.jobs[w.VC, job] + 1) * (largest_node(world) + 1) + world.jobs[w.GPUS, job]) * SCORES + score)


@kernel
def lives_alone(world: World, state: LucidState, job: int) -> None:
    """A job runs on GPUs of its own: others may join it, if all of them are on one node."""
    if state.group[job] >= 0 or not may_share(world, state, job):
        return
    slot = world.jobs[w.HEAD, job]
    node = world.gpus[w.NODE, slot // world.clock[w.SLOTS_PER_GPU]]
    while slot >= 0:
        if world.gpus[w.NODE, slot // world.clock[w.SLOTS_PER_GPU]] != node:
            return
        slot = world.slots[w.SLOT_NEXT, slot]
    group = group_of(world, state, job, rate(world, state, job))
    last = state.newest[group]
    state.before[job], state.after[job], state.group[job] = last, -1, group
    if last >= 0:
        state.after[last] = job
    else:
        state.oldest[group] = job
    state.newest[group] = job


@kernel
def no_longer_alone(state: LucidState, job: int) -> None:
    """A job has a partner or is off its GPUs."""
    group = state.group[job]
    if group < 0:
        return
    before, after = state.before[job], state.after[job]
    if before >= 0:
        state.after[before] = after
    else:
        state.oldest[group] = after
    if after >= 0:
        state.before[after] = before
    else:
        state.newest[group] = before
    state.group[job] = -1


@kernel
def part(world: World, state: LucidState, job: int) -> None:
    """A job is off its GPUs: a partner that stays runs alone again."""
    no_longer_alone(state, job)
    other = state.partner[job]
    state.partner[job] = -1
    if other >= 0 and state.partner[other] >= 0:
        state.partner[other] = -1
        if world.jobs[w.STATE, other] == w.RUNNING:
            lives_alone(world, state, other)


@kernel
def has_room_beside(world: World, state: LucidState, job: int, other: int, beside: int) -> bool:
    """Whether the node of a running job does for another: type, CPU and memory, and it is not kept."""
    node = world.gpus[w.NODE, world.jobs[w.HEAD, other] // world.clock[w.SLOTS_PER_GPU]]
    if beside == 1 and state.kept[world.jobs[w.VC, job] + 1, node] == 1:
        return False
    gpus = world.jobs[w.GPUS, job]
    cpu = world.nodes[w.CPU_FREE, node] >= world.jobs[w.CPU, job] * gpus
    return bool(suits(world, job, node) and cpu and world.nodes[w.MEM_FREE, node] >= world.jobs[w.MEM, job] * gpus)


@kernel
def find_partner(world: World, state: LucidState, job: int, beside: int) -> int:
    """The first resident that a job may join; -1: there is none, -2: only memory was in the way."""
    score, found = rate(world, state, job), -1
    for other_score in range(min(state.config.capacity - score, HEAVIEST) + 1):
        other = state.oldest[group_of(world, state, job, other_score)]
        while other >= 0:
            near = state.priority[job] <= state.config.ratio * state.priority[other]
            if near and has_room_beside(world, state, job, other, beside):
                if world.use[w.GPU_MEMORY, job] + world.use[w.GPU_MEMORY, other] < state.config.memory:
                    return int(other)
                found = -2
            other = state.after[other]
    return found


@kernel
def join(world: World, state: LucidState, job: int, other: int) -> None:
    """A job joins another."""
    no_longer_alone(state, other)
    state.partner[job], state.partner[other] = other, job
    at = state.pairs
    if at < len(state.joined.time):
        state.joined.time[at], state.joined.newcomer[at], state.joined.resident[at] = world.clock[w.NOW], job, other
        state.pairs += 1

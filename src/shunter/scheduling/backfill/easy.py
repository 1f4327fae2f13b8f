"""EASY backfilling (Lifka 1995) on nodes: a later job may start if it can't delay the first one's reservation."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.compiled import copy_into, kernel
from shunter.scheduling.backfill.bounds import FEWEST, bound_of
from shunter.scheduling.placing import (
    add_start,
    any_has_room,
    as_it_is,
    choose_share,
    copy_to_paper,
    find_gpus,
    held,
    in_the_way,
    needs_one_node,
    on_paper,
    open_to,
    put_on_paper,
)
from shunter.scheduling.queue.heaps import top
from shunter.scheduling.queue.queue import Paper, Parts, Queue, Scratch
from shunter.scheduling.queue.ranking import first_of, shortest_of
from shunter.world import I64, Decision, World


@kernel
def expected_end(world: World, queue: Queue, job: int) -> int:
    """By when a running job should have ended: by its bound, given how long it has run; one that stops, at once."""
    now, since = world.clock[w.NOW], world.jobs[w.SINCE, job]
    if world.jobs[w.STATE, job] == w.STOPPING:
        return int(now + 1)
    done, rate = world.progress[w.WORK, job], world.progress[w.RATE, job]
    work = done + max(now - since, 0) * rate
    bound = bound_of(queue.bounds, queue.estimate[job], world.jobs[w.LIMIT, job], work)
    return int(max(now + 1, since + np.ceil((bound - done) / rate)))


@kernel
def slowest(world: World, gpu_ids: I64) -> float:
    """The speed of the slowest of these GPUs."""
    speed = 1e300
    for i in range(len(gpu_ids)):
        speed = min(speed, world.nodes[w.SPEED, world.gpus[w.NODE, gpu_ids[i]]] * 1e-6)
    return speed


@kernel
def sink_end(ends: I64, jobs: I64, at: int, count: int) -> None:
    """Restore the heap of ends (and their jobs) below a position."""
    end, job = ends[at], jobs[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and ends[child + 1] < ends[child]:
            child += 1
        if ends[child] >= end:
            break
        ends[at], jobs[at] = ends[child], jobs[child]
        at = child
    ends[at], jobs[at] = end, job


@kernel
def add_end(scratch: Scratch, count: int, end: int, job: int) -> int:
    """Note when a job ends, one more than ``count``; returns how many."""
    scratch.ends[count], scratch.jobs[count] = end, job
    return count + 1


@kernel
def order_ends(scratch: Scratch, count: int) -> None:
    """Make a heap of the ends that are noted."""
    for at in range(count // 2 - 1, -1, -1):
        sink_end(scratch.ends, scratch.jobs, at, count)


@kernel
def heap_of_ends(world: World, queue: Queue, job: int) -> int:
    """Make a heap of the jobs that run where ``job`` may, by expected end; returns how many."""
    scratch, count, all_of_them = queue.scratch, 0, open_to(world, job)
    for at in range(world.clock[w.N_RUNNING]):
        other = world.lists[w.L_RUNNING, at]
        if all_of_them or in_the_way(world, job, other):
            count = add_end(scratch, count, expected_end(world, queue, other), other)
    order_ends(scratch, count)
    return count


@kernel
def fits_on(world: World, queue: Queue, parts: Parts, paper: Paper, job: int) -> bool:
    """Whether the job has a place if this is free."""
    if world.jobs[w.SHARE, job] < 1000:
        return choose_share(world, queue, parts, paper, job) > 0
    return bool(parts.choose(world, queue, parts.place, paper, job) > 0)


@kernel
def take_off(world: World, scratch: Scratch, job: int) -> int:
    """Take a job off the paper, from the GPUs that it was laid on or else holds; returns how many."""
    laid, count, at = scratch.laid, 0, 0
    while laid.job[at] >= 0:
        if laid.job[at] == job:
            scratch.gpu_ids[count] = laid.gpu[at]
            count += 1
        at += 1
    if count == 0:
        count = held(world, job, scratch.gpu_ids)
    put_on_paper(world, on_paper(scratch), job, scratch.gpu_ids[:count], -1)
    return count


@kernel
def needs_idle_nodes(world: World, queue: Queue, job: int) -> bool:
    """Whether a job can start only on nodes that are idle, all but one of them."""
    whole = world.jobs[w.SHARE, job] == 1000 and world.jobs[w.SPAN, job] == 0
    return whole and queue.config.together and len(queue.tiers.takes) == 0


@kernel
def missing_gpus(world: World, paper: Paper, job: int, idle_nodes: bool) -> int:
    """How many GPUs must at least become free, or belong to nodes that become idle, before a job may fit."""
    missing, largest = world.jobs[w.GPUS, job] if world.jobs[w.SHARE, job] == 1000 else 0, 1
    for node in range(len(paper.free)):
        total = world.nodes[w.TOTAL, node]
        largest = max(largest, total)
        if not idle_nodes or paper.free[node] == total:
            missing -= paper.free[node]
    return int(missing - (largest - 1 if idle_nodes else 0))


@kernel
def gained(world: World, paper: Paper, gpu_ids: I64, idle_nodes: bool) -> int:
    """How many GPUs a job has left, or belong to nodes that are idle without it."""
    if not idle_nodes:
        return len(gpu_ids)
    gpus, before = 0, -1
    for i in range(len(gpu_ids)):  # node by node
        node = world.gpus[w.NODE, gpu_ids[i]]
        if node != before and paper.free[node] == world.nodes[w.TOTAL, node]:
            gpus += paper.free[node]
        before = node
    return gpus


@kernel
def room_comes(world: World, queue: Queue, parts: Parts, scratch: Scratch, head: int, count: int) -> int:
    """Take those that end off the paper, the first ones first, until ``head`` fits: the time of that, or NEVER.

    Finding nodes takes long, so it is tried only when there may be enough of them.
    """
    ends, jobs, paper, one_node = scratch.ends, scratch.jobs, on_paper(scratch), needs_one_node(world, queue, head)
    idle_nodes = not one_node and needs_idle_nodes(world, queue, head)
    missing = missing_gpus(world, paper, head, idle_nodes)
    while count > 0:
        time, room = ends[0], not one_node
        while count > 0 and ends[0] == time:
            left = scratch.gpu_ids[: take_off(world, scratch, jobs[0])]
            missing -= gained(world, paper, left, idle_nodes)
            room = room or any_has_room(world, paper, head, left)
            count -= 1
            ends[0], jobs[0] = ends[count], jobs[count]
            sink_end(ends, jobs, 0, count)
        if room and missing <= 0 and fits_on(world, queue, parts, paper, head):
            return int(time)
    return int(w.NEVER)


@kernel
def reserve(world: World, queue: Queue, parts: Parts, head: int) -> int:
    """The earliest time at which ``head`` fits if all end within their bounds; leaves the state of then on paper."""
    copy_to_paper(world, on_paper(queue.scratch))
    return room_comes(world, queue, parts, queue.scratch, head, heap_of_ends(world, queue, head))


@kernel
def still_fits(world: World, queue: Queue, parts: Parts, paper: Paper, head: int, job: int, gpu_ids: I64) -> bool:
    """Whether ``head`` fits on paper with another job on these GPUs."""
    put_on_paper(world, paper, job, gpu_ids, +1)
    fits = fits_on(world, queue, parts, paper, head)
    put_on_paper(world, paper, job, gpu_ids, -1)
    return fits


@kernel
def next_candidate(
    world: World, queue: Queue, parts: Parts, cls: int, best: int, head: int, longest: int, speed: float
) -> int:
    """The job that backfilling tries first of ``best`` and those of a class that end within ``longest`` ms."""
    if queue.config.shortest:
        return shortest_of(world, queue, cls, best, head, longest, speed)
    return first_of(world, queue, parts, cls, best, head, longest, speed)


@kernel
def longest_that_passes(queue: Queue, vc: int) -> int:
    """How long a job of a virtual cluster may take that starts before its turn (ms).

    One that takes much longer than others keeps those waiting that come after it, for whom it might have been left.
    """
    ended = queue.completions
    if queue.config.passing == 0 or ended.jobs[vc] < FEWEST:
        return int(w.NEVER)
    return int(ended.time[vc] // ended.jobs[vc] * queue.config.passing // 1000)


@kernel
def backfill(world: World, queue: Queue, parts: Parts, pool: int, plan: Decision) -> bool:
    """Start the first later job of a pool that fits now and leaves the head's reservation alone; false if none does."""
    head, scratch = queue.head[pool], queue.scratch
    shadow, best = -1, -1
    for cls in range(len(queue.size)):
        if queue.pool_of[cls] != pool or queue.size[cls] == 0 or queue.blocked[cls] == 1:
            continue
        job = top(world, queue, cls)
        if job < 0:
            continue
        gpus = find_gpus(world, queue, parts, as_it_is(world), job)
        if gpus == 0:
            queue.blocked[cls] = 1
            continue
        if shadow < 0:
            shadow = reserve(world, queue, parts, head)
            queue.shadow.time[pool], queue.shadow.job[pool] = shadow, head
            gpus = find_gpus(world, queue, parts, as_it_is(world), job)
        chosen = scratch.other_ids[:gpus]
        copy_into(chosen, scratch.gpu_ids)
        longest = w.NEVER
        if shadow != w.NEVER:
            longest = longest_that_passes(queue, world.jobs[w.VC, job])
            if not still_fits(world, queue, parts, on_paper(scratch), head, job, chosen):
                longest = min(longest, shadow - world.clock[w.NOW])
        best = next_candidate(world, queue, parts, cls, best, head, longest, slowest(world, chosen))
    if best < 0:
        return False
    gpus = find_gpus(world, queue, parts, as_it_is(world), best)
    add_start(plan, best, scratch.gpu_ids[:gpus], w.NEVER)
    return True

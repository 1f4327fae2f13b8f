"""What a queue does before each decision: it learns from ended jobs, enqueues new ones, and sees what may fit."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.backfill.bounds import floor_of
from shunter.scheduling.queue.heaps import insert
from shunter.scheduling.queue.queue import B_CONSERVATIVE, B_EASY, B_NONE, Parts, Queue
from shunter.scheduling.queue.ranking import look, rank_running, reconsider, renew_bound
from shunter.scheduling.queue.usage import charge, recount
from shunter.world import World


@kernel
def meet(world: World, queue: Queue, parts: Parts, job: int) -> None:
    """See a job for the first time: count its user, estimate its run time."""
    user = world.jobs[w.USER, job]
    if user >= 0 and queue.users.seen[user] == 0:
        queue.users.seen[user] = 1
        queue.state.users_seen += 1
    if queue.estimate[job] == 0:
        queue.estimate[job] = parts.expect(world, queue, job)


@kernel
def welcome(world: World, queue: Queue, parts: Parts, job: int) -> None:
    """Put a job into the queue."""
    meet(world, queue, parts, job)
    if queue.config.backfill != B_NONE:
        renew_bound(world, queue, job)
    if len(queue.floor) > 0:
        queue.floor[job] = floor_of(queue.estimate[job], world.jobs[w.LIMIT, job], world.progress[w.WORK, job])
    queue.key[job] = math.inf
    if not queue.config.sees_pool or queue.config.backfill == B_CONSERVATIVE:  # else every decision makes it again
        queue.key[job] = parts.key(world, queue, job, max(world.clock[w.NOW], queue.state.horizon))
    if len(queue.tie) > 0:
        queue.tie[job] = world.jobs[w.WAITING_SINCE, job]
    insert(queue, job)
    reconsider(queue, job)


@kernel
def take_in(world: World, queue: Queue, parts: Parts) -> None:
    """Learn from what ended, estimate and enqueue what arrived, and see what may fit again."""
    config, state, now = queue.config, queue.state, world.clock[w.NOW]
    if config.period > 0:
        recount(world, queue)
    if config.half_life > 0:
        charge(world, queue, now)
    for at in range(world.clock[w.N_ENDED]):
        parts.learn(world, queue, world.lists[w.L_ENDED, at])
    row, length = w.L_ARRIVED, w.N_ARRIVED
    if state.fresh:  # jobs that already wait or run are new to this queue
        state.fresh = False
        row, length = w.L_PENDING, w.N_PENDING
        for at in range(world.clock[w.N_RUNNING]):
            meet(world, queue, parts, world.lists[w.L_RUNNING, at])
    for at in range(world.clock[length]):
        welcome(world, queue, parts, world.lists[row, at])
    if state.seen_releases != world.clock[w.RELEASES]:
        state.seen_releases = world.clock[w.RELEASES]
        queue.blocked[:] = 0
        queue.head[:] = -1
    look(world, queue, parts)
    if state.keyed_at != now and config.varying:
        queue.head[:] = -1
    to_compare = config.preemptive and world.clock[w.N_PENDING] > 0
    if to_compare and state.ranked_at != now and (rank_running(world, queue, parts) or state.spared):
        state.spared = False
        queue.head[:] = -1
        queue.blocked[:] = 0


@kernel
def any_gpu_free(world: World) -> bool:
    """Whether a whole GPU is free anywhere."""
    for node in range(world.nodes.shape[1]):  # noqa: SIM110 a loop, for numba
        if world.nodes[w.FREE, node] > 0:
            return True
    return False


@kernel
def free_gpus(world: World) -> int:
    """How many whole GPUs are free anywhere."""
    free = 0
    for node in range(world.nodes.shape[1]):
        free += world.nodes[w.FREE, node]
    return int(free)


@kernel
def anything_to_try(world: World, queue: Queue) -> bool:
    """Whether any waiting class may fit: there is room, or a running job could make room.

    Classes that want more GPUs than are free are blocked without a try, where each would be tried.
    """
    config = queue.config
    if world.clock[w.N_PENDING] == 0:
        return False
    free = w.NEVER if config.preemptive or config.shares else free_gpus(world)
    all_tried, found = not config.strict or config.backfill == B_EASY, False
    for cls in range(len(queue.size) if free > 0 else 0):
        if queue.size[cls] > 0 and queue.blocked[cls] == 0:
            if all_tried and world.jobs[w.GPUS, queue.sample[cls]] > free:
                queue.blocked[cls] = 1
            else:
                found = True
    return found

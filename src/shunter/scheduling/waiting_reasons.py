"""Saying why jobs wait, compiled; only what has changed since it was last said.

A decision is over when nothing more starts.  Then the queue knows all there is to say: which classes did not fit, which
job stopped a pool, which reservation is in the way.
"""

from __future__ import annotations

from shunter import reasons as r
from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.backfill.easy import longest_that_passes
from shunter.scheduling.placing import may_use
from shunter.scheduling.queue.heaps import precedes, top
from shunter.scheduling.queue.intake import any_gpu_free
from shunter.scheduling.queue.queue import B_CONSERVATIVE, B_EASY, B_NONE, Parts, Queue
from shunter.world import Decision, World


@kernel
def say(plan: Decision, scope: int, subject: int, code: int, a: int, b: int, c: int) -> bool:
    """Add a reason to the plan; false if there is no room, so that it must be said later."""
    at = plan.counts[2]
    if at == len(plan.reasons):
        return False
    row = plan.reasons[at]
    row[0], row[1], row[2] = scope, subject, code
    row[3], row[4], row[5] = a, b, c
    plan.counts[2] += 1
    return True


@kernel
def count_free(world: World, queue: Queue, cls: int) -> int:
    """Count what is free for a class, unless nothing has started or ended since; returns its column of ``kin``."""
    kin, at, job = queue.given.kin, queue.given.kin_of[cls], queue.sample[cls]
    if kin.releases[at] == world.clock[w.RELEASES] and kin.running[at] == world.clock[w.N_RUNNING]:
        return int(at)
    free, largest, up, elsewhere = 0, 0, 0, 0
    for node in range(world.nodes.shape[1]):
        here = world.nodes[w.FREE, node]
        if may_use(world, job, node):
            free += here
            largest = max(largest, here)
            if world.nodes[w.NODE_STATE, node] == w.UP:
                up += world.nodes[w.TOTAL, node]
        else:
            elsewhere += here
    kin.free[at], kin.largest[at], kin.up[at], kin.elsewhere[at] = free, largest, up, elsewhere
    kin.releases[at], kin.running[at] = world.clock[w.RELEASES], world.clock[w.N_RUNNING]
    return int(at)


@kernel
def why_blocked(world: World, queue: Queue, cls: int, at: int) -> int:
    """Why jobs of a class that did not fit don't, given what is free for them."""
    kin, gpus = queue.given.kin, world.jobs[w.GPUS, queue.sample[cls]]
    if kin.up[at] < gpus:
        return r.AWAY
    if kin.free[at] < gpus:
        return r.FULL
    return r.STARVED if world.clock[w.BOUNDED] == 1 and kin.largest[at] >= gpus else r.SCATTERED


@kernel
def tell_class(world: World, queue: Queue, plan: Decision, cls: int) -> None:
    """Say whether the jobs of a class fit, and if not why; of a queue's head also every change of what is free."""
    given, code, at = queue.given, r.NONE, 0
    head = given.head[queue.pool_of[cls]]
    if queue.blocked[cls] == 1:
        at = count_free(world, queue, cls)
        code = why_blocked(world, queue, cls, at)
    elif head >= 0 and queue.config.backfill == B_NONE:  # not tried, because of the head
        at = count_free(world, queue, cls)
        code = r.FULL if given.kin.free[at] < world.jobs[w.GPUS, queue.sample[cls]] else r.NONE
    changed = code != given.code[cls]
    if not changed and code != r.NONE and head >= 0 and queue.class_of[head] == cls:
        changed = given.free[cls] != given.kin.free[at] or given.largest[cls] != given.kin.largest[at]
    if not changed:
        return
    if code == r.NONE:
        said = say(plan, r.OF_CLASS, cls, code, 0, 0, 0)
    elif code == r.AWAY:
        said = say(plan, r.OF_CLASS, cls, code, given.kin.up[at], 0, 0)
    else:
        numbers = given.kin.free[at], given.kin.largest[at], given.kin.elsewhere[at]
        said = say(plan, r.OF_CLASS, cls, code, numbers[0], numbers[1], numbers[2])
    if said:
        given.code[cls], given.free[cls], given.largest[cls] = code, given.kin.free[at], given.kin.largest[at]


@kernel
def moved(now: int, given: int, planned: int) -> bool:
    """Whether a planned time is worth giving again: it moved by more than a tenth of the way to it."""
    return bool(given < 0 or abs(planned - given) * 10 > abs(given - now))


@kernel
def head_of(world: World, queue: Queue, pool: int) -> int:
    """The job that stops a pool; where no job was tried the one that did before, or the next in an order that stays."""
    given = queue.given.head[pool]
    if queue.head[pool] >= 0 or not queue.config.strict:
        return int(queue.head[pool])
    if given >= 0 and world.jobs[w.STATE, given] == w.PENDING:
        return int(given)
    best = -1
    if not queue.config.varying:
        for cls in range(len(queue.size)):
            if queue.pool_of[cls] == pool and queue.size[cls] > 0:
                job = top(world, queue, cls)
                if job >= 0 and (best < 0 or precedes(queue, job, best)):
                    best = job
    return best


@kernel
def tell_pool(world: World, queue: Queue, plan: Decision, pool: int) -> None:
    """Say which job stops a pool, and under EASY what is reserved for it."""
    given, head, shadow, code, passing = queue.given, head_of(world, queue, pool), -1, r.NONE, 0
    if head >= 0:
        code = r.BEHIND
        if queue.config.backfill == B_EASY:
            code = r.RESERVATION
            shadow = queue.shadow.time[pool] if queue.shadow.job[pool] == head else -1
            if longest_that_passes(queue, world.jobs[w.VC, head]) != w.NEVER:
                passing = queue.config.passing
    changed = head != given.head[pool]
    if not changed and shadow >= 0:
        changed = moved(world.clock[w.NOW], given.shadow[pool], shadow)
    if changed and say(plan, r.OF_POOL, pool, code, head, shadow, passing):
        given.head[pool], given.shadow[pool] = head, shadow


@kernel
def tell_planned(world: World, queue: Queue, plan: Decision) -> None:
    """Say when the jobs that conservative backfilling has planned should start."""
    given, profile, now = queue.given, queue.profile, world.clock[w.NOW]
    if given.everything != r.UNPLANNED and say(plan, r.OF_ALL, 0, r.UNPLANNED, queue.config.depth, 0, 0):
        given.everything = r.UNPLANNED
    for i in range(queue.state.reserved):
        job, start = profile.job[i], profile.start[i]
        if start != given.start[job] and moved(now, given.start[job], start):
            code = r.AWAY if start == w.NEVER else r.PLANNED
            if say(plan, r.OF_JOB, job, code, 0 if start == w.NEVER else start, 0, 0):
                given.start[job] = start


@kernel
def tell_everything(world: World, queue: Queue, plan: Decision) -> int:
    """Say what holds for all: there is nothing free at all, or not."""
    config, given, code = queue.config, queue.given, r.NONE
    if not config.preemptive and not config.shares and not any_gpu_free(world):
        code = r.FULL  # then no job was tried
    if code != given.everything and say(plan, r.OF_ALL, 0, code, 0, 0, 0):
        given.everything = code
    return code


@kernel
def give(world: World, queue: Queue, parts: Parts, target: int, plan: Decision) -> bool:
    """Say what has changed in why jobs wait."""
    config = queue.config
    if world.clock[w.N_PENDING] == 0:
        return False
    if config.backfill == B_CONSERVATIVE:
        tell_planned(world, queue, plan)
        return False
    code = tell_everything(world, queue, plan)
    for pool in range(len(queue.head)):
        tell_pool(world, queue, plan, pool)
    for cls in range(len(queue.size)):
        if queue.size[cls] > 0 and code == r.NONE:
            tell_class(world, queue, plan, cls)
    return False

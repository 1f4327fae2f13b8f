"""Keys of jobs: made, made again when they have changed, and compared to find the first job."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import inlined, kernel
from shunter.scheduling.backfill.bounds import bound_of, floor_within
from shunter.scheduling.queue.heaps import insert, order_heaps, wins_tie
from shunter.scheduling.queue.queue import LONGEST_REACH, LOOK_AGAIN, Parts, Queue
from shunter.world import Job, World


@inlined
def describe(world: World, queue: Queue, job: int, total: float, now: int) -> Job:
    """A job as its order's key sees it, or would at a later time."""
    jobs = world.jobs
    executed, attained, waited = jobs[w.EXECUTED, job], jobs[w.ATTAINED, job], jobs[w.WAITED, job]
    if len(queue.forgiven.run_time) > 0:
        executed -= queue.forgiven.run_time[job]
        attained -= queue.forgiven.gpu_time[job]
    work, queued = world.progress[w.WORK, job], now
    if jobs[w.STATE, job] == w.PENDING:
        waited += max(now - jobs[w.WAITING_SINCE, job], 0)  # a period may have begun before it came
        queued = jobs[w.WAITING_SINCE, job]
    else:
        work += max(now - jobs[w.SINCE, job], 0) * world.progress[w.RATE, job]
        executed += now - jobs[w.BEGUN, job]
        attained += (now - jobs[w.BEGUN, job]) * jobs[w.WORKERS, job] * jobs[w.SHARE, job] // 1000
    gpus = jobs[w.GPUS, job] * jobs[w.SHARE, job] / 1000
    usage, user = 0.0, jobs[w.USER, job]
    if user >= 0 and queue.config.period > 0:
        usage = queue.users.counted[user]
    elif user >= 0 and total > 0:
        usage = queue.users.usage[user] / total * queue.state.users_seen
    cls, pools = queue.class_of[job], queue.pools
    pool = pools.of_class[cls]
    return Job(
        (jobs[w.SUBMIT, job] - jobs[w.SUBMIT, 0]) / 1000.0,
        waited / 1000.0,
        gpus,
        queue.estimate[job] / 1000.0,
        executed / 1000.0,
        (queue.estimate[job] - work) / 1000.0,
        attained / 1000.0,
        jobs[w.DECLARED, job] / 1000.0,
        work / 1000.0,
        (jobs[w.STARTED, job] - jobs[w.SUBMIT, 0]) / 1000.0 if jobs[w.STARTED, job] >= 0 else -1.0,
        (queued - jobs[w.SUBMIT, 0]) / 1000.0,
        queue.part[cls],
        usage,
        queue.factors[jobs[w.VC, job]],
        jobs[w.QOS, job] / 1000.0,
        -1.0 if jobs[w.STATE, job] == w.PENDING else (jobs[w.BEGUN, job] - jobs[w.SUBMIT, 0]) / 1000.0,
        float(jobs[w.CHECKPOINTABLE, job]),
        pools.nodes[pool],
        pools.gpus[pool],
        pools.free[pool],
        pools.largest[pool],
        pools.partly[pool],
        pools.waiting[pool],
        pools.demand[pool],
        pools.fits[cls],
        pools.ways[cls],
        pools.choice[pool],
        pools.growth[pool],
        queue.inspector.skips[job] * LOOK_AGAIN / 1000.0 if len(queue.inspector.skips) > 0 else 0.0,
        (jobs[w.SUBMIT, job] + jobs[w.DEADLINE, job] - jobs[w.SUBMIT, 0]) / 1000.0
        if jobs[w.DEADLINE, job] > 0
        else 0.0,
    )


@kernel
def rekey(world: World, queue: Queue, parts: Parts) -> None:
    """Evaluate the keys of waiting jobs that have changed with time.

    Where a key only falls while a job waits, its value at a later time, the horizon, bounds it from below until then,
    so that a heap of bounds serves many instants.  The horizon is pulled in when bounds make us look at too many jobs.
    """
    config, state, now = queue.config, queue.state, world.clock[w.NOW]
    state.keyed_at = now
    if config.histogram_at > 0 and state.ended_jobs_seen * 10 > state.ended_jobs_keyed * 11:
        state.ended_jobs_keyed = state.ended_jobs_seen  # a tenth more is known than when keys were made
        key_all(world, queue, parts, now)
    if state.stale:
        state.stale = False
        key_all(world, queue, parts, now)
    if not config.varying:
        return
    too_loose = state.visits > 2 * world.clock[w.N_PENDING]
    if now <= state.horizon and config.ageing and not too_loose:
        return
    if config.ageing:
        state.reach = max(state.reach // 2, 1) if too_loose else min(state.reach * 2, LONGEST_REACH)
    state.horizon = now + state.reach
    state.visits = 0
    key_all(world, queue, parts, state.horizon)


@kernel
def key_all(world: World, queue: Queue, parts: Parts, time: int) -> None:
    """Evaluate the key of every waiting job at a time, and order the heaps by that."""
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        queue.key[job] = parts.key(world, queue, job, time)
    order_heaps(world, queue)


@kernel
def promote(world: World, queue: Queue, parts: Parts) -> None:
    """Forget the run time of jobs that have waited too long since: they count as new."""
    config, now, jobs = queue.config, world.clock[w.NOW], world.jobs
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        ran, idle = jobs[w.EXECUTED, job] - queue.forgiven.run_time[job], now - jobs[w.WAITING_SINCE, job]
        if ran == 0:
            continue
        by_run_time = config.promote_times > 0 and idle * 1000 >= config.promote_times * ran
        if by_run_time or (config.promote_after > 0 and idle >= config.promote_after):
            queue.forgiven.run_time[job], queue.forgiven.gpu_time[job] = jobs[w.EXECUTED, job], jobs[w.ATTAINED, job]
            queue.key[job] = parts.key(world, queue, job, now)
            insert(queue, job)
            reconsider(queue, job)


@kernel
def look(world: World, queue: Queue, parts: Parts) -> None:
    """Find the jobs to promote, once in a quantum."""
    config, state, now = queue.config, queue.state, world.clock[w.NOW]
    if config.quantum > 0 and state.looked_at < now // config.quantum:
        state.looked_at = now // config.quantum
        if len(queue.forgiven.run_time) > 0:
            promote(world, queue, parts)


@kernel
def rank_running(world: World, queue: Queue, parts: Parts) -> bool:
    """Evaluate the keys of the running jobs, to compare with those that wait; whether any is new."""
    queue.state.ranked_at = world.clock[w.NOW]
    changed = False
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if world.jobs[w.CHECKPOINTABLE, job] == 0:
            continue
        key = parts.key(world, queue, job, world.clock[w.NOW])
        changed = changed or queue.exact[job] != key
        queue.exact[job] = key  # `queue.key` may still order the heap that it left
    return changed


@kernel
def ahead(queue: Queue, a: int, b: int) -> bool:
    """Whether job ``a`` is before job ``b`` in the order at present; both must have been asked for."""
    if queue.exact[a] != queue.exact[b]:
        return bool(queue.exact[a] < queue.exact[b])
    return wins_tie(queue, a, b)


@kernel
def first_of(
    world: World, queue: Queue, parts: Parts, cls: int, best: int, skip: int, longest: int, speed: float
) -> int:
    """The first at present of ``best`` (-1: none) and the waiting jobs of a class that end within ``longest`` ms.

    Never ``skip``.  Walks the heap from the top and leaves out what lies below a bound that ``best`` already beats, and
    where no job ends in time.
    """
    stack, base, size, left = queue.scratch.stack, queue.first[cls], queue.size[cls], min(queue.size[cls], 1)
    highest = floor_within(queue.bounds, longest, speed) if longest != w.NEVER else math.inf
    stack[0] = 0
    while left > 0:
        left -= 1
        at = stack[left]
        job = queue.members[base + at]
        if (best >= 0 and beaten(queue, job, best)) or (longest != w.NEVER and queue.lowest[base + at] > highest):
            continue
        for child in range(2 * at + 1, min(2 * at + 3, size)):
            stack[left] = child
            left += 1
        if world.jobs[w.STATE, job] != w.PENDING or job == skip or not ends_within(world, queue, job, longest, speed):
            continue
        find_exact(world, queue, parts, job)
        if best < 0 or ahead(queue, job, best):
            best = job
    return best


@kernel
def beaten(queue: Queue, job: int, best: int) -> bool:
    """Whether a job, and all below it in its heap, come after ``best`` whatever their keys are at present."""
    if queue.key[job] != queue.exact[best]:
        return bool(queue.key[job] > queue.exact[best])
    return not wins_tie(queue, job, best)


@kernel
def find_exact(world: World, queue: Queue, parts: Parts, job: int) -> None:
    """Find the key of a waiting job at present."""
    queue.exact[job] = queue.key[job]
    if queue.config.varying:
        queue.state.visits += 1
        if queue.state.horizon != world.clock[w.NOW]:
            queue.exact[job] = parts.key(world, queue, job, world.clock[w.NOW])


@kernel
def shorter(queue: Queue, a: int, b: int) -> bool:
    """Whether job ``a`` has the smaller estimate; ties go to the job submitted first."""
    if queue.estimate[a] != queue.estimate[b]:
        return bool(queue.estimate[a] < queue.estimate[b])
    return a < b


@kernel
def shortest_of(world: World, queue: Queue, cls: int, best: int, skip: int, longest: int, speed: float) -> int:
    """The same with the job of the least estimate."""
    base = queue.first[cls]
    for at in range(queue.size[cls]):
        job = queue.members[base + at]
        if world.jobs[w.STATE, job] != w.PENDING or job == skip or not ends_within(world, queue, job, longest, speed):
            continue
        if best < 0 or shorter(queue, job, best):
            best = job
    return best


@kernel
def ends_within(world: World, queue: Queue, job: int, longest: int, speed: float) -> bool:
    """Whether a job should take no longer than ``longest`` ms at this speed, by what has ended up to now."""
    if longest == w.NEVER:
        return True
    renew_bound(world, queue, job)
    return run_time(world, queue, job, speed) <= longest


@kernel
def renew_bound(world: World, queue: Queue, job: int) -> None:
    """Plan a waiting job with what is known now."""
    limit, work = world.jobs[w.LIMIT, job], world.progress[w.WORK, job]
    queue.bound[job] = bound_of(queue.bounds, queue.estimate[job], limit, work)


@kernel
def run_time(world: World, queue: Queue, job: int, speed: float) -> int:
    """How long a waiting job should take at this speed, its restart included if it ran before (ms)."""
    restart = world.jobs[w.RESTART, job] if world.jobs[w.STARTED, job] >= 0 else 0
    return int(restart + max(math.ceil((queue.bound[job] - world.progress[w.WORK, job]) / speed), 1))


@kernel
def reconsider(queue: Queue, job: int) -> None:
    """A job's place in the order is new: earlier stops and failures to fit say nothing about it."""
    cls = queue.class_of[job]
    queue.head[queue.pool_of[cls]] = -1
    first = queue.at[job] == queue.first[cls] or queue.config.varying
    if queue.config.preemptive and first:
        queue.blocked[cls] = 0

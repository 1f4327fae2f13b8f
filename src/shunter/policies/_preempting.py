"""Making room for a job by stopping running ones that come later in the order."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies._placing import (
    add_other,
    add_start,
    copy_to_paper,
    find_gpus,
    held,
    in_the_way,
    on_paper,
    put_on_paper,
)
from shunter.policies._queue import SLOW_STOPS, SPARED, Parts, Queue, ahead
from shunter.world import Decision, World


@kernel
def ran_enough(world: World, queue: Queue, job: int) -> bool:
    """Whether a running job has worked long enough since it started or came back to be stopped again."""
    if len(queue.min_run) == 0:
        return True
    jobs, restart = world.jobs, 0
    if jobs[w.STARTED, job] < jobs[w.BEGUN, job]:
        restart = jobs[w.RESTART, job]
    return bool(jobs[w.BEGUN, job] + restart + queue.min_run[job] <= world.clock[w.NOW])


@kernel
def candidates(world: World, queue: Queue, job: int) -> int:
    """Fill ``scratch.jobs`` with the running jobs of a larger key on nodes that ``job`` may use; returns how many.

    A job that has just come back is spared: if jobs were stopped before they get anything done, none would ever end.
    """
    count = 0
    for at in range(world.clock[w.N_RUNNING]):
        other = world.lists[w.L_RUNNING, at]
        later = world.jobs[w.STATE, other] == w.RUNNING and queue.exact[other] > queue.exact[job]
        if later and in_the_way(world, job, other):
            if not ran_enough(world, queue, other):
                queue.settings[SPARED] = 1
                continue
            queue.scratch.jobs[count] = other
            count += 1
    return count


@kernel
def bring_forward_last(queue: Queue, at: int, count: int) -> None:
    """Swap the last one in the order of ``scratch.jobs[at:count]`` to position ``at``."""
    jobs = queue.scratch.jobs
    last = at
    for i in range(at + 1, count):
        if ahead(queue, jobs[last], jobs[i]):
            last = i
    jobs[at], jobs[last] = jobs[last], jobs[at]


@kernel
def lift(world: World, queue: Queue, job: int, sign: int) -> None:
    """Take a running job off the paper (-1), or put it back (+1)."""
    ids = queue.scratch.gpu_ids
    put_on_paper(world, on_paper(queue.scratch), job, ids[: held(world, job, ids)], sign)


@kernel
def make_room(world: World, queue: Queue, parts: Parts, job: int, plan: Decision) -> bool:
    """Stop as few later jobs as needed, the last in the order first, and start ``job``; false if that isn't enough.

    Where stopping takes time the job starts once the GPUs are free; until then those being freed count as its.
    """
    scratch = queue.scratch
    count = candidates(world, queue, job)
    if count == 0:
        return False
    copy_to_paper(world, on_paper(scratch))
    for at in range(world.clock[w.N_RUNNING]):
        other = world.lists[w.L_RUNNING, at]
        if world.jobs[w.STATE, other] == w.STOPPING:
            lift(world, queue, other, -1)
    taken = 0
    while find_gpus(world, queue, parts, on_paper(scratch), job) == 0:
        if taken == count:
            return False
        bring_forward_last(queue, taken, count)
        lift(world, queue, scratch.jobs[taken], -1)
        taken += 1
    for i in range(taken - 1, -1, -1):
        other = scratch.jobs[i]
        lift(world, queue, other, +1)
        if find_gpus(world, queue, parts, on_paper(scratch), job) > 0:
            scratch.jobs[i] = -1
        else:
            lift(world, queue, other, -1)
    for i in range(taken):
        if scratch.jobs[i] >= 0:
            add_other(plan, w.A_PREEMPT, scratch.jobs[i], 1)
    if queue.settings[SLOW_STOPS] == 0:
        gpus = find_gpus(world, queue, parts, on_paper(scratch), job)
        add_start(plan, job, scratch.gpu_ids[:gpus], w.NEVER)
    return bool(plan.counts[0] > 0)

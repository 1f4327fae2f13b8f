"""EASY backfilling where GPUs are leased: the first job of a pool that finds no room, its head, holds a reservation.

That is for the earliest time at which it has room on a tier that it takes, if all goes as estimated.  A job gives its
GPUs back when it should end, or when its lease does, unless it comes before the head in the order by then: it would
take them again.  A job after the head must leave the reservation alone: it takes GPUs, or keeps them when its lease
ends, only if it gives them back in time or the head has room beside it.
"""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.backfill.easy import add_end, expected_end, order_ends, room_comes, slowest, still_fits
from shunter.scheduling.leasing.memory import Offers, Terms, first_open, gpus_for, lease_end
from shunter.scheduling.placing import copy_paper, in_the_way, on_paper, put_on_paper
from shunter.scheduling.queue.queue import B_EASY, Paper, Queue
from shunter.scheduling.queue.ranking import ahead, run_time
from shunter.world import I64, World


@kernel
def no_heads(offers: Offers) -> None:
    """No job without room has been found yet."""
    offers.queue.head[:] = -1
    offers.state.planned_for = -1


@kernel
def end_of(world: World, queue: Queue, job: int, gpu_ids: I64) -> int:
    """When a waiting job should end if it gets these GPUs now."""
    return int(world.clock[w.NOW] + run_time(world, queue, job, slowest(world, gpu_ids)))


# ------------------------------------------------------------------------------------------- jobs on paper


@kernel
def nothing_laid(offers: Offers) -> None:
    """Only running jobs are on paper."""
    offers.state.laid = 0
    offers.then.laid.job[0] = -1


@kernel
def lay(world: World, offers: Offers, paper: Paper, job: int, gpu_ids: I64, end: int, until: int) -> None:
    """Put a job on paper that gets these GPUs now, and note until when it should have them."""
    put_on_paper(world, paper, job, gpu_ids, +1)
    if offers.queue.config.backfill != B_EASY:
        return
    laid, at = offers.then.laid, offers.state.laid
    for gpu in gpu_ids:
        laid.job[at], laid.gpu[at], laid.end[at], laid.until[at] = job, gpu, end, until
        at += 1
    laid.job[at] = -1
    offers.state.laid, offers.state.planned_for = at, -1


# ------------------------------------------------------------------------------------------- the reservation


@kernel
def comes_after(world: World, offers: Offers, tools: Terms, head: int, job: int, time: int) -> bool:
    """Whether a job comes after the head in the order; of one that runs, at a time to come."""
    queue = offers.queue
    key = queue.key[job]
    if world.jobs[w.STATE, job] != w.PENDING:
        key = tools.parts.key(world, queue, job, time)
    return bool(key > queue.key[head] or (key == queue.key[head] and job > head))


@kernel
def returns(world: World, offers: Offers, tools: Terms, head: int, job: int, end: int, until: int) -> int:
    """When a job gives its GPUs back: at its end, or with its lease if the head is before it in the order then."""
    if until < end and comes_after(world, offers, tools, head, job, until):
        return until
    return end


@kernel
def heap_of_returns(world: World, offers: Offers, tools: Terms, head: int) -> int:
    """Make a heap of those that are on paper where the head may be, by when they give GPUs back; returns how many."""
    then, laid, count = offers.then, offers.then.laid, 0
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        until = world.jobs[w.UNTIL, job] if world.jobs[w.STATE, job] == w.RUNNING else w.NEVER
        if until > world.clock[w.NOW] and in_the_way(world, head, job):  # else it is off the paper, or laid
            end = expected_end(world, offers.queue, job)
            count = add_end(then, count, returns(world, offers, tools, head, job, end, until), job)
    for at in range(offers.state.laid):
        job = laid.job[at]
        if at == 0 or laid.job[at - 1] != job:
            end = returns(world, offers, tools, head, job, laid.end[at], laid.until[at])
            count = add_end(then, count, end, job)
    order_ends(then, count)
    return count


@kernel
def reserve(world: World, offers: Offers, tools: Terms, paper: Paper, head: int) -> int:
    """When the head should have room, given what is free now; leaves the state of then on paper in ``offers.then``."""
    queue, then = offers.queue, offers.then
    pool = queue.pool_of[queue.class_of[head]]
    if offers.state.planned_for != head:
        offers.state.planned_for = head
        copy_paper(on_paper(then), paper)
        count = heap_of_returns(world, offers, tools, head)
        queue.shadow.time[pool] = room_comes(world, queue, tools.parts, then, head, count)
        queue.shadow.job[pool] = head
    return int(queue.shadow.time[pool])


@kernel
def delays(
    world: World, offers: Offers, tools: Terms, paper: Paper, head: int, job: int, gpu_ids: I64, end: int
) -> bool:
    """Whether the head would have to wait longer for a job that has these GPUs until then."""
    if end <= reserve(world, offers, tools, paper, head):
        return False
    return not still_fits(world, offers.queue, tools.parts, on_paper(offers.then), head, job, gpu_ids)


@kernel
def leaves_alone(world: World, offers: Offers, tools: Terms, paper: Paper, cls: int) -> bool:
    """Whether the candidate of a class doesn't delay the head of its pool; else the first that ends in time is next."""
    queue, job = offers.queue, offers.candidate[cls]
    head = queue.head[queue.pool_of[cls]]
    if head < 0:
        return True
    gpus, tier = gpus_for(world, offers, tools, paper, job)
    chosen = queue.scratch.gpu_ids[:gpus]
    end = min(end_of(world, queue, job, chosen), lease_end(world, offers, tools, job, tier))
    if not delays(world, offers, tools, paper, head, job, chosen, end):
        return True
    longest = queue.shadow.time[queue.pool_of[cls]] - world.clock[w.NOW]
    found = first_open(world, offers, tools, cls, tier, longest, slowest(world, chosen))
    offers.candidate[cls] = found
    if found < 0:
        offers.offered[cls] = -1  # it is not for a better tier that they wait
    return False


@kernel
def may_stay(world: World, offers: Offers, tools: Terms, paper: Paper, job: int, gpu_ids: I64, end: int) -> bool:
    """Whether a job whose lease is over may have its GPUs until then: that delays no head before it in the order."""
    queue = offers.queue
    head = queue.head[queue.pool_of[queue.class_of[job]]]
    if head < 0:
        return True
    queue.exact[head] = queue.key[head]
    return bool(ahead(queue, job, head) or not delays(world, offers, tools, paper, head, job, gpu_ids, end))

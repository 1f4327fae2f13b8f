"""Making room for a job by stopping running ones that come later in the order."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.placing import (
    add_other,
    add_start,
    anywhere,
    copy_to_paper,
    find_gpus,
    held,
    in_the_way,
    needs_one_node,
    on_paper,
    open_to,
    put_on_paper,
)
from shunter.scheduling.queue.intake import free_gpus
from shunter.scheduling.queue.queue import B_NONE, Parts, Queue
from shunter.scheduling.queue.ranking import ahead
from shunter.scheduling.queue.stoppable import (
    NOWHERE,
    SEVERAL,
    bar_of,
    expect_exchange,
    first_with_room,
    gpus_left,
    ran_enough,
    stop_on,
    stops_left,
)
from shunter.scheduling.tiers import room_for
from shunter.world import Decision, World


@kernel
def may_be_stopped(world: World, queue: Queue, job: int, other: int) -> bool:
    """Whether a running job is one to stop for ``job``: it comes later in the order, and has worked for long enough.

    A job that has just come back is spared: if jobs were stopped before they get anything done, none would ever end.
    """
    if world.jobs[w.STATE, other] != w.RUNNING or not stops_left(world, queue, other):
        return False
    if queue.exact[other] <= bar_of(queue, job):
        return False
    if not ran_enough(world, queue, other):
        queue.state.spared = True
        return False
    return True


@kernel
def candidates(world: World, queue: Queue, job: int) -> int:
    """Fill ``scratch.jobs`` with the jobs to stop for ``job`` on nodes that it may use; returns how many."""
    count, everywhere = 0, open_to(world, job)
    for at in range(world.clock[w.N_RUNNING]):
        other = world.lists[w.L_RUNNING, at]
        if may_be_stopped(world, queue, job, other) and (everywhere or in_the_way(world, job, other)):
            queue.scratch.jobs[count] = other
            count += 1
    return count


@kernel
def bring_forward_last(queue: Queue, at: int, count: int) -> None:
    """Swap the last one in the order of ``scratch.jobs[at:count]`` to position ``at``, with what ``ends`` has of it."""
    jobs, ends = queue.scratch.jobs, queue.scratch.ends
    last = at
    for i in range(at + 1, count):
        if ahead(queue, jobs[last], jobs[i]):
            last = i
    jobs[at], jobs[last] = jobs[last], jobs[at]
    ends[at], ends[last] = ends[last], ends[at]


@kernel
def lift(world: World, queue: Queue, job: int, sign: int) -> None:
    """Take a running job off the paper (-1), or put it back (+1)."""
    ids = queue.scratch.gpu_ids
    put_on_paper(world, on_paper(queue.scratch), job, ids[: held(world, job, ids)], sign)


@kernel
def begin_lifting(world: World, queue: Queue) -> int:
    """Begin on paper with what is free, once those being stopped are gone; returns how many GPUs that are."""
    copy_to_paper(world, on_paper(queue.scratch))
    for at in range(world.clock[w.N_RUNNING]):
        other = world.lists[w.L_RUNNING, at]
        if world.jobs[w.STATE, other] == w.STOPPING:
            lift(world, queue, other, -1)
    room = 0
    for node in range(world.nodes.shape[1]):
        room += queue.scratch.free[node]
    return room


@kernel
def has_room(world: World, queue: Queue, parts: Parts, job: int) -> bool:
    """Whether a job fits on paper; where tiers decide, no GPUs need be chosen for that."""
    paper = on_paper(queue.scratch)
    if len(queue.tiers.takes) > 0 and world.jobs[w.SHARE, job] == 1000:
        return room_for(world, queue, paper, job, 0)[0] >= 0
    return find_gpus(world, queue, parts, paper, job) > 0


@kernel
def only_counts(world: World, queue: Queue, job: int) -> bool:
    """Whether a job fits as soon as enough GPUs are free, wherever they are."""
    takes, cls = queue.tiers.takes, queue.class_of[job]
    if len(takes) == 0 or world.jobs[w.SHARE, job] < 1000:
        return False
    whole = False  # a tier that is all of the cluster would do
    for tier in range(1, len(takes)):
        whole = whole or (takes[tier, cls] == 1 and spans_all(world, tier))
    return whole and anywhere(world, job) and counts_add_up(world)


@kernel
def spans_all(world: World, tier: int) -> bool:
    """Whether all nodes are in one domain of a tier; the last one is anywhere."""
    for node in range(1, world.nodes.shape[1] if tier <= len(world.domains) else 0):
        if world.domains[tier - 1, node] != world.domains[tier - 1, 0]:
            return False
    return True


@kernel
def counts_add_up(world: World) -> bool:
    """Whether a job that leaves frees all its GPUs: none is shared, and all nodes are up."""
    tenants, up = 0, True
    for gpu in range(world.gpus.shape[1] if world.clock[w.SLOTS_PER_GPU] > 1 else 0):
        tenants = max(tenants, world.gpus[w.TENANTS, gpu])
    for node in range(world.nodes.shape[1]):
        up = up and world.nodes[w.NODE_STATE, node] == w.UP
    return bool(up and tenants <= 1)


@kernel
def free_soon(world: World) -> int:
    """How many GPUs are free once those being stopped are gone, where counts add up."""
    free = free_gpus(world)
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        free += world.jobs[w.WORKERS, job] if world.jobs[w.STATE, job] == w.STOPPING else 0
    return free


@kernel
def lift_by_count(world: World, queue: Queue, job: int, count: int) -> int:
    """The same as ``lift_anywhere`` where only the number of free GPUs matters; ``count`` candidates."""
    jobs, freed, taken = queue.scratch.jobs, queue.scratch.ends, 0
    short, most = world.jobs[w.GPUS, job] - free_soon(world), 0
    for at in range(count):
        freed[at] = world.jobs[w.WORKERS, jobs[at]]
        most += freed[at]
    if most < short:
        return -1
    while short > 0:
        bring_forward_last(queue, taken, count)
        short -= freed[taken]
        taken += 1
    for i in range(taken - 1, -1, -1):
        if short + freed[i] <= 0:
            short += freed[i]
            jobs[i] = -1
    begin_lifting(world, queue)
    for i in range(taken):
        if jobs[i] >= 0:
            lift(world, queue, jobs[i], -1)
    return taken


@kernel
def lift_anywhere(world: World, queue: Queue, parts: Parts, job: int) -> int:
    """Lift later jobs, the last first, until ``job`` fits; then put back those that need not go, and mark them with -1.

    They are in ``scratch.jobs``; returns how many, -1 if all of them are not enough.
    """
    scratch, wanted = queue.scratch, world.jobs[w.GPUS, job] if world.jobs[w.SHARE, job] >= 1000 else 0
    count, taken = candidates(world, queue, job), 0
    if count == 0:
        return -1
    if only_counts(world, queue, job):
        return lift_by_count(world, queue, job, count)
    room = begin_lifting(world, queue)
    most = room
    for at in range(count):
        most += world.jobs[w.WORKERS, scratch.jobs[at]]
    if most < wanted:
        return -1
    while room < wanted or not has_room(world, queue, parts, job):
        if taken == count:
            return -1
        bring_forward_last(queue, taken, count)
        lift(world, queue, scratch.jobs[taken], -1)
        room += world.jobs[w.WORKERS, scratch.jobs[taken]]
        taken += 1
    for i in range(taken - 1, -1, -1):
        other = scratch.jobs[i]
        lift(world, queue, other, +1)
        if has_room(world, queue, parts, job):
            scratch.jobs[i] = -1
        else:
            lift(world, queue, other, -1)
    return taken


@kernel
def choose_victims(world: World, queue: Queue, parts: Parts, job: int) -> tuple[int, int]:
    """Fill ``scratch.jobs`` with the jobs to stop for ``job`` (-1: not that one); returns how many, -1 if it can't be.

    And how many GPUs are in ``scratch.gpu_ids``; 0: not chosen yet, but on paper those jobs have left.  A job that
    needs one node, where only GPUs are short, has room as soon as one node has, so that each can be looked at on its
    own.
    """
    node = SEVERAL
    if world.clock[w.BOUNDED] == 0 and needs_one_node(world, queue, job):
        node = first_with_room(world, queue, job)
    if node == NOWHERE:
        return -1, 0
    if node == SEVERAL:
        return lift_anywhere(world, queue, parts, job), 0
    taken, stopped = stop_on(world, queue, job, node), 0
    gpus = gpus_left(world, queue, job, node, taken)
    for i in range(taken):
        stopped += queue.scratch.jobs[i] >= 0
    if gpus > 0 and not queue.config.slow_stops:
        expect_exchange(queue, job, node, stopped)
    if gpus == 0:
        begin_lifting(world, queue)
        for i in range(taken):
            if queue.scratch.jobs[i] >= 0:
                lift(world, queue, queue.scratch.jobs[i], -1)
    return taken, gpus


@kernel
def reconsider_later(queue: Queue, job: int) -> None:
    """A job makes room for itself: find the jobs that may fit now, of those that did not.

    Not the jobs before it: the GPUs of those that stop, and its own, were in reach for them already.
    """
    for cls in range(len(queue.size)):
        if queue.size[cls] > 0 and queue.key[queue.members[queue.first[cls]]] > queue.exact[job]:
            queue.blocked[cls] = 0
    for pool in range(len(queue.head)):
        if queue.head[pool] >= 0 and queue.key[queue.head[pool]] > queue.exact[job]:
            queue.head[pool] = -1


@kernel
def block_larger(world: World, queue: Queue, job: int) -> None:
    """A job found no room although it fits on any machine: nor do those after it that want as many GPUs or more.

    They would have to fit on one machine too, or the job wants a single GPU.
    """
    gpus, takes, config = world.jobs[w.GPUS, job], queue.tiers.takes, queue.config
    if config.strict or config.slow_stops or config.varying or config.sees_pool or not anywhere(world, job):
        return
    if len(takes) == 0 or takes[0, queue.class_of[job]] == 0 or world.jobs[w.SHARE, job] < 1000:
        return
    for cls in range(len(queue.size)):
        other = queue.sample[cls]
        if queue.size[cls] == 0 or world.jobs[w.GPUS, other] < gpus or world.jobs[w.SHARE, other] < 1000:
            continue
        if anywhere(world, other) and (gpus == 1 or needs_one_node(world, queue, other)):
            queue.blocked[cls] = 1


@kernel
def make_room(world: World, queue: Queue, parts: Parts, job: int, plan: Decision) -> bool:
    """Stop as few later jobs as needed, the last in the order first, and start ``job``; false if that isn't enough.

    Where stopping takes time the job starts once the GPUs are free; until then those being freed count as its.
    """
    scratch, config, stopped = queue.scratch, queue.config, 0
    count, gpus = choose_victims(world, queue, parts, job)
    if count < 0:
        block_larger(world, queue, job)
        return False
    for i in range(count):
        if scratch.jobs[i] >= 0:
            add_other(plan, w.A_PREEMPT, scratch.jobs[i], 1)
            stopped += 1
    if not config.slow_stops:
        if gpus == 0:
            gpus = find_gpus(world, queue, parts, on_paper(scratch), job)
        add_start(plan, job, scratch.gpu_ids[:gpus], w.NEVER)
        if config.backfill == B_NONE and not config.varying:
            queue.state.seen_releases += stopped
            reconsider_later(queue, job)
    return bool(plan.counts[0] > 0)

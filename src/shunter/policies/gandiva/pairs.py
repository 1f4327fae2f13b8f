"""Gandiva's pairs: two jobs on the same GPUs, for as long as they do more together than in turns."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.gandiva.moves import keep_seat, may_gain, moves_of, partner_of, runs_as_requested
from shunter.scheduling.leasing.decide import first_class
from shunter.scheduling.leasing.memory import Offers, OfferTools, lease_end
from shunter.scheduling.placing import (
    add_other,
    add_shared_start,
    add_start,
    anywhere,
    as_it_is,
    draw_for,
    held,
    may_use,
)
from shunter.scheduling.queue.heaps import insert, remove, top
from shunter.scheduling.queue.queue import Paper, Queue
from shunter.scheduling.tiers import tier_of
from shunter.world import Decision, World

SLACK = 1e-9  # of sums of speeds


@kernel
def line_up(world: World, offers: Offers) -> None:
    """The first waiting job of each class is a candidate."""
    for cls in range(len(offers.candidate)):
        offers.candidate[cls] = top(world, offers.queue, cls)


@kernel
def set_aside(world: World, offers: Offers, cls: int, aside: int) -> None:
    """The candidate of a class is in the plan: the next one of the class takes its place."""
    job = offers.candidate[cls]
    remove(offers.queue, job)
    offers.aside[aside] = job
    offers.candidate[cls] = top(world, offers.queue, cls)


@kernel
def put_back(world: World, offers: Offers) -> None:
    """Put jobs of the last plan that wait after all, because it was refused, into their heaps again."""
    moves = moves_of(offers.own)
    for i in range(moves.aside):
        if world.jobs[w.STATE, offers.aside[i]] == w.PENDING:
            insert(offers.queue, offers.aside[i])
    moves.aside = 0


@kernel
def known_bad(world: World, offers: Offers, job: int, other: int) -> bool:
    """Whether jobs of these models were seen to do badly together, or the waiting one did, where models are unknown."""
    moves, mine, theirs = moves_of(offers.own), world.jobs[w.MODEL, job], world.jobs[w.MODEL, other]
    known = 0 <= mine < len(moves.bad) and 0 <= theirs < len(moves.bad)
    return bool(moves.bad[mine, theirs] == 1 if known else moves.alone[job] == 1)


@kernel
def note_bad(world: World, offers: Offers, job: int, other: int) -> None:
    """Remember that these jobs do badly together: their models, or of unknown ones the job that leaves."""
    moves, mine, theirs = moves_of(offers.own), world.jobs[w.MODEL, job], world.jobs[w.MODEL, other]
    if 0 <= mine < len(moves.bad) and 0 <= theirs < len(moves.bad):
        moves.bad[mine, theirs] = moves.bad[theirs, mine] = 1
    else:
        moves.alone[job] = 1


@kernel
def stop(world: World, offers: Offers, job: int, plan: Decision) -> int:
    """Stop a running job, which will take a tier as low as it has now; returns that."""
    tier = tier_of(world, job)
    keep_seat(offers, job, tier)
    add_other(plan, w.A_PREEMPT, job, 1)
    return tier


@kernel
def fits_with(world: World, paper: Paper, job: int, other: int) -> bool:
    """Whether a waiting job may be on the very GPUs of a running one: as many, where it may be, with CPU and memory.

    A node that drains keeps the jobs that it has, and gets no other.
    """
    jobs, limited = world.jobs, not anywhere(world, job)
    if jobs[w.GPUS, other] != jobs[w.GPUS, job] or not runs_as_requested(world, other) or jobs[w.SHARE, job] < 1000:
        return False
    slot, here, beside = jobs[w.HEAD, other], -1, 0
    while slot >= 0:
        node = world.gpus[w.NODE, world.slots[w.SLOT_GPU, slot]]
        if world.nodes[w.NODE_STATE, node] != w.UP or (limited and not may_use(world, job, node)):
            return False
        beside = beside + 1 if node == here else 1
        here = node
        if limited and (paper.cpu[node] < beside * jobs[w.CPU, job] or paper.mem[node] < beside * jobs[w.MEM, job]):
            return False
        slot = world.slots[w.SLOT_NEXT, slot]
    return True


@kernel
def line_up_partners(world: World, queue: Queue) -> int:
    """Fill ``scratch.jobs`` with the running jobs that are alone on their GPUs; returns how many."""
    count, per_gpu = 0, world.clock[w.SLOTS_PER_GPU]
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if world.gpus[w.TENANTS, world.slots[w.SLOT_GPU, world.jobs[w.HEAD, job]]] == 1:
            queue.scratch.jobs[count] = job
            count += 1
    return count if per_gpu > 1 else 0


@kernel
def partner_for(world: World, offers: Offers, job: int, partners: int) -> int:
    """From one of these, drawn by chance, the first whose GPUs a waiting job may share, -1 if there is none."""
    first, paper = draw_for(world, job) % partners, as_it_is(world)
    for i in range(first, first + partners):
        other = offers.queue.scratch.jobs[i % partners]
        if fits_with(world, paper, job, other) and not known_bad(world, offers, job, other):
            return int(other)
    return -1


@kernel
def start_on(
    world: World, offers: Offers, tools: OfferTools, job: int, other: int, beside: int, tier: int, plan: Decision
) -> None:
    """Start a waiting job on the GPUs of a running one, which leaves them (beside: -1), or beside one that stays.

    ``tier``: that of these GPUs.
    """
    ids = offers.queue.scratch.gpu_ids
    ids, until = ids[: held(world, other, ids)], lease_end(world, offers, tools, job, tier)
    tools.took(world, offers, job, tier)
    if beside < 0:
        add_start(plan, job, ids, until)
        return
    add_shared_start(plan, job, ids, until)
    may_gain(offers, job)
    may_gain(offers, beside)
    moves_of(offers.own).paired = True


@kernel
def pair_up(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Start the waiting jobs that can share the GPUs of a running one, in their order; false if none can.

    One at a time where the next decision may do something else first: shrink a job, or start one on a part of a GPU.
    So also where nodes limit CPU or memory, of which each pair leaves less.
    """
    moves, partners = moves_of(offers.own), line_up_partners(world, offers.queue)
    one = offers.queue.config.shares or moves.config.growth > 1000 or world.clock[w.BOUNDED] == 1
    if partners == 0:
        return False
    line_up(world, offers)
    cls = first_class(offers)
    while cls >= 0 and partners > 0:
        job = offers.candidate[cls]
        other = partner_for(world, offers, job, partners)
        if other >= 0:
            start_on(world, offers, tools, job, other, other, tier_of(world, other), plan)
            set_aside(world, offers, cls, moves.aside)
            moves.aside += 1
            partners = 0 if one else drop_partner(offers.queue, other, partners)
        else:
            offers.candidate[cls] = -1
        cls = first_class(offers)
    return bool(plan.counts[0] > 0)


@kernel
def drop_partner(queue: Queue, job: int, partners: int) -> int:
    """Take a job off the first ``partners`` of ``scratch.jobs``, which keep their order; returns how many are left."""
    jobs, at = queue.scratch.jobs, 0
    while jobs[at] != job:
        at += 1
    for i in range(at, partners - 1):
        jobs[i] = jobs[i + 1]
    return partners - 1


@kernel
def throughput(world: World, job: int) -> float:
    """The present speed of a job over what it would be on the same GPUs alone."""
    slot, slowest = world.jobs[w.HEAD, job], w.NEVER
    while slot >= 0:
        slowest = min(slowest, world.nodes[w.SPEED, world.gpus[w.NODE, world.slots[w.SLOT_GPU, slot]]])
        slot = world.slots[w.SLOT_NEXT, slot]
    return float(world.progress[w.RATE, job] / (slowest * 1e-6 * world.progress[w.SPREAD, job]))


@kernel
def part_bad_pairs(world: World, offers: Offers, plan: Decision) -> bool:
    """Stop the later one of every pair that does less together than in turns, or the other, and remember their models.

    Where neither can be stopped, they stay together.
    """
    jobs, moves, now = world.jobs, moves_of(offers.own), world.clock[w.NOW]
    if moves.judged == now:
        return False
    moves.judged, moves.paired = now, False
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        other = partner_of(world, job) if runs_as_requested(world, job) else -1
        if other < 0 or jobs[w.STATE, other] != w.RUNNING or not began_before(world, other, job):
            continue
        if jobs[w.BEGUN, job] == now:
            moves.paired = True
        elif throughput(world, job) + throughput(world, other) < 1.0 - SLACK:
            leaver = job if jobs[w.CHECKPOINTABLE, job] == 1 else other
            if jobs[w.CHECKPOINTABLE, leaver] == 1:
                stop(world, offers, leaver, plan)
            note_bad(world, offers, job, other)
    return bool(plan.counts[0] > 0)


@kernel
def began_before(world: World, a: int, b: int) -> bool:
    """Whether the present run of job ``a`` began before that of ``b``."""
    begun = world.jobs[w.BEGUN]
    return bool(begun[a] < begun[b] or (begun[a] == begun[b] and a < b))

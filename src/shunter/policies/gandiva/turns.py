"""Gandiva's over-subscription: pairs of jobs on the same GPUs, and turns of those that run and those that wait."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.gandiva.moves import as_asked, keep_seat, may_gain, moves_of, partner_of
from shunter.scheduling.leasing.decide import first_class
from shunter.scheduling.leasing.memory import Offers, OfferTools, gpus_for, lease_end, room_at
from shunter.scheduling.placing import (
    add_other,
    add_shared_start,
    add_start,
    as_it_is,
    copy_to_paper,
    draw_for,
    held,
    in_the_way,
    may_use,
    on_paper,
    put_on_paper,
    share_fits,
    sort,
    within_limits,
)
from shunter.scheduling.queue.preempting import lift, ran_enough, stops_left
from shunter.scheduling.queue.queue import Paper, Queue, insert, remove, top
from shunter.scheduling.tiers import tier_of
from shunter.world import Decision, World

MOST_MODELS = 512  # for which `bad` remembers which are slow beside which
MOST_TURNS = 64  # in one plan; after it others may move or start
SLACK = 1e-9  # of sums of speeds


# ------------------------------------------------------------------------------------------- pairs on the same GPUs


@kernel
def line_up(world: World, offers: Offers) -> None:
    """The first waiting job of each class is a candidate."""
    for cls in range(len(offers.candidate)):
        offers.candidate[cls] = top(world, offers.queue, cls)


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
def stop(world: World, offers: Offers, job: int, plan: Decision) -> None:
    """Stop a running job, which will take a tier as low as it has now."""
    keep_seat(offers, job, tier_of(world, job))
    add_other(plan, w.A_PREEMPT, job, 1)


@kernel
def fits_with(world: World, paper: Paper, job: int, other: int) -> bool:
    """Whether a waiting job may be on the very GPUs of a running one: as many, where it may be, with CPU and memory."""
    jobs, per_gpu = world.jobs, world.clock[w.SLOTS_PER_GPU]
    if jobs[w.GPUS, other] != jobs[w.GPUS, job] or not as_asked(world, other) or jobs[w.SHARE, job] < 1000:
        return False
    slot, here, beside = jobs[w.HEAD, other], -1, 0
    while slot >= 0:
        node = world.gpus[w.NODE, slot // per_gpu]
        if not may_use(world, job, node):
            return False
        beside = beside + 1 if node == here else 1
        here = node
        if paper.cpu[node] < beside * jobs[w.CPU, job] or paper.mem[node] < beside * jobs[w.MEM, job]:
            return False
        slot = world.slots[w.SLOT_NEXT, slot]
    return True


@kernel
def line_up_partners(world: World, queue: Queue) -> int:
    """Fill ``scratch.jobs`` with the running jobs that are alone on their GPUs; returns how many."""
    count, per_gpu = 0, world.clock[w.SLOTS_PER_GPU]
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if world.gpus[w.TENANTS, world.jobs[w.HEAD, job] // per_gpu] == 1:
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
    world: World, offers: Offers, tools: OfferTools, job: int, other: int, beside: int, plan: Decision
) -> None:
    """Start a waiting job on the GPUs of a running one, which leaves them (beside: -1), or beside one that stays."""
    ids, tier = offers.queue.scratch.gpu_ids, tier_of(world, other)
    ids, until = ids[: held(world, other, ids)], lease_end(world, offers, tools, job, tier)
    sort(ids)
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
    """Start the first waiting job that can share the GPUs of a running one; false if none can."""
    partners = line_up_partners(world, offers.queue)
    if partners == 0:
        return False
    line_up(world, offers)
    cls = first_class(offers)
    while cls >= 0:
        job = offers.candidate[cls]
        other = partner_for(world, offers, job, partners)
        if other >= 0:
            start_on(world, offers, tools, job, other, other, plan)
            return True
        offers.candidate[cls] = -1
        cls = first_class(offers)
    return False


@kernel
def throughput(world: World, job: int) -> float:
    """The present speed of a job over what it would be on the same GPUs alone."""
    slot, slowest = world.jobs[w.HEAD, job], w.NEVER
    while slot >= 0:
        slowest = min(slowest, world.nodes[w.SPEED, world.gpus[w.NODE, slot // world.clock[w.SLOTS_PER_GPU]]])
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
        other = partner_of(world, job) if as_asked(world, job) else -1
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


# ------------------------------------------------------------------------------------------- turns


@kernel
def began_before(world: World, a: int, b: int) -> bool:
    """Whether the present run of job ``a`` began before that of ``b``."""
    begun = world.jobs[w.BEGUN]
    return bool(begun[a] < begun[b] or (begun[a] == begun[b] and a < b))


@kernel
def line_up_runners(world: World, queue: Queue) -> int:
    """Fill ``scratch.jobs`` with jobs that made progress in the present run, the longest run first; returns how many.

    A job that has not, because it is still restarting, is not stopped: else none would ever finish.  Nor is one that
    has worked for less than stopping it costs.
    """
    jobs, count, now = queue.scratch.jobs, 0, world.clock[w.NOW]
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        began = max(world.jobs[w.BEGUN, job], world.jobs[w.SINCE, job])
        may_stop = world.jobs[w.STATE, job] == w.RUNNING and stops_left(world, queue, job)
        if may_stop and began < now and ran_enough(world, queue, job):
            jobs[count] = job
            count += 1
    gap = count // 2
    while gap > 0:  # Shell's sort
        for i in range(gap, count):
            job, at = jobs[i], i
            while at >= gap and began_before(world, job, jobs[at - gap]):
                jobs[at] = jobs[at - gap]
                at -= gap
            jobs[at] = job
        gap //= 2
    return count


@kernel
def fits_on(world: World, queue: Queue, paper: Paper, job: int, place: int) -> bool:
    """Whether a job fits on paper: on a GPU if it wants a share of one, on a machine, or anywhere if none could."""
    if world.jobs[w.SHARE, job] < 1000:
        return share_fits(world, paper, job, place)
    if queue.tiers.takes[0, queue.class_of[job]] == 1:
        return bool(may_use(world, job, place) and within_limits(world, paper, job, place) >= world.jobs[w.GPUS, job])
    room = 0
    for node in range(world.nodes.shape[1]):
        room += within_limits(world, paper, job, node) if may_use(world, job, node) else 0
    return bool(room >= world.jobs[w.GPUS, job])


@kernel
def place_left_by(world: World, queue: Queue, paper: Paper, job: int, other: int) -> int:
    """Where a job fits on paper now that ``other`` has left, as ``fits_on`` has it; -1 if nowhere."""
    slot, wide = world.jobs[w.HEAD, other], queue.tiers.takes[0, queue.class_of[job]] == 0
    while slot >= 0:
        gpu = slot // world.clock[w.SLOTS_PER_GPU]
        place = gpu if world.jobs[w.SHARE, job] < 1000 else world.gpus[w.NODE, gpu]
        if fits_on(world, queue, paper, job, place):
            return int(place)
        slot = -1 if wide else world.slots[w.SLOT_NEXT, slot]  # one that goes anywhere fits nowhere then
    return -1


@kernel
def make_way(world: World, offers: Offers, paper: Paper, job: int, runners: int, plan: Decision) -> bool:
    """Stop the jobs that ran longest until a job fits, and spare those not needed for it; false if it never fits."""
    queue = offers.queue
    jobs, stopped = queue.scratch.jobs, queue.scratch.ends
    place, last = -1, 0
    while place < 0 and last < runners:
        stopped[last] = 1 if jobs[last] >= 0 and in_the_way(world, job, jobs[last]) else 0
        if stopped[last] == 1:
            lift(world, queue, jobs[last], -1)
            place = place_left_by(world, queue, paper, job, jobs[last])
        last += 1
    for i in range(last - 1, -1, -1):
        if stopped[i] == 1:
            lift(world, queue, jobs[i], +1)
            if place >= 0 and not fits_on(world, queue, paper, job, place):
                lift(world, queue, jobs[i], -1)
                stop(world, offers, jobs[i], plan)
                jobs[i] = -1
    return place >= 0


@kernel
def who_gives_way(world: World, offers: Offers, paper: Paper, job: int, runners: int) -> int:
    """The job of equal size that ran longest on GPUs that another may use; -1: none. On paper it has left."""
    jobs, queue = offers.queue.scratch.jobs, offers.queue
    for i in range(runners if world.jobs[w.SHARE, job] == 1000 else 0):
        other = jobs[i]
        if other < 0 or world.jobs[w.GPUS, other] != world.jobs[w.GPUS, job]:
            continue
        lift(world, queue, other, -1)
        beside = partner_of(world, other)
        if fits_with(world, paper, job, other) and (beside < 0 or not known_bad(world, offers, job, beside)):
            jobs[i] = -1
            for k in range(runners if beside >= 0 else 0):
                if jobs[k] == beside:
                    jobs[k] = -1  # it stays, or this plan would not show which job is beside which
            return int(other)
        lift(world, queue, other, +1)
    return -1


@kernel
def take_turn(
    world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int, runners: int, plan: Decision
) -> bool:
    """Plan the turn of a waiting job: on what is free, in the place of one as large, or of several; false: nowhere.

    Where stopping takes time it starts later, when the GPUs are free.
    """
    ids, at_once = offers.queue.scratch.gpu_ids, not offers.queue.config.slow_stops
    if room_at(world, offers, tools, paper, job)[0] < 0:
        other = who_gives_way(world, offers, paper, job, runners)
        if other >= 0:
            put_on_paper(world, paper, job, ids[: held(world, other, ids)], +1)
            stop(world, offers, other, plan)
            if at_once:
                start_on(world, offers, tools, job, other, partner_of(world, other), plan)
            return True
        if not make_way(world, offers, paper, job, runners, plan):
            return False
    gpus, tier = gpus_for(world, offers, tools, paper, job)
    put_on_paper(world, paper, job, ids[:gpus], +1)
    if at_once:
        tools.took(world, offers, job, tier)
        add_start(plan, job, ids[:gpus], w.NEVER)
    return True


@kernel
def take_turns(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Stop the jobs that ran longest for the one that waited longest, only as many as needed; false if none can."""
    queue, now, aside = offers.queue, world.clock[w.NOW], 0
    slow, paper = queue.config.slow_stops, on_paper(offers.queue.scratch)
    if moves_of(offers.own).turned == now:
        return False
    runners = line_up_runners(world, queue)
    copy_to_paper(world, paper)
    for at in range(world.clock[w.N_RUNNING]):
        if world.jobs[w.STATE, world.lists[w.L_RUNNING, at]] == w.STOPPING:
            lift(world, queue, world.lists[w.L_RUNNING, at], -1)
    line_up(world, offers)
    cls = first_class(offers)
    while cls >= 0 and (slow or aside < MOST_TURNS):
        job = offers.candidate[cls]
        offers.candidate[cls] = -1
        waited = world.jobs[w.WAITING_SINCE, job] < now
        if waited and take_turn(world, offers, tools, paper, job, runners, plan):
            remove(queue, job)
            offers.aside[aside] = job
            aside += 1
            offers.candidate[cls] = top(world, queue, cls)
        cls = first_class(offers)
    for i in range(aside):
        insert(queue, offers.aside[i])
    if slow or plan.counts[0] == 0:
        moves_of(offers.own).turned = now
    return bool(plan.counts[0] > 0)

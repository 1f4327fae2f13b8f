"""Gandiva's over-subscription: pairs of jobs on the same GPUs, and turns of those that run and those that wait."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.gandiva.moves import (
    Moves,
    keep_seat,
    may_gain,
    moves_of,
    partner_of,
    runs_as_requested,
)
from shunter.scheduling.leasing.decide import first_class
from shunter.scheduling.leasing.memory import Offers, OfferTools, gpus_for, lease_end, room_at
from shunter.scheduling.placing import (
    add_other,
    add_shared_start,
    add_start,
    anywhere,
    as_it_is,
    copy_to_paper,
    draw_for,
    held,
    in_the_way,
    may_use,
    on_paper,
    open_to,
    put_on_paper,
    share_fits,
    within_limits,
)
from shunter.scheduling.queue.preempting import lift, ran_enough, stops_left
from shunter.scheduling.queue.queue import Paper, Queue, insert, remove, top
from shunter.scheduling.tiers import tier_of
from shunter.world import Decision, World

MOST_MODELS = 512  # for which `bad` remembers which are slow beside which
MOST_TURNS = 64  # in one plan; after it others may move or start
SLACK = 1e-9  # of sums of speeds
# Whether a job gets a turn; and for jobs that got none before: they still can't, they may now, or they may once the
# plan is done
NO_TURN, NO_ROOM, OTHER_ROOM, LATER = range(4)


# ------------------------------------------------------------------------------------------- pairs on the same GPUs


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
def stop(world: World, offers: Offers, job: int, plan: Decision) -> None:
    """Stop a running job, which will take a tier as low as it has now."""
    keep_seat(offers, job, tier_of(world, job))
    add_other(plan, w.A_PREEMPT, job, 1)


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
        short = paper.cpu[node] < beside * jobs[w.CPU, job] or paper.mem[node] < beside * jobs[w.MEM, job]
        if limited and short:
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
    world: World, offers: Offers, tools: OfferTools, job: int, other: int, beside: int, plan: Decision
) -> None:
    """Start a waiting job on the GPUs of a running one, which leaves them (beside: -1), or beside one that stays."""
    ids, tier = offers.queue.scratch.gpu_ids, tier_of(world, other)
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
            start_on(world, offers, tools, job, other, other, plan)
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
    jobs, begun, count, now = queue.scratch.jobs, queue.scratch.ends, 0, world.clock[w.NOW]
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        began = max(world.jobs[w.BEGUN, job], world.jobs[w.SINCE, job])
        may_stop = world.jobs[w.STATE, job] == w.RUNNING and stops_left(world, queue, job)
        if may_stop and began < now and ran_enough(world, queue, job):
            jobs[count], begun[count] = job, world.jobs[w.BEGUN, job]
            count += 1
    gap = count // 2
    while gap > 0:  # Shell's sort
        for i in range(gap, count):
            job, time, at = jobs[i], begun[i], i
            while at >= gap and (time < begun[at - gap] or (time == begun[at - gap] and job < jobs[at - gap])):
                jobs[at], begun[at] = jobs[at - gap], begun[at - gap]
                at -= gap
            jobs[at], begun[at] = job, time
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
        gpu = world.slots[w.SLOT_GPU, slot]
        place = gpu if world.jobs[w.SHARE, job] < 1000 else world.gpus[w.NODE, gpu]
        if fits_on(world, queue, paper, job, place):
            return int(place)
        slot = -1 if wide else world.slots[w.SLOT_NEXT, slot]  # one that goes anywhere fits nowhere then
    return -1


@kernel
def make_way(world: World, offers: Offers, paper: Paper, job: int, runners: int, plan: Decision) -> bool:
    """Stop the jobs that ran longest until a job fits, and spare those not needed for it; false if it never fits."""
    queue, moves = offers.queue, moves_of(offers.own)
    jobs, stopped = queue.scratch.jobs, queue.scratch.ends
    place, last, whole = -1, 0, world.jobs[w.SHARE, job] == 1000
    if whole and moves.free + moves.stoppable < world.jobs[w.GPUS, job]:
        return False
    if whole and world.clock[w.BOUNDED] == 0:
        return make_way_by_count(world, offers, paper, job, runners, plan)
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
                drop_runner(world, offers, i)
    return place >= 0


@kernel
def count_out(world: World, paper: Paper, other: int, job: int) -> int:
    """Take a running job off the paper, as to which GPUs are free; returns its node with room for ``job``, -1: none."""
    slot, found, wanted, everywhere = world.jobs[w.HEAD, other], -1, world.jobs[w.GPUS, job], open_to(world, job)
    while slot >= 0:
        gpu = world.slots[w.SLOT_GPU, slot]
        node = world.gpus[w.NODE, gpu]
        paper.tenants[gpu] -= 1
        if paper.tenants[gpu] == 0 and world.nodes[w.NODE_STATE, node] == w.UP:
            paper.free[node] += 1
        slot = world.slots[w.SLOT_NEXT, slot]
        if found < 0 and paper.free[node] >= wanted and (everywhere or may_use(world, job, node)):
            found = node
    return int(found)


@kernel
def count_in(world: World, paper: Paper, job: int) -> None:
    """Put such a job back."""
    slot = world.jobs[w.HEAD, job]
    while slot >= 0:
        gpu = world.slots[w.SLOT_GPU, slot]
        node = world.gpus[w.NODE, gpu]
        paper.tenants[gpu] += 1
        if paper.tenants[gpu] == 1 and world.nodes[w.NODE_STATE, node] == w.UP:
            paper.free[node] -= 1
        slot = world.slots[w.SLOT_NEXT, slot]


@kernel
def room_for_it(world: World, paper: Paper, job: int) -> bool:
    """Whether a job has GPUs enough on paper, wherever they are and nodes limit neither CPU nor memory."""
    room = 0
    if open_to(world, job):
        room = count_free(paper)
    else:
        for node in range(world.nodes.shape[1]):
            room += paper.free[node] if may_use(world, job, node) else 0
    return bool(room >= world.jobs[w.GPUS, job])


@kernel
def make_way_by_count(world: World, offers: Offers, paper: Paper, job: int, runners: int, plan: Decision) -> bool:
    """The same where only GPUs are short: a job wants enough of them on one node, or anywhere if no node could do."""
    queue, jobs, stopped = offers.queue, offers.queue.scratch.jobs, offers.queue.scratch.ends
    wide, everywhere, place, last = queue.tiers.takes[0, queue.class_of[job]] == 0, open_to(world, job), -1, 0
    while place < 0 and last < runners:
        stopped[last] = 1 if jobs[last] >= 0 and (everywhere or in_the_way(world, job, jobs[last])) else 0
        if stopped[last] == 1:
            place = count_out(world, paper, jobs[last], job)
            if wide:
                place = 0 if room_for_it(world, paper, job) else -1
        last += 1
    for i in range(last - 1, -1, -1):
        if stopped[i] == 0:
            continue
        count_in(world, paper, jobs[i])
        if place >= 0 and not (
            room_for_it(world, paper, job) if wide else paper.free[place] >= world.jobs[w.GPUS, job]
        ):
            lift(world, queue, jobs[i], -1)
            stop(world, offers, jobs[i], plan)
            drop_runner(world, offers, i)
    return place >= 0


@kernel
def drop_runner(world: World, offers: Offers, at: int) -> None:
    """Take the job at a position off those that may be stopped: it stops, or it stays."""
    jobs = offers.queue.scratch.jobs
    moves_of(offers.own).stoppable -= world.jobs[w.WORKERS, jobs[at]]
    jobs[at] = -1


@kernel
def first_of_size(world: World, offers: Offers, job: int, runners: int) -> int:
    """The position of the first running job of a waiting one's size that may be stopped; ``runners`` if none may."""
    jobs, moves, size = offers.queue.scratch.jobs, moves_of(offers.own), offers.size_of[offers.queue.class_of[job]]
    at = moves.next_of_size[size]
    while at < runners and (jobs[at] < 0 or world.jobs[w.GPUS, jobs[at]] != world.jobs[w.GPUS, job]):
        at += 1
    moves.next_of_size[size] = at
    return int(at)


@kernel
def job_to_replace(world: World, offers: Offers, paper: Paper, job: int, runners: int) -> int:
    """The job of equal size that ran longest on GPUs that a waiting one may use; -1: none.

    Where nodes limit CPU or memory it has left on paper.  Elsewhere the exchange changes nothing there.
    """
    jobs, queue, bounded = offers.queue.scratch.jobs, offers.queue, world.clock[w.BOUNDED] == 1
    if world.jobs[w.SHARE, job] < 1000:
        return -1
    for i in range(first_of_size(world, offers, job, runners), runners):
        other = jobs[i]
        if other < 0 or world.jobs[w.GPUS, other] != world.jobs[w.GPUS, job]:
            continue
        if bounded:
            lift(world, queue, other, -1)
        beside = partner_of(world, other)
        if fits_with(world, paper, job, other) and (beside < 0 or not known_bad(world, offers, job, beside)):
            drop_runner(world, offers, i)
            for k in range(runners if beside >= 0 else 0):
                if jobs[k] == beside:
                    drop_runner(world, offers, k)  # it stays, or this plan would not show which job is beside which
            return int(other)
        if bounded:
            lift(world, queue, other, +1)
    return -1


@kernel
def count_free(paper: Paper) -> int:
    """How many GPUs are free on paper."""
    free = 0
    for node in range(len(paper.free)):
        free += paper.free[node]
    return int(free)


@kernel
def exchange(
    world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int, other: int, plan: Decision
) -> int:
    """Plan that a waiting job takes the GPUs of a running one, which stops; returns what that is to other jobs."""
    ids, beside = offers.queue.scratch.gpu_ids, partner_of(world, other)
    if world.clock[w.BOUNDED] == 1:
        put_on_paper(world, paper, job, ids[: held(world, other, ids)], +1)
    stop(world, offers, other, plan)
    if not offers.queue.config.slow_stops:
        start_on(world, offers, tools, job, other, beside, plan)
    if beside >= 0:  # the job beside is not stopped in this plan
        return LATER
    return OTHER_ROOM if world.clock[w.BOUNDED] == 1 else NO_ROOM


@kernel
def take_turn(
    world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int, runners: int, plan: Decision
) -> int:
    """Plan the turn of a waiting job: on what is free, in the place of one as large, or of several; else NO_TURN.

    Returns what that is to other jobs.  Where stopping takes time the job starts later, when the GPUs are free.
    """
    ids, moves, whole = offers.queue.scratch.gpu_ids, moves_of(offers.own), world.jobs[w.SHARE, job] == 1000
    enough = not whole or moves.free >= world.jobs[w.GPUS, job]
    if not enough or room_at(world, offers, tools, paper, job)[0] < 0:
        other = job_to_replace(world, offers, paper, job, runners)
        if other >= 0:
            return exchange(world, offers, tools, paper, job, other, plan)
        if not make_way(world, offers, paper, job, runners, plan):
            return NO_TURN
    gpus, tier = gpus_for(world, offers, tools, paper, job)
    put_on_paper(world, paper, job, ids[:gpus], +1)
    moves.free = count_free(paper)
    if not offers.queue.config.slow_stops:
        tools.took(world, offers, job, tier)
        add_start(plan, job, ids[:gpus], w.NEVER)
    return OTHER_ROOM


@kernel
def begin_turns(world: World, offers: Offers, paper: Paper) -> int:
    """Line up the running jobs that may stop and the waiting ones, with what is free on paper; returns how many run."""
    queue, moves = offers.queue, moves_of(offers.own)
    runners = line_up_runners(world, queue)
    copy_to_paper(world, paper)
    for at in range(world.clock[w.N_RUNNING]):
        if world.jobs[w.STATE, world.lists[w.L_RUNNING, at]] == w.STOPPING:
            lift(world, queue, world.lists[w.L_RUNNING, at], -1)
    moves.free, moves.stoppable = count_free(paper), 0
    for i in range(runners):
        moves.stoppable += world.jobs[w.WORKERS, queue.scratch.jobs[i]]
    moves.next_of_size[:] = 0
    line_up(world, offers)
    return runners


@kernel
def plan_turns(world: World, offers: Offers, tools: OfferTools, paper: Paper, runners: int, plan: Decision) -> bool:
    """Plan turns in the order of the queue; whether no job can take one as long as nothing else happens.

    A class whose first job finds no room fares no better after exchanges of two jobs.
    """
    moves, now, slow = moves_of(offers.own), world.clock[w.NOW], offers.queue.config.slow_stops
    failed, again, cls = False, False, first_class(offers)
    while cls >= 0 and (slow or moves.aside < MOST_TURNS):
        job, turn = offers.candidate[cls], NO_TURN
        if world.jobs[w.WAITING_SINCE, job] < now:
            turn = take_turn(world, offers, tools, paper, job, runners, plan)
            again = again or turn == LATER or (failed and turn == OTHER_ROOM)
            failed = failed or turn == NO_TURN
        if turn == NO_TURN:
            offers.candidate[cls] = -1
        else:
            set_aside(world, offers, cls, moves.aside)
            moves.aside += 1
        cls = first_class(offers)
    return cls < 0 and not again


@kernel
def note_settled(world: World, moves: Moves, plan: Decision) -> None:
    """No job can take a turn after this plan, if nothing else happens at this instant."""
    stops, clock = 0, world.clock
    for i in range(plan.counts[0]):
        stops += plan.actions[i, w.KIND] == w.A_PREEMPT
    moves.settled, moves.settled_releases = clock[w.NOW], clock[w.RELEASES] + stops
    moves.settled_running = clock[w.N_RUNNING] + plan.counts[0] - 2 * stops


@kernel
def is_settled(world: World, moves: Moves) -> bool:
    """Whether nothing has happened since the turns of this instant after which no job could take one."""
    same = world.clock[w.RELEASES] == moves.settled_releases and world.clock[w.N_RUNNING] == moves.settled_running
    return bool(same and moves.settled == world.clock[w.NOW])


@kernel
def take_turns(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Stop the jobs that ran longest for the one that waited longest, only as many as needed; false if none can."""
    moves, now, slow = moves_of(offers.own), world.clock[w.NOW], offers.queue.config.slow_stops
    if moves.turned == now:
        return False
    if not is_settled(world, moves):
        paper = on_paper(offers.queue.scratch)
        runners = begin_turns(world, offers, paper)
        if plan_turns(world, offers, tools, paper, runners, plan):
            note_settled(world, moves, plan)
    if slow:
        put_back(world, offers)
    if slow or plan.counts[0] == 0:
        moves.turned = now
    return bool(plan.counts[0] > 0)

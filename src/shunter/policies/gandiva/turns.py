"""Gandiva's turns of jobs that run and jobs that wait."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.gandiva.making_way import count_free, drop_runner, is_lined_up, make_way
from shunter.policies.gandiva.moves import Moves, moves_of, partner_of
from shunter.policies.gandiva.pairs import fits_with, known_bad, line_up, put_back, set_aside, start_on, stop
from shunter.scheduling.leasing.decide import first_class
from shunter.scheduling.leasing.memory import Offers, OfferTools, gpus_at, room_at
from shunter.scheduling.placing import add_start, copy_to_paper, held, on_paper, put_on_paper
from shunter.scheduling.queue.preempting import lift
from shunter.scheduling.queue.queue import Paper, Queue
from shunter.scheduling.queue.stoppable import ran_enough, stops_left
from shunter.world import I64, Decision, World

MOST_MODELS = 512  # for which `bad` remembers which are slow beside which
MOST_TURNS = 64  # in one plan; after it others may move or start
# Whether a job gets a turn; and for jobs that got none before: they still can't, they may now, or they may once the
# plan is done
NO_TURN, NO_ROOM, OTHER_ROOM, LATER = range(4)


@kernel
def may_stop(world: World, queue: Queue, job: int) -> bool:
    """Whether a running job made progress in the present run and may be stopped.

    A job that has not, because it is still restarting, is not stopped: else none would ever finish.  Nor is one that
    has worked for less than stopping it costs.
    """
    began = max(world.jobs[w.BEGUN, job], world.jobs[w.SINCE, job])
    runs = world.jobs[w.STATE, job] == w.RUNNING and began < world.clock[w.NOW]
    return bool(runs and stops_left(world, queue, job) and ran_enough(world, queue, job))


@kernel
def sort_runners(world: World, jobs: I64) -> None:
    """Sort running jobs by how long they run, the longest run first, then by their numbers.

    Times and numbers are sorted as one number, which is much faster; of a million jobs one may run for 270 years.
    """
    bits, now = 0, world.clock[w.NOW]
    while world.jobs.shape[1] >> bits > 0:
        bits += 1
    for at in range(len(jobs)):
        jobs[at] |= (world.jobs[w.BEGUN, jobs[at]] - now) << bits
    gap = len(jobs)
    while gap > 1:  # Shell's sort
        gap = max(5 * gap // 11, 1)
        for i in range(gap, len(jobs)):
            job, at = jobs[i], i
            while at >= gap and job < jobs[at - gap]:
                jobs[at] = jobs[at - gap]
                at -= gap
            jobs[at] = job
    for at in range(len(jobs)):
        jobs[at] &= (1 << bits) - 1


@kernel
def line_up_runners(world: World, offers: Offers, again: bool) -> None:
    """List the running jobs that may be stopped, the longest run first, and link those of each size.

    ``again``: nothing happened since the last time but what was planned then, so that those left are in order.
    """
    queue, moves, count = offers.queue, moves_of(offers.own), 0
    known = moves.runners if again else world.lists[w.L_RUNNING]
    for at in range(moves.lined_up if again else world.clock[w.N_RUNNING]):
        if known[at] >= 0 and may_stop(world, queue, known[at]):
            moves.runners[count] = known[at]
            count += 1
    moves.lined_up, moves.stoppable = count, 0
    if not again:
        sort_runners(world, moves.runners[:count])
    moves.first_of_size[:] = -1
    for at in range(count - 1, -1, -1):
        job = moves.runners[at]
        size = offers.size_of[queue.class_of[job]]
        moves.next_of_size[at], moves.first_of_size[size] = moves.first_of_size[size], at
        moves.position[job] = at
        moves.stoppable += world.jobs[w.WORKERS, job]


@kernel
def first_of_size(offers: Offers, job: int) -> int:
    """The position of the first running job of a waiting one's size that may be stopped; -1 if none may."""
    moves, size = moves_of(offers.own), offers.size_of[offers.queue.class_of[job]]
    at = moves.first_of_size[size]
    while at >= 0 and moves.runners[at] < 0:
        at = moves.next_of_size[at]
    moves.first_of_size[size] = at
    return int(at)


@kernel
def job_to_replace(world: World, offers: Offers, paper: Paper, job: int) -> tuple[int, int]:
    """The job of equal size that ran longest on GPUs that a waiting one may use, and its partner there; -1: none.

    Where nodes limit CPU or memory it has left on paper.  Elsewhere the exchange changes nothing there.
    """
    moves, queue, bounded = moves_of(offers.own), offers.queue, world.clock[w.BOUNDED] == 1
    at = first_of_size(offers, job) if world.jobs[w.SHARE, job] == 1000 else -1
    while at >= 0:
        other = moves.runners[at]
        if other >= 0:
            if bounded:
                lift(world, queue, other, -1)
            beside = partner_of(world, other)
            if fits_with(world, paper, job, other) and (beside < 0 or not known_bad(world, offers, job, beside)):
                drop_runner(world, offers, at)
                if beside >= 0 and is_lined_up(moves, beside):
                    # it stays, or this plan would not show which job is beside which
                    drop_runner(world, offers, moves.position[beside])
                return int(other), beside
            if bounded:
                lift(world, queue, other, +1)
        at = moves.next_of_size[at]
    return -1, -1


@kernel
def exchange(
    world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int, other: int, beside: int, plan: Decision
) -> int:
    """Plan that a waiting job takes the GPUs of a running one, which stops; returns what that is to other jobs."""
    ids = offers.queue.scratch.gpu_ids
    if world.clock[w.BOUNDED] == 1:
        put_on_paper(world, paper, job, ids[: held(world, other, ids)], +1)
    tier = stop(world, offers, other, plan)
    if not offers.queue.config.slow_stops:
        start_on(world, offers, tools, job, other, beside, tier, plan)
    if beside >= 0:  # the job beside is not stopped in this plan
        return LATER
    return OTHER_ROOM if world.clock[w.BOUNDED] == 1 else NO_ROOM


@kernel
def take_turn(world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int, plan: Decision) -> int:
    """Plan the turn of a waiting job: on what is free, in the place of one as large, or of several; else NO_TURN.

    Returns what that is to other jobs.  Where stopping takes time the job starts later, when the GPUs are free.
    """
    ids, moves, whole = offers.queue.scratch.gpu_ids, moves_of(offers.own), world.jobs[w.SHARE, job] == 1000
    tier, place = -1, -1
    if not whole or moves.free >= world.jobs[w.GPUS, job]:
        tier, place = room_at(world, offers, tools, paper, job)
    if tier < 0:
        other, beside = job_to_replace(world, offers, paper, job)
        if other >= 0:
            return exchange(world, offers, tools, paper, job, other, beside, plan)
        if not make_way(world, offers, paper, job, plan):
            return NO_TURN
        tier, place = room_at(world, offers, tools, paper, job)
    gpus = gpus_at(world, offers, paper, job, tier, place)
    put_on_paper(world, paper, job, ids[:gpus], +1)
    moves.free = count_free(paper)
    if not offers.queue.config.slow_stops:
        tools.took(world, offers, job, tier)
        add_start(plan, job, ids[:gpus], w.NEVER)
    return OTHER_ROOM


@kernel
def begin_turns(world: World, offers: Offers, paper: Paper) -> None:
    """Line up the running jobs that may stop and the waiting ones, with what is free on paper."""
    queue, moves = offers.queue, moves_of(offers.own)
    line_up_runners(world, offers, is_as_planned(world, moves))
    copy_to_paper(world, paper)
    for at in range(world.clock[w.N_RUNNING] if queue.config.slow_stops else 0):
        if world.jobs[w.STATE, world.lists[w.L_RUNNING, at]] == w.STOPPING:
            lift(world, queue, world.lists[w.L_RUNNING, at], -1)
    moves.free = count_free(paper)
    line_up(world, offers)


@kernel
def plan_turns(world: World, offers: Offers, tools: OfferTools, paper: Paper, plan: Decision) -> bool:
    """Plan turns in the order of the queue; whether no job can take one as long as nothing else happens.

    A class whose first job finds no room fares no better after exchanges of two jobs.
    """
    moves, now, slow = moves_of(offers.own), world.clock[w.NOW], offers.queue.config.slow_stops
    failed, again, cls = False, False, first_class(offers)
    while cls >= 0 and (slow or moves.aside < MOST_TURNS):
        job, turn = offers.candidate[cls], NO_TURN
        if world.jobs[w.WAITING_SINCE, job] < now:
            turn = take_turn(world, offers, tools, paper, job, plan)
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
def note_plan(world: World, moves: Moves, plan: Decision) -> None:
    """Note what will be so after this plan, if nothing else happens at this instant."""
    stops, clock = 0, world.clock
    for i in range(plan.counts[0]):
        stops += plan.actions[i, w.KIND] == w.A_PREEMPT
    moves.planned, moves.planned_releases = clock[w.NOW], clock[w.RELEASES] + stops
    moves.planned_running = clock[w.N_RUNNING] + plan.counts[0] - 2 * stops


@kernel
def is_as_planned(world: World, moves: Moves) -> bool:
    """Whether nothing has happened since the last turns of this instant but these."""
    same = world.clock[w.RELEASES] == moves.planned_releases and world.clock[w.N_RUNNING] == moves.planned_running
    return bool(same and moves.planned == world.clock[w.NOW])


@kernel
def take_turns(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Stop the jobs that ran longest for the one that waited longest, only as many as needed; false if none can."""
    moves, now, slow = moves_of(offers.own), world.clock[w.NOW], offers.queue.config.slow_stops
    if moves.turned == now:
        return False
    if not (moves.settled and is_as_planned(world, moves)):
        paper = on_paper(offers.queue.scratch)
        begin_turns(world, offers, paper)
        moves.settled = plan_turns(world, offers, tools, paper, plan)
        note_plan(world, moves, plan)
    if slow:
        put_back(world, offers)
    if slow or plan.counts[0] == 0:
        moves.turned = now
    return bool(plan.counts[0] > 0)

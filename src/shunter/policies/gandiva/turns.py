"""Gandiva's turns of jobs that run and jobs that wait."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.gandiva.making_way import count_free, drop_runner, make_way
from shunter.policies.gandiva.moves import Moves, moves_of, partner_of
from shunter.policies.gandiva.pairs import fits_with, known_bad, line_up, put_back, set_aside, start_on, stop
from shunter.scheduling.leasing.decide import first_class
from shunter.scheduling.leasing.memory import Offers, OfferTools, gpus_for, room_at
from shunter.scheduling.placing import add_start, copy_to_paper, held, on_paper, put_on_paper
from shunter.scheduling.queue.preempting import lift
from shunter.scheduling.queue.queue import Paper, Queue
from shunter.scheduling.queue.stoppable import ran_enough, stops_left
from shunter.world import Decision, World

MOST_MODELS = 512  # for which `bad` remembers which are slow beside which
MOST_TURNS = 64  # in one plan; after it others may move or start
# Whether a job gets a turn; and for jobs that got none before: they still can't, they may now, or they may once the
# plan is done
NO_TURN, NO_ROOM, OTHER_ROOM, LATER = range(4)


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

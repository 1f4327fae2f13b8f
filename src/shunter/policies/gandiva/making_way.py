"""Running jobs of Gandiva that stop until a waiting one fits."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import copy_into, kernel
from shunter.policies.gandiva.moves import Moves, moves_of
from shunter.policies.gandiva.pairs import stop
from shunter.scheduling.leasing.memory import Offers
from shunter.scheduling.placing import in_the_way, may_use, open_to, share_fits, within_limits
from shunter.scheduling.queue.preempting import lift
from shunter.scheduling.queue.queue import Paper, Queue, Scratch
from shunter.world import Decision, World


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
def make_way(world: World, offers: Offers, paper: Paper, job: int, plan: Decision) -> bool:
    """Stop the jobs that ran longest until a job fits, and spare those not needed for it; false if it never fits."""
    queue, moves = offers.queue, moves_of(offers.own)
    jobs, stopped = moves.runners, queue.scratch.ends
    place, last, whole = -1, 0, world.jobs[w.SHARE, job] == 1000
    if whole and moves.free + moves.stoppable < world.jobs[w.GPUS, job]:
        return False
    if whole and world.clock[w.BOUNDED] == 0:
        return make_way_by_count(world, offers, paper, job, plan)
    while place < 0 and last < moves.lined_up:
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
def count_out(world: World, paper: Paper, other: int, job: int) -> tuple[int, int]:
    """Take a running job off the paper, as to which GPUs are free; its node with room for ``job``, -1: none; how many.

    No node had room before.
    """
    slot, found, freed, everywhere = world.jobs[w.HEAD, other], -1, 0, open_to(world, job)
    while slot >= 0:
        gpu = world.slots[w.SLOT_GPU, slot]
        node = world.gpus[w.NODE, gpu]
        paper.tenants[gpu] -= 1
        if paper.tenants[gpu] == 0 and world.nodes[w.NODE_STATE, node] == w.UP:
            paper.free[node] += 1
            freed += 1
            if found < 0 and paper.free[node] >= world.jobs[w.GPUS, job] and (everywhere or may_use(world, job, node)):
                found = node
        slot = world.slots[w.SLOT_NEXT, slot]
    return int(found), freed


@kernel
def count_in(world: World, paper: Paper, job: int) -> int:
    """Put such a job back; returns how many GPUs are no longer free."""
    slot, taken = world.jobs[w.HEAD, job], 0
    while slot >= 0:
        gpu = world.slots[w.SLOT_GPU, slot]
        node = world.gpus[w.NODE, gpu]
        paper.tenants[gpu] += 1
        if paper.tenants[gpu] == 1 and world.nodes[w.NODE_STATE, node] == w.UP:
            paper.free[node] -= 1
            taken += 1
        slot = world.slots[w.SLOT_NEXT, slot]
    return taken


@kernel
def room_for_it(world: World, paper: Paper, job: int, free: int) -> bool:
    """Whether a job has GPUs enough on paper, where so many are free, and nodes limit neither CPU nor memory."""
    if open_to(world, job):
        return bool(free >= world.jobs[w.GPUS, job])
    room = 0
    for node in range(world.nodes.shape[1]):
        room += paper.free[node] if may_use(world, job, node) else 0
    return bool(room >= world.jobs[w.GPUS, job])


@kernel
def make_way_by_count(world: World, offers: Offers, paper: Paper, job: int, plan: Decision) -> bool:
    """The same where only GPUs are short: a job wants enough of them on one node, or anywhere if no node could do."""
    queue, moves = offers.queue, moves_of(offers.own)
    jobs, stopped, free = moves.runners, queue.scratch.ends, moves.free
    wide, everywhere, place, last = queue.tiers.takes[0, queue.class_of[job]] == 0, open_to(world, job), -1, 0
    if not wide:
        keep_counts(queue.scratch, paper)
    while place < 0 and last < moves.lined_up:
        stopped[last] = 1 if jobs[last] >= 0 and (everywhere or in_the_way(world, job, jobs[last])) else 0
        if stopped[last] == 1:
            place, freed = count_out(world, paper, jobs[last], job)
            free += freed
            if wide:
                place = 0 if room_for_it(world, paper, job, free) else -1
        last += 1
    if not wide:
        count_again(world, offers, paper, job, place, last)
    for i in range(last - 1, -1, -1):
        if stopped[i] == 0:
            continue
        taken = count_in(world, paper, jobs[i])
        free -= taken
        if place >= 0 and not (
            room_for_it(world, paper, job, free) if wide else paper.free[place] >= world.jobs[w.GPUS, job]
        ):
            lift(world, queue, jobs[i], -1)
            free += taken
            stop(world, offers, jobs[i], plan)
            drop_runner(world, offers, i)
    return place >= 0


@kernel
def keep_counts(scratch: Scratch, paper: Paper) -> None:
    """Note how many GPUs are free on paper, and the jobs on each."""
    copy_into(scratch.usable[: len(paper.free)], paper.free)
    copy_into(scratch.total[: len(paper.tenants)], paper.tenants)


@kernel
def count_again(world: World, offers: Offers, paper: Paper, job: int, place: int, last: int) -> None:
    """Of the first jobs, leave only those off the paper, and ``stopped``, that are on the node that has room.

    The others are spared anyway, and there are many.
    """
    scratch, moves, per_gpu = offers.queue.scratch, moves_of(offers.own), world.clock[w.SLOTS_PER_GPU]
    stopped = scratch.ends
    copy_into(paper.free, scratch.usable[: len(paper.free)])
    copy_into(paper.tenants, scratch.total[: len(paper.tenants)])
    first = world.nodes[w.FIRST_GPU, place] if place >= 0 else 0
    gpus = world.nodes[w.TOTAL, place] if place >= 0 else 0
    for slot in range(first * per_gpu, (first + gpus) * per_gpu):
        other = world.slots[w.SLOT_JOB, slot]
        at = moves.position[other] if other >= 0 and is_lined_up(moves, other) else last
        if at < last and stopped[at] == 1:
            stopped[at] = 2
    for at in range(last):
        stopped[at] = int(stopped[at] == 2)
        if stopped[at] == 1:
            count_out(world, paper, moves.runners[at], job)


@kernel
def is_lined_up(moves: Moves, job: int) -> bool:
    """Whether a running job is among those that may be stopped."""
    at = moves.position[job]
    return bool(at < moves.lined_up and moves.runners[at] == job)


@kernel
def drop_runner(world: World, offers: Offers, at: int) -> None:
    """Take the job at a position off those that may be stopped: it stops, or it stays."""
    moves = moves_of(offers.own)
    moves.stoppable -= world.jobs[w.WORKERS, moves.runners[at]]
    moves.runners[at] = -1


@kernel
def count_free(paper: Paper) -> int:
    """How many GPUs are free on paper."""
    free = 0
    for node in range(len(paper.free)):
        free += paper.free[node]
    return int(free)

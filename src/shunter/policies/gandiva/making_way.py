"""Running jobs of Gandiva that stop until a waiting one fits."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.gandiva.moves import moves_of
from shunter.policies.gandiva.pairs import stop
from shunter.scheduling.leasing.memory import Offers
from shunter.scheduling.placing import in_the_way, may_use, open_to, share_fits, within_limits
from shunter.scheduling.queue.preempting import lift
from shunter.scheduling.queue.queue import Paper, Queue
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
def make_way_by_count(world: World, offers: Offers, paper: Paper, job: int, plan: Decision) -> bool:
    """The same where only GPUs are short: a job wants enough of them on one node, or anywhere if no node could do."""
    queue, moves = offers.queue, moves_of(offers.own)
    jobs, stopped = moves.runners, queue.scratch.ends
    wide, everywhere, place, last = queue.tiers.takes[0, queue.class_of[job]] == 0, open_to(world, job), -1, 0
    while place < 0 and last < moves.lined_up:
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

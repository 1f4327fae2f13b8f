"""Gandiva's running jobs that move to better GPUs: closer together, or no longer shared."""

from __future__ import annotations

from shunter import world as w
from shunter.arrays import I1, I2, Arrays, Variables, narrowed
from shunter.compiled import kernel
from shunter.scheduling.leasing.decide import next_taker
from shunter.scheduling.leasing.memory import Offers, OfferTools
from shunter.scheduling.placing import add_placed, as_it_is, collect
from shunter.scheduling.queue.intake import any_gpu_free
from shunter.scheduling.queue.queue import Paper
from shunter.scheduling.queue.ranking import ahead
from shunter.scheduling.tiers import lay_out, room_below, tier_of
from shunter.world import Decision, World

NO, YES, ONCE_NOBODY_WAITS = range(3)  # values of `untried`


class GandivaConfig(Arrays):
    """What it does besides starting jobs; times in ms."""

    quantum: int  # from look to look
    slicing: bool
    packing: bool
    migration: bool
    growth: int  # thousandths of the GPUs that a job asked for
    moving: int  # from one look for closer GPUs to the next, 0: only when some come free


class Moves(Variables):
    """Which jobs may gain by moving, and which models are slow beside which."""

    config: GandivaConfig
    movable: int = 0  # how many jobs may gain by moving
    moves_seen: int = -1  # RELEASES when none of them could
    untried: int = NO  # whether some may be able to although no GPUs came free since
    paired: bool = False  # there are pairs that were not checked yet
    judged: int = -1  # when one did
    turned: int = -1  # when turns were taken
    listed: I1  # (jobs,) running jobs that may gain by moving
    is_listed: I1  # (jobs,) 1: it is there
    alone: I1  # (jobs,) 1: it did badly in a pair although its model is not known
    free: int = 0  # while turns are planned: GPUs free on paper ...
    stoppable: int = 0  # ... and those of the running jobs that may still be stopped
    planned_releases: int = -1  # RELEASES ...
    planned_running: int = -1  # ... and N_RUNNING after the last turns, if nothing else happened since, ...
    planned: int = -1  # ... at the instant of these
    settled: bool = False  # after them no job can take a turn
    aside: int = 0  # how many of `Offers.aside` the last plan starts; they are in no heap
    lined_up: int = 0  # how many of `runners` are in use
    runners: I1  # (jobs,) running jobs that may be stopped, the longest run first; -1: no longer
    position: I1  # (jobs,) where a job was last in there
    first_of_size: I1  # (sizes,) the first position there of a job of this size, -1: there is none ...
    next_of_size: I1  # (jobs,) ... and by position the next one of the same size
    bad: I2  # (models, models) 1: these were seen to do badly together


moves_of = narrowed(Moves)


@kernel
def partner_of(world: World, job: int) -> int:
    """The job that shares all GPUs of a running job of whole GPUs, -1 if none does."""
    slot, per_gpu = world.jobs[w.HEAD, job], world.clock[w.SLOTS_PER_GPU]
    gpu = world.slots[w.SLOT_GPU, slot]
    if world.gpus[w.USED, gpu] > 1000:
        for at in range(gpu * per_gpu, (gpu + 1) * per_gpu):
            if at != slot and world.slots[w.SLOT_JOB, at] >= 0:
                return int(world.slots[w.SLOT_JOB, at])
    return -1


@kernel
def runs_as_requested(world: World, job: int) -> bool:
    """Whether a job runs on as many whole GPUs as it asked for."""
    jobs = world.jobs
    runs = jobs[w.STATE, job] == w.RUNNING and jobs[w.SHARE, job] == 1000
    return bool(runs and jobs[w.WORKERS, job] == jobs[w.GPUS, job])


@kernel
def may_gain(offers: Offers, job: int) -> None:
    """Remember that a job may gain by moving: it is on several machines, or shares its GPUs."""
    moves = moves_of(offers.own)
    moves.untried = YES
    if moves.is_listed[job] == 0:
        moves.listed[moves.movable] = job
        moves.is_listed[job] = 1
        moves.movable += 1


@kernel
def forget(moves: Moves, at: int) -> None:
    """Take the job at a position off that list: the last one fills its place."""
    moves.movable -= 1
    moves.is_listed[moves.listed[at]] = 0
    moves.listed[at] = moves.listed[moves.movable]


@kernel
def keep_seat(offers: Offers, job: int, tier: int) -> None:
    """Remember the tier of a job that is about to be stopped, unless anything is better."""
    offers.seat[job] = tier + 1 if tier < len(offers.queue.tiers.takes) - 1 else 0


@kernel
def first_to_move(world: World, offers: Offers, tools: OfferTools, paper: Paper) -> tuple[int, int, int]:
    """The first running job in the order that can have better GPUs, their tier and place; -1 if none can.

    Better is a lower tier, or the same one if it shares its GPUs and no job waits.  Notes whether it is worth to look
    again before GPUs come free.
    """
    queue, moves, now, found = offers.queue, moves_of(offers.own), world.clock[w.NOW], (-1, -1, -1)
    waiting, untried = world.clock[w.N_PENDING] > 0, NO
    for at in range(moves.movable - 1, -1, -1):
        job = int(moves.listed[at])
        if not runs_as_requested(world, job) or world.jobs[w.CHECKPOINTABLE, job] == 0:
            forget(moves, at)
            continue
        if world.jobs[w.GPUS, job] == 1 and waiting:  # all that it could do is to leave its pair
            untried = ONCE_NOBODY_WAITS if untried == NO else untried
            continue
        tier, paired = tier_of(world, job), partner_of(world, job) >= 0
        if tier == 0 and not paired:
            forget(moves, at)
            continue
        if paired and waiting and untried == NO:
            untried = ONCE_NOBODY_WAITS
        limit = tier + 1 if paired and not waiting else tier
        if limit == 0:
            continue
        if world.jobs[w.BEGUN, job] == now:
            untried = YES
            continue
        queue.exact[job] = tools.parts.key(world, queue, job, now)
        if found[0] < 0 or ahead(queue, job, found[0]):
            better, place = room_below(world, queue, paper, job, limit)
            found = (job, better, place) if better >= 0 else found
    moves.untried = YES if found[0] >= 0 else untried
    return found


@kernel
def may_move(world: World, offers: Offers) -> bool:
    """Whether a job may be able to move although no GPUs have come free since the last look."""
    chance = moves_of(offers.own).untried
    return bool(chance == YES or (chance == ONCE_NOBODY_WAITS and world.clock[w.N_PENDING] == 0))


@kernel
def due_to_move(world: World, offers: Offers) -> bool:
    """Whether it is time to look for closer GPUs: some came free, or such a time has come and it is not in vain."""
    moves = moves_of(offers.own)
    if moves.moves_seen == world.clock[w.RELEASES]:
        period = moves.config.moving
        if period == 0 or world.clock[w.NOW] % period != 0 or not may_move(world, offers):
            return False
    return any_gpu_free(world)


@kernel
def move_closer(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Move the first running job in the order that can have better GPUs, unless one that waits before it takes them."""
    queue, moves = offers.queue, moves_of(offers.own)
    if not due_to_move(world, offers):
        return False
    if moves.moves_seen < 0:  # a new memory in a world where jobs run already
        for at in range(world.clock[w.N_RUNNING]):
            may_gain(offers, world.lists[w.L_RUNNING, at])
    paper = as_it_is(world)
    job, tier, place = first_to_move(world, offers, tools, paper)
    if job < 0:
        moves.moves_seen = world.clock[w.RELEASES]
        return False
    other = next_taker(world, offers, tools, paper)
    if other >= 0:
        queue.exact[other] = queue.key[other]
        if ahead(queue, other, job):
            return False
    gpus = collect(world, queue.scratch, paper, lay_out(world, queue, paper, job, tier, place))
    add_placed(plan, w.A_MIGRATE, job, queue.scratch.gpu_ids[:gpus], 0)
    return True

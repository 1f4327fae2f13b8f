"""Gandiva's running jobs that move to better GPUs: closer together, or no longer shared."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.leasing.decide import next_taker
from shunter.scheduling.leasing.memory import SETTINGS_SIZE, Offers, OfferTools
from shunter.scheduling.placing import add_placed, as_it_is, collect
from shunter.scheduling.queue.queue import Paper, ahead, any_gpu_free, key_at
from shunter.scheduling.tiers import lay_out, room_below, tier_of
from shunter.world import Decision, World

# -- entries of `settings` after those of all that lease: how it works (QUANTUM: ms from look to look, GROWTH:
# thousandths of the GPUs that a job asked for,
# MOVING: ms from one look for closer GPUs to the next, 0: only when some come free)
QUANTUM, SLICING, PACKING, MIGRATION, GROWTH, MOVING = range(SETTINGS_SIZE, SETTINGS_SIZE + 6)
# ... and what it has to remember (MOVABLE: how many jobs may gain by moving, MOVES_SEEN: releases when none of them
# could, UNTRIED: whether some may be able to although no GPUs came free since, PAIRED: 1: there are pairs that nobody
# looked at yet, JUDGED: when one did, TURNED: when turns were taken)
MOVABLE, MOVES_SEEN, UNTRIED, PAIRED, JUDGED, TURNED = range(SETTINGS_SIZE + 6, SETTINGS_SIZE + 12)
ALL_SETTINGS = SETTINGS_SIZE + 12

NO, YES, ONCE_NOBODY_WAITS = range(3)  # values of UNTRIED
# -- rows of `kept`: running jobs that may gain by moving, for each job whether it is there, and whether it did badly in
# a pair although its model is not known
LIST, LISTED, ALONE = range(3)


@kernel
def partner_of(world: World, job: int) -> int:
    """The job that shares all GPUs of a running job of whole GPUs, -1 if none does."""
    slot, per_gpu = world.jobs[w.HEAD, job], world.clock[w.SLOTS_PER_GPU]
    gpu = slot // per_gpu
    if world.gpus[w.USED, gpu] > 1000:
        for at in range(gpu * per_gpu, (gpu + 1) * per_gpu):
            if at != slot and world.slots[w.SLOT_JOB, at] >= 0:
                return int(world.slots[w.SLOT_JOB, at])
    return -1


@kernel
def as_asked(world: World, job: int) -> bool:
    """Whether a job runs on as many whole GPUs as it asked for."""
    jobs = world.jobs
    runs = jobs[w.STATE, job] == w.RUNNING and jobs[w.SHARE, job] == 1000
    return bool(runs and jobs[w.WORKERS, job] == jobs[w.GPUS, job])


@kernel
def may_gain(offers: Offers, job: int) -> None:
    """Remember that a job may gain by moving: it is on several machines, or shares its GPUs."""
    offers.settings[UNTRIED] = YES
    if offers.kept[LISTED, job] == 0:
        offers.kept[LIST, offers.settings[MOVABLE]] = job
        offers.kept[LISTED, job] = 1
        offers.settings[MOVABLE] += 1


@kernel
def forget(offers: Offers, at: int) -> None:
    """Take the job at a position off that list: the last one fills its place."""
    offers.settings[MOVABLE] -= 1
    offers.kept[LISTED, int(offers.kept[LIST, at])] = 0
    offers.kept[LIST, at] = offers.kept[LIST, offers.settings[MOVABLE]]


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
    queue, now, found = offers.queue, world.clock[w.NOW], (-1, -1, -1)
    waiting, untried = world.clock[w.N_PENDING] > 0, NO
    for at in range(offers.settings[MOVABLE] - 1, -1, -1):
        job = int(offers.kept[LIST, at])
        if not as_asked(world, job):
            forget(offers, at)
            continue
        if world.jobs[w.GPUS, job] == 1 and waiting:  # all that it could do is to leave its pair
            untried = ONCE_NOBODY_WAITS if untried == NO else untried
            continue
        tier, paired = tier_of(world, job), partner_of(world, job) >= 0
        if tier == 0 and not paired:
            forget(offers, at)
            continue
        if paired and waiting and untried == NO:
            untried = ONCE_NOBODY_WAITS
        limit = tier + 1 if paired and not waiting else tier
        if limit == 0:
            continue
        if world.jobs[w.BEGUN, job] == now:
            untried = YES
            continue
        queue.exact[job] = key_at(world, queue, tools.parts, job, now)
        if found[0] < 0 or ahead(queue, job, found[0]):
            better, place = room_below(world, queue, paper, job, limit)
            found = (job, better, place) if better >= 0 else found
    offers.settings[UNTRIED] = YES if found[0] >= 0 else untried
    return found


@kernel
def may_move(world: World, offers: Offers) -> bool:
    """Whether a job may be able to move although no GPUs have come free since the last look."""
    chance = offers.settings[UNTRIED]
    return bool(chance == YES or (chance == ONCE_NOBODY_WAITS and world.clock[w.N_PENDING] == 0))


@kernel
def due_to_move(world: World, offers: Offers) -> bool:
    """Whether it is time to look for closer GPUs: some came free, or such a time has come and it is not in vain."""
    settings = offers.settings
    if settings[MOVES_SEEN] == world.clock[w.RELEASES]:
        period = settings[MOVING]
        if period == 0 or world.clock[w.NOW] % period != 0 or not may_move(world, offers):
            return False
    return any_gpu_free(world)


@kernel
def move_closer(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Move the first running job in the order that can have better GPUs, unless one that waits before it takes them."""
    queue, settings = offers.queue, offers.settings
    if not due_to_move(world, offers):
        return False
    if settings[MOVES_SEEN] < 0:  # a new memory in a world where jobs run already
        for at in range(world.clock[w.N_RUNNING]):
            may_gain(offers, world.lists[w.L_RUNNING, at])
    paper = as_it_is(world)
    job, tier, place = first_to_move(world, offers, tools, paper)
    if job < 0:
        settings[MOVES_SEEN] = world.clock[w.RELEASES]
        return False
    other = next_taker(world, offers, tools, paper)
    if other >= 0:
        queue.exact[other] = queue.key[other]
        if ahead(queue, other, job):
            return False
    gpus = collect(world, queue.scratch, paper, lay_out(world, queue, paper, job, tier, place))
    add_placed(plan, w.A_MIGRATE, job, queue.scratch.gpu_ids[:gpus], 0)
    return True

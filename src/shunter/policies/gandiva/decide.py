"""One decision of Gandiva: which job moves, starts, joins a pair, takes a turn, grows or shrinks."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.gandiva.moves import (
    may_move,
    move_closer,
    moves_of,
    partner_of,
)
from shunter.policies.gandiva.pairs import line_up, pair_up, part_bad_pairs, put_back
from shunter.policies.gandiva.turns import take_turns
from shunter.scheduling.leasing.decide import catch_up, leases_end, start_waiting
from shunter.scheduling.leasing.memory import Offers, OfferTools
from shunter.scheduling.placing import (
    add_other,
    add_placed,
    as_it_is,
    collect,
    held,
    in_the_way,
    may_use,
    sort,
    within_limits,
)
from shunter.scheduling.queue.intake import any_gpu_free
from shunter.scheduling.tiers import tier_of
from shunter.world import Decision, World

# ------------------------------------------------------------------------------------------- growing and shrinking


@kernel
def room_to_grow(world: World, offers: Offers, job: int) -> int:
    """How many free GPUs of its machine a job may have besides; a job on several machines does not grow.

    Nor does one that can't be stopped.
    """
    jobs = world.jobs
    if jobs[w.CHECKPOINTABLE, job] == 0:
        return 0
    more = jobs[w.GPUS, job] * moves_of(offers.own).config.growth // 1000 - jobs[w.WORKERS, job]
    if jobs[w.MAX_GPUS, job] > 0:
        more = min(more, jobs[w.MAX_GPUS, job] - jobs[w.WORKERS, job])
    if more <= 0 or jobs[w.STATE, job] != w.RUNNING or jobs[w.SHARE, job] < 1000 or partner_of(world, job) >= 0:
        return 0
    node = world.gpus[w.NODE, world.slots[w.SLOT_GPU, jobs[w.HEAD, job]]]
    if world.nodes[w.FREE, node] == 0 or not may_use(world, job, node) or tier_of(world, job) > 0:
        return 0
    return int(min(more, within_limits(world, as_it_is(world), job, node)))


@kernel
def next_to_grow(world: World, offers: Offers, before: int) -> int:
    """The job that has grown least of those that can grow and began to run before a time, -1 if none can."""
    jobs, best = world.jobs, -1
    if world.clock[w.N_PENDING] > 0 or not any_gpu_free(world):
        return -1
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        less = best < 0 or jobs[w.WORKERS, job] * jobs[w.GPUS, best] < jobs[w.WORKERS, best] * jobs[w.GPUS, job]
        if less and jobs[w.BEGUN, job] < before and room_to_grow(world, offers, job) > 0:
            best = job
    return best


@kernel
def grow(world: World, offers: Offers, plan: Decision) -> bool:
    """Give idle GPUs to a running job of the same machine; false if there is none."""
    scratch, job = offers.queue.scratch, next_to_grow(world, offers, world.clock[w.NOW])
    if job < 0:
        return False
    more = room_to_grow(world, offers, job)
    scratch.nodes[0] = world.gpus[w.NODE, world.slots[w.SLOT_GPU, world.jobs[w.HEAD, job]]]
    scratch.counts[0] = more
    collect(world, scratch, as_it_is(world), 1)
    ids = scratch.gpu_ids[: more + held(world, job, scratch.gpu_ids[more:])]
    sort(ids)
    add_placed(plan, w.A_RESIZE, job, ids, 0)
    return True


@kernel
def shrink(world: World, offers: Offers, plan: Decision) -> bool:
    """Take back from a running job what it has beyond its request and a waiting one may use; false if there is none."""
    jobs, scratch, best = world.jobs, offers.queue.scratch, -1
    line_up(world, offers)
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        surplus = jobs[w.WORKERS, job] - jobs[w.GPUS, job]
        if surplus <= 0 or jobs[w.STATE, job] != w.RUNNING:
            continue
        for cls in range(len(offers.candidate)):
            useful = offers.candidate[cls] >= 0 and in_the_way(world, offers.candidate[cls], job)
            if useful and (best < 0 or surplus > jobs[w.WORKERS, best] - jobs[w.GPUS, best]):
                best = job
    if best < 0:
        return False
    ids = scratch.gpu_ids[: held(world, best, scratch.gpu_ids)]
    add_placed(plan, w.A_RESIZE, best, ids[: jobs[w.GPUS, best]], 0)
    return True


# ------------------------------------------------------------------------------------------- the decision


@kernel
def look(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """What is done from time to time: bad pairs part, turns change, jobs grow into idle GPUs."""
    config = moves_of(offers.own).config
    if config.packing and part_bad_pairs(world, offers, plan):
        return True
    if config.slicing and world.clock[w.N_PENDING] > 0 and take_turns(world, offers, tools, plan):
        return True
    return config.growth > 1000 and grow(world, offers, plan)


@kernel
def look_again(world: World, offers: Offers, plan: Decision) -> None:
    """Set a timer for the next look, if there will be anything to do."""
    moves, now, at = moves_of(offers.own), world.clock[w.NOW], w.NEVER
    config = moves.config
    if config.migration and config.moving > 0 and may_move(world, offers) and any_gpu_free(world):
        at = (now // config.moving + 1) * config.moving
    turns = config.slicing and world.clock[w.N_PENDING] > 0 and world.clock[w.N_RUNNING] > 0
    if turns or moves.paired or (config.growth > 1000 and next_to_grow(world, offers, w.NEVER) >= 0):
        at = min(at, (now // config.quantum + 1) * config.quantum)
    if at < w.NEVER and offers.state.wake != at:
        offers.state.wake = at
        add_other(plan, w.A_TIMER, 0, at)


@kernel
def decide(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> None:
    """Plan the next move, start or pair, the actions of a check, or nothing."""
    config = moves_of(offers.own).config
    put_back(world, offers)
    catch_up(world, offers, tools)
    if leases_end(world, offers, tools, plan):
        return
    if config.migration and move_closer(world, offers, tools, plan):
        return
    if start_waiting(world, offers, tools, plan):
        return
    if world.clock[w.N_PENDING] > 0:
        if config.growth > 1000 and shrink(world, offers, plan):
            return
        if config.packing and pair_up(world, offers, tools, plan):
            return
    if world.clock[w.NOW] % config.quantum == 0 and look(world, offers, tools, plan):
        return
    tools.give_reasons(world, offers, tools.parts, plan)
    look_again(world, offers, plan)

"""One decision of a policy that leases GPUs: which jobs take what at which tier, and which leases are prolonged.

A job gets the lowest tier at which there is room, if it accepts that tier already: a policy may let it wait for a
better one.  When its lease ends it is back in the queue, or it keeps its GPUs if no job before it takes them.
"""

from __future__ import annotations

from typing import Any

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.backfill.easy import expected_end
from shunter.scheduling.leasing.memory import (
    AGAIN,
    BETTER,
    Offers,
    OfferTools,
    choose,
    first_open,
    gpus_for,
    lease_end,
    room_at,
)
from shunter.scheduling.leasing.reserving import end_of, lay, no_heads, nothing_laid
from shunter.scheduling.placing import (
    add_other,
    add_start,
    as_it_is,
    collect,
    copy_to_paper,
    held,
    on_paper,
    put_on_paper,
)
from shunter.scheduling.queue.heaps import insert, precedes, remove, top
from shunter.scheduling.queue.intake import any_gpu_free, take_in
from shunter.scheduling.queue.preempting import lift
from shunter.scheduling.queue.queue import B_EASY, Paper, Parts, Queue
from shunter.scheduling.queue.ranking import ahead, rekey
from shunter.scheduling.tiers import list_nodes, reach_of, tier_of
from shunter.world import Decision, World

# ------------------------------------------------------------------------------------------- jobs that take an offer


@kernel
def look_at(world: World, offers: Offers, tools: OfferTools, paper: Paper, cls: int) -> None:
    """Find what is free for a class and which of its jobs takes that."""
    queue = offers.queue
    job, tier, place = offers.candidate[cls], -1, -1
    if queue.blocked[cls] == 0:
        tier, place = room_at(world, offers, tools, paper, job)
    offers.offered[cls] = tier
    if tier < 0:
        if queue.head[queue.pool_of[cls]] < 0:
            queue.head[queue.pool_of[cls]] = job
        queue.blocked[cls] = 1
        job = -1
    elif offers.config.gated and tier > 0:
        choose(world, offers, paper, job, tier, place)
        offers.state.evidence = -1
        opening = tools.opens(world, offers, job, tier)
        if opening > world.clock[w.NOW]:
            offers.gate.tier[cls], offers.gate.timer[cls] = tier, opening - world.jobs[w.WAITING_SINCE, job]
            offers.gate.evidence[cls] = offers.state.evidence
            job = first_open(world, offers, tools, cls, tier, w.NEVER, 1.0)
    offers.candidate[cls] = job


@kernel
def first_class(offers: Offers) -> int:
    """The class whose candidate comes first in the order, -1 if there are none."""
    best = -1
    for cls in range(len(offers.candidate)):
        job = offers.candidate[cls]
        if job >= 0 and (best < 0 or precedes(offers.queue, job, offers.candidate[best])):
            best = cls
    return best


@kernel
def next_taker(world: World, offers: Offers, tools: OfferTools, paper: Paper) -> int:
    """The first job in the order that takes what is free, -1 if none does.

    With backfilling the first of each pool that finds no room is its head, and those after it must leave it alone.
    """
    queue = offers.queue
    easy = queue.config.backfill == B_EASY
    no_heads(offers)
    for cls in range(len(queue.size)):
        offers.candidate[cls], offers.offered[cls] = -1, -1
        if queue.size[cls] > 0 and (easy or queue.blocked[cls] == 0):
            offers.candidate[cls] = top(world, queue, cls)
    while True:
        best = first_class(offers)
        if best < 0:
            return -1
        if offers.offered[best] < 0:
            look_at(world, offers, tools, paper, best)
        elif tools.leaves_alone(world, offers, tools.terms, paper, best):
            return int(offers.candidate[best])


@kernel
def start_next(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Start the first job in the order that takes what is free; false if none does."""
    paper = as_it_is(world)
    job = next_taker(world, offers, tools, paper)
    if job < 0:
        return False
    gpus, tier = gpus_for(world, offers, tools, paper, job)
    until = lease_end(world, offers, tools, job, tier)
    tools.took(world, offers, job, tier)
    add_start(plan, job, offers.queue.scratch.gpu_ids[:gpus], until)
    return True


# ------------------------------------------------------------------------------------------- when leases end


@kernel
def collect_ended(world: World, queue: Queue) -> int:
    """Fill ``scratch.jobs`` with the running jobs whose lease ends now; returns how many."""
    count = 0
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if world.jobs[w.UNTIL, job] <= world.clock[w.NOW] and world.jobs[w.STATE, job] == w.RUNNING:
            queue.scratch.jobs[count] = job
            count += 1
    return count


@kernel
def sort_by_key(world: World, queue: Queue, parts: Parts, count: int) -> None:
    """Sort ``scratch.jobs[:count]`` by the order at present."""
    jobs = queue.scratch.jobs
    for i in range(count):
        job, at = jobs[i], i
        queue.exact[job] = parts.key(world, queue, job, world.clock[w.NOW])
        if len(queue.tie) > 0:  # it would wait from now on; the heap that it left is ordered by how it waited before
            if queue.at[job] >= 0:
                remove(queue, job)
            queue.tie[job] = world.clock[w.NOW]
        while at > 0 and ahead(queue, job, jobs[at - 1]):
            jobs[at] = jobs[at - 1]
            at -= 1
        jobs[at] = job


@kernel
def still_free(world: World, paper: Paper, job: int, gpu_ids: Any) -> bool:
    """Whether these GPUs, or a job's share of one, have not been taken on paper."""
    share = world.jobs[w.SHARE, job]
    for i in range(len(gpu_ids)):
        if paper.used[gpu_ids[i]] + share > 1000 or paper.tenants[gpu_ids[i]] >= world.clock[w.SLOTS_PER_GPU]:
            return False
    return True


@kernel
def let_earlier_ones_take(world: World, offers: Offers, tools: OfferTools, job: int, aside: int) -> int:
    """On paper, the jobs that wait before ``job`` take what is free; returns how many were set aside so far."""
    queue, paper = offers.queue, on_paper(offers.queue.scratch)
    while True:
        other = next_taker(world, offers, tools, paper)
        if other < 0:
            return aside
        queue.exact[other] = queue.key[other]
        if not ahead(queue, other, job):
            return aside
        gpus, tier = gpus_for(world, offers, tools, paper, other)
        ids = queue.scratch.gpu_ids[:gpus]
        lay(
            world,
            offers,
            paper,
            other,
            ids,
            end_of(world, queue, other, ids),
            lease_end(world, offers, tools, other, tier),
        )
        remove(queue, other)
        offers.aside[aside] = other
        aside += 1


@kernel
def note_reach(world: World, offers: Offers, job: int, tier: int) -> int:
    """Note and return the reach of a running job's placement."""
    scratch = offers.queue.scratch
    used = list_nodes(world, job, scratch.nodes, scratch.counts)
    offers.state.reach = reach_of(world, tier, scratch.nodes, scratch.counts, used)
    return int(offers.state.reach)


@kernel
def note_end(world: World, offers: Offers, tools: OfferTools, job: int) -> None:
    """Let the policy know that the lease of a job is over."""
    tier = tier_of(world, job)
    note_reach(world, offers, job, tier)
    tools.ended(world, offers, job, tier)


@kernel
def should_go(world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int, tier: int) -> bool:
    """Whether a job gives up its GPUs: there is a better place for it now, or it would not take this one again."""
    if tier == 0:
        return False
    reach = note_reach(world, offers, job, tier)
    if offers.config.gated and tools.opens(world, offers, job, tier) > world.clock[w.NOW]:
        return True
    better, place = room_at(world, offers, tools, paper, job)
    if 0 <= better <= tier:
        choose(world, offers, paper, job, better, place)
    return bool(0 <= better < tier or (better == tier and offers.state.reach < reach))


@kernel
def take_on_paper(world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int) -> None:
    """A job that gives up its GPUs for others takes those on paper, if it would, so that no later job keeps them."""
    tier, place = room_at(world, offers, tools, paper, job)
    if tier >= 0 and world.jobs[w.SHARE, job] == 1000:
        used = choose(world, offers, paper, job, tier, place)
        if not offers.config.gated or tools.opens(world, offers, job, tier) <= world.clock[w.NOW]:
            gpus = collect(world, offers.queue.scratch, paper, used)
            put_on_paper(world, paper, job, offers.queue.scratch.gpu_ids[:gpus], +1)


@kernel
def renew(world: World, offers: Offers, tools: OfferTools, ended: int, plan: Decision) -> None:
    """Prolong the leases that end now if no job before their holders takes the GPUs."""
    queue, scratch, aside = offers.queue, offers.queue.scratch, 0
    paper = on_paper(scratch)
    no_heads(offers)
    nothing_laid(offers)
    sort_by_key(world, queue, tools.parts, ended)
    copy_to_paper(world, paper)
    for i in range(ended):
        lift(world, queue, scratch.jobs[i], -1)
    for i in range(ended):
        job = scratch.jobs[i]
        if world.clock[w.N_PENDING] > aside:
            aside = let_earlier_ones_take(world, offers, tools, job, aside)
        tier = tier_of(world, job)
        if offers.config.renewal == BETTER and should_go(world, offers, tools, paper, job, tier):
            take_on_paper(world, offers, tools, paper, job)
            continue
        ids = scratch.gpu_ids[: held(world, job, scratch.gpu_ids)]
        end, until = expected_end(world, queue, job), lease_end(world, offers, tools, job, tier)
        if not still_free(world, paper, job, ids):
            continue
        if tools.may_stay(world, offers, tools.terms, paper, job, ids, min(end, until)):
            lay(world, offers, paper, job, ids, end, until)
            add_start(plan, job, ids, until)
    for i in range(aside):
        insert(queue, offers.aside[i])
    queue.blocked[:] = 0  # they were on paper
    nothing_laid(offers)


# ------------------------------------------------------------------------------------------- the decision


@kernel
def wake_up(world: World, offers: Offers, plan: Decision) -> None:
    """Look again when the next one accepts what is free."""
    state, now, free = offers.state, world.clock[w.NOW], -1
    opening = state.opening
    for at in range(len(offers.wakes)):
        if offers.wakes[at] <= now:
            free = at
    if opening < w.NEVER and (state.wake <= now or opening < state.wake) and free >= 0:
        state.wake = offers.wakes[free] = opening
        add_other(plan, w.A_TIMER, 0, opening)


@kernel
def catch_up(world: World, offers: Offers, tools: OfferTools) -> None:
    """Take in what happened since the last decision."""
    queue, now = offers.queue, world.clock[w.NOW]
    take_in(world, queue, tools.parts)
    if offers.state.seen != now:
        offers.state.seen = now
        queue.blocked[:] = 0
        tools.looks(world, offers, -1, -1)
    if queue.state.keyed_at != now:
        rekey(world, queue, tools.parts)


@kernel
def leases_end(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Whether leases end now; plans the renewals. What isn't renewed is free in a moment."""
    if offers.config.lease == w.NEVER:
        return False
    queue = offers.queue
    ended = collect_ended(world, queue)
    if ended == 0:
        return False
    if offers.state.noted != world.clock[w.NOW]:  # after some were renewed we are asked again
        offers.state.noted = world.clock[w.NOW]
        for i in range(ended):
            note_end(world, offers, tools, queue.scratch.jobs[i])
    if offers.config.renewal != AGAIN:
        renew(world, offers, tools, ended, plan)
    return True


@kernel
def start_waiting(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Start the next waiting job, if there is one that takes what is free."""
    offers.state.opening = w.NEVER
    room = offers.queue.config.shares or any_gpu_free(world)
    return bool(world.clock[w.N_PENDING] > 0 and room and start_next(world, offers, tools, plan))


@kernel
def decide(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> None:
    """Plan the next start, the renewals of leases that end, or nothing."""
    catch_up(world, offers, tools)
    if leases_end(world, offers, tools, plan) or start_waiting(world, offers, tools, plan):
        return
    tools.give_reasons(world, offers, tools.parts, plan)
    wake_up(world, offers, plan)

"""One decision of a policy that leases GPUs: who takes what is free, at which tier.

A job gets the lowest tier at which there is room, if it accepts that tier already: a policy may let it wait for a
better one.  When its lease ends it is back in the queue, or it keeps its GPUs if nobody before it takes them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shunter import world as w
from shunter.arrays import F2, I1, I2, Arrays
from shunter.compiled import kernel
from shunter.policies._placing import (
    add_other,
    add_start,
    as_it_is,
    choose_share,
    collect,
    copy_to_paper,
    held,
    on_paper,
    put_on_paper,
)
from shunter.policies._preempting import lift
from shunter.policies._queue import (
    KEYED_AT,
    SHARES,
    Paper,
    Parts,
    Queue,
    ahead,
    any_gpu_free,
    insert,
    key_at,
    precedes,
    rekey,
    remove,
    take_in,
    top,
)
from shunter.policies._tiers import lay_out, list_nodes, reach_of, room_for, sort_nodes, tier_of
from shunter.world import Decision, World

# -- entries of `settings`: how it works (LEASE in ms or NEVER, GATED: some tiers are accepted only later) ...
LEASE, RENEWAL, GATED = range(3)
# ... and what it has to remember (OPENING: when the next one waiting accepts what is free, WAKE: when we look again)
# (REACH: of the placement that is being thought about, see `reach_of`;
# EVIDENCE: from how many waits the timer comes that a policy was last asked for, -1: it isn't tuned)
SEEN, OPENING, WAKE, HISTORY_ROWS, REACH, EVIDENCE, NOTED = range(3, 10)
SETTINGS_SIZE = 10
MOST_WAKES = 16  # times ahead at which we asked to be asked: the engine has so many timers for one policy
AGAIN, KEEP, BETTER = range(3)  # what becomes of a job whose lease ends

# -- columns of `history`: what a policy learned when, for people to look at
HISTORY_COLUMNS = 5


class Offers(Arrays):
    """The memory of a policy that leases GPUs."""

    queue: Queue
    settings: I1
    candidate: I1  # (classes,) the next one of each class that may take something, -1: none
    offered: I1  # (classes,) the tier that it would take, -1: not looked yet
    gate: I2  # (3, classes) of one that does not take what is free: the tier, its timer (ms), EVIDENCE
    wakes: I1  # (MOST_WAKES,) for when we asked to be asked again
    aside: I1  # (jobs,) taken out of the queue while planning on paper
    size_of: I1  # (classes,) classes of the same number of GPUs have the same
    gpus_of: I1  # (sizes,)
    own: F2  # what a policy knows beyond that ...
    kept: F2  # ... and more of it
    history: I2  # (rows, HISTORY_COLUMNS)


class OfferTools(NamedTuple):
    """Pointers to what differs between policies that lease GPUs."""

    parts: Parts
    opens: Any  # from when on a waiting job accepts a tier
    took: Any  # called when a job takes an offer
    lasts: Any  # for how long it takes it
    ended: Any  # called when a lease ends, before anybody knows whether it is renewed
    looks: Any  # called at every new instant, before anything is decided
    tell: Any  # saying why jobs wait


# ------------------------------------------------------------------------------------------- who takes an offer


@kernel
def first_open(world: World, offers: Offers, tools: OfferTools, cls: int, tier: int) -> int:
    """The first job of a class that accepts a tier, -1 if none does yet; notes when the next one will."""
    queue, now = offers.queue, world.clock[w.NOW]
    best = -1
    for at in range(queue.first[cls], queue.first[cls] + queue.size[cls]):
        job = queue.members[at]
        if world.jobs[w.STATE, job] != w.PENDING:
            continue
        opening = tools.opens(world, offers, job, tier)
        if opening > now:
            offers.settings[OPENING] = min(offers.settings[OPENING], opening)
        elif best < 0 or precedes(queue, job, best):
            best = job
    return best


@kernel
def room_at(world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int) -> tuple[int, int]:
    """The lowest tier with room for a job and where; a share of a GPU is on one machine."""
    if world.jobs[w.SHARE, job] < 1000:
        found = choose_share(world, offers.queue, tools.parts, paper, job)
        return (0, offers.queue.scratch.nodes[0]) if found > 0 else (-1, -1)
    return room_for(world, offers.queue, paper, job)


@kernel
def choose(world: World, offers: Offers, paper: Paper, job: int, tier: int, place: int) -> int:
    """Choose nodes for a job where there is room and note their reach; returns how many nodes."""
    queue, scratch = offers.queue, offers.queue.scratch
    used = lay_out(world, queue, paper, job, tier, place)
    sort_nodes(scratch.nodes, scratch.counts, used)
    offers.settings[REACH] = reach_of(world, tier, scratch.nodes, scratch.counts, used)
    return used


@kernel
def look_at(world: World, offers: Offers, tools: OfferTools, paper: Paper, cls: int) -> None:
    """See what is free for a class and who of it takes that."""
    queue = offers.queue
    job = offers.candidate[cls]
    tier, place = room_at(world, offers, tools, paper, job)
    offers.offered[cls] = tier
    if tier < 0:
        queue.blocked[cls] = 1
        job = -1
    elif offers.settings[GATED] == 1 and tier > 0:
        choose(world, offers, paper, job, tier, place)
        offers.settings[EVIDENCE] = -1
        opening = tools.opens(world, offers, job, tier)
        if opening > world.clock[w.NOW]:
            offers.gate[0, cls], offers.gate[1, cls] = tier, opening - world.jobs[w.WAITING_SINCE, job]
            offers.gate[2, cls] = offers.settings[EVIDENCE]
            job = first_open(world, offers, tools, cls, tier)
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
    """The first job in the order that takes what is free, -1 if none does."""
    queue = offers.queue
    for cls in range(len(queue.size)):
        offers.candidate[cls], offers.offered[cls] = -1, -1
        if queue.size[cls] > 0 and queue.blocked[cls] == 0:
            offers.candidate[cls] = top(world, queue, cls)
    while True:
        best = first_class(offers)
        if best < 0:
            return -1
        if offers.offered[best] >= 0:
            return int(offers.candidate[best])
        look_at(world, offers, tools, paper, best)


@kernel
def gpus_for(world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int) -> tuple[int, int]:
    """Fill ``scratch.gpu_ids`` with GPUs for a job that takes what is free; returns how many, and their tier."""
    scratch = offers.queue.scratch
    tier, place = room_at(world, offers, tools, paper, job)
    if world.jobs[w.SHARE, job] < 1000:
        scratch.gpu_ids[0] = place
        offers.settings[REACH] = 1
        return 1, tier
    return collect(world, scratch, paper, choose(world, offers, paper, job, tier, place)), tier


@kernel
def lease_end(world: World, offers: Offers, tools: OfferTools, job: int, tier: int) -> int:
    """When a lease that a job gets now ends."""
    if offers.settings[LEASE] == w.NEVER:
        return int(w.NEVER)
    return int(world.clock[w.NOW] + max(tools.lasts(world, offers, job, tier), 1))


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
        queue.exact[job] = key_at(world, queue, parts, job, world.clock[w.NOW])
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
    """On paper, whoever waits before ``job`` takes what is free; returns how many were set aside so far."""
    queue, paper = offers.queue, on_paper(offers.queue.scratch)
    while True:
        other = next_taker(world, offers, tools, paper)
        if other < 0:
            return aside
        queue.exact[other] = queue.key[other]
        if not ahead(queue, other, job):
            return aside
        gpus, _ = gpus_for(world, offers, tools, paper, other)
        put_on_paper(world, paper, other, queue.scratch.gpu_ids[:gpus], +1)
        remove(queue, other)
        offers.aside[aside] = other
        aside += 1


@kernel
def note_reach(world: World, offers: Offers, job: int, tier: int) -> int:
    """Note and return the reach of a running job's placement."""
    scratch = offers.queue.scratch
    used = list_nodes(world, job, scratch.nodes, scratch.counts)
    offers.settings[REACH] = reach_of(world, tier, scratch.nodes, scratch.counts, used)
    return int(offers.settings[REACH])


@kernel
def note_end(world: World, offers: Offers, tools: OfferTools, job: int) -> None:
    """Tell the policy that the lease of a job is over."""
    tier = tier_of(world, job)
    note_reach(world, offers, job, tier)
    tools.ended(world, offers, job, tier)


@kernel
def should_go(world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int, tier: int) -> bool:
    """Whether a job gives up its GPUs: there is a better place for it now, or it would not take this one again."""
    if tier == 0:
        return False
    reach = note_reach(world, offers, job, tier)
    if offers.settings[GATED] == 1 and tools.opens(world, offers, job, tier) > world.clock[w.NOW]:
        return True
    better, place = room_at(world, offers, tools, paper, job)
    if 0 <= better <= tier:
        choose(world, offers, paper, job, better, place)
    return bool(0 <= better < tier or (better == tier and offers.settings[REACH] < reach))


@kernel
def take_on_paper(world: World, offers: Offers, tools: OfferTools, paper: Paper, job: int) -> None:
    """Who gives up its GPUs for others takes those on paper, if it would, so that nobody after it keeps them."""
    tier, place = room_at(world, offers, tools, paper, job)
    if tier >= 0 and world.jobs[w.SHARE, job] == 1000:
        used = choose(world, offers, paper, job, tier, place)
        if offers.settings[GATED] == 0 or tools.opens(world, offers, job, tier) <= world.clock[w.NOW]:
            gpus = collect(world, offers.queue.scratch, paper, used)
            put_on_paper(world, paper, job, offers.queue.scratch.gpu_ids[:gpus], +1)


@kernel
def renew(world: World, offers: Offers, tools: OfferTools, ended: int, plan: Decision) -> None:
    """Prolong the leases that end now of those whose GPUs nobody takes who comes before them."""
    queue, scratch, aside = offers.queue, offers.queue.scratch, 0
    paper = on_paper(scratch)
    sort_by_key(world, queue, tools.parts, ended)
    copy_to_paper(world, paper)
    for i in range(ended):
        lift(world, queue, scratch.jobs[i], -1)
    for i in range(ended):
        job = scratch.jobs[i]
        if world.clock[w.N_PENDING] > aside:
            aside = let_earlier_ones_take(world, offers, tools, job, aside)
        tier = tier_of(world, job)
        if offers.settings[RENEWAL] == BETTER and should_go(world, offers, tools, paper, job, tier):
            take_on_paper(world, offers, tools, paper, job)
            continue
        ids = scratch.gpu_ids[: held(world, job, scratch.gpu_ids)]
        if still_free(world, paper, job, ids):
            put_on_paper(world, paper, job, ids, +1)
            add_start(plan, job, ids, lease_end(world, offers, tools, job, tier))
    for i in range(aside):
        insert(queue, offers.aside[i])
    queue.blocked[:] = 0  # they were on paper


# ------------------------------------------------------------------------------------------- the decision


@kernel
def wake_up(world: World, offers: Offers, plan: Decision) -> None:
    """Look again when the next one accepts what is free."""
    settings, now, free = offers.settings, world.clock[w.NOW], -1
    opening = settings[OPENING]
    for at in range(len(offers.wakes)):
        if offers.wakes[at] <= now:
            free = at
    if opening < w.NEVER and (settings[WAKE] <= now or opening < settings[WAKE]) and free >= 0:
        settings[WAKE] = offers.wakes[free] = opening
        add_other(plan, w.A_TIMER, 0, opening)


@kernel
def catch_up(world: World, offers: Offers, tools: OfferTools) -> None:
    """Take in what happened since the last decision."""
    queue, settings, now = offers.queue, offers.settings, world.clock[w.NOW]
    take_in(world, queue, tools.parts)
    if settings[SEEN] != now:
        settings[SEEN] = now
        queue.blocked[:] = 0
        tools.looks(world, offers, -1, -1)
    if queue.settings[KEYED_AT] != now:
        rekey(world, queue, tools.parts)


@kernel
def leases_end(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Whether leases end now; plans the renewals. What isn't renewed is free in a moment."""
    if offers.settings[LEASE] == w.NEVER:
        return False
    queue = offers.queue
    ended = collect_ended(world, queue)
    if ended == 0:
        return False
    if offers.settings[NOTED] != world.clock[w.NOW]:  # after some were renewed we are asked again
        offers.settings[NOTED] = world.clock[w.NOW]
        for i in range(ended):
            note_end(world, offers, tools, queue.scratch.jobs[i])
    if offers.settings[RENEWAL] != AGAIN:
        renew(world, offers, tools, ended, plan)
    return True


@kernel
def start_waiting(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> bool:
    """Start the next waiting job, if there is one that takes what is free."""
    offers.settings[OPENING] = w.NEVER
    room = offers.queue.settings[SHARES] == 1 or any_gpu_free(world)
    return bool(world.clock[w.N_PENDING] > 0 and room and start_next(world, offers, tools, plan))


@kernel
def decide(world: World, offers: Offers, tools: OfferTools, plan: Decision) -> None:
    """Plan the next start, the renewals of leases that end, or nothing."""
    catch_up(world, offers, tools)
    if leases_end(world, offers, tools, plan) or start_waiting(world, offers, tools, plan):
        return
    tools.tell(world, offers, tools.parts, plan)
    wake_up(world, offers, plan)

"""One decision of a policy that auctions GPUs: which jobs get an offer, and which of these win.

The jobs that want GPUs are ranked by rho.  What is free is offered to the first part of them, the rest to the first
part of the others, and so on.  The winners in a part are found by an exact search, or one after the other by what
they gain per GPU.
"""

from __future__ import annotations

from shunter import world as w
from shunter.arrays import I1, Arrays, Variables
from shunter.compiled import kernel
from shunter.draws import plus, scrambled, times
from shunter.model import Renumbering
from shunter.policies.themis.fairness import (
    Fairness,
    count_jobs,
    gain,
    job_size,
    meet,
    rho_of_waiting,
)
from shunter.policies.themis.winners import LOSES, Search, fill_room, find_winners
from shunter.scheduling.leasing.decide import collect_ended, should_go, still_free
from shunter.scheduling.leasing.memory import AGAIN, BETTER, Offers, OfferTools, room_at
from shunter.scheduling.placing import add_start, collect, copy_to_paper, held, on_paper, put_on_paper
from shunter.scheduling.queue.heaps import remove
from shunter.scheduling.queue.intake import any_gpu_free, take_in
from shunter.scheduling.queue.preempting import lift
from shunter.scheduling.queue.queue import Queue
from shunter.scheduling.tiers import fill_usable, lay_out, tier_of
from shunter.world import F64, I64, Decision, World

AUTO, EXACT, GREEDY = range(3)
AUCTIONS = ("auto", "exact", "greedy")
FEW_BIDDERS, FEW_GPUS = 8, 32  # up to this many of each, AUTO searches exactly
MOST_STEPS = {"auto": 2_000, "exact": 1_000_000}  # after which the best found so far is taken
NOT, WANTS, SATED = range(3)  # `known.listed`: not in `ranked`, there and wants GPUs, still there but to be left out
SLACK = 1e-9  # (1 - 0.8) * 10 is a little less than 2


class AuctionConfig(Arrays):
    """How auctions work."""

    offered: float  # which part of the jobs gets an offer
    mode: int  # AUTO, EXACT, GREEDY
    by_service: bool  # leases are in GPU time
    steps: int  # of a search at most


class AuctionState(Variables):
    """Where an auction stands."""

    ranked: int = 0  # how many are `ranked`
    drawn: int = 0  # for which lease the draws hold
    open: int = 0  # how many classes and ended leases are left of which some job may take something ...
    free: int = 0  # ... and how many GPUs are left for them


class Auctions(Arrays):
    """The memory of a policy that auctions GPUs off."""

    offers: Offers
    fair: Fairness
    search: Search
    config: AuctionConfig
    state: AuctionState
    ranked: I1  # (jobs,) those that want GPUs, in the order of the last time

    @property
    def queue(self) -> Queue:
        """Where its waiting jobs are."""
        queue: Queue = self.offers.queue
        return queue

    def with_queue(self, queue: Queue) -> Auctions:
        """The same with another queue."""
        return self.replace(offers=self.offers.with_queue(queue))

    def renumbered(self, rows: Renumbering) -> Auctions:
        """What it knows of each job, by the rows that the jobs have now."""
        return self.replace(offers=self.offers.renumbered(rows), fair=self.fair.renumbered(rows))


# ------------------------------------------------------------------------------------------- jobs that get an offer


@kernel
def draw_for(world: World, job: int, lease: int) -> float:
    """A number that depends on seed, job and the how manieth lease it is, and on nothing else (splitmix64)."""
    number = world.jobs[w.NUMBER, job]
    drawn = plus(times(world.clock[w.SEED], 6364136223846793005), times(number, 1442695040888963407))
    return float(scrambled(plus(drawn, lease)) & 0xFFFFFFFF)


@kernel
def comes_before(by: F64, then: F64, a: int, b: int) -> bool:
    """Whether job ``a`` is ahead of ``b``: by one number, equals by another, the larger first; then by job."""
    if by[a] != by[b]:
        return bool(by[a] > by[b])
    return bool(then[a] > then[b] or (then[a] == then[b] and a < b))


@kernel
def sort_at(jobs: I64, by: F64, then: F64, gap: int, most: int) -> bool:
    """Sort every ``gap``-th job by insertion; gives up after this many moves."""
    moves = 0
    for i in range(gap, len(jobs)):
        job, at = jobs[i], i
        while at >= gap and comes_before(by, then, job, jobs[at - gap]):
            jobs[at] = jobs[at - gap]
            at -= gap
            moves += 1
        jobs[at] = job
        if moves > most:
            return False
    return True


@kernel
def sort_down(jobs: I64, by: F64, then: F64) -> None:
    """Sort jobs; mostly they are nearly in order, else by Shell's method."""
    if not sort_at(jobs, by, then, 1, 8 * len(jobs)):
        gap = 1
        while gap < len(jobs) // 3:
            gap = 3 * gap + 1
        while gap > 0:
            sort_at(jobs, by, then, gap, len(jobs) ** 2)
            gap //= 3


@kernel
def enlist(world: World, auctions: Auctions, job: int) -> None:
    """A job wants GPUs."""
    known, state = auctions.fair.known, auctions.state
    meet(world, auctions.offers.queue, auctions.fair, job)
    if known.listed[job] == NOT:
        auctions.ranked[state.ranked] = job
        state.ranked += 1
        known.draw[job] = draw_for(world, job, state.drawn)
    known.listed[job] = WANTS


@kernel
def draw_again(world: World, auctions: Auctions) -> None:
    """Draw the order of equals again, once in the time of a lease."""
    lease = world.clock[w.NOW] // auctions.offers.config.lease
    if lease != auctions.state.drawn:
        auctions.state.drawn = lease
        for at in range(auctions.state.ranked):
            job = auctions.ranked[at]
            auctions.fair.known.draw[job] = draw_for(world, job, lease)


@kernel
def rank(world: World, auctions: Auctions) -> int:
    """Rank all jobs that want GPUs, and leave out the others; returns how many."""
    ranked, known, count = auctions.ranked, auctions.fair.known, 0
    draw_again(world, auctions)
    for at in range(auctions.state.ranked):
        job = ranked[at]
        if known.listed[job] == WANTS:
            known.rho[job] = rho_of_waiting(world, auctions.fair, job)
            ranked[count] = job
            count += 1
        else:
            known.listed[job] = NOT
    auctions.state.ranked = count
    sort_down(ranked[:count], known.rho, known.draw)
    return count


@kernel
def block_classes(world: World, auctions: Auctions, tools: OfferTools) -> None:
    """Note which classes there is no room for, and count the others."""
    queue = auctions.offers.queue
    for cls in range(len(queue.size)):
        if queue.size[cls] > 0 and queue.blocked[cls] == 0:
            job = queue.members[queue.first[cls]]
            if room_at(world, auctions.offers, tools, on_paper(queue.scratch), job)[0] >= 0:
                auctions.state.open += 1
            else:
                queue.blocked[cls] = 1


@kernel
def may_bid(world: World, auctions: Auctions, job: int) -> bool:
    """Whether there may be something for a job: it has GPUs whose lease is over, or not its whole class was refused."""
    queue = auctions.offers.queue
    return bool(queue.blocked[queue.class_of[job]] == 0 or world.jobs[w.STATE, job] == w.RUNNING)


@kernel
def find_bidders(world: World, auctions: Auctions, offered: I64) -> int:
    """Fill ``search.jobs`` with jobs that have an offer and may take something; returns how many."""
    queue, count = auctions.offers.queue, 0
    for i in range(len(offered)):
        job = offered[i]
        if may_bid(world, auctions, job):
            lowest = 0
            while queue.tiers.takes[lowest, queue.class_of[job]] == 0:
                lowest += 1
            best = gain(world, queue, auctions.fair, job, lowest)
            auctions.fair.known.worth[job] = best / job_size(world, job)
            auctions.search.jobs[count] = job
            count += 1
    return count


# ------------------------------------------------------------------------------------------- jobs that get the GPUs


@kernel
def lease_end(world: World, auctions: Auctions, job: int) -> int:
    """When a lease that a job gets now ends; one that can't be stopped keeps its GPUs."""
    lease = auctions.offers.config.lease
    if lease == w.NEVER or world.jobs[w.CHECKPOINTABLE, job] == 0:
        return int(w.NEVER)
    if auctions.config.by_service:
        lease = max(round(lease / job_size(world, job)), 1)
    return int(world.clock[w.NOW] + max(lease, 1))


@kernel
def start(world: World, auctions: Auctions, job: int, tier: int, place: int, plan: Decision, real: bool) -> None:
    """Give a job GPUs of a place, on paper and, if it is ``real``, in the plan."""
    queue, scratch, gpus = auctions.offers.queue, auctions.offers.queue.scratch, 1
    paper = on_paper(scratch)
    if world.jobs[w.SHARE, job] < 1000:
        scratch.gpu_ids[0] = place
    else:
        gpus = collect(world, scratch, paper, lay_out(world, queue, paper, job, tier, place))
    put_on_paper(world, paper, job, scratch.gpu_ids[:gpus], +1)
    auctions.state.free -= gpus
    if real:
        add_start(plan, job, scratch.gpu_ids[:gpus], lease_end(world, auctions, job))
        remove(queue, job)
        auctions.fair.known.listed[job] = SATED
        auctions.state.open -= queue.size[queue.class_of[job]] == 0


@kernel
def renew(world: World, auctions: Auctions, tools: OfferTools, job: int, plan: Decision) -> None:
    """Let a job whose lease is over keep its GPUs if no job has taken any of them on paper, and none are better."""
    offers, scratch = auctions.offers, auctions.offers.queue.scratch
    paper = on_paper(scratch)
    auctions.state.open -= 1
    if offers.config.renewal == BETTER and should_go(world, offers, tools, paper, job, tier_of(world, job)):
        return
    ids = scratch.gpu_ids[: held(world, job, scratch.gpu_ids)]
    if still_free(world, paper, job, ids):
        put_on_paper(world, paper, job, ids, +1)
        auctions.state.free -= len(ids)
        add_start(plan, job, ids, lease_end(world, auctions, job))


@kernel
def bring_forward(world: World, auctions: Auctions, at: int, count: int) -> int:
    """Swap the bidder of ``search.jobs[at:count]`` that gains most per GPU to ``at``; returns it, -1: none is left."""
    jobs, known, best = auctions.search.jobs, auctions.fair.known, -1
    for i in range(at, count):
        better = best < 0 or comes_before(known.worth, known.rho, jobs[i], jobs[best])
        if better and may_bid(world, auctions, jobs[i]):
            best = i
    if best < 0:
        return -1
    jobs[at], jobs[best] = jobs[best], jobs[at]
    return int(jobs[at])


@kernel
def one_by_one(world: World, auctions: Auctions, tools: OfferTools, count: int, real: bool, plan: Decision) -> None:
    """The bidders that have not won yet take what they can, one after the other."""
    queue, state = auctions.offers.queue, auctions.state
    for at in range(count):
        if state.open == 0 or (state.free == 0 and not queue.config.shares):
            return
        job = bring_forward(world, auctions, at, count)
        if job < 0:
            return
        if world.jobs[w.STATE, job] == w.RUNNING:
            renew(world, auctions, tools, job, plan)
        elif queue.at[job] >= 0:
            tier, place = room_at(world, auctions.offers, tools, on_paper(queue.scratch), job)
            if tier >= 0:
                start(world, auctions, job, tier, place, plan, real)
            else:
                queue.blocked[queue.class_of[job]] = 1
                state.open -= 1


@kernel
def is_searched(world: World, auctions: Auctions, count: int) -> bool:
    """Whether the winners are found by search: few enough, and every GPU is as good for all of them."""
    mode, jobs = auctions.config.mode, auctions.search.jobs
    if mode == GREEDY or count < 2:
        return False
    if mode == AUTO and (count > FEW_BIDDERS or auctions.state.free > FEW_GPUS):
        return False
    plain = world.clock[w.BOUNDED] == 0
    for i in range(count):
        plain = plain and world.jobs[w.SHARE, jobs[i]] == 1000
        plain = plain and world.jobs[w.VC, jobs[i]] == world.jobs[w.VC, jobs[0]]
        plain = plain and world.jobs[w.TYPE, jobs[i]] == world.jobs[w.TYPE, jobs[0]]
    return bool(plain)


@kernel
def by_search(world: World, auctions: Auctions, count: int, plan: Decision) -> None:
    """Start the jobs that together gain most."""
    queue, search = auctions.offers.queue, auctions.search
    sort_down(search.jobs[:count], auctions.fair.known.worth, auctions.fair.known.rho)
    fill_usable(world, queue.scratch, on_paper(queue.scratch), search.jobs[0])
    fill_room(world, search, queue.scratch.usable[: world.nodes.shape[1]])
    for i in range(count):
        job = search.jobs[i]
        search.most[i] = auctions.fair.known.worth[job] * world.jobs[w.GPUS, job]
        for tier in range(len(search.room)):
            bids = queue.tiers.takes[tier, queue.class_of[job]] == 1
            search.gains[i, tier] = gain(world, queue, auctions.fair, job, tier) if bids else 0.0
    find_winners(world, search, count, auctions.config.steps)
    domains = search.room.shape[1]
    for tier in range(len(search.room)):  # jobs that need one machine first: the others may be anywhere in their domain
        for i in range(count):
            choice = search.winning[i]
            if choice != LOSES and choice // domains == tier:
                start(world, auctions, search.jobs[i], tier, choice % domains, plan, True)


# ------------------------------------------------------------------------------------------- the decision


@kernel
def hold(world: World, auctions: Auctions, tools: OfferTools, ended: int, plan: Decision) -> None:
    """Offer what is free to one part after the other.

    The GPUs of the first ``ended`` of ``scratch.jobs``, whose lease is over, are free too; then it only finds which of
    them keeps it: the others give it up first.
    """
    queue, state, first = auctions.offers.queue, auctions.state, 0
    paper = on_paper(queue.scratch)
    copy_to_paper(world, paper)
    if ended > 0:
        queue.blocked[:] = 0  # there is more on paper
    for i in range(ended):
        lift(world, queue, queue.scratch.jobs[i], -1)
        enlist(world, auctions, queue.scratch.jobs[i])
    state.open, state.free = ended, 0
    for node in range(len(paper.free)):
        state.free += paper.free[node]
    block_classes(world, auctions, tools)
    count = 0
    if state.open > ended:
        count = rank(world, auctions)
    else:  # no other job could take anything
        for i in range(ended):
            renew(world, auctions, tools, queue.scratch.jobs[i], plan)
    while first < count and state.open > 0 and (state.free > 0 or queue.config.shares):
        part = max(int(auctions.config.offered * (count - first) + SLACK), 1)
        if part > 1 or may_bid(world, auctions, auctions.ranked[first]):
            bidders = find_bidders(world, auctions, auctions.ranked[first : first + part])
            if ended == 0 and is_searched(world, auctions, bidders):
                by_search(world, auctions, bidders, plan)
            one_by_one(world, auctions, tools, bidders, ended == 0, plan)
        first += part
    if ended > 0:
        queue.blocked[:] = 0
        for i in range(ended):
            auctions.fair.known.listed[queue.scratch.jobs[i]] = SATED  # if it isn't, it is soon back in the queue
    else:
        auctions.offers.state.seen = world.clock[w.RELEASES]


@kernel
def greet(world: World, auctions: Auctions, fresh: bool) -> None:
    """Enlist jobs that are new, or back in the queue; they may fit."""
    queue, row, length = auctions.offers.queue, w.L_ARRIVED, w.N_ARRIVED
    if fresh:
        row, length = w.L_PENDING, w.N_PENDING
        for at in range(world.clock[w.N_RUNNING]):
            meet(world, queue, auctions.fair, world.lists[w.L_RUNNING, at])
    for at in range(world.clock[length]):
        job = world.lists[row, at]
        enlist(world, auctions, job)
        if queue.blocked[queue.class_of[job]] == 0:
            auctions.offers.state.seen = -1


@kernel
def decide(world: World, auctions: Auctions, tools: OfferTools, plan: Decision) -> None:
    """Plan all starts of an auction, the renewals of leases that end, or nothing."""
    offers, queue = auctions.offers, auctions.offers.queue
    fresh = queue.state.fresh
    take_in(world, queue, tools.parts)
    count_jobs(world, auctions.fair)
    greet(world, auctions, fresh)
    news = offers.state.seen != world.clock[w.RELEASES]  # else all jobs that fit have been started
    if news and world.clock[w.N_PENDING] > 0 and (queue.config.shares or any_gpu_free(world)):
        hold(world, auctions, tools, 0, plan)
    if plan.counts[0] == 0 and offers.config.lease < w.NEVER and offers.config.renewal != AGAIN:
        ended = collect_ended(world, queue)
        if ended > 0:  # what isn't renewed is free in a moment
            hold(world, auctions, tools, ended, plan)
    if plan.counts[0] == 0:
        tools.give_reasons(world, offers, tools.parts, plan)

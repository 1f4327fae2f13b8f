"""What a policy that leases GPUs remembers, and what a job of it is offered."""

from __future__ import annotations

from typing import Any, NamedTuple

from shunter import world as w
from shunter.arrays import I1, Arrays, Variables
from shunter.compiled import kernel
from shunter.model import Renumbering
from shunter.scheduling.placing import choose_share, collect
from shunter.scheduling.queue.heaps import precedes
from shunter.scheduling.queue.queue import Paper, Parts, Queue, Scratch
from shunter.scheduling.queue.ranking import ends_within
from shunter.scheduling.tiers import lay_out, reach_of, room_for, sort_nodes
from shunter.world import World

MOST_WAKES = 16  # times ahead at which we asked to be asked: the engine has this many timers for one policy
AGAIN, KEEP, BETTER = range(3)  # what happens to a job whose lease ends


class LeaseConfig(Arrays):
    """How leases work."""

    lease: int  # ms, or NEVER
    renewal: int = AGAIN
    gated: bool = False  # some tiers are accepted only later


class LeaseState(Variables):
    """What a policy that leases remembers in addition to its jobs; times in ms."""

    seen: int = -1  # the last instant, or RELEASES, that it has looked at
    noted: int = -1  # when ended leases were last noted
    opening: int = 0  # when the next one waiting accepts what is free
    wake: int = -1  # when we look again
    reach: int = 0  # of the placement that is being thought about, see `reach_of`
    evidence: int = 0  # from how many waits the timer comes that a policy was last asked for, -1: it isn't tuned
    planned_for: int = 0  # the job that holds the reservation on paper, -1: none
    laid: int = 0  # how many rows of `then.laid` are in use


class Gates(Arrays):
    """Of the first of each class that does not take what is free: why."""

    tier: I1  # (classes,)
    timer: I1  # (classes,) how long it waits for a lower one (ms) ...
    evidence: I1  # (classes,) ... and from how many waits that comes


class TimerChanges(Variables):
    """How timers changed, for people to look at."""

    rows: int = 0  # in use
    time: I1  # ms
    tier: I1
    gpus: I1
    timer: I1  # ms
    waits: I1  # that it comes from


class Offers(Arrays):
    """The memory of a policy that leases GPUs."""

    queue: Queue
    config: LeaseConfig
    state: LeaseState
    candidate: I1  # (classes,) the next one of each class that may take something, -1: none
    offered: I1  # (classes,) the tier that it would take, -1: not looked yet
    gate: Gates
    wakes: I1  # (MOST_WAKES,) for when we asked to be asked again
    aside: I1  # (jobs,) taken out of the queue while planning on paper
    then: Scratch  # room to work out a reservation in: what will be free when it comes true
    size_of: I1  # (classes,) classes of the same number of GPUs have the same
    gpus_of: I1  # (sizes,)
    seat: I1  # (jobs,) of a job that was stopped: one above the tier that it had, 0: none; empty: that does not matter
    own: Arrays  # what only one policy knows
    history: TimerChanges

    def with_queue(self, queue: Queue) -> Offers:
        """The same with another queue."""
        return self.replace(queue=queue)

    def renumbered(self, rows: Renumbering) -> Offers:
        """What the queue knows of each job, by the rows that the jobs have now."""
        return self.with_queue(self.queue.renumbered(rows))


class Terms(NamedTuple):
    """Of the tools below those that are needed to look at an offer, for functions that are themselves tools."""

    parts: Parts
    opens: Any
    lasts: Any


class OfferTools(NamedTuple):
    """Pointers to what differs between policies that lease GPUs."""

    parts: Parts
    opens: Any  # the time from which a waiting job accepts a tier
    took: Any  # called when a job takes an offer
    lasts: Any  # for how long it takes it
    ended: Any  # called when a lease ends, before it is decided whether to renew it
    looks: Any  # called at every new instant, before anything is decided
    give_reasons: Any  # saying why jobs wait
    terms: Terms
    leaves_alone: Any  # whether the candidate of a class delays no job with a reservation, see `reserving.py` ...
    may_stay: Any  # ... and whether a job whose lease is over doesn't


# ------------------------------------------------------------------------------------------- jobs that take an offer


@kernel
def first_open(
    world: World, offers: Offers, tools: Terms | OfferTools, cls: int, tier: int, longest: int, speed: float
) -> int:
    """The first job of a class that accepts a tier and gives its GPUs back within ``longest`` ms, -1 if none does.

    It does so at its end, at this speed, or with its lease.  Notes when the next one will accept the tier.
    """
    queue, now = offers.queue, world.clock[w.NOW]
    best, end = -1, now + longest
    for at in range(queue.first[cls], queue.first[cls] + queue.size[cls]):
        job = queue.members[at]
        if world.jobs[w.STATE, job] != w.PENDING:
            continue
        if not ends_within(world, queue, job, longest, speed) and lease_end(world, offers, tools, job, tier) > end:
            continue
        opening = tools.opens(world, offers, job, tier)
        if opening > now:
            offers.state.opening = min(offers.state.opening, opening)
        elif best < 0 or precedes(queue, job, best):
            best = job
    return best


@kernel
def room_at(world: World, offers: Offers, tools: Terms | OfferTools, paper: Paper, job: int) -> tuple[int, int]:
    """The lowest tier with room for a job and where; a share of a GPU is on one machine.

    A job that was stopped takes any tier up to the one that it had, also one on which it would not be started.
    """
    if world.jobs[w.SHARE, job] < 1000:
        found = choose_share(world, offers.queue, tools.parts, paper, job)
        return (0, offers.queue.scratch.nodes[0]) if found > 0 else (-1, -1)
    return room_for(world, offers.queue, paper, job, offers.seat[job] if len(offers.seat) > 0 else 0)


@kernel
def choose(world: World, offers: Offers, paper: Paper, job: int, tier: int, place: int) -> int:
    """Choose nodes for a job where there is room and note their reach; returns how many nodes."""
    queue, scratch = offers.queue, offers.queue.scratch
    used = lay_out(world, queue, paper, job, tier, place)
    sort_nodes(scratch.nodes, scratch.counts, used)
    offers.state.reach = reach_of(world, tier, scratch.nodes, scratch.counts, used)
    return used


@kernel
def gpus_at(world: World, offers: Offers, paper: Paper, job: int, tier: int, place: int) -> int:
    """Fill ``scratch.gpu_ids`` with GPUs for a job where there is room; returns how many."""
    scratch = offers.queue.scratch
    if world.jobs[w.SHARE, job] < 1000:
        scratch.gpu_ids[0] = place
        offers.state.reach = 1
        return 1
    return collect(world, scratch, paper, choose(world, offers, paper, job, tier, place))


@kernel
def gpus_for(world: World, offers: Offers, tools: Terms | OfferTools, paper: Paper, job: int) -> tuple[int, int]:
    """Fill ``scratch.gpu_ids`` with GPUs for a job that takes what is free; returns how many, and their tier."""
    tier, place = room_at(world, offers, tools, paper, job)
    return gpus_at(world, offers, paper, job, tier, place), tier


@kernel
def lease_end(world: World, offers: Offers, tools: Terms | OfferTools, job: int, tier: int) -> int:
    """When a lease that a job gets now ends; one that can't be stopped keeps its GPUs."""
    if offers.config.lease == w.NEVER or world.jobs[w.CHECKPOINTABLE, job] == 0:
        return int(w.NEVER)
    return int(world.clock[w.NOW] + max(tools.lasts(world, offers, job, tier), 1))

"""The winners of an auction: an exact search, for few bidders.

GPUs are alike, so where a bidder goes is one choice among domains: a machine, a rack, what is above, the cluster.  A
choice is possible if no domain holds more than it has free; jobs in one domain are then laid out one after the other.
"""

from __future__ import annotations

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays
from shunter.compiled import copy_into, kernel
from shunter.world import I64, World

LOSES = -1


class Search(Arrays):
    """Room to search in."""

    room: I2  # (tiers, domains) free GPUs
    inside: I1  # (tiers,) how many domains a tier has
    node: I2  # (tiers, domains) a node of each domain
    jobs: I1  # (jobs,) the bidders, those with the largest gain per GPU first
    gains: F2  # (jobs, tiers) what each tier is worth to a bidder, 0: it does not bid for that one
    most: F1  # (jobs,) the largest of these
    sums: F1  # (jobs + 1,) what the bidders before this one gain by their present choices
    choice: I1  # (jobs,) tier x domains + domain, or LOSES; while searching ...
    winning: I1  # (jobs,) ... and the best found


@kernel
def fill_room(world: World, search: Search, usable: I64) -> None:
    """Count what is free in every domain."""
    top = len(search.room) - 1
    search.room[:] = 0
    for node in range(len(usable)):
        search.room[0, node] = usable[node]
        for tier in range(1, top):
            search.room[tier, world.domains[tier - 1, node]] += usable[node]
        search.room[top, 0] += usable[node]


@kernel
def domain_above(world: World, search: Search, tier: int, node: int) -> int:
    """The domain of a tier that a node is in."""
    if tier == 0:
        return node
    return 0 if tier == len(search.room) - 1 else int(world.domains[tier - 1, node])


@kernel
def take_from(world: World, search: Search, choice: int, gpus: int) -> None:
    """Take this many GPUs from the domain of a choice and all around it; a negative number gives them back."""
    tier, domain = choice // search.room.shape[1], choice % search.room.shape[1]
    node = search.node[tier, domain]
    for above in range(tier, len(search.room)):
        search.room[above, domain_above(world, search, above, node)] -= gpus


@kernel
def is_possible(world: World, search: Search, tier: int, domain: int, gpus: int) -> bool:
    """Whether a domain and all around it have room; of machines of a rack that are alike only the first counts."""
    node = search.node[tier, domain]
    for above in range(tier, len(search.room)):
        if search.room[above, domain_above(world, search, above, node)] < gpus:
            return False
    if tier == 0:
        for other in range(node - 1, -1, -1):
            if world.domains[0, other] != world.domains[0, node]:
                break
            if search.room[0, other] == search.room[0, node]:
                return False
    return True


@kernel
def next_choice(world: World, search: Search, at: int, after: int) -> int:
    """The next choice of a bidder that is possible, after this one; LOSES comes last."""
    domains, gpus = search.room.shape[1], world.jobs[w.GPUS, search.jobs[at]]
    for tier in range((after + 1) // domains, len(search.room)):
        if search.gains[at, tier] > 0:
            for domain in range(max(after + 1 - tier * domains, 0), search.inside[tier]):
                if is_possible(world, search, tier, domain, gpus):
                    return int(tier * domains + domain)
    return LOSES


@kernel
def bound(world: World, search: Search, at: int, count: int) -> float:
    """An upper bound on the gain of the bidders from ``at`` on: GPUs could be divided."""
    left, total = search.room[len(search.room) - 1, 0], 0.0
    for i in range(at, count):
        gpus = world.jobs[w.GPUS, search.jobs[i]]
        if gpus >= left:
            return float(total + search.most[i] * left / gpus)
        left -= gpus
        total += search.most[i]
    return total


@kernel
def find_winners(world: World, search: Search, count: int, steps: int) -> bool:
    """Fill ``search.winning`` with the choices of the largest sum of gains; false if the steps did not suffice.

    One bidder after the other tries every place and then losing, unless what is left can't make up for it.  Of equally
    good outcomes the first stays.  Without enough steps it is the best one found so far.
    """
    domains, best, at, further = search.room.shape[1], -1.0, 0, True
    search.winning[:count] = LOSES
    search.sums[0] = 0.0
    for _ in range(steps):
        if further and search.sums[at] + bound(world, search, at, count) <= best:
            further = False
        elif further and at == count:
            best = search.sums[count]
            copy_into(search.winning[:count], search.choice[:count])
            further = False
        else:
            choice = -1
            if not further:
                at -= 1
                if at < 0:
                    return True
                choice = search.choice[at]
                if choice == LOSES:
                    continue
                take_from(world, search, choice, -world.jobs[w.GPUS, search.jobs[at]])
            choice = next_choice(world, search, at, choice)
            search.choice[at] = choice
            search.sums[at + 1] = search.sums[at]
            if choice != LOSES:
                search.sums[at + 1] += search.gains[at, choice // domains]
                take_from(world, search, choice, world.jobs[w.GPUS, search.jobs[at]])
            at += 1
            further = True
    return False

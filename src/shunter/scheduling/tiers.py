"""Finding GPUs by network tier: on one machine, in one rack, in one domain above, anywhere."""

from __future__ import annotations

from typing import Any

from shunter import world as w
from shunter.compiled import kernel
from shunter.draws import next_draw
from shunter.placers._nodes import is_taken
from shunter.scheduling.placing import anywhere, draw_for, may_use, within_limits
from shunter.scheduling.queue.queue import Paper, Queue, Scratch, Tiers
from shunter.world import I64, World

# -- which machine, or which rack, where several have room
FIRST, BEST, AFFINE = range(3)  # the first one; the fullest that still has room; Gandiva's affinity
# -- which GPUs of a rack, or of the cluster
LIST, PACK, EVEN, SCATTER = range(4)  # in their order; on fewest machines; as many on each; by chance
FITS = ("first", "best", "affinity")
SPREADS = ("list", "pack", "even", "scatter")


@kernel
def fill_usable(world: World, scratch: Scratch, paper: Paper, job: int) -> int:
    """Fill ``scratch.usable`` with how many GPUs of each node a job could take; returns how many of all."""
    room = 0
    if anywhere(world, job):
        for node in range(world.nodes.shape[1]):
            scratch.usable[node] = paper.free[node]
            room += paper.free[node]
        return room
    for node in range(world.nodes.shape[1]):
        scratch.usable[node] = within_limits(world, paper, job, node) if may_use(world, job, node) else 0
        room += scratch.usable[node]
    return room


@kernel
def affinity(world: World, paper: Paper, node: int) -> int:
    """The number of GPUs that the jobs on a node want, 0 if it is idle: Gandiva keeps jobs of a size together."""
    first, per_gpu = world.nodes[w.FIRST_GPU, node], world.clock[w.SLOTS_PER_GPU]
    for gpu in range(first, first + world.nodes[w.TOTAL, node]):
        if paper.tenants[gpu] > 0:
            for slot in range(gpu * per_gpu, (gpu + 1) * per_gpu):
                if world.slots[w.SLOT_JOB, slot] >= 0:
                    return int(world.jobs[w.GPUS, world.slots[w.SLOT_JOB, slot]])
    return 0


@kernel
def affine_machine(world: World, paper: Paper, usable: I64, gpus: int) -> int:
    """A machine whose jobs are as large, else an idle one, else any; of several the one with the most free GPUs."""
    best, best_rank = -1, 3
    for node in range(len(usable)):
        if usable[node] < gpus:
            continue
        size = affinity(world, paper, node)
        rank = 0 if size == gpus else 1 if size == 0 else 2
        if rank < best_rank or (rank == best_rank and usable[node] > usable[best]):
            best, best_rank = node, rank
    return best


@kernel
def roomy(free: I64, gpus: int, fit: int) -> int:
    """A machine or domain with this many free GPUs: the fullest for BEST, else the first; -1: none."""
    best = -1
    for at in range(len(free)):
        if free[at] >= gpus and (best < 0 or free[at] < free[best]):
            best = at
            if fit != BEST or free[at] == gpus:
                break
    return best


@kernel
def count_inside(world: World, tiers: Tiers, usable: I64, level: int) -> int:
    """Fill ``tiers.inside`` with the GPUs free in each domain of a level; returns how many domains there are."""
    domains = 0
    for node in range(len(usable)):
        domain = world.domains[level, node]
        if domain >= domains:
            for new in range(domains, domain + 1):
                tiers.inside[new] = 0
            domains = domain + 1
        tiers.inside[domain] += usable[node]
    return domains


# ------------------------------------------------------------------------------------------- choosing nodes in a domain


@kernel
def in_order(usable: I64, mine: I64, gpus: int, nodes: I64, counts: I64) -> int:
    """Take free GPUs node by node; ``mine`` says which nodes are in the domain."""
    used, need = 0, gpus
    for node in range(len(usable)):
        if need > 0 and mine[node] == 1 and usable[node] > 0:
            nodes[used], counts[used] = node, min(usable[node], need)
            need -= counts[used]
            used += 1
    return used


@kernel
def packed(usable: I64, mine: I64, gpus: int, nodes: I64, counts: I64) -> int:
    """Take the freest nodes, and for the rest the fullest one that has room for it."""
    used, need = 0, gpus
    while need > 0:
        best = -1
        for node in range(len(usable)):
            if mine[node] == 0 or usable[node] == 0 or is_taken(nodes, used, node):
                continue
            if best < 0:
                best = node
            elif usable[best] >= need:
                best = node if need <= usable[node] < usable[best] else best
            else:
                best = node if usable[node] > usable[best] else best
        nodes[used], counts[used] = best, min(usable[best], need)
        need -= counts[used]
        used += 1
    return used


@kernel
def even_in_racks(world: World, usable: I64, mine: I64, shape: tuple[int, int, int], nodes: I64, counts: I64) -> int:
    """These GPUs, on this many machines of this many racks, the fullest machines that do; 0 if that isn't free."""
    each, machines, racks = shape
    used, done, rack, rack_begins = 0, 0, -1, 0
    for node in range(len(usable) + 1):
        if node == len(usable) or world.domains[0, node] != rack:
            if used - rack_begins == machines:
                done += 1
            else:
                used = rack_begins
            if done == racks or node == len(usable):
                break
            rack, rack_begins = world.domains[0, node], used
        if mine[node] == 0 or usable[node] < each:
            continue
        if used - rack_begins < machines:
            nodes[used], counts[used] = node, each
            used += 1
            continue
        emptiest = rack_begins  # of those chosen in this rack: a fuller one is better, and of equal ones the first
        for i in range(rack_begins + 1, used):
            a, b = nodes[i], nodes[emptiest]
            if usable[a] > usable[b] or (usable[a] == usable[b] and a > b):
                emptiest = i
        if usable[node] < usable[nodes[emptiest]]:
            nodes[emptiest] = node
    return used if done == racks else 0


@kernel
def evenly(world: World, usable: I64, mine: I64, gpus: int, racks: int, nodes: I64, counts: I64) -> int:
    """As many GPUs on each machine and machines in each rack, in fewest racks, then on fewest machines; else packed."""
    largest = 0
    for node in range(len(usable)):
        if mine[node] == 1:
            largest = max(largest, usable[node])
    for among in range(1, racks + 1):
        if gpus % among != 0:
            continue
        for machines in range(1, gpus // among + 1):
            each = gpus // among // machines
            if each * machines * among != gpus or each > largest:
                continue
            used = even_in_racks(world, usable, mine, (each, machines, among), nodes, counts)
            if used > 0:
                return used
    return packed(usable, mine, gpus, nodes, counts)


@kernel
def scattered(usable: I64, mine: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """Free GPUs by chance, each set of them as likely."""
    left, largest = 0, 0
    for node in range(len(usable)):
        left += usable[node] * mine[node]
        largest = max(largest, usable[node] * mine[node])
    if gpus * len(usable) * largest < left * left:  # this many draws are less work than a look at every free GPU
        return drawn(usable, mine, gpus, largest, draw, nodes, counts)
    used, need, state = 0, gpus, draw
    for node in range(len(usable)):
        here = 0
        for _ in range(usable[node] * mine[node]):
            state = next_draw(state)
            if (state >> 20) % left < need:
                here += 1
                need -= 1
            left -= 1
        if here > 0:
            nodes[used], counts[used] = node, here
            used += 1
    return used


@kernel
def drawn(usable: I64, mine: I64, gpus: int, largest: int, draw: int, nodes: I64, counts: I64) -> int:
    """The same, one GPU after the other, drawn again if it isn't free; no node has more than ``largest``."""
    used, need, state = 0, gpus, draw
    while need > 0:
        state = next_draw(state)
        node, rank = divmod((state >> 20) % (len(usable) * largest), largest)
        at = 0
        while at < used and nodes[at] < node:
            at += 1
        known = at < used and nodes[at] == node
        if rank >= usable[node] * mine[node] - (counts[at] if known else 0):
            continue
        need -= 1
        if known:
            counts[at] += 1
            continue
        for i in range(used, at, -1):
            nodes[i], counts[i] = nodes[i - 1], counts[i - 1]
        nodes[at], counts[at] = node, 1
        used += 1
    return used


# ------------------------------------------------------------------------------------------- the lowest tier with room


@kernel
def place_at(world: World, queue: Queue, paper: Paper, job: int, tier: int) -> int:
    """The machine or domain of a tier that has room for a job, -1 if none has.

    ``scratch.usable`` is filled, and has room in all: the last tier, anywhere, always has.
    """
    tiers, fit, gpus = queue.tiers, queue.tiers.fit[queue.class_of[job]], world.jobs[w.GPUS, job]
    usable = queue.scratch.usable[: world.nodes.shape[1]]
    if tier == 0:
        return affine_machine(world, paper, usable, gpus) if fit == AFFINE else roomy(usable, gpus, fit)
    if tier < len(tiers.takes) - 1:
        domains = count_inside(world, tiers, usable, tier - 1)
        return roomy(tiers.inside[:domains], gpus, fit)
    return 0


@kernel
def room_for(world: World, queue: Queue, paper: Paper, job: int, seat: int) -> tuple[int, int]:
    """The lowest tier with room for a job, -1 if there is none, and the machine or domain that has it.

    First of the tiers below ``seat``, also of those on which the job would not be started.
    """
    takes, cls = queue.tiers.takes, queue.class_of[job]
    if fill_usable(world, queue.scratch, paper, job) < world.jobs[w.GPUS, job]:
        return -1, -1
    for at in range(seat + len(takes)):
        tier = at if at < seat else at - seat
        if at < seat or takes[tier, cls] == 1:
            place = place_at(world, queue, paper, job, tier)
            if place >= 0:
                return tier, place
    return -1, -1


@kernel
def room_below(world: World, queue: Queue, paper: Paper, job: int, limit: int) -> tuple[int, int]:
    """The same of the tiers below ``limit`` only."""
    if fill_usable(world, queue.scratch, paper, job) < world.jobs[w.GPUS, job]:
        return -1, -1
    for tier in range(limit):
        place = place_at(world, queue, paper, job, tier)
        if place >= 0:
            return tier, place
    return -1, -1


@kernel
def lay_out(world: World, queue: Queue, paper: Paper, job: int, tier: int, place: int) -> int:
    """Fill ``scratch.nodes`` and ``scratch.counts`` for a job where there is room; returns how many nodes."""
    tiers, scratch, gpus, cls = queue.tiers, queue.scratch, world.jobs[w.GPUS, job], queue.class_of[job]
    if tier == 0:
        scratch.nodes[0], scratch.counts[0] = place, gpus
        return 1
    fill_usable(world, scratch, paper, job)
    usable, mine, racks, rack = scratch.usable[: world.nodes.shape[1]], scratch.total, 0, -1
    anywhere = tier == len(tiers.takes) - 1
    for node in range(len(usable)):
        mine[node] = 1 if anywhere or world.domains[tier - 1, node] == place else 0
        if mine[node] == 1 and world.domains[0, node] != rack:
            rack = world.domains[0, node]
            racks += 1
    if tiers.spread[cls] == LIST:
        return in_order(usable, mine, gpus, scratch.nodes, scratch.counts)
    if tiers.spread[cls] == PACK:
        return packed(usable, mine, gpus, scratch.nodes, scratch.counts)
    if tiers.spread[cls] == EVEN:
        return evenly(world, usable, mine, gpus, racks, scratch.nodes, scratch.counts)
    return scattered(usable, mine, gpus, draw_for(world, job), scratch.nodes, scratch.counts)


@kernel
def choose_by_tiers(world: World, queue: Queue, place: Any, paper: Paper, job: int) -> int:
    """Choose nodes of the lowest tier that has room for a job; returns how many, 0 if it does not fit."""
    tier, where = room_for(world, queue, paper, job, 0)
    return lay_out(world, queue, paper, job, tier, where) if tier >= 0 else 0


@kernel
def units_in(world: World, level: int, nodes: I64, used: int) -> int:
    """How many machines each rack has (level 0), or racks each domain above, and so on; 0: not all as many."""
    parent, child, here, before = -1, -1, 0, 0
    for i in range(used):
        if world.domains[level, nodes[i]] != parent:
            if before > 0 and here != before:
                return 0
            before, here, child = here, 0, -1
            parent = world.domains[level, nodes[i]]
        inner = nodes[i] if level == 0 else world.domains[level - 1, nodes[i]]
        here += 1 if inner != child else 0
        child = inner
    return here if before in (0, here) else 0


@kernel
def reach_of(world: World, tier: int, nodes: I64, counts: I64, used: int) -> int:
    """How many units of its tier a placement joins; one that is not even is a ring of all its GPUs.

    Nodes come rack by rack.  What a job pays for its placement grows with this number.
    """
    if tier == 0:
        return 1
    gpus, even, joined, last = 0, True, 0, -1
    for i in range(used):
        gpus += counts[i]
        even = even and counts[i] == counts[0]
        unit = nodes[i] if tier == 1 else world.domains[tier - 2, nodes[i]]
        joined += 1 if unit != last else 0
        last = unit
    for level in range(tier - 1):
        even = even and units_in(world, level, nodes, used) > 0
    return int(joined if even else gpus)


@kernel
def sort_nodes(nodes: I64, counts: I64, used: int) -> None:
    """Put chosen nodes in the order of their numbers, and so rack by rack."""
    for i in range(1, used):
        node, count, at = nodes[i], counts[i], i
        while at > 0 and nodes[at - 1] > node:
            nodes[at], counts[at] = nodes[at - 1], counts[at - 1]
            at -= 1
        nodes[at], counts[at] = node, count


@kernel
def list_nodes(world: World, job: int, nodes: I64, counts: I64) -> int:
    """Fill in on which nodes a running job is, with how many GPUs; returns how many nodes."""
    slot, used = world.jobs[w.HEAD, job], 0
    while slot >= 0:
        node = world.gpus[w.NODE, world.slots[w.SLOT_GPU, slot]]
        if used > 0 and nodes[used - 1] == node:
            counts[used - 1] += 1
        else:
            nodes[used], counts[used] = node, 1
            used += 1
        slot = world.slots[w.SLOT_NEXT, slot]
    return used


@kernel
def tier_of(world: World, job: int) -> int:
    """The tier that a running job spans: 0 on one machine, 1 in one rack ..., the number of levels + 1 anywhere."""
    slot, slots = world.jobs[w.HEAD, job], world.slots
    here, found = world.gpus[w.NODE, slots[w.SLOT_GPU, slot]], 0
    while slot >= 0 and found <= len(world.domains):
        node = world.gpus[w.NODE, slots[w.SLOT_GPU, slot]]
        if node != here:
            tier = 1
            while tier <= len(world.domains) and world.domains[tier - 1, node] != world.domains[tier - 1, here]:
                tier += 1
            found = max(found, tier)
        slot = slots[w.SLOT_NEXT, slot]
    return found

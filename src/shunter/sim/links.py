"""Links that running jobs share, as ``shunter.network.contention`` defines them, kept up to date as jobs come and go.

A job is counted from the moment at which it gets its GPUs to that at which it gives them back.
"""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays
from shunter.cluster import Cluster
from shunter.compiled import kernel
from shunter.network.contention import Uplinks
from shunter.sim.shape import domain
from shunter.world import F64, World

# -- columns of `jobs`: the widest tier that it spans (0: it sends nothing over links), whether it is a flat ring, its
# shape as a column of the network's tables, its first and last node, its position in `listed`
REACH, RING, PLACE, LOW, HIGH, LISTED_AT = range(6)
TRAFFIC_COLUMNS = 6

STEP = 2**0.5  # between two stretches for which iterations are worked out


class Traffic(Arrays):
    """Which jobs send over which links; no links: contention is not modelled."""

    first: I1  # (tiers - 1,) the first link out of the domains of each tier; the others follow
    order: I2  # (tiers - 1, tiers) over such a link: the tiers that jobs may reach, by what their senders want
    wanted: F2  # (tiers - 1, tiers) GB/s that a sender of a job wants that reaches so far; 0: it does not come by
    capacity: F1  # (links,) GB/s
    senders: I2  # (links, tiers) how many send, by the reach of their jobs
    fair: F1  # (links,) GB/s that one sender gets at most
    jobs: I2  # (TRAFFIC_COLUMNS, jobs)
    stretch: F1  # (jobs,) how many times longer its messages between machines take than on links of its own
    listed: I1  # (jobs,) those that send
    count: I1  # (1,) how many those are


def traffic(cluster: Cluster, jobs: int, contention: bool) -> Traffic:
    """No job sends yet."""
    uplinks = Uplinks.of(cluster) if contention else None
    tiers = range(len(cluster.tiers) if uplinks else 0)
    wanted = np.array([[uplinks.wanted(tier, reach) for reach in tiers] for tier in tiers[:-1]] if uplinks else [])
    wanted = wanted.reshape(len(tiers[:-1]), len(tiers))
    counts = [cluster.nodes, *(int(domains.max()) + 1 for domains in cluster.tier_domains)]
    jobs = jobs if uplinks else 0
    capacity = np.array(uplinks.capacity if uplinks else ())
    return Traffic(
        first=np.cumsum([0, *counts])[: len(wanted)],
        order=np.argsort(wanted, axis=1, kind="stable").reshape(wanted.shape),
        wanted=wanted,
        capacity=capacity,
        senders=np.zeros((len(capacity), len(tiers)), np.int64),
        fair=np.zeros(len(capacity)),
        jobs=np.zeros((TRAFFIC_COLUMNS, jobs), np.int64),
        stretch=np.ones(jobs),
        listed=np.zeros(jobs, np.int64),
        count=np.zeros(1, np.int64),
    )


def stretches(cluster: Cluster, contention: bool) -> F64:
    """From 1 in equal ratios to the most that there can be while no two jobs share a GPU, and at least to 2."""
    if not contention:
        return np.ones(1)
    uplinks, most = Uplinks.of(cluster), 2.0
    for tier, domains in enumerate((np.arange(cluster.nodes), *cluster.tier_domains)):
        wanted = max(uplinks.wanted(tier, reach) for reach in range(tier + 1, len(cluster.tiers)))
        most = max(most, float(np.bincount(domains, cluster.node_gpus).max()) * wanted / uplinks.port(tier))
    steps = int(np.ceil(np.log(most) / np.log(STEP) - 1e-9))
    return np.power(STEP, np.arange(steps + 1), dtype=np.float64)


@kernel
def fair_level(traffic: Traffic, tier: int, link: int) -> float:
    """The most GB/s that one sender over a link gets: what some don't want is divided among the others."""
    left, count, level = traffic.capacity[link], 0, 0.0
    for reach in range(tier + 1, traffic.order.shape[1]):
        count += traffic.senders[link, reach]
    for i in range(traffic.order.shape[1]):
        reach = traffic.order[tier, i]
        here = traffic.senders[link, reach]
        if here > 0:
            level = traffic.wanted[tier, reach]
            if level * count > left:
                return float(left / count)
            left -= level * here
            count -= here
    return float(level)


@kernel
def count_senders(world: World, traffic: Traffic, job: int, sign: int) -> None:
    """A job begins (+1) or ceases (-1) to send: from each of its GPUs, or once from each domain if it is a ring."""
    per_gpu, tiers = world.clock[w.SLOTS_PER_GPU], traffic.order.shape[1]
    reach, ring = traffic.jobs[REACH, job], traffic.jobs[RING, job]
    for tier in range(reach):
        before = -1
        slot = world.jobs[w.HEAD, job]
        while slot >= 0:
            link = traffic.first[tier] + domain(world, tier, tiers, world.gpus[w.NODE, slot // per_gpu])
            if link != before and before >= 0:
                traffic.fair[before] = fair_level(traffic, tier, before)
            if link != before or ring == 0:
                traffic.senders[link, reach] += sign
            before = link
            slot = world.slots[w.SLOT_NEXT, slot]
        traffic.fair[before] = fair_level(traffic, tier, before)


@kernel
def stretch_of(world: World, traffic: Traffic, job: int) -> float:
    """What a job has to bear on its slowest link."""
    per_gpu, tiers = world.clock[w.SLOTS_PER_GPU], traffic.order.shape[1]
    reach, worst = traffic.jobs[REACH, job], 1.0
    for tier in range(reach):
        wanted, before = traffic.wanted[tier, reach], -1
        slot = world.jobs[w.HEAD, job]
        while slot >= 0:
            link = traffic.first[tier] + domain(world, tier, tiers, world.gpus[w.NODE, slot // per_gpu])
            if link != before:
                worst = max(worst, wanted / traffic.fair[link])
            before = link
            slot = world.slots[w.SLOT_NEXT, slot]
    return worst


@kernel
def may_meet(world: World, traffic: Traffic, job: int, other: int) -> bool:
    """Whether two jobs could send over one link: if so, then over one of the widest tier that both leave."""
    jobs, tiers = traffic.jobs, traffic.order.shape[1]
    tier = min(jobs[REACH, job], jobs[REACH, other]) - 1
    low, high = domain(world, tier, tiers, jobs[LOW, job]), domain(world, tier, tiers, jobs[HIGH, job])
    below = domain(world, tier, tiers, jobs[HIGH, other]) < low
    return not below and domain(world, tier, tiers, jobs[LOW, other]) <= high


@kernel
def enter(world: World, traffic: Traffic, job: int) -> None:
    """A job that was put on GPUs begins to send."""
    slot = world.jobs[w.HEAD, job]
    traffic.jobs[HIGH, job] = world.gpus[w.NODE, slot // world.clock[w.SLOTS_PER_GPU]]
    while slot >= 0:
        traffic.jobs[LOW, job] = world.gpus[w.NODE, slot // world.clock[w.SLOTS_PER_GPU]]
        slot = world.slots[w.SLOT_NEXT, slot]
    traffic.listed[traffic.count[0]] = job
    traffic.jobs[LISTED_AT, job] = traffic.count[0]
    traffic.count[0] += 1
    traffic.stretch[job] = 1.0
    count_senders(world, traffic, job, +1)


@kernel
def leave(world: World, traffic: Traffic, job: int) -> None:
    """A job that still holds its GPUs ceases to send."""
    count_senders(world, traffic, job, -1)
    traffic.count[0] -= 1
    last = traffic.listed[traffic.count[0]]
    traffic.listed[traffic.jobs[LISTED_AT, job]] = last
    traffic.jobs[LISTED_AT, last] = traffic.jobs[LISTED_AT, job]

"""What a key may know of the nodes that its job may use: how much is free, how it lies, and which jobs wait for it."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.placing import as_it_is, find_gpus, may_use
from shunter.scheduling.queue.heaps import order_heaps
from shunter.scheduling.queue.queue import Parts, Pools, Queue, Scratch
from shunter.scheduling.queue.ranking import key_all
from shunter.world import I64, Decision, World

LEAST_RUN = 10_000  # ms, of a bounded slowdown
HIDDEN = 1e300  # the key of a job that is not in view


@kernel
def see_pools(world: World, queue: Queue, parts: Parts, target: int, plan: Decision) -> bool:
    """Look at the pools as they are, and make the keys of all waiting jobs again."""
    look_at_pools(world, queue, parts)
    if 0 < queue.config.visible < world.clock[w.N_PENDING]:
        key_visible(world, queue, parts)
    else:
        key_all(world, queue, parts, world.clock[w.NOW])
    return True


@kernel
def look_at_pools(world: World, queue: Queue, parts: Parts) -> None:
    """Count what is free, how it lies, and which jobs wait."""
    pools = queue.pools
    for pool in range(len(pools.sample)):
        count_nodes(world, pools, pool)
    for cls in range(len(queue.size)):
        room = queue.size[cls] > 0 and find_gpus(world, queue, parts, as_it_is(world), queue.sample[cls]) > 0
        pools.fits[cls] = 1.0 if room else 0.0
        pools.ways[cls] = ways(world, queue.scratch, queue.sample[cls]) if room else 0.0
    count_waiting(world, queue)
    queue.head[:] = -1  # another job may be the first one now


@kernel
def key_visible(world: World, queue: Queue, parts: Parts) -> None:
    """Evaluate the keys of the jobs in view; the others come behind them, in the order of submission."""
    last, now = last_visible(world, queue.config.visible), world.clock[w.NOW]
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        queue.key[job] = parts.key(world, queue, job, now) if job <= last else HIDDEN
    order_heaps(world, queue)


@kernel
def last_visible(world: World, visible: int) -> int:
    """The last of this many waiting jobs that were submitted first."""
    low, high = 0, world.jobs.shape[1] - 1
    while low < high:
        middle, count = (low + high) // 2, 0
        for at in range(world.clock[w.N_PENDING]):
            count += int(world.lists[w.L_PENDING, at] <= middle)
        if count >= visible:
            high = middle
        else:
            low = middle + 1
    return int(low)


@kernel
def count_nodes(world: World, pools: Pools, pool: int) -> None:
    """Count the nodes of a pool and their GPUs."""
    nodes, gpus, free, largest, partly = 0, 0, 0, 0, 0
    for node in range(world.nodes.shape[1]):
        if world.nodes[w.NODE_STATE, node] == w.UP and may_use(world, pools.sample[pool], node):
            here, total = world.nodes[w.FREE, node], world.nodes[w.TOTAL, node]
            nodes += 1
            gpus += total
            free += here
            largest = max(largest, here)
            partly += int(0 < here < total)
    pools.nodes[pool], pools.gpus[pool], pools.free[pool] = nodes, gpus, free
    pools.largest[pool], pools.partly[pool] = largest, partly


@kernel
def count_waiting(world: World, queue: Queue) -> None:
    """Count the jobs that wait for each pool, and what they ask for."""
    pools = queue.pools
    pools.waiting[:] = 0.0
    pools.demand[:] = 0.0
    pools.choice[:] = 0.0
    pools.growth[:] = 0.0
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        pool = pools.of_class[queue.class_of[job]]
        pools.waiting[pool] += 1.0
        pools.demand[pool] += world.jobs[w.GPUS, job] * world.jobs[w.SHARE, job] / 1000
        if pools.ways[queue.class_of[job]] >= 2.0:
            pools.choice[pool] = 1.0
        pools.growth[pool] += 1000.0 / max(queue.estimate[job], LEAST_RUN)


@kernel
def ways(world: World, scratch: Scratch, job: int) -> float:
    """In how many ways a job of whole GPUs that fits could be placed, as RLTune counts them; see ``ways_of``."""
    if world.jobs[w.SHARE, job] < 1000:
        return 1.0
    nodes, largest = world.nodes.shape[1], 0
    for node in range(nodes):
        if world.nodes[w.NODE_STATE, node] == w.UP and may_use(world, job, node):
            largest = max(largest, world.nodes[w.TOTAL, node])
    partly, idle = scratch.usable[:largest], scratch.total[:largest]
    partly[:] = 0
    idle[:] = 0
    for node in range(nodes):
        free = world.nodes[w.FREE, node]
        if free > 0 and world.nodes[w.NODE_STATE, node] == w.UP and may_use(world, job, node):
            if free < world.nodes[w.TOTAL, node]:
                partly[free - 1] += 1
            else:
                idle[free - 1] += 1
    return float(ways_of(partly, idle, world.jobs[w.GPUS, job]))


@kernel
def ways_of(partly: I64, idle: I64, gpus: int) -> int:
    """Ways to place a job, 0 to 3, given how many nodes, partly used and idle, have 1, 2, 3 ... GPUs free.

    On the fewest nodes: 1, or 2 where nodes with other numbers of free GPUs would do as well. And 1 more if it could
    fill a partly used node and go on as many others.
    """
    fewest = (gpus + len(idle) - 1) // len(idle)
    best = freest_sum(partly, idle, fewest, 0)
    found = 0
    if best >= gpus:
        found = 1 + int(best - least_loss(partly, idle, fewest) >= gpus)
    for free in range(1, min(len(partly) + 1, gpus)):
        if partly[free - 1] > 0 and freest_sum(partly, idle, fewest, free) >= gpus - free:
            return found + 1
    return found


@kernel
def freest_sum(partly: I64, idle: I64, count: int, without: int) -> int:
    """GPUs that are free on the freest nodes, of which one with ``without`` free GPUs is left out."""
    total, left = 0, count
    for free in range(len(idle), 0, -1):
        there = min(partly[free - 1] + idle[free - 1] - int(free == without), left)
        total += there * free
        left -= there
    return total if left == 0 else 0


@kernel
def least_loss(partly: I64, idle: I64, count: int) -> int:
    """How many GPUs fewer are free, at least, if one of the freest nodes is exchanged for one with fewer."""
    left, above, least = count, 0, len(idle) * count + 1
    for free in range(len(idle), 0, -1):
        there = partly[free - 1] + idle[free - 1]
        taken = min(there, left)
        if there > taken and above > 0:
            least = min(least, above - free)  # a freer one for one of these
        left -= taken
        above = free if taken > 0 else above
    return least

"""What a key may know of the nodes that its job may use: how much is free there, how it lies, and who waits for it."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.placing import as_it_is, find_gpus, may_use
from shunter.scheduling.queue.queue import Parts, Pools, Queue, key_all
from shunter.world import Decision, World


@kernel
def see_pools(world: World, queue: Queue, parts: Parts, target: int, plan: Decision) -> bool:
    """Look at the pools as they are, and make the keys of all waiting jobs again."""
    pools = queue.pools
    for pool in range(len(pools.sample)):
        count_nodes(world, pools, pool)
    count_waiting(world, queue)
    for cls in range(len(queue.size)):
        room = queue.size[cls] > 0 and find_gpus(world, queue, parts, as_it_is(world), queue.sample[cls]) > 0
        pools.fits[cls] = 1.0 if room else 0.0
    queue.head[:] = -1  # another job may be the first one now
    key_all(world, queue, parts, world.clock[w.NOW])
    return True


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
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        pool = pools.of_class[queue.class_of[job]]
        pools.waiting[pool] += 1.0
        pools.demand[pool] += world.jobs[w.GPUS, job] * world.jobs[w.SHARE, job] / 1000

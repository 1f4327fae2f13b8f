"""The keys of all waiting jobs by a network, several jobs at a time, compiled."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.scored.evaluating import fill_lane, score_lanes
from shunter.policies.scored.lanes import LANES
from shunter.scheduling.queue.heaps import order_heaps
from shunter.scheduling.queue.pools import HIDDEN, last_visible, look_at_pools
from shunter.scheduling.queue.queue import Parts, Queue
from shunter.scheduling.queue.ranking import describe
from shunter.world import I64, Decision, World


@kernel
def look_and_score(world: World, queue: Queue, parts: Parts, target: int, plan: Decision) -> bool:
    """Look at the pools as they are, and make the keys of all waiting jobs again; those not in view come last."""
    look_at_pools(world, queue, parts)
    waiting, visible = world.clock[w.N_PENDING], queue.config.visible
    last = last_visible(world, visible) if 0 < visible < waiting else world.jobs.shape[1]
    block, filled = queue.scratch.stack, 0
    for at in range(waiting):
        job = world.lists[w.L_PENDING, at]
        if job > last:
            queue.key[job] = HIDDEN
            continue
        fill_lane(describe(world, queue, job, queue.state.total_usage, world.clock[w.NOW]), queue.params, filled)
        block[filled] = job
        filled += 1
        if filled == LANES:
            key_block(queue, block, filled)
            filled = 0
    if filled > 0:
        key_block(queue, block, filled)
    order_heaps(world, queue)
    return True


@kernel
def key_block(queue: Queue, block: I64, filled: int) -> None:
    """Make the keys of the jobs in the lanes."""
    found = score_lanes(queue.params)
    for lane in range(filled):
        key = queue.params[found + lane]
        if math.isnan(key):
            queue.state.no_number = block[lane]
            key = math.inf
        queue.key[block[lane]] = key

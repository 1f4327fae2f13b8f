"""One decision of a queue policy, compiled: which job starts next, where, and which must make room."""

from __future__ import annotations

from functools import cache
from typing import Any

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numpy as np
from numba import typeof, types

from shunter import world as w
from shunter.arrays import type_of
from shunter.compiled import kernel, pointer
from shunter.scheduling.estimates import expect, expect_by_model, learn, learn_model
from shunter.scheduling.placing import add_other, add_start, as_it_is, choose_ahead, choose_nodes, find_gpus
from shunter.scheduling.queue.heaps import top
from shunter.scheduling.queue.intake import anything_to_try, free_gpus, take_in
from shunter.scheduling.queue.queue import B_CONSERVATIVE, B_EASY, Paper, Parts, Queue, Tools
from shunter.scheduling.queue.ranking import ahead, first_of, rekey
from shunter.scheduling.tiers import choose_by_tiers
from shunter.world import Decision, World


@kernel
def next_job(world: World, queue: Queue, parts: Parts) -> int:
    """The next job in the order; -1 if all that is left is blocked or stopped."""
    best = -1
    for cls in range(len(queue.size)):
        if queue.size[cls] == 0 or queue.head[queue.pool_of[cls]] >= 0:
            continue
        if not queue.config.strict and queue.blocked[cls] == 1:
            continue
        job = top(world, queue, cls)
        if job < 0:
            continue
        if queue.config.varying:
            best = first_of(world, queue, parts, cls, best, -1, w.NEVER, 1.0)
            continue
        queue.exact[job] = queue.key[job]
        if best < 0 or ahead(queue, job, best):
            best = job
    return best


@kernel
def start_next(world: World, queue: Queue, tools: Tools, plan: Decision) -> bool:
    """Start the next job that fits, by the queue's rule; false if none does."""
    parts, free = tools.parts, free_gpus(world)
    while True:
        job = next_job(world, queue, parts)
        if job < 0:
            return False
        cls, gpus = queue.class_of[job], 0
        if queue.blocked[cls] == 0 and (free >= world.jobs[w.GPUS, job] or world.jobs[w.SHARE, job] < 1000):
            gpus = find_gpus(world, queue, parts, as_it_is(world), job)
        if gpus > 0:
            add_start(plan, job, queue.scratch.gpu_ids[:gpus], w.NEVER)
            return True
        if queue.config.preemptive and tools.make_room(world, queue, parts, job, plan):
            return True
        queue.blocked[cls] = 1
        if queue.config.strict:
            queue.head[queue.pool_of[cls]] = job


@kernel
def start_one(world: World, queue: Queue, tools: Tools, plan: Decision) -> bool:
    """Start the next job that fits, or else one that backfills; false if none does."""
    if start_next(world, queue, tools, plan):
        return True
    if queue.config.backfill == B_EASY:
        for pool in range(len(queue.head)):
            if queue.head[pool] >= 0 and tools.backfill(world, queue, tools.parts, pool, plan):
                return True
    return False


@kernel
def decide(world: World, queue: Queue, tools: Tools, plan: Decision) -> None:
    """Plan the next start, or nothing."""
    config, state, parts = queue.config, queue.state, tools.parts
    take_in(world, queue, parts)
    if config.backfill == B_CONSERVATIVE:
        if state.keyed_at != world.clock[w.NOW]:
            rekey(world, queue, parts)
            tools.see_pools(world, queue, parts, 0, plan)
        if not tools.backfill(world, queue, parts, 0, plan):
            tools.give_reasons(world, queue, parts, 0, plan)
        return
    if anything_to_try(world, queue):
        if state.keyed_at != world.clock[w.NOW]:
            rekey(world, queue, parts)
        tools.see_pools(world, queue, parts, 0, plan)
        if tools.inspect(world, queue, parts, 0, plan) or start_one(world, queue, tools, plan):
            return
    tools.give_reasons(world, queue, parts, 0, plan)
    if config.quantum > 0 and world.clock[w.N_PENDING] > 0:
        quantum = config.quantum
        add_other(plan, w.A_TIMER, 0, (world.clock[w.NOW] // quantum + 1) * quantum)


@kernel
def never(world: World, queue: Queue, parts: Parts, target: int, plan: Decision) -> bool:
    """What a policy uses that doesn't preempt, backfill, give reasons, look at pools, or let its first job wait."""
    return False


@cache
def parts_for(key: Any, place: Any, tiers: bool, learned: bool, sees_next: bool = False) -> Parts:
    """The pointers that every queue policy needs; ``learned``: a model makes its estimates.

    ``sees_next``: the placement rule is given what the next waiting job wants.
    """
    window = np.zeros(1, np.int64)
    mine = [type_of(World), type_of(Queue)]
    choose = types.int64(*mine, typeof(place), typeof(Paper(*[window] * 5)), types.int64)
    return Parts(
        key,
        place,
        _pointer(choose_by_tiers if tiers else choose_ahead if sees_next else choose_nodes, choose),
        _pointer(expect_by_model if learned else expect, types.int64(*mine, types.int64)),
        _pointer(learn_model if learned else learn, types.void(*mine, types.int64)),
    )


@cache
def tools_for(
    parts: Parts, preemptive: bool, backfill: str, reasons: bool, see: Any = never, inspect: Any = never
) -> Tools:
    """The pointers that a policy needs, compiled; the rest isn't. ``see`` and ``inspect`` are kernels."""
    from shunter.scheduling import waiting_reasons
    from shunter.scheduling.backfill import conservative, easy
    from shunter.scheduling.queue import preempting

    arguments = [type_of(World), type_of(Queue), typeof(parts), types.int64, type_of(Decision)]
    signature = types.boolean(*arguments)
    method = {"none": never, "easy": easy.backfill, "conservative": conservative.backfill}[backfill]
    room = preempting.make_room if preemptive else never
    give = waiting_reasons.give if reasons else never
    return Tools(parts, *(_pointer(function, signature) for function in (room, method, give, see, inspect)))


@cache
def decide_pointer(tools: Tools) -> Any:
    """``decide``, compiled; the types of its arguments are always the same."""
    return _pointer(decide, types.void(type_of(World), type_of(Queue), typeof(tools), type_of(Decision)))


@cache
def _pointer(function: Any, signature: Any) -> Any:
    return pointer(function, signature)

"""One decision of a queue policy, compiled: who starts next, where, and who must make room."""

from __future__ import annotations

from typing import Any

from shunter import world as w
from shunter.compiled import kernel, pointer
from shunter.policies import _conservative, _easy
from shunter.policies._placing import add_other, add_start, as_it_is, find_gpus
from shunter.policies._preempting import make_room
from shunter.policies._queue import (
    B_CONSERVATIVE,
    B_EASY,
    BACKFILL,
    KEYED_AT,
    PREEMPTIVE,
    QUANTUM,
    STRICT,
    Parts,
    Queue,
    anything_to_try,
    precedes,
    rekey,
    take_in,
    top,
)
from shunter.world import Decision, World


@kernel
def next_class(world: World, queue: Queue) -> int:
    """The class whose first job is next in the order; -1 if all that is left is blocked, stopped or empty."""
    best, best_job = -1, -1
    for cls in range(len(queue.size)):
        if queue.size[cls] == 0 or queue.head[queue.pool_of[cls]] >= 0:
            continue
        if queue.settings[STRICT] == 0 and queue.blocked[cls] == 1:
            continue
        job = top(world, queue, cls)
        if job >= 0 and (best < 0 or precedes(queue, job, best_job)):
            best, best_job = cls, job
    return best


@kernel
def start_next(world: World, queue: Queue, parts: Parts, plan: Decision) -> bool:
    """Start the next job that fits, by the queue's rule; false if none does."""
    while True:
        cls = next_class(world, queue)
        if cls < 0:
            return False
        job = queue.members[queue.first[cls]]
        gpus = 0
        if queue.blocked[cls] == 0:
            gpus = find_gpus(world, queue, parts, as_it_is(world), job)
        if gpus > 0:
            add_start(plan, job, queue.scratch.gpu_ids[:gpus])
            return True
        if queue.settings[PREEMPTIVE] == 1 and make_room(world, queue, parts, job, plan):
            return True
        queue.blocked[cls] = 1
        if queue.settings[STRICT] == 1:
            queue.head[queue.pool_of[cls]] = job


@kernel
def decide(world: World, queue: Queue, parts: Parts, plan: Decision) -> None:
    """Plan the next start, or nothing."""
    settings = queue.settings
    take_in(world, queue, parts)
    if settings[BACKFILL] == B_CONSERVATIVE:
        if settings[KEYED_AT] != world.clock[w.NOW]:
            rekey(world, queue, parts)
        _conservative.backfill(world, queue, parts, plan)
        return
    if not anything_to_try(world, queue):
        return
    if settings[KEYED_AT] != world.clock[w.NOW]:
        rekey(world, queue, parts)
    if start_next(world, queue, parts, plan):
        return
    if settings[BACKFILL] == B_EASY:
        for pool in range(len(queue.head)):
            if queue.head[pool] >= 0 and _easy.backfill(world, queue, parts, pool, plan):
                return
    if settings[QUANTUM] > 0:
        quantum = settings[QUANTUM]
        add_other(plan, w.A_TIMER, 0, (world.clock[w.NOW] // quantum + 1) * quantum)


_pointers: dict[Any, Any] = {}


def decide_for(world: World, queue: Queue, parts: Parts, plan: Decision) -> Any:
    """``decide`` as a pointer; the types of the arguments are always the same, so it is compiled once."""
    from numba import typeof, types

    if "decide" not in _pointers:
        arguments = [typeof(value) for value in (world, queue, parts, plan)]
        _pointers["decide"] = pointer(decide, types.void(*arguments))
    return _pointers["decide"]


@kernel
def ask(function: Any, world: World, queue: Queue, parts: Parts, plan: Decision) -> None:
    """Call a compiled policy once."""
    plan.counts[:] = 0
    function(world, queue, parts, plan)

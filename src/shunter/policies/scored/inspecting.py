"""An inspector (SchedInspector): a model that lets the first job of an order wait, compiled."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.scored.evaluating import score
from shunter.scheduling.placing import add_other
from shunter.scheduling.queue.decide import next_job
from shunter.scheduling.queue.queue import LOOK_AGAIN, Parts, Queue
from shunter.scheduling.queue.ranking import describe
from shunter.world import Decision, World

MOST_SKIPS = 72  # of one job: 12 hours, as in SchedInspector


@kernel
def inspect(world: World, queue: Queue, parts: Parts, target: int, plan: Decision) -> bool:
    """Let the first job wait, and all others with it, if the model's value for it is above 0."""
    job = first_job(world, queue, parts)
    if job < 0 or not may_wait(queue, job):
        return False
    seen = describe(world, queue, job, queue.state.total_usage, world.clock[w.NOW])
    if score(seen, queue.inspector.model) <= 0.0:
        return False
    let_wait(world, queue, job, plan)
    return True


@kernel
def first_job(world: World, queue: Queue, parts: Parts) -> int:
    """The first job in the order; -1: there is none that may fit."""
    queue.head[:] = -1
    return int(next_job(world, queue, parts))


@kernel
def may_wait(queue: Queue, job: int) -> bool:
    """Whether a job may be made to wait once more."""
    return bool(queue.inspector.skips[job] < MOST_SKIPS)


@kernel
def let_wait(world: World, queue: Queue, job: int, plan: Decision) -> None:
    """Make a job wait: it is offered again when something happens, or after ten minutes."""
    queue.inspector.skips[job] += 1
    add_other(plan, w.A_TIMER, 0, world.clock[w.NOW] + LOOK_AGAIN)

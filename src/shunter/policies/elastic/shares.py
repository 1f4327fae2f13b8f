"""Minimal shares: the fewest GPUs over time with which each job meets its deadline, given those due before it.

Time ahead is cut into slots that grow with their distance. Jobs are taken by deadline. Each gets the lowest level of
GPUs that finishes it in time, where a slot has fewer left than the level, what is left; so the plan of an admitted job
never takes what an earlier one needs (ElasticFlow, ASPLOS'23).
"""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.elastic.memory import MOST_SLOTS, NOT_ADMITTED, ElasticState, elastic_of
from shunter.scheduling.resizing.known_jobs import cost_of, due_at, stays
from shunter.scheduling.resizing.memory import ResizingState
from shunter.world import F64, I64, World

GROWTH = 1.2  # of slots
ROUNDING = 1.0 + 1e-9  # by which a bound of the work done may be off


@kernel
def cut_time(edges: F64, step: float, last: float) -> int:
    """Fill in the ends of slots, from one step on, until the last deadline; returns how many slots there are."""
    end, count = step, 1
    edges[0] = end
    while end < last and count < MOST_SLOTS:
        end *= GROWTH
        edges[count] = end
        count += 1
    edges[count - 1] = max(end, last)
    return count


@kernel
def taken(level: int, least: int, free: int) -> int:
    """GPUs of a slot that a job gets at a level; too few are none."""
    gpus = min(level, free)
    return gpus if gpus >= least else 0


@kernel
def least_and_most(world: World, state: ResizingState, job: int) -> tuple[int, int]:
    """The fewest and the most GPUs that a job can have now."""
    if stays(world, job):
        return int(world.jobs[w.WORKERS, job]), int(world.jobs[w.WORKERS, job])
    return int(state.least[job]), int(state.most[job])


@kernel
def slots_needed(  # noqa: PLR0913, PLR0917
    level: int, least: int, width: int, edges: F64, free: I64, due: float, left: float, cost: float, speed: F64
) -> int:
    """After how many slots the work of a job is done at a level; 0: not by its deadline.

    The job pays its cost at every change of width, except for its first start.
    """
    begin, done, before = 0.0, 0.0, width
    for slot in range(len(edges)):
        end = min(edges[slot], due)
        gpus = taken(level, least, free[slot])
        span = end - begin
        if gpus != before and before > 0 and gpus > 0:
            span -= cost
        if gpus > 0:
            before = gpus
            done += max(span, 0.0) * speed[gpus]
        if done >= left:
            return slot + 1
        if end >= due:
            return 0
        begin = end
    return 0


@kernel
def could_end(level: int, least: int, edges: F64, free: I64, due: float, left: float, fastest: F64) -> bool:
    """Whether a job could end in time at a level if changes cost nothing; ``fastest`` is by the most GPUs."""
    if due * fastest[level] * ROUNDING < left:
        return False
    begin, done = 0.0, 0.0
    for slot in range(len(edges)):
        end = min(edges[slot], due)
        gpus = taken(level, least, free[slot])
        done += (end - begin) * fastest[gpus]
        if done * ROUNDING >= left:
            return True
        if end >= due:
            return False
        begin = end
    return False


@kernel
def first_level(least: int, most: int, edges: F64, free: I64, due: float, left: float, fastest: F64) -> int:
    """The first level that could be enough if changes cost nothing; above the most: there is none."""
    if could_end(least, least, edges, free, due, left, fastest):
        return least
    if not could_end(most, least, edges, free, due, left, fastest):
        return most + 1
    low, high = least, most  # not enough, and enough
    while high - low > 1:
        level = (low + high) // 2
        if could_end(level, least, edges, free, due, left, fastest):
            high = level
        else:
            low = level
    return high


@kernel
def admit(world: World, state: ResizingState, job: int, edges: F64, free: I64) -> None:
    """Find the share of a job, and take its plan off what is free."""
    own, ahead = elastic_of(state.own), due_at(world, job) - world.clock[w.NOW]
    if ahead <= 0:
        return
    due, left, cost = float(ahead), own.left[job], float(cost_of(world, job))
    least, most = least_and_most(world, state, job)
    speed, width = state.speeds.best[state.kind[job]], world.jobs[w.WORKERS, job]
    fastest = state.speeds.fastest[state.kind[job]]
    for level in range(first_level(least, most, edges, free, due, left, fastest), most + 1):
        ends = slots_needed(level, least, width, edges, free, due, left, cost, speed)
        if ends > 0:
            own.share[job] = taken(level, least, free[0])
            for slot in range(ends):
                free[slot] -= taken(level, least, free[slot])
            return


@kernel
def find_shares(world: World, state: ResizingState, pool: int) -> None:
    """The GPUs that each job of a pool with a deadline needs now for it."""
    own, now = elastic_of(state.own), world.clock[w.NOW]
    begin, size = own.first[pool], own.dated_size[pool]
    if size == 0:
        return
    last = float(due_at(world, own.dated[begin + size - 1]) - now)
    count = cut_time(own.edges, float(state.config.step), last)
    edges, free = own.edges[:count], own.free[:count]
    for slot in range(count):
        free[slot] = own.spare
    book_keepers(world, own, pool, edges, free)
    for at in range(begin, begin + size):
        job = own.dated[at]
        own.share[job] = NOT_ADMITTED
        if world.jobs[w.STATE, job] != w.STOPPING:
            admit(world, state, job, edges, free)


@kernel
def book_keepers(world: World, own: ElasticState, pool: int, edges: F64, free: I64) -> None:
    """Jobs without a deadline that can't be stopped have their GPUs until they should end."""
    for at in range(own.first[pool], own.first[pool] + own.runners_size[pool]):
        job = own.runners[at]
        if stays(world, job):
            for slot in range(len(edges)):
                free[slot] -= world.jobs[w.WORKERS, job]
                if edges[slot] >= own.left[job]:
                    break

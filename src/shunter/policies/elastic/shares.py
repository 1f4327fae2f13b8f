"""Shares: the GPUs over time with which each job meets its deadline, given those due before it.

Time ahead is cut into slots that grow with their distance. Jobs are taken by deadline. Each gets a level of GPUs that
finishes it in time, where a slot has fewer left than the level, what is left; so the plan of an admitted job takes
nothing that an earlier one needs (ElasticFlow, ASPLOS'23). Of the levels that do, it is the present width, else the
lowest from the one on that needs the least GPU time. A job that finds no room takes that of the one with the most work
left, if that is more than its own, so that fewer are late (Moore and Hodgson).

Where jobs without a deadline wait or run, a job of one width that surely meets its deadline later is served like them
until then: it can't give way in width, so it does in time.
"""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.elastic.memory import (
    LATER,
    MOST_SLOTS,
    NOT_ADMITTED,
    OWED_IF_BLOCKED,
    PUT_OFF,
    ElasticState,
    elastic_of,
)
from shunter.policies.elastic.needs import SLOWEST, left_at, note_frugal
from shunter.scheduling.resizing.known_jobs import cost_of, due_at, runs, stays
from shunter.scheduling.resizing.memory import ResizingState
from shunter.world import F64, I64, World

GROWTH = 1.2  # of slots
KEPT = 10.0  # a job keeps its width if no other saves this many times the cost of a change
SURELY = 1.0  # chance with which a job that can wait needs no more work than is expected
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
def admit(world: World, state: ResizingState, job: int, row: int, edges: F64, free: I64) -> bool:
    """Find a plan for a job and take it off what is free: cautiously, or else with hope.

    Running jobs without a deadline keep their GPUs until they should end, if the job can be in time beside them.
    """
    own, due, before = elastic_of(state.own), float(due_at(world, job) - world.clock[w.NOW]), 0.0
    for chance in (own.config.caution, own.config.hope):
        left = left_at(world, state, job, chance)
        if left == before:
            return False
        before = left
        if own.calm[0] > 0:
            for slot in range(len(edges)):
                own.room[slot] = max(free[slot] - own.calm[slot], 0)
            if find_plan(world, state, job, row, edges, own.room[: len(edges)], free, due, left):
                return True
        if find_plan(world, state, job, row, edges, free, free, due, left):
            return True
    return False


@kernel
def find_plan(  # noqa: PLR0913, PLR0917
    world: World, state: ResizingState, job: int, row: int, edges: F64, room: I64, free: I64, due: float, left: float
) -> bool:
    """Find the level of a job in a room, and take its plan off what is free."""
    own, cost, width = elastic_of(state.own), float(cost_of(world, job)), world.jobs[w.WORKERS, job]
    least, most = least_and_most(world, state, job)
    speed, fastest = state.speeds.best[state.kind[job]], state.speeds.fastest[state.kind[job]]
    if width > 0 and width / max(speed[width], SLOWEST) * left <= own.cheapest[job] * (left + KEPT * cost):
        ends = slots_needed(width, least, width, edges, room, due, left, cost, speed)
        if ends > 0:
            book(own, job, row, width, least, room, free, ends)
            return True
    first = first_level(least, most, edges, room, due, left, fastest)
    frugal = min(max(own.frugal[job], first), most + 1)
    for turn in range(2):
        for level in range(first if turn else frugal, frugal if turn else most + 1):
            ends = slots_needed(level, least, width, edges, room, due, left, cost, speed)
            if ends > 0:
                book(own, job, row, level, least, room, free, ends)
                return True
    return False


@kernel
def book(own: ElasticState, job: int, row: int, level: int, least: int, room: I64, free: I64, ends: int) -> None:
    """Take the plan of a job off what is free, and remember it."""
    own.share[job] = taken(level, least, room[0])
    for slot in range(ends):
        gpus = taken(level, least, room[slot])
        free[slot] -= gpus
        if row < len(own.plans):
            own.plans[row, slot] = gpus
    if row < len(own.plans):
        own.ends[row] = ends


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
        own.calm[slot] = 0
    book_runners(world, own, pool, edges, free)
    others, slot, weighed = own.runners_size[pool] + own.undated_size[pool] > 0, 0, False
    for row in range(size):
        job = own.dated[begin + row]
        own.share[job] = NOT_ADMITTED
        if world.jobs[w.STATE, job] == w.STOPPING or due_at(world, job) <= now:
            continue
        while edges[slot] < due_at(world, job) - now:
            slot += 1
        if others and can_wait(world, state, job, slot, edges, free):
            own.share[job] = LATER
            continue
        note_frugal(state, own, job)
        if not admit(world, state, job, row, edges, free):
            if not weighed:
                weigh(world, state, begin, size)
                weighed = True
            admit_instead(world, state, begin, row, edges, free)
    for row in range(size):
        job = own.dated[begin + row]
        if own.share[job] == PUT_OFF:
            own.share[job] = NOT_ADMITTED
            admit(world, state, job, row, edges, free)


@kernel
def can_wait(world: World, state: ResizingState, job: int, last: int, edges: F64, free: I64) -> bool:
    """Whether a job of one width surely meets its deadline without a GPU in the first slot.

    If so, it takes the last slots up to that of its deadline, ``last``, off what is free, with some time for jobs that
    are served first.
    """
    width, due = state.least[job], float(due_at(world, job) - world.clock[w.NOW])
    if width < state.most[job] or stays(world, job):
        return False
    left = left_at(world, state, job, SURELY) / state.speeds.best[state.kind[job], width] + cost_of(world, job)
    left /= 1.0 - OWED_IF_BLOCKED
    first = last + 1
    while left > 0 and first > 1:
        first -= 1
        if free[first] >= width:
            left -= min(edges[first], due) - edges[first - 1]
    if left > 0:
        return False
    for slot in range(first, last + 1):
        if free[slot] >= width:
            free[slot] -= width
    return True


@kernel
def weigh(world: World, state: ResizingState, begin: int, size: int) -> None:
    """Find the GPU time that each job with a deadline should still take."""
    own = elastic_of(state.own)
    for at in range(begin, begin + size):
        job = own.dated[at]
        note_frugal(state, own, job)
        own.burden[job] = left_at(world, state, job, own.config.hope) * own.cheapest[job]


@kernel
def admit_instead(world: World, state: ResizingState, begin: int, row: int, edges: F64, free: I64) -> None:
    """Admit a job in place of the one with most work left, which is put off; if that has more than this one."""
    own, largest = elastic_of(state.own), -1
    job = own.dated[begin + row]
    most = own.burden[job]
    for place in range(min(row, len(own.plans))):
        other = own.dated[begin + place]
        if own.share[other] >= 0 and own.burden[other] > most and not stays(world, other):
            largest, most = place, own.burden[other]
    if largest < 0:
        return
    other = own.dated[begin + largest]
    for slot in range(own.ends[largest]):
        free[slot] += own.plans[largest, slot]
    if admit(world, state, job, row, edges, free):
        own.share[other] = PUT_OFF
        return
    for slot in range(own.ends[largest]):
        free[slot] -= own.plans[largest, slot]


@kernel
def book_runners(world: World, own: ElasticState, pool: int, edges: F64, free: I64) -> None:
    """Jobs without a deadline have their GPUs until they should end; those that can be stopped, if it is possible."""
    for at in range(own.first[pool], own.first[pool] + own.firsts_size[pool]):
        if world.jobs[w.STATE, own.firsts[at]] == w.PENDING:
            for slot in range(slot_of(edges, own.left[own.firsts[at]]) + 1):
                free[slot] -= world.jobs[w.GPUS, own.firsts[at]]
    for at in range(own.first[pool], own.first[pool] + own.runners_size[pool]):
        job = own.runners[at]
        last = slot_of(edges, own.left[job])
        if stays(world, job) or own.first_until[job] > world.clock[w.NOW]:
            for slot in range(last + 1):
                free[slot] -= world.jobs[w.WORKERS, job]
        elif runs(world, job):
            own.calm[last] += world.jobs[w.WORKERS, job]
    for slot in range(len(edges) - 2, -1, -1):
        own.calm[slot] += own.calm[slot + 1]


@kernel
def slot_of(edges: F64, end: float) -> int:
    """The slot in which a time falls, the last one if it is later."""
    low, high = 0, len(edges) - 1
    while low < high:
        middle = (low + high) // 2
        if edges[middle] >= end:
            high = middle
        else:
            low = middle + 1
    return low

"""The scheduling rules played out slowly: the reference against which the fast engine is checked.

Plain lists, plain integers, one small function per rule, everything recomputed whenever it is needed.  At each instant
(1) jobs whose work is done end and release their GPUs, (2) jobs whose time has come enter the queue, (3) the policy
decides until nothing more can be started; if it did anything, all three are repeated, so that a job of duration 0 is
gone before time moves on.  Nothing is decided at instants at which nothing happens.  What counts as happening is in
``next_instant``.

Where a rule leaves room, this is what holds here:

- All keys are evaluated at the instant of the decision; ties go to the lower job index.
- Something that happens in one pool lets every pool decide.
- EASY plans a waiting job for as long as ``bounds.bound`` says at the instant of the decision, conservative for as long
  as it said when the job entered the queue, both for at least one tick.  A job that runs is expected to end when its
  bound is over, given how long it has run.
- Conservative plans an upset pool again once per instant, before anything starts; a job of duration 0, which ends
  within the instant, upsets it again.
- EASY with preemption: the head is the first job that does not fit even in the place of others.  Jobs behind it take no
  other's place.
- A job that is not ``checkpointable``, or was stopped ``max_stops`` times, keeps its GPUs until it ends.  With a
  ``hysteresis`` only jobs whose key is more than this many times that of the waiting one are stopped for it.
- A job stopped at the very instant at which it was started has not run: no run is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Literal, TypeAlias

from shunter import world as w
from shunter.errors import InvariantError, PolicyError, TraceError
from shunter.model import GPU
from shunter.testing import bounds
from shunter.testing.placement import Placement, Places, given_back, place, taken
from shunter.world import I64


@dataclass(frozen=True)
class RefJob:
    """A job; its index in the list is its id, and the list is sorted by ``submit``."""

    submit: int
    duration: int  # the true run time
    gpus: int
    estimate: int  # of the run time
    pool: int = 0
    after: int = -1  # the job that must have ended before this one may enter the queue
    limit: int = 0  # of the run time; 0: none
    checkpointable: bool = True  # it may be stopped for another


@dataclass(frozen=True)
class RefNode:
    """A node; its index in the list is its id."""

    gpus: int
    pool: int = 0


@dataclass(frozen=True)
class RefRun:
    """An uninterrupted stay of a job on GPUs: from ``start`` until just before ``end``."""

    start: int
    end: int
    nodes: tuple[tuple[int, int], ...]  # (node, GPUs there), by node


Key: TypeAlias = Callable[[int, RefJob, int, int], float]  # (index, job, now, executed); smaller first
Blocking: TypeAlias = Literal["strict", "skip"]
Backfill: TypeAlias = Literal["none", "easy", "conservative"]
Candidates: TypeAlias = Literal["queue", "shortest"]


@dataclass
class _State:
    """Everything that changes."""

    jobs: Sequence[RefJob]
    nodes: Sequence[RefNode]
    key: Key
    placement: Placement
    free: list[int]  # GPUs free now, per node
    executed: list[int]  # ticks of work done in finished runs, per job
    runs: list[list[RefRun]]  # finished runs, per job
    hysteresis: float = 1.0
    max_stops: int = 0  # 0: any number
    share: float = 0.0  # of the jobs that should end within their bounds; 0: bounds are estimates
    candidates: Candidates = "queue"
    passing: float = 0.0  # mean completion times within which a job must end to pass; 0: any
    past: list[tuple[int, float]] = field(default_factory=list)  # estimate and run time of those that have ended
    length: dict[int, int] = field(default_factory=dict)  # job in the queue -> for how long it is planned
    now: int = 0
    entered: dict[int, int] = field(default_factory=dict)  # job that is or was in the queue -> when it came into it
    waiting: list[int] = field(default_factory=list)
    begun: dict[int, int] = field(default_factory=dict)  # running job -> begin of its present run
    held: dict[int, Places] = field(default_factory=dict)  # running job -> where it runs
    ended: set[int] = field(default_factory=set)
    stops: dict[int, int] = field(default_factory=dict)  # job -> how often it was stopped
    expected: dict[int, int] = field(default_factory=dict)  # conservative: running job -> its end, as last planned with
    reserved: dict[int, tuple[int, Places]] = field(default_factory=dict)  # conservative: waiting job -> (start, where)
    off_plan: set[int] = field(default_factory=set)  # conservative: pools in which something went other than expected


def simulate(  # noqa: PLR0913  one argument per rule
    jobs: Sequence[RefJob],
    nodes: Sequence[RefNode],
    key: Key,
    *,
    blocking: Blocking = "strict",
    backfill: Backfill = "none",
    placement: Placement = "consolidate",
    preemptive: bool = False,
    bound: float = 0.0,
    candidates: Candidates = "queue",
    passing: float = 0.0,
    hysteresis: float = 1.0,
    max_stops: int = 0,
) -> list[list[RefRun]]:
    """Return every job's runs: one, or several if it was preempted.  ``blocking`` matters only without backfilling."""
    _check(jobs, nodes, placement, backfill, preemptive)
    nothing = ([n.gpus for n in nodes], [0] * len(jobs), [list[RefRun]() for _ in jobs])
    state = _State(jobs, nodes, key, placement, *nothing, hysteresis, max_stops, bound, candidates, passing)
    rules: dict[Backfill, Callable[[_State], bool]] = {
        "none": partial(decide_in_order, blocking=blocking, preemptive=preemptive),
        "easy": partial(decide_easy, preemptive=preemptive),
        "conservative": decide_conservative,
    }
    while len(state.ended) < len(jobs):
        state.now = next_instant(state)
        end_finished(state)
        note_overrun(state)
        enter(state)
        while decide_until_settled(state, rules[backfill]):
            end_finished(state)
            enter(state)
    return state.runs


def runs_of(events: I64, jobs: int) -> list[list[RefRun]]:
    """What an event log says, as the reference does: a run that ended when it began, by preemption, is none."""
    runs: list[list[RefRun]] = [[] for _ in range(jobs)]
    begun: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    for time, kind, job, node, amount in events.tolist():
        if kind == w.START:
            begun.setdefault(job, (time, []))[1].append((node, amount // GPU))
        elif kind in (w.FINISH, w.PREEMPT, w.MOVE):
            start, places = begun.pop(job)
            if kind == w.FINISH or time > start:
                runs[job].append(RefRun(start, time, tuple(sorted(places))))
    return runs


def fits(job: RefJob, nodes: Sequence[RefNode], placement: Placement) -> bool:
    """Whether the job can run at all: alone on the empty cluster."""
    return place_of(job, [node.gpus for node in nodes], nodes, placement) is not None


def place_of(job: RefJob, free: Sequence[int], nodes: Sequence[RefNode], placement: Placement) -> Places | None:
    """Where the job goes if these GPUs are free, or None.  It uses nodes of its own pool only."""
    pool = {index: node.gpus for index, node in enumerate(nodes) if node.pool == job.pool}
    return place(job.gpus, free, pool, placement)


def _check(
    jobs: Sequence[RefJob], nodes: Sequence[RefNode], placement: Placement, backfill: Backfill, preemptive: bool
) -> None:
    if preemptive and backfill == "conservative":
        raise PolicyError("preemptive goes only with backfill='none' or 'easy', got 'conservative'")
    if any(later.submit < job.submit for job, later in pairwise(jobs)):
        raise TraceError("jobs must be sorted by submit")
    for index, job in enumerate(jobs):
        if not fits(job, nodes, placement):
            raise TraceError(f"job {index} needs {job.gpus} GPUs in pool {job.pool} and can never be placed there")


# -------------------------------------------------------------------------------------------------- time and the queue


def next_instant(state: _State) -> int:
    """When something happens next: an end or a submission, even of a job that must wait for another."""
    outside = [i for i in range(len(state.jobs)) if i not in state.entered]
    coming = [i for i in outside if state.jobs[i].submit > state.now or _may_enter(state, i)]
    instants = [state.jobs[i].submit for i in coming] + [true_end(state, i) for i in state.begun]
    if not instants:
        raise TraceError(f"jobs {outside} wait for each other (after)")
    return min(instants)


def _may_enter(state: _State, index: int) -> bool:
    after = state.jobs[index].after
    return after == -1 or after in state.ended


def enter(state: _State) -> None:
    """Rule 2: submitted jobs enter the queue once the job they wait for has ended."""
    for index, job in enumerate(state.jobs):
        if index not in state.entered and job.submit <= state.now and _may_enter(state, index):
            state.entered[index] = state.now
            state.waiting.append(index)
            state.length[index] = int(bound_of(state, index, 0))


def end_finished(state: _State) -> None:
    """Rule 1: jobs whose work is done end and release their GPUs."""
    for index in list(state.begun):
        if true_end(state, index) == state.now:
            if state.expected[index] != state.now:
                state.off_plan.add(state.jobs[index].pool)
            _leave(state, index)
            state.ended.add(index)
            state.past.append((state.jobs[index].estimate, state.executed[index]))


def true_end(state: _State, index: int) -> int:
    """When a running job will have done its work, if it is left alone."""
    return state.begun[index] + state.jobs[index].duration - state.executed[index]


def start(state: _State, index: int, where: Places) -> None:
    """Start a waiting job on these GPUs."""
    state.waiting.remove(index)
    state.begun[index] = state.now
    state.held[index] = where
    state.expected[index] = state.now + state.length[index]
    state.free = taken(state.free, where)


def stop(state: _State, index: int) -> None:
    """Preempt a running job: it keeps its work and waits again."""
    _leave(state, index)
    state.waiting.append(index)
    state.stops[index] = state.stops.get(index, 0) + 1
    if state.runs[index][-1].start == state.now:
        state.runs[index].pop()  # it has not run


def _leave(state: _State, index: int) -> None:
    begin, where = state.begun.pop(index), state.held.pop(index)
    state.free = given_back(state.free, where)
    state.executed[index] += state.now - begin
    state.runs[index].append(RefRun(begin, state.now, where))


# -------------------------------------------------------------------------------------------------------- decisions


def decide_until_settled(state: _State, decide: Callable[[_State], bool]) -> bool:
    """Rule 3: the policy decides until it changes nothing more; whether it changed anything."""
    changed = False
    while decide(state):
        changed = True
    return changed


def rank(state: _State, index: int) -> tuple[float, int]:
    """Return a job's place in the order at this instant."""
    executed = state.executed[index] + (state.now - state.begun[index] if index in state.begun else 0)
    return state.key(index, state.jobs[index], state.now, executed), index


def in_order(state: _State, some: Iterable[int]) -> list[int]:
    """Sort these jobs, the first one first."""
    return sorted(some, key=lambda index: rank(state, index))


def place_now(state: _State, index: int, free: Sequence[int]) -> Places | None:
    """Where a job goes if these GPUs are free."""
    return place_of(state.jobs[index], free, state.nodes, state.placement)


def of_pool(state: _State, some: Iterable[int], pool: int) -> list[int]:
    """Those of these jobs that belong to the pool."""
    return [index for index in some if state.jobs[index].pool == pool]


def decide_in_order(state: _State, blocking: Blocking, preemptive: bool) -> bool:
    """No backfilling.  Strict: the first job that doesn't fit stops its pool.  Skip: it is passed over."""
    changed = False
    blocked: set[int] = set()
    for index in in_order(state, state.waiting):
        pool = state.jobs[index].pool
        if pool in blocked:
            continue
        where = place_now(state, index, state.free)
        if where is not None:
            start(state, index, where)
            changed = True
        elif preemptive and preempt_for(state, index):
            return True  # the order has changed: begin again
        elif blocking == "strict":
            blocked.add(pool)
    return changed


def gives_way(state: _State, running: int, index: int) -> bool:
    """Whether a running job may be stopped for a waiting one."""
    key, often = rank(state, index)[0], state.stops.get(running, 0)
    stoppable = state.jobs[running].checkpointable and (state.max_stops == 0 or often < state.max_stops)
    return stoppable and rank(state, running)[0] > max(key, state.hysteresis * key)


def preempt_for(state: _State, index: int) -> bool:
    """Start a job in the place of running jobs that come after it, if that is possible; whether it was."""
    free = list(state.free)
    lesser = [i for i in in_order(state, state.begun) if gives_way(state, i, index)]
    off: list[int] = []
    for victim in reversed(of_pool(state, lesser, state.jobs[index].pool)):
        if place_now(state, index, free) is None:
            free = given_back(free, state.held[victim])
            off.append(victim)
    if place_now(state, index, free) is None:
        return False
    for victim in reversed(list(off)):  # spare those that need not go, the first in order first
        with_it_back = taken(free, state.held[victim])
        if place_now(state, index, with_it_back) is not None:
            free = with_it_back
            off.remove(victim)
    where = place_now(state, index, free)
    assert where is not None
    for victim in off:
        stop(state, victim)
    start(state, index, where)
    return True


# -------------------------------------------------------------------------------------------------------- backfilling


def bound_of(state: _State, index: int, work: int) -> float:
    """For how long a job is planned that has run so long."""
    job = state.jobs[index]
    return bounds.bound(state.share, state.past, job.estimate, job.limit, work)


def expected_end(state: _State, index: int) -> int:
    """When a running job is expected to end now."""
    before = state.executed[index]
    bound = bound_of(state, index, before + state.now - state.begun[index])
    return max(state.begun[index] + math.ceil(bound - before), state.now + 1)


def decide_easy(state: _State, preemptive: bool) -> bool:
    """EASY: start one job, of any pool; everything is recomputed after each."""
    return any(easy_in_pool(state, pool, preemptive) for pool in sorted({node.pool for node in state.nodes}))


def easy_in_pool(state: _State, pool: int, preemptive: bool) -> bool:
    """Start the head, or else the first candidate behind it that doesn't delay it; whether there was one."""
    queue = in_order(state, of_pool(state, state.waiting, pool))
    if not queue:
        return False
    head, *behind = queue
    where = place_now(state, head, state.free)
    if where is not None:
        start(state, head, where)
        return True
    if preemptive and preempt_for(state, head):
        return True
    shadow, free_then = shadow_of(state, head)
    if state.candidates == "shortest":
        behind = sorted(behind, key=lambda index: (state.jobs[index].estimate, index))
    for index in behind:
        where = place_now(state, index, state.free)
        if where is None:
            continue
        done = state.executed[index]
        takes = max(int(bound_of(state, index, done)) - done, 1)
        if takes > longest_that_passes(state, pool):
            continue
        if state.now + takes <= shadow or place_now(state, head, taken(free_then, where)) is not None:
            start(state, index, where)
            return True
    return False


def longest_that_passes(state: _State, pool: int) -> float:
    """How long a job of a pool may take that EASY starts before its turn."""
    ended = sorted(of_pool(state, state.ended, pool), key=lambda index: (state.runs[index][-1].end, index))
    if state.passing == 0 or len(ended) < 20:
        return math.inf
    count = time = 0
    for index in ended:
        count, time = count + 1, time + state.runs[index][-1].end - state.entered[index]
        if count == 1000:
            count, time = 500, time // 2
    return time // count * round(1000 * state.passing) // 1000


def shadow_of(state: _State, head: int) -> tuple[int, list[int]]:
    """When the head can start if all end as expected, and the GPUs that are free then."""
    free = list(state.free)
    running = of_pool(state, state.begun, state.jobs[head].pool)
    for end in sorted({expected_end(state, i) for i in running}):
        for index in running:
            if expected_end(state, index) == end:
                free = given_back(free, state.held[index])
        if place_now(state, head, free) is not None:
            return end, free
    raise InvariantError(f"job {head} doesn't fit even when all others have ended")


def note_overrun(state: _State) -> None:
    """Conservative: a job that runs past its expected end upsets the reservations of its pool, once per instant."""
    for index in state.begun:
        if state.expected[index] <= state.now:
            state.off_plan.add(state.jobs[index].pool)


def decide_conservative(state: _State) -> bool:
    """Conservative: every job gets a reservation; those whose time has come start."""
    for index in list(state.reserved):
        if state.jobs[index].pool in state.off_plan:
            del state.reserved[index]
    for index in state.begun:
        if state.jobs[index].pool in state.off_plan:
            state.expected[index] = expected_end(state, index)
    state.off_plan.clear()
    for index in in_order(state, state.waiting):
        if index not in state.reserved:
            state.reserved[index] = earliest_hole(state, index)
    due = [index for index in in_order(state, state.waiting) if state.reserved[index][0] == state.now]
    for index in due:
        _, where = state.reserved.pop(index)
        start(state, index, where)
    return bool(due)


def earliest_hole(state: _State, index: int) -> tuple[int, Places]:
    """Find the first time at which there is room for the job for as long as it is planned, and where."""
    uses = profile(state)
    for begin in sorted({state.now, *(end for _, end, _ in uses)}):
        free = free_throughout(state.nodes, uses, begin, begin + state.length[index])
        where = place_now(state, index, free)
        if where is not None:
            return begin, where
    raise InvariantError(f"job {index} doesn't fit even when all others have ended")


def profile(state: _State) -> list[tuple[int, int, Places]]:
    """The expected use over time: running jobs and reservations."""
    running = [(state.now, state.expected[i], state.held[i]) for i in state.begun]
    later = [(begin, begin + state.length[i], where) for i, (begin, where) in state.reserved.items()]
    return running + later


def free_throughout(
    nodes: Sequence[RefNode], uses: Sequence[tuple[int, int, Places]], begin: int, end: int
) -> list[int]:
    """Per node, the least number of free GPUs at any time from begin until just before end."""
    least = [node.gpus for node in nodes]
    for instant in [begin, *(first for first, _, _ in uses if begin < first < end)]:  # use grows only where one begins
        free = [node.gpus for node in nodes]
        for first, last, where in uses:
            if first <= instant < last:
                free = taken(free, where)
        least = [min(a, b) for a, b in zip(least, free, strict=True)]
    return least

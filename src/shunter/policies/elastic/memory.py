"""What Elastic remembers: its jobs by pool, in the orders in which they are served."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays, Variables, narrowed
from shunter.compiled import kernel
from shunter.model import Renumbering, View
from shunter.scheduling.resizing.known_jobs import work_left
from shunter.scheduling.resizing.memory import ResizingState
from shunter.world import F64, I64, World

NOT_ADMITTED, PUT_OFF, LATER = -1, -2, -3
MOST_SLOTS = 64
OVERTAKEN, BLOCKED, KINDS = 0, 1, 2  # why a job without a deadline is served first: larger jobs run, or any others
OWED_IF_BLOCKED = 0.1  # of the GPU time, at most: for jobs that no larger ones are before
MOST_PLANS = 512  # jobs of a pool whose plans are remembered while shares are found
BINS, PER_ONE = 128, 32  # of work done over work expected: bins, and how many of them up to 1


class ElasticConfig(Arrays):
    """Its settings; times in ms."""

    pays: float
    rest: float
    patience: float
    owed: float
    overtakes: float
    caution: float
    hope: float
    learns: bool


class ElasticState(Variables):
    """Jobs by pool (those that may use the same nodes): each pool has a stretch of every list from ``first`` on."""

    config: ElasticConfig
    releases: int = -1  # RELEASES after the last look
    started: bool = False  # whether its last plan started jobs, which are still in their line then
    lends: bool = False  # whether its last plan gave a job more GPUs than it asked for and needs
    spare: int = 0  # of the pool that is served: GPUs that are left ...
    ahead: float = 0.0  # ... when the job for which room is kept can start, ms from now ...
    beside: int = 0  # ... and GPUs that are left for others then
    lined: int = 0  # jobs in all lines
    gpus: int = 0  # of the pool that is served, on nodes that are up
    pool: I1  # (jobs,)
    first: I1  # (pools,)
    dated: I1  # (jobs,) jobs with a deadline that wait or run, by deadline
    line: I1  # (jobs,) jobs that wait, those with the least work first
    runners: I1  # (jobs,) jobs without a deadline that run, in submit order
    dated_size: I1  # (pools,)
    line_size: I1
    undated_size: I1  # (pools,) jobs of the line without a deadline
    runners_size: I1
    in_dated: I1  # (jobs,) 1: it is there
    in_line: I1
    in_runners: I1
    area: F1  # (jobs,) GPU-ms of work left of a job that waits
    first_until: I1  # (jobs,) ms; a job that has waited for too long is served first until then, 0: never so far
    first_kind: I1  # (jobs,) why it was
    charged: F1  # (jobs,) GPU-ms that the share owed was charged for it
    last_run: F1  # (jobs,) GPU-ms of the run in which it was last seen, while it is served first ...
    former_runs: F1  # (jobs,) ... and of those before, after which it was queued again
    stops: I1  # (jobs,) how often that had happened by then
    patient_for: I1  # (jobs,) ms for which it must have waited before it may be first again
    next_first: I2  # (pools, KINDS) ms; when the next such job may be chosen ...
    next_search: I1  # (pools,) ms; ... and when one is looked for again
    unpaid: F2  # (pools, KINDS) GPU-ms of jobs that are gone, which the share owed is still to be charged
    firsts: I1  # (jobs,) such jobs, in the order in which they were chosen
    firsts_size: I1  # (pools,)
    left: F1  # (jobs,) work left, ms at speed 1
    share: I1  # (jobs,) GPUs that it needs now for its deadline, 0: none yet; or NOT_ADMITTED, PUT_OFF, LATER
    before: I1  # (jobs,) its width before it is widened
    begun: I1  # (jobs,) jobs of the line that start ...
    begun_size: int = 0  # ... and how many
    cheapest: F1  # (jobs,) GPU-ms for a ms of work at the widths that need least; 0: not known yet
    frugal: I1  # (jobs,) the fewest such GPUs
    burden: F1  # (jobs,) GPU-ms of work left of a job with a deadline
    plans: I2  # (MOST_PLANS, MOST_SLOTS) GPUs of a job, by its place among those with a deadline
    ends: I1  # (MOST_PLANS,) slots of each plan
    above: F2  # (users + 1, BINS + 1) their ended jobs that needed at least so many times the work expected of them
    calm: I1  # (MOST_SLOTS,) GPUs of running jobs without a deadline in each slot
    room: I1  # (MOST_SLOTS,) GPUs that one job may take
    edges: F1  # (MOST_SLOTS,) ends of slots, ms from now
    free: I1  # (MOST_SLOTS,) GPUs that are left in each


elastic_of = narrowed(ElasticState)


def no_job_present(
    view: View, config: ElasticConfig, before: ElasticState | None, rows: Renumbering | None
) -> ElasticState:
    """No job has come yet; what ended jobs needed, and who is served first, is known from before."""
    world = view.world
    jobs, vc = world.jobs.shape[1], world.jobs[w.VC] + 1
    pools = int(vc.max(initial=0)) + 1
    counts = np.bincount(vc, minlength=pools)

    def by_job() -> I64:
        return np.zeros(jobs, np.int64)

    lists = {name: by_job() for name in ("dated", "line", "runners")}
    sizes = {f"{name}_size": np.zeros(pools, np.int64) for name in lists}
    marks = {f"in_{name}": by_job() for name in lists}
    state = ElasticState(
        config=config,
        pool=vc,
        first=np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64),
        **lists, **sizes, **marks,
        undated_size=np.zeros(pools, np.int64),
        area=np.zeros(jobs),
        first_until=by_job(),
        first_kind=by_job(),
        charged=np.zeros(jobs),
        last_run=np.zeros(jobs),
        former_runs=np.zeros(jobs),
        stops=by_job(),
        patient_for=by_job(),
        next_first=np.zeros((pools, KINDS), np.int64),
        next_search=np.zeros(pools, np.int64),
        unpaid=np.zeros((pools, KINDS)),
        firsts=by_job(),
        firsts_size=np.zeros(pools, np.int64),
        left=np.zeros(jobs),
        share=np.full(jobs, NOT_ADMITTED, np.int64),
        before=by_job(),
        begun=by_job(),
        cheapest=np.zeros(jobs),
        frugal=by_job(),
        burden=np.zeros(jobs),
        plans=np.zeros((min(jobs, MOST_PLANS), MOST_SLOTS), np.int64),
        ends=np.zeros(min(jobs, MOST_PLANS), np.int64),
        above=needs_known(view, before, rows),
        calm=np.zeros(MOST_SLOTS, np.int64),
        room=np.zeros(MOST_SLOTS, np.int64),
        edges=np.zeros(MOST_SLOTS),
        free=np.zeros(MOST_SLOTS, np.int64),
    )  # fmt: skip
    if before is not None:
        keep_firsts(state, before, rows)
    return state


def needs_known(view: View, before: ElasticState | None, rows: Renumbering | None) -> F64:
    """What the ended jobs of each user needed, those without a user first; on another trace users are others."""
    users = int(view.world.jobs[w.USER].max(initial=-1)) + 2
    if before is None:
        return np.zeros((users, BINS + 1))
    other_users = rows is not None and view.moved is None
    known = before.above[:1] if other_users else before.above
    return np.concatenate((known, np.zeros((max(users - len(known), 0), BINS + 1))))


def keep_firsts(state: ElasticState, before: ElasticState, rows: Renumbering | None) -> None:
    """The jobs that were served first still are, with what they were charged; ``rows``: where they are now.

    A job may be in another pool by now. One that is gone without having ended, since its user holds it, is charged for
    its runs. Where no job is left of those before, as on another trace, nothing is kept.
    """
    if rows is not None and (rows.moved < 0).all():
        return
    for name in (*("area", "first_until", "first_kind", "charged", "last_run", "former_runs", "stops", "patient_for"),):
        values = getattr(before, name)
        getattr(state, name)[:] = values if rows is None else rows.of_jobs(values)
    for pool in range(len(before.first)):
        if pool < len(state.first):
            state.next_first[pool], state.next_search[pool] = before.next_first[pool], before.next_search[pool]
        begin, size = before.first[pool], before.firsts_size[pool]
        for row in before.firsts[begin : begin + size].tolist():
            job = row if rows is None else int(rows.moved[row])
            if job >= 0:
                home = state.pool[job]
                state.firsts[state.first[home] + state.firsts_size[home]] = job
                state.firsts_size[home] += 1
            elif pool < len(state.first):
                took = before.former_runs[row] + before.last_run[row]
                state.unpaid[pool, before.first_kind[row]] += max(took - before.charged[row], 0.0)


@kernel
def unpaid_of(own: ElasticState, job: int) -> float:
    """GPU-ms that a job served first took beyond what the share owed was charged for it."""
    return float(max(own.former_runs[job] + own.last_run[job] - own.charged[job], 0.0))


# ------------------------------------------------------------------------------------------- jobs that come


@kernel
def due_before(world: World, one: int, other: int) -> bool:
    """Whether a job is due before another; both have a deadline."""
    jobs = world.jobs
    first, second = (
        jobs[w.SUBMIT, one] + jobs[w.DEADLINE, one],
        jobs[w.SUBMIT, other] + jobs[w.DEADLINE, other],
    )
    return bool(first < second or (first == second and one < other))


@kernel
def add_dated(world: World, own: ElasticState, job: int) -> None:
    """Add a job by its deadline."""
    pool = own.pool[job]
    dated = own.dated[own.first[pool] : own.first[pool] + own.dated_size[pool] + 1]
    at = own.dated_size[pool]
    while at > 0 and due_before(world, job, dated[at - 1]):
        dated[at] = dated[at - 1]
        at -= 1
    dated[at] = job
    own.dated_size[pool] += 1
    own.in_dated[job] = 1


@kernel
def add_by_row(rows: I64, size: I64, first: I64, mark: I64, pool: int, job: int) -> None:
    """Add a job to a list in submit order."""
    at, begin = first[pool] + size[pool], first[pool]
    while at > begin and rows[at - 1] > job:
        rows[at] = rows[at - 1]
        at -= 1
    rows[at] = job
    size[pool] += 1
    mark[job] = 1


@kernel
def line_up(world: World, state: ResizingState, job: int) -> None:
    """Add a job that waits to the line, by the GPU time that it should still take."""
    own = elastic_of(state.own)
    pool = own.pool[job]
    own.left[job] = work_left(world, state, job)
    area = own.area[job] = own.left[job] * world.jobs[w.GPUS, job]
    begin, low = own.first[pool], own.first[pool]
    high = low + own.line_size[pool]
    while low < high:
        middle = (low + high) // 2
        other = own.line[middle]
        if own.area[other] < area or (own.area[other] == area and other < job):
            low = middle + 1
        else:
            high = middle
    for at in range(begin + own.line_size[pool], low, -1):
        own.line[at] = own.line[at - 1]
    own.line[low] = job
    own.line_size[pool] += 1
    own.undated_size[pool] += world.jobs[w.DEADLINE, job] == 0
    own.lined += 1
    own.in_line[job] = 1


@kernel
def note_waiting(world: World, state: ResizingState, job: int) -> None:
    """Take in a job that waits."""
    own = elastic_of(state.own)
    if world.jobs[w.STATE, job] != w.PENDING or own.in_line[job] == 1:
        return
    line_up(world, state, job)
    note_present_job(world, own, job)


@kernel
def note_present_job(world: World, own: ElasticState, job: int) -> None:
    """Take in a job with a deadline."""
    if world.jobs[w.DEADLINE, job] > 0 and own.in_dated[job] == 0:
        add_dated(world, own, job)


# ------------------------------------------------------------------------------------------- keeping the lists


@kernel
def drop_others(world: World, rows: I64, size: I64, first: I64, mark: I64, pool: int, last: int) -> None:
    """Keep only the jobs of a list that are in a state from PENDING to the last one; in lines only those that wait."""
    kept = begin = first[pool]
    for at in range(begin, begin + size[pool]):
        job = rows[at]
        if w.PENDING <= world.jobs[w.STATE, job] <= last:
            rows[kept] = job
            kept += 1
        else:
            mark[job] = 0
    size[pool] = kept - begin


@kernel
def drop_started(world: World, own: ElasticState) -> None:
    """Take the jobs that no longer wait off their lines."""
    own.lined = 0
    for pool in range(len(own.first)):
        drop_others(world, own.line, own.line_size, own.first, own.in_line, pool, w.PENDING)
        own.lined += own.line_size[pool]
        own.undated_size[pool] = 0
        for at in range(own.first[pool], own.first[pool] + own.line_size[pool]):
            own.undated_size[pool] += world.jobs[w.DEADLINE, own.line[at]] == 0
    own.started = False


@kernel
def note_runners(world: World, own: ElasticState) -> None:
    """Bring the lists of running jobs and of those with a deadline up to date."""
    for pool in range(len(own.first)):
        drop_others(world, own.dated, own.dated_size, own.first, own.in_dated, pool, w.STOPPING)
        drop_waiting(world, own, pool)
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        note_present_job(world, own, job)
        if world.jobs[w.DEADLINE, job] == 0 and own.in_runners[job] == 0:
            add_by_row(own.runners, own.runners_size, own.first, own.in_runners, own.pool[job], job)


@kernel
def drop_waiting(world: World, own: ElasticState, pool: int) -> None:
    """Keep only the runners of a pool that hold GPUs."""
    kept = begin = own.first[pool]
    for at in range(begin, begin + own.runners_size[pool]):
        job = own.runners[at]
        if world.jobs[w.STATE, job] in (w.RUNNING, w.STOPPING):
            own.runners[kept] = job
            kept += 1
        else:
            own.in_runners[job] = 0
    own.runners_size[pool] = kept - begin


@kernel
def catch_up(world: World, state: ResizingState) -> None:
    """Take in the jobs that came since the last decision, and all that wait where some are missing."""
    own = elastic_of(state.own)
    if own.started:
        drop_started(world, own)
    for at in range(world.clock[w.N_ARRIVED]):
        note_waiting(world, state, world.lists[w.L_ARRIVED, at])
    if own.lined != world.clock[w.N_PENDING]:
        drop_started(world, own)
        for at in range(world.clock[w.N_PENDING]):
            note_waiting(world, state, world.lists[w.L_PENDING, at])

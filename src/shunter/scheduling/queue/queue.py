"""The waiting jobs as a compiled policy keeps them: one heap per demand class, estimates, and users' past usage.

Jobs of one class (same GPUs, type, virtual cluster, CPU and memory) fit or don't fit alike, so only the best of each
class needs looking at, and a class that did not fit stays blocked until something is released.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays, Variables
from shunter.compiled import inlined, kernel
from shunter.model import Renumbering
from shunter.predictors.learned import Learned
from shunter.scheduling.backfill.bounds import Bounds, bound_of, floor_of, floor_within
from shunter.world import I64, Job, World

B_NONE, B_EASY, B_CONSERVATIVE = range(3)
S_NONE, S_ORACLE, S_DECLARED, S_LIMIT, S_HISTORY, S_LEARNED, S_LAST_TWO = range(7)  # where estimates come from

SIZE_CLASSES = 6
LONGEST_REACH = 86_400_000  # ms; how far ahead keys are bounded at most
# of ended jobs, by GPU time in seconds, four bins per factor of two: how many, the sum and the mean of their GPU time,
# how many are in this bin and all above; then where the last bin ends that has any
BINS = 128
NO_KEY = -math.inf
LOOK_AGAIN = 600_000  # ms after which a job that an inspector made to wait is offered again, as in SchedInspector
HISTOGRAM = 4 * BINS + 1


class Paper(NamedTuple):
    """What is free, really or on paper."""

    free: I64  # (nodes,) wholly free GPUs
    cpu: I64  # (nodes,)
    mem: I64  # (nodes,)
    tenants: I64  # (gpus,)
    used: I64  # (gpus,)


class Laid(Arrays):
    """Jobs that are on paper besides those that run, one row per GPU; job -1: no more."""

    job: I1
    gpu: I1
    end: I1  # when it should end by its estimate ...
    until: I1  # ... and when its lease does


class Scratch(Arrays):
    """Room to work in, so that no decision allocates."""

    free: I1  # (nodes,) the fields of a Paper ...
    cpu: I1  # (nodes,)
    mem: I1  # (nodes,)
    tenants: I1  # (gpus,)
    used: I1  # (gpus,)
    usable: I1  # (max(nodes, gpus),)
    total: I1  # (max(nodes, gpus),)
    identity: I1  # (gpus,) 0, 1, 2 ...
    stack: I1  # (128,) positions in a heap still to be looked at
    nodes: I1  # (gpus,) chosen nodes ...
    counts: I1  # (gpus,) ... and how many GPUs on each
    gpu_ids: I1  # (gpus,)
    other_ids: I1  # (gpus,)
    jobs: I1  # (gpus * slots,) running jobs, in some order
    ends: I1  # (gpus * slots,)
    laid: Laid  # (gpus * slots + 1,)


class Profile(Arrays):
    """The future as conservative backfilling plans it; row i holds from times[i] to times[i + 1]."""

    times: I1  # (rows,)
    gpus: I2  # (rows, nodes) free ...
    cpu: I2
    mem: I2
    job: I1  # (depth,) reserved jobs ...
    start: I1  # (depth,) ... and when ...
    counts: I2  # (depth, nodes) ... and where


class Kin(Arrays):
    """What is free for classes that may use the same nodes, and when that was counted."""

    free: I1  # GPUs ...
    largest: I1  # ... the most of them on one node ...
    up: I1  # ... all that are up ...
    elsewhere: I1  # ... and those free on other nodes
    releases: I1  # RELEASES ...
    running: I1  # ... and running jobs at that time


class GivenReasons(Variables):
    """What was last said about why jobs wait; of no size where it is not wanted."""

    everything: int = 0  # code
    head: I1  # (pools,)
    shadow: I1  # (pools,)
    code: I1  # (classes,)
    free: I1  # (classes,) GPUs that a class may use ...
    largest: I1  # (classes,) ... and the most on one node, when that was said of the class of a head
    start: I1  # (jobs,) planned
    kin_of: I1  # (classes,) classes that may use the same nodes are kin
    kin: Kin  # (kins,)


class Tiers(Arrays):
    """How each demand class is placed."""

    takes: I2  # (tiers, classes) 1: jobs of the class can fit in one domain of the tier, and may
    fit: I1  # (classes,) FIRST ... AFFINE
    spread: I1  # (classes,) LIST ... SCATTER
    inside: I1  # (most domains of a level,) GPUs free in each, while looking


class Users(Arrays):
    """What is known of each user; times in ms."""

    last: F1  # run time of the last job that ended ...
    last_but_one: F1  # ... and of the one before
    ended: F1  # how many ended ...
    ended_sum: F1  # ... and their run times together
    usage: F1  # decayed
    counted: F1  # usage over the fair share as it was when a period began
    seen: I1  # 1: a job of the user was there


class SizeClasses(Arrays):
    """What has ended, by size class; the last entry is all jobs."""

    jobs: F1
    run_time: F1  # of these jobs together (ms)


class Forgiven(Arrays):
    """What a job ran before its promotion, which no longer counts (ms); of no size where none is promoted."""

    run_time: I1
    gpu_time: I1


class Shadows(Arrays):
    """EASY's reservations."""

    time: I1  # (pools,)
    job: I1  # (pools,)


class Stoppable(Arrays):
    """What stopping jobs would free on each node."""

    as_of: I1  # (nodes,) CHANGES of the node when it was looked at, -1: it was not
    ranked: I1  # (nodes,) `State.ranked_at` of the keys that its jobs are ordered by
    at_once: I1  # (nodes,) GPUs to be had without a stop ...
    by_stops: I1  # (nodes,) ... and by stops
    latest: I1  # (gpus,) node by node the jobs that may be stopped, the last in the order first, one entry per GPU
    spared: F1  # (nodes,) the greatest key of a job that has run too briefly to be stopped; NO_KEY: there is none
    price: F2  # (most GPUs of a node + 1, nodes) the least key of the jobs that must stop for this many GPUs there;
    # NO_KEY: that many can't be had, inf: none must


class Pools(Arrays):
    """What keys may know of the nodes that jobs may use; of one row of zeros where they don't ask."""

    of_class: I1  # (classes,) the row below: classes that may use the same nodes share one
    sample: I1  # (rows,) a job of each
    nodes: F1  # (rows,) that are up ...
    gpus: F1  # (rows,) ... and their GPUs
    free: F1  # (rows,) of these
    largest: F1  # (rows,) the most that are free on one node
    partly: F1  # (rows,) nodes that have some of their GPUs free, but not all
    waiting: F1  # (rows,) jobs ...
    demand: F1  # (rows,) ... and the GPUs that they ask for
    choice: F1  # (rows,) 1: one of these jobs could be placed in several ways
    growth: F1  # (rows,) of these jobs' bounded slowdowns together, per second
    fits: F1  # (classes,) 1: there is room for one more
    ways: F1  # (classes,) in which one more could be placed


class Inspector(Arrays):
    """A model that may let the first job wait; of no size where there is none."""

    model: F1
    skips: I1  # (jobs,) how often each was made to wait


class Config(Arrays):
    """How a queue works; times in ms."""

    strict: bool = False  # a job that doesn't fit stops its pool
    backfill: int = B_NONE
    shortest: bool = False  # backfilling begins with the job of the least estimate, not with the next one
    depth: int = 0  # jobs that hold a reservation under conservative backfilling
    preemptive: bool = False  # running jobs are stopped for earlier ones
    slow_stops: bool = False  # stopping takes time
    hysteresis: float = 1.0  # a job is stopped for one whose key is this many times smaller
    max_stops: int = 0  # how often a job is stopped at most, 0: any number of times
    quantum: int = 0  # how often running jobs are looked at although nothing happened, 0: never
    varying: bool = False  # the key of a waiting job changes with time ...
    ageing: bool = False  # ... falls, or stays, while its user's usage does
    sees_pool: bool = False  # keys depend on what is free and which jobs wait, and are made again at every decision
    visible: int = 0  # the key orders this many jobs, those submitted first; the rest follow by submission; 0: all
    source: int = S_NONE  # of estimates
    shares: bool = False  # some jobs want a share of a GPU
    together: bool = False  # a job that fits on one node is never put on several, and a larger one on idle nodes
    half_life: int = 0  # in which past usage counts half, 0: usage does not count
    period: int = 0  # after which age and usage are looked at again, 0: always
    ranks: bool = False  # users' usage counts by rank only
    promote_times: int = 0  # thousandths of its run time after which a waiting job is promoted, 0: never
    promote_after: int = 0  # time after which it is, 0: never
    histogram_at: int = 0  # where in `params` the histogram of ended jobs begins, 0: none is kept


class State(Variables):
    """What a queue remembers in addition to its jobs; times in ms."""

    fresh: bool = True  # every waiting or running job is new to it
    keyed_at: int = -1  # when keys were last looked at
    ranked_at: int = -1  # when running jobs were last compared with those that wait
    looked_at: int = -1  # quantum in which promotions were last considered
    no_number: int = -1  # a job whose key is not a number, -1: none
    stale: bool = False  # a policy changed `params`, so that all keys are to be made again
    horizon: int = -w.NEVER  # up to when keys that fall are bounded ...
    reach: int = 0  # ... how far ahead that was ...
    visits: int = 0  # ... and how many jobs were looked at since
    seen_releases: int = -1  # RELEASES at the last decision
    spared: bool = False  # a job was not stopped only because its present run is too short
    users_seen: int = 0
    usage_at: int = 0  # up to when usage is counted ...
    total_usage: float = 0.0  # ... and all users' together
    counted_at: int = -w.NEVER  # when the present period began
    profile_rows: int = 0  # of the profile, in use ...
    reserved: int = 0  # ... and its reserved jobs
    ended_jobs_seen: int = 0  # in the histogram ...
    ended_jobs_keyed: int = 0  # ... and when keys were made


class Queue(Arrays):
    """The memory of a compiled queue policy."""

    config: Config
    state: State
    params: F1  # the order's own parameters
    factors: F1  # (virtual clusters + 1,) partition factors
    key: F1  # (jobs,) smaller first, ties see below; of an order that varies with time, a lower bound up to `horizon`
    exact: F1  # (jobs,) the key of a job at present, once asked for
    tie: I1  # (jobs,) equal keys: the least of these comes first, then the lower job; or nothing
    estimate: I1  # (jobs,) ms, 0: not made yet
    bound: I1  # (jobs,) with how long a run, at speed 1, backfilling plans for a waiting job, ms
    due: I1  # (jobs,) when a running job should end, as conservative backfilling last planned with
    class_of: I1  # (jobs,)
    part: F1  # (classes,) size of a job, as the order sees it
    cost: F1  # (classes,) what a job uses in every ms, as fair share counts it
    members: I1  # (jobs,) the classes' heaps, one after another
    at: I1  # (jobs,) position of a job in its heap, -1: not there
    floor: I1  # (jobs,) by which EASY leaves out jobs that don't end in time, see `floor_of`; or nothing
    lowest: I1  # (jobs,) by place in `members`: the lowest floor of the job there and those below it; or nothing
    first: I1  # (classes,) where a class' heap begins in `members`
    size: I1  # (classes,)
    blocked: I1  # (classes,) 1: did not fit since the last release
    pool_of: I1  # (classes,) classes that compete for the same nodes
    sample: I1  # (classes,) a job of each class
    head: I1  # (pools,) the job that stopped a pool, -1: none
    shadow: Shadows
    upset: I1  # (pools,) 1: reservations must be made again
    users: Users
    standing: I1  # (users,) users by usage, least first; or nothing
    sizes: SizeClasses
    bounds: Bounds
    scratch: Scratch
    profile: Profile
    given: GivenReasons
    tiers: Tiers
    forgiven: Forgiven
    learned: Learned  # the model behind learned estimates; or nothing
    stoppable: Stoppable
    min_run: I1  # (jobs,) how long a job works at least before it is stopped (ms); or nothing, if stopping is free
    pools: Pools
    inspector: Inspector

    def with_queue(self, queue: Queue) -> Queue:
        """The memory with another queue; of a policy that remembers nothing else, that."""
        return queue

    def renumbered(self, rows: Renumbering) -> Queue:
        """What it knows of each job, by the rows that the jobs have now; of new ones it knows nothing."""
        times = (self.forgiven.run_time, self.forgiven.gpu_time)
        forgiven = Forgiven(*[rows.of_jobs(each) if len(each) else each for each in times])
        return self.replace(
            estimate=rows.of_jobs(self.estimate), forgiven=forgiven, learned=self.learned.renumbered(rows)
        )


class Parts(NamedTuple):
    """Pointers to what differs between policies: one compiled queue serves them all."""

    key: Any  # of a job at some time, see ``keys.key_pointer``
    place: Any  # a placement rule
    choose: Any  # finds nodes: by that rule, or by network tiers
    expect: Any  # estimates the run time of a job
    learn: Any  # takes note of what an ended job took


class Tools(NamedTuple):
    """Pointers to what only some policies use, so that the others need not compile it."""

    parts: Parts
    make_room: Any  # preempting
    backfill: Any
    give_reasons: Any  # saying why jobs wait
    see_pools: Any  # for keys that depend on the nodes that a job may use
    inspect: Any  # says whether the first job is to wait


# ------------------------------------------------------------------------------------------- heaps


@kernel
def precedes(queue: Queue, a: int, b: int) -> bool:
    """Whether job ``a`` comes before job ``b``."""
    if queue.key[a] != queue.key[b]:
        return bool(queue.key[a] < queue.key[b])
    return wins_tie(queue, a, b)


@kernel
def wins_tie(queue: Queue, a: int, b: int) -> bool:
    """Whether of two jobs with equal keys ``a`` comes first."""
    if len(queue.tie) > 0 and queue.tie[a] != queue.tie[b]:
        return bool(queue.tie[a] < queue.tie[b])
    return a < b


@kernel
def rise(queue: Queue, cls: int, at: int) -> None:
    """Move the job at a position of its class' heap up until its parent precedes it."""
    base, members = queue.first[cls], queue.members
    job = members[base + at]
    while at > 0 and precedes(queue, job, members[base + (at - 1) // 2]):
        members[base + at] = members[base + (at - 1) // 2]
        queue.at[members[base + at]] = at
        at = (at - 1) // 2
    members[base + at] = job
    queue.at[job] = at


@kernel
def sink(queue: Queue, cls: int, at: int) -> None:
    """Move the job at a position of its class' heap down until it precedes its children."""
    base, size, members = queue.first[cls], queue.size[cls], queue.members
    job = members[base + at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and precedes(queue, members[base + child + 1], members[base + child]):
            child += 1
        if not precedes(queue, members[base + child], job):
            break
        members[base + at] = members[base + child]
        queue.at[members[base + at]] = at
        at = child
    members[base + at] = job
    queue.at[job] = at


@kernel
def place_again(queue: Queue, cls: int, at: int) -> None:
    """Move the job at a position of its class' heap, which may be new there, to where it belongs."""
    job = queue.members[queue.first[cls] + at]
    rise(queue, cls, at)
    sink(queue, cls, queue.at[job])
    lower_floors(queue, cls, max(at, queue.at[job]))


@kernel
def lower_floors(queue: Queue, cls: int, at: int) -> None:
    """Note the lowest floors from a position of a heap up to its top; all that changed is on that way."""
    while at >= 0 and len(queue.lowest) > 0:
        note_lowest(queue, cls, at)
        at = (at - 1) // 2 if at > 0 else -1


@kernel
def note_lowest(queue: Queue, cls: int, at: int) -> None:
    """Note the lowest floor at and below a position of a heap, given those of its children."""
    base = queue.first[cls]
    lowest = queue.floor[queue.members[base + at]]
    for child in range(2 * at + 1, min(2 * at + 3, queue.size[cls])):
        lowest = min(lowest, queue.lowest[base + child])
    queue.lowest[base + at] = lowest


@kernel
def insert(queue: Queue, job: int) -> None:
    """Put a job into the heap of its class, or move it there if its key changed."""
    cls = queue.class_of[job]
    if queue.at[job] < 0:
        queue.members[queue.first[cls] + queue.size[cls]] = job
        queue.at[job] = queue.size[cls]
        queue.size[cls] += 1
    place_again(queue, cls, queue.at[job])


@kernel
def remove(queue: Queue, job: int) -> None:
    """Take a job out of its heap."""
    cls, at = queue.class_of[job], queue.at[job]
    queue.at[job] = -1
    queue.size[cls] -= 1
    size = queue.size[cls]
    if size > 0:
        lower_floors(queue, cls, (size - 1) // 2)  # where the last job was the child
    if at < size:
        last = queue.members[queue.first[cls] + size]
        queue.members[queue.first[cls] + at] = last
        queue.at[last] = at
        place_again(queue, cls, at)


@kernel
def top(world: World, queue: Queue, cls: int) -> int:
    """The first job of a class, -1 if it has none; jobs that wait no longer are dropped on the way."""
    while queue.size[cls] > 0:
        job = queue.members[queue.first[cls]]
        if world.jobs[w.STATE, job] == w.PENDING:
            return int(job)
        remove(queue, job)
    return -1


# ------------------------------------------------------------------------------------------- usage


@kernel
def charge(world: World, queue: Queue, until: int) -> None:
    """Bring every user's decayed usage up to a time, now at most: it halves once per half-life, what ran adds to it."""
    elapsed = until - queue.state.usage_at
    if elapsed <= 0:
        return
    queue.state.usage_at = until
    kept, total = 2.0 ** (-elapsed / queue.config.half_life), 0.0
    gain = queue.config.half_life / math.log(2.0) * (1.0 - kept)  # of one GPU in use all the while, itself decaying
    for user in range(len(queue.users.usage)):
        queue.users.usage[user] *= kept
        total += queue.users.usage[user]
    for row, length in ((w.L_RUNNING, w.N_RUNNING), (w.L_ENDED, w.N_ENDED), (w.L_ARRIVED, w.N_ARRIVED)):
        for at in range(world.clock[length]):
            job = world.lists[row, at]
            user = world.jobs[w.USER, job]
            ran = row == w.L_RUNNING or world.jobs[w.EXECUTED, job] > 0  # since before: starts are decisions too
            if user >= 0 and ran:
                cost = queue.cost[queue.class_of[job]]
                queue.users.usage[user] += cost * gain
                total += cost * gain
    queue.state.total_usage = total


@kernel
def recount(world: World, queue: Queue) -> None:
    """When a period has begun, see what users had used by then; keys are made again then, and stay until the next."""
    config, state, users = queue.config, queue.state, queue.users
    begun = world.clock[w.NOW] // config.period * config.period
    if state.counted_at == begun:
        return
    state.counted_at, state.stale = begun, True
    queue.head[:] = -1
    if config.half_life == 0:
        return
    charge(world, queue, begun)
    if config.ranks:
        rank_users(queue)
    elif queue.state.total_usage > 0:
        for user in range(len(users.usage)):
            users.counted[user] = users.usage[user] / queue.state.total_usage * state.users_seen


@kernel
def rank_users(queue: Queue) -> None:
    """Fair Tree without accounts: of n users the one with the least usage has factor 1, the most 1/n, equals the same.

    What is kept is minus the binary logarithm of the factor, so that 2^-usage is the factor here too.
    """
    users, standing, seen = queue.users, queue.standing, queue.state.users_seen
    for begin in range(1, len(standing)):  # hardly anything has moved since the last time
        user, at = standing[begin], begin
        while at > 0 and users.usage[standing[at - 1]] > users.usage[user]:
            standing[at] = standing[at - 1]
            at -= 1
        standing[at] = user
    rank, left, before = seen, seen, -1.0
    for at in range(len(standing)):
        user = standing[at]
        if users.seen[user] == 1:
            if users.usage[user] != before:
                rank, before = left, users.usage[user]
            users.counted[user] = math.log2(seen / rank)
            left -= 1


# ------------------------------------------------------------------------------------------- keys


@inlined
def describe(world: World, queue: Queue, job: int, total: float, now: int) -> Job:
    """A job as its order's key sees it, or would at a later time."""
    jobs = world.jobs
    executed, attained, waited = jobs[w.EXECUTED, job], jobs[w.ATTAINED, job], jobs[w.WAITED, job]
    if len(queue.forgiven.run_time) > 0:
        executed -= queue.forgiven.run_time[job]
        attained -= queue.forgiven.gpu_time[job]
    work, queued = world.progress[w.WORK, job], now
    if jobs[w.STATE, job] == w.PENDING:
        waited += max(now - jobs[w.WAITING_SINCE, job], 0)  # a period may have begun before it came
        queued = jobs[w.WAITING_SINCE, job]
    else:
        work += max(now - jobs[w.SINCE, job], 0) * world.progress[w.RATE, job]
        executed += now - jobs[w.BEGUN, job]
        attained += (now - jobs[w.BEGUN, job]) * jobs[w.WORKERS, job] * jobs[w.SHARE, job] // 1000
    gpus = jobs[w.GPUS, job] * jobs[w.SHARE, job] / 1000
    usage, user = 0.0, jobs[w.USER, job]
    if user >= 0 and queue.config.period > 0:
        usage = queue.users.counted[user]
    elif user >= 0 and total > 0:
        usage = queue.users.usage[user] / total * queue.state.users_seen
    cls, pools = queue.class_of[job], queue.pools
    pool = pools.of_class[cls]
    return Job(
        (jobs[w.SUBMIT, job] - jobs[w.SUBMIT, 0]) / 1000.0,
        waited / 1000.0,
        gpus,
        queue.estimate[job] / 1000.0,
        executed / 1000.0,
        (queue.estimate[job] - work) / 1000.0,
        attained / 1000.0,
        jobs[w.DECLARED, job] / 1000.0,
        work / 1000.0,
        (jobs[w.STARTED, job] - jobs[w.SUBMIT, 0]) / 1000.0 if jobs[w.STARTED, job] >= 0 else -1.0,
        (queued - jobs[w.SUBMIT, 0]) / 1000.0,
        queue.part[cls],
        usage,
        queue.factors[jobs[w.VC, job]],
        jobs[w.QOS, job] / 1000.0,
        -1.0 if jobs[w.STATE, job] == w.PENDING else (jobs[w.BEGUN, job] - jobs[w.SUBMIT, 0]) / 1000.0,
        float(jobs[w.CHECKPOINTABLE, job]),
        pools.nodes[pool],
        pools.gpus[pool],
        pools.free[pool],
        pools.largest[pool],
        pools.partly[pool],
        pools.waiting[pool],
        pools.demand[pool],
        pools.fits[cls],
        pools.ways[cls],
        pools.choice[pool],
        pools.growth[pool],
        queue.inspector.skips[job] * LOOK_AGAIN / 1000.0 if len(queue.inspector.skips) > 0 else 0.0,
        (jobs[w.SUBMIT, job] + jobs[w.DEADLINE, job] - jobs[w.SUBMIT, 0]) / 1000.0
        if jobs[w.DEADLINE, job] > 0
        else 0.0,
    )


@kernel
def rekey(world: World, queue: Queue, parts: Parts) -> None:
    """Evaluate the keys of waiting jobs that have changed with time.

    Where a key only falls while a job waits, its value at a later time, the horizon, bounds it from below until then,
    so that a heap of bounds serves many instants.  The horizon is pulled in when bounds make us look at too many jobs.
    """
    config, state, now = queue.config, queue.state, world.clock[w.NOW]
    state.keyed_at = now
    if config.histogram_at > 0 and state.ended_jobs_seen * 10 > state.ended_jobs_keyed * 11:
        state.ended_jobs_keyed = state.ended_jobs_seen  # a tenth more is known than when keys were made
        key_all(world, queue, parts, now)
    if state.stale:
        state.stale = False
        key_all(world, queue, parts, now)
    if not config.varying:
        return
    too_loose = state.visits > 2 * world.clock[w.N_PENDING]
    if now <= state.horizon and config.ageing and not too_loose:
        return
    if config.ageing:
        state.reach = max(state.reach // 2, 1) if too_loose else min(state.reach * 2, LONGEST_REACH)
    state.horizon = now + state.reach
    state.visits = 0
    key_all(world, queue, parts, state.horizon)


@kernel
def key_all(world: World, queue: Queue, parts: Parts, time: int) -> None:
    """Evaluate the key of every waiting job at a time, and order the heaps by that."""
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        queue.key[job] = parts.key(world, queue, job, time)
    order_heaps(world, queue)


@kernel
def order_heaps(world: World, queue: Queue) -> None:
    """Order all heaps by keys that are new, without the jobs that wait no longer."""
    for cls in range(len(queue.size)):
        base, kept = queue.first[cls], 0
        for at in range(queue.size[cls]):
            job = queue.members[base + at]
            waits = world.jobs[w.STATE, job] == w.PENDING
            queue.members[base + kept] = job
            queue.at[job] = kept if waits else -1
            kept += int(waits)
        queue.size[cls] = kept
        for at in range(queue.size[cls] // 2 - 1, -1, -1):
            sink(queue, cls, at)
        for at in range(queue.size[cls] - 1 if len(queue.lowest) > 0 else -1, -1, -1):
            note_lowest(queue, cls, at)


@kernel
def promote(world: World, queue: Queue, parts: Parts) -> None:
    """Forget the run time of jobs that have waited too long since: they count as new."""
    config, now, jobs = queue.config, world.clock[w.NOW], world.jobs
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        ran, idle = jobs[w.EXECUTED, job] - queue.forgiven.run_time[job], now - jobs[w.WAITING_SINCE, job]
        if ran == 0:
            continue
        by_run_time = config.promote_times > 0 and idle * 1000 >= config.promote_times * ran
        if by_run_time or (config.promote_after > 0 and idle >= config.promote_after):
            queue.forgiven.run_time[job], queue.forgiven.gpu_time[job] = jobs[w.EXECUTED, job], jobs[w.ATTAINED, job]
            queue.key[job] = parts.key(world, queue, job, now)
            insert(queue, job)
            reconsider(queue, job)


@kernel
def look(world: World, queue: Queue, parts: Parts) -> None:
    """Find the jobs to promote, once in a quantum."""
    config, state, now = queue.config, queue.state, world.clock[w.NOW]
    if config.quantum > 0 and state.looked_at < now // config.quantum:
        state.looked_at = now // config.quantum
        if len(queue.forgiven.run_time) > 0:
            promote(world, queue, parts)


@kernel
def rank_running(world: World, queue: Queue, parts: Parts) -> bool:
    """Evaluate the keys of the running jobs, to compare with those that wait; whether any is new."""
    queue.state.ranked_at = world.clock[w.NOW]
    changed = False
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if world.jobs[w.CHECKPOINTABLE, job] == 0:
            continue
        key = parts.key(world, queue, job, world.clock[w.NOW])
        changed = changed or queue.exact[job] != key
        queue.exact[job] = key  # `queue.key` may still order the heap that it left
    return changed


@kernel
def ahead(queue: Queue, a: int, b: int) -> bool:
    """Whether job ``a`` is before job ``b`` in the order at present; both must have been asked for."""
    if queue.exact[a] != queue.exact[b]:
        return bool(queue.exact[a] < queue.exact[b])
    return wins_tie(queue, a, b)


@kernel
def first_of(
    world: World, queue: Queue, parts: Parts, cls: int, best: int, skip: int, longest: int, speed: float
) -> int:
    """The first at present of ``best`` (-1: none) and the waiting jobs of a class that end within ``longest`` ms.

    Never ``skip``.  Walks the heap from the top and leaves out what lies below a bound that ``best`` already beats, and
    where no job ends in time.
    """
    stack, base, size, left = queue.scratch.stack, queue.first[cls], queue.size[cls], min(queue.size[cls], 1)
    highest = floor_within(queue.bounds, longest, speed) if longest != w.NEVER else math.inf
    stack[0] = 0
    while left > 0:
        left -= 1
        at = stack[left]
        job = queue.members[base + at]
        if (best >= 0 and beaten(queue, job, best)) or (longest != w.NEVER and queue.lowest[base + at] > highest):
            continue
        for child in range(2 * at + 1, min(2 * at + 3, size)):
            stack[left] = child
            left += 1
        if world.jobs[w.STATE, job] != w.PENDING or job == skip or not ends_within(world, queue, job, longest, speed):
            continue
        find_exact(world, queue, parts, job)
        if best < 0 or ahead(queue, job, best):
            best = job
    return best


@kernel
def beaten(queue: Queue, job: int, best: int) -> bool:
    """Whether a job, and all below it in its heap, come after ``best`` whatever their keys are at present."""
    if queue.key[job] != queue.exact[best]:
        return bool(queue.key[job] > queue.exact[best])
    return not wins_tie(queue, job, best)


@kernel
def find_exact(world: World, queue: Queue, parts: Parts, job: int) -> None:
    """Find the key of a waiting job at present."""
    queue.exact[job] = queue.key[job]
    if queue.config.varying:
        queue.state.visits += 1
        if queue.state.horizon != world.clock[w.NOW]:
            queue.exact[job] = parts.key(world, queue, job, world.clock[w.NOW])


@kernel
def shorter(queue: Queue, a: int, b: int) -> bool:
    """Whether job ``a`` has the smaller estimate; ties go to the job submitted first."""
    if queue.estimate[a] != queue.estimate[b]:
        return bool(queue.estimate[a] < queue.estimate[b])
    return a < b


@kernel
def shortest_of(world: World, queue: Queue, cls: int, best: int, skip: int, longest: int, speed: float) -> int:
    """The same with the job of the least estimate."""
    base = queue.first[cls]
    for at in range(queue.size[cls]):
        job = queue.members[base + at]
        if world.jobs[w.STATE, job] != w.PENDING or job == skip or not ends_within(world, queue, job, longest, speed):
            continue
        if best < 0 or shorter(queue, job, best):
            best = job
    return best


@kernel
def ends_within(world: World, queue: Queue, job: int, longest: int, speed: float) -> bool:
    """Whether a job should take no longer than ``longest`` ms at this speed, by what has ended up to now."""
    if longest == w.NEVER:
        return True
    renew_bound(world, queue, job)
    return run_time(world, queue, job, speed) <= longest


@kernel
def renew_bound(world: World, queue: Queue, job: int) -> None:
    """Plan a waiting job with what is known now."""
    limit, work = world.jobs[w.LIMIT, job], world.progress[w.WORK, job]
    queue.bound[job] = bound_of(queue.bounds, queue.estimate[job], limit, work)


@kernel
def run_time(world: World, queue: Queue, job: int, speed: float) -> int:
    """How long a waiting job should take at this speed, its restart included if it ran before (ms)."""
    restart = world.jobs[w.RESTART, job] if world.jobs[w.STARTED, job] >= 0 else 0
    return int(restart + max(math.ceil((queue.bound[job] - world.progress[w.WORK, job]) / speed), 1))


@kernel
def meet(world: World, queue: Queue, parts: Parts, job: int) -> None:
    """See a job for the first time: count its user, estimate its run time."""
    user = world.jobs[w.USER, job]
    if user >= 0 and queue.users.seen[user] == 0:
        queue.users.seen[user] = 1
        queue.state.users_seen += 1
    if queue.estimate[job] == 0:
        queue.estimate[job] = parts.expect(world, queue, job)


@kernel
def welcome(world: World, queue: Queue, parts: Parts, job: int) -> None:
    """Put a job into the queue."""
    meet(world, queue, parts, job)
    if queue.config.backfill != B_NONE:
        renew_bound(world, queue, job)
    if len(queue.floor) > 0:
        queue.floor[job] = floor_of(queue.estimate[job], world.jobs[w.LIMIT, job], world.progress[w.WORK, job])
    queue.key[job] = math.inf
    if not queue.config.sees_pool or queue.config.backfill == B_CONSERVATIVE:  # else every decision makes it again
        queue.key[job] = parts.key(world, queue, job, max(world.clock[w.NOW], queue.state.horizon))
    if len(queue.tie) > 0:
        queue.tie[job] = world.jobs[w.WAITING_SINCE, job]
    insert(queue, job)
    reconsider(queue, job)


@kernel
def reconsider(queue: Queue, job: int) -> None:
    """A job's place in the order is new: earlier stops and failures to fit say nothing about it."""
    cls = queue.class_of[job]
    queue.head[queue.pool_of[cls]] = -1
    first = queue.at[job] == 0 or queue.config.varying
    if queue.config.preemptive and first:
        queue.blocked[cls] = 0


@kernel
def take_in(world: World, queue: Queue, parts: Parts) -> None:
    """Learn from what ended, estimate and enqueue what arrived, and see what may fit again."""
    config, state, now = queue.config, queue.state, world.clock[w.NOW]
    if config.period > 0:
        recount(world, queue)
    if config.half_life > 0:
        charge(world, queue, now)
    for at in range(world.clock[w.N_ENDED]):
        parts.learn(world, queue, world.lists[w.L_ENDED, at])
    row, length = w.L_ARRIVED, w.N_ARRIVED
    if state.fresh:  # jobs that already wait or run are new to this queue
        state.fresh = False
        row, length = w.L_PENDING, w.N_PENDING
        for at in range(world.clock[w.N_RUNNING]):
            meet(world, queue, parts, world.lists[w.L_RUNNING, at])
    for at in range(world.clock[length]):
        welcome(world, queue, parts, world.lists[row, at])
    if state.seen_releases != world.clock[w.RELEASES]:
        state.seen_releases = world.clock[w.RELEASES]
        queue.blocked[:] = 0
        queue.head[:] = -1
    look(world, queue, parts)
    if state.keyed_at != now and config.varying:
        queue.head[:] = -1
    to_compare = config.preemptive and world.clock[w.N_PENDING] > 0
    if to_compare and state.ranked_at != now and (rank_running(world, queue, parts) or state.spared):
        state.spared = False
        queue.head[:] = -1
        queue.blocked[:] = 0


@kernel
def any_gpu_free(world: World) -> bool:
    """Whether a whole GPU is free anywhere."""
    for node in range(world.nodes.shape[1]):  # noqa: SIM110 a loop, for numba
        if world.nodes[w.FREE, node] > 0:
            return True
    return False


@kernel
def free_gpus(world: World) -> int:
    """How many whole GPUs are free anywhere."""
    free = 0
    for node in range(world.nodes.shape[1]):
        free += world.nodes[w.FREE, node]
    return int(free)


@kernel
def anything_to_try(world: World, queue: Queue) -> bool:
    """Whether any waiting class may fit: there is room, or a running job could make room.

    Classes that want more GPUs than are free are blocked without a try, where each would be tried.
    """
    config = queue.config
    if world.clock[w.N_PENDING] == 0:
        return False
    free = w.NEVER if config.preemptive or config.shares else free_gpus(world)
    all_tried, found = not config.strict or config.backfill == B_EASY, False
    for cls in range(len(queue.size) if free > 0 else 0):
        if queue.size[cls] > 0 and queue.blocked[cls] == 0:
            if all_tried and world.jobs[w.GPUS, queue.sample[cls]] > free:
                queue.blocked[cls] = 1
            else:
                found = True
    return found

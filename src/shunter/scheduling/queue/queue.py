"""The waiting jobs as a compiled policy keeps them: one heap per demand class, estimates, and users' past usage.

Jobs of one class (same GPUs, type, virtual cluster, CPU and memory) fit or don't fit alike, so only the best of each
class needs looking at, and a class that did not fit stays blocked until something is released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays, Variables
from shunter.model import Renumbering
from shunter.predictors.learned import Learned
from shunter.scheduling.backfill.bounds import Bounds
from shunter.world import I64

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


class Completions(Arrays):
    """What has ended of each virtual cluster, and last of those without one; old jobs count less and less."""

    jobs: I1
    time: I1  # of these jobs together, from when they could start to their ends (ms)

    def renamed(self, before: Sequence[str], now: Sequence[str]) -> Completions:
        """The same after the virtual clusters have changed, by their names; nothing has ended of new ones."""
        known = {name: at for at, name in enumerate((*before, ""))}
        rows = np.array([known.get(name, -1) for name in (*now, "")])
        return Completions(*[np.where(rows >= 0, getattr(self, field)[rows], 0) for field in self.fields])


class Forgiven(Arrays):
    """What a job ran before its promotion, which no longer counts (ms); of no size where none is promoted."""

    run_time: I1
    gpu_time: I1


class Shadows(Arrays):
    """EASY's reservations."""

    time: I1  # (pools,)
    job: I1  # (pools,)


class Look(Variables):
    """When nodes were last looked at for jobs that may be stopped, and what is planned since; -1: not, or nothing."""

    ranked_at: int = -1  # `State.ranked_at`, ...
    releases: int = -1  # ... RELEASES ...
    running: int = -1  # ... and how many jobs ran, or will once the plan is done
    node: int = -1  # where a plan stops jobs ...
    job: int = -1  # ... and starts this one


class Stoppable(Arrays):
    """What stopping jobs would free on each node."""

    look: Look
    as_of: I1  # (nodes,) CHANGES of the node when it was looked at, -1: it was not
    ranked: I1  # (nodes,) `State.ranked_at` of the keys that its jobs are ordered by
    at_once: I1  # (nodes,) GPUs to be had without a stop ...
    by_stops: I1  # (nodes,) ... and by stops
    latest: I1  # (gpus,) node by node the jobs that may be stopped, the last in the order first, one entry per GPU
    spared: F1  # (nodes,) the greatest key of a job that has run too briefly to be stopped; NO_KEY: there is none
    price: F2  # (most GPUs of a node + 1, nodes) the least key of the jobs that must stop for this many GPUs there;
    # NO_KEY: that many can't be had, inf: none must

    def forget(self) -> None:
        """No node was looked at."""
        self.as_of[:] = -1
        self.look.releases = -1


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
    passing: int = 0  # thousandths of the mean completion time within which a job must end to pass under EASY, 0: any
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
    members: I1  # (2 x jobs,) the classes' heaps, one after another
    at: I1  # (jobs,) place of a job in `members`, -1: not there
    floor: I1  # (jobs,) by which EASY leaves out jobs that don't end in time, see `floor_of`; or nothing
    lowest: I1  # (2 x jobs,) by place in `members`: the lowest floor of the job there and those below it; or nothing
    begins: I1  # (classes + 1,) where a class' places begin in `members`, twice as many as it has jobs, ...
    first: I1  # (classes,) ... where its heap does ...
    size: I1  # (classes,) ... how many jobs are in it ...
    in_line: I1  # (classes,) ... and 1: each of them precedes the next
    blocked: I1  # (classes,) 1: did not fit since the last release
    pool_of: I1  # (classes,) classes that compete for the same nodes
    sample: I1  # (classes,) a job of each class
    head: I1  # (pools,) the job that stopped a pool, -1: none
    shadow: Shadows
    upset: I1  # (pools,) 1: reservations must be made again
    users: Users
    standing: I1  # (users,) users by usage, least first; or nothing
    sizes: SizeClasses
    completions: Completions
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

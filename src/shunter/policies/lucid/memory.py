"""What Lucid remembers, as arrays, and the small operations on it that all of its parts need."""

from __future__ import annotations

from shunter import world as w
from shunter.arrays import F1, I1, I2, Arrays, Variables
from shunter.compiled import kernel
from shunter.predictors.learned import Learned
from shunter.predictors.throughput import SubmissionCounts
from shunter.scheduling.placing import sort
from shunter.world import I64, World

NEW, TO_PROFILE, PROFILING, QUEUED, RUNS, OVER = range(6)  # stages of a job

SKIP, STRICT, RESERVE = range(3)  # `config.blocking`
NONE, ORACLE, LIMIT, LEARNED = range(4)  # sources of run times

UNKNOWN = -1  # the score of a job that was never seen running
HEAVIEST = 2
SCORES = HEAVIEST + 1
NOT_APART = -2  # the home of a node that is not set apart
LAST_HOUR = 6  # bins
RING = 8  # bins that are remembered, more than an hour's
LEVELS = 50  # quantiles of run time over estimate


class LucidScratch(Arrays):
    """Room to work in, so that no decision allocates."""

    usable: I1  # (nodes,)
    total: I1  # (nodes,)
    nodes: I1  # (gpus,) chosen nodes ...
    counts: I1  # (gpus,) ... and how many GPUs on each
    gpu_ids: I1  # (gpus,)
    jobs: I1  # (jobs,)
    ends: I1  # (gpus,) when a GPU should be free ...
    end_nodes: I1  # (gpus,) ... and its node


class LucidConfig(Arrays):
    """How Lucid works."""

    profile_time: int  # ms; 0: nothing is profiled
    profile_gpus: int
    profile_all: bool  # also jobs that find free GPUs
    scaled: bool  # the profiler grows and shrinks ...
    growth: int  # ... by this many nodes at most ...
    long_queue: int  # ... while more than this many wait for it
    packs: bool
    pack_first: bool  # before free GPUs are looked for
    dynamic: bool  # packs only while more than `quiet` jobs are to come
    quiet: float
    capacity: int  # sum of sharing scores on a GPU
    ratio: float  # largest GPU time of a newcomer over that of the resident
    memory: float  # MiB of a GPU that two jobs may fill
    blocking: int
    certainty: float
    source: int  # of run times


class Recent(Arrays):
    """What came in each of the last bins, a ring, where no model says what is to come."""

    bin: I1
    jobs: F1
    gpus: F1


class SharingTree(Arrays):
    """How sharing scores follow from use."""

    feature: I1  # row of `use`, -1: a leaf
    below: I1
    above: I1
    score: I1
    bound: F1


class Joined(Arrays):
    """Which job joined which on its GPUs."""

    time: I1  # ms
    newcomer: I1
    resident: I1


class LucidState(Variables):
    """All that Lucid remembers; virtual clusters begin with that of jobs that are in none."""

    config: LucidConfig
    begun: bool = False
    base: int = 0  # the profiler's nodes while it has not grown ...
    profiler_nodes: int = 0  # ... and those that it has
    waiting: int = 0  # jobs in `to_profile` ...
    in_profiler: int = 0  # ... and in `being_profiled`
    fresh_jobs: int = 0  # in `fresh`
    pairs: int = 0  # in `joined`
    shrunk: bool = False  # the profiler lost a node
    packs_now: bool = True
    up_nodes: int = -1
    bin: int = -1  # of the last look ahead
    timer: int = -1  # ms
    passes: int = 0  # through a queue, counted
    coming_jobs: float = 0.0  # in the next ten minutes ...
    coming_gpus: float = 0.0  # ... and their GPUs
    odds: F1  # (LEVELS,) log of how many times its estimate a job takes, by quantile
    truth: F1  # (jobs,) true run times, ms; of no size where they are not given
    stage: I1  # (jobs,)
    priority: F1  # (jobs,) smaller first
    run_time: F1  # (jobs,) expected, ms; 0: not known
    expected: I1  # (jobs,) the first estimate of a model, ms; 0: none
    profiled: I1  # (jobs,) 1: it ran in the profiler ...
    ended_there: I1  # (jobs,) ... and ended there
    score: I1  # (jobs,) its sharing score, UNKNOWN
    partner: I1  # (jobs,) the job that it shares its GPUs with, -1: none
    members: I1  # (jobs,) the queues of all virtual clusters, one after another, each in its order
    first: I1  # (vcs,) where a queue begins
    size: I1  # (vcs,)
    dirty: I1  # (vcs,) 1: something changed there
    oldest: I1  # (groups,) jobs that run alone, by virtual cluster, GPUs and score: the first by start ...
    newest: I1  # (groups,) ... and the last
    before: I1  # (jobs,) its neighbours in that order, -1: none
    after: I1  # (jobs,)
    group: I1  # (jobs,) -1: it does not run alone
    to_profile: I1  # (jobs,) those that wait for the profiler, the fewest GPUs first
    being_profiled: I1  # (gpus * slots,) in the order of their starts
    nodes: I1  # (nodes,) the profiler's nodes in the order in which they were set apart
    home: I1  # (nodes,) the virtual cluster of a node that is set apart, NOT_APART
    leaving: I1  # (nodes,) 1: it goes back once it is idle
    kept: I2  # (vcs, nodes) 1: the node is kept for a job of the virtual cluster ...
    kept_for: I1  # (vcs,) ... which one, -1: none ...
    kept_until: I1  # (vcs,) ... and when it should have room there
    class_of: I1  # (jobs,) jobs that find room alike
    no_room: I2  # (2, classes) the pass in which there was none; 1: beside what is kept
    no_partner: I2  # (2, classes * SCORES)
    fresh: I1  # (jobs,) those that were just put on GPUs of their own
    joined: Joined
    recent: Recent
    tree: SharingTree
    scratch: LucidScratch
    learned: Learned
    arrivals: SubmissionCounts


@kernel
def is_own(world: World, state: LucidState, vc: int, node: int) -> bool:
    """Whether the main queue may put jobs of a virtual cluster on a node."""
    home = world.nodes[w.NODE_VC, node]
    return bool((vc == -1 or home in (vc, w.OPEN)) and state.home[node] == NOT_APART)


@kernel
def soil_all(state: LucidState) -> None:
    """Something changed that may matter to every queue."""
    state.dirty[:] = 1


@kernel
def shares_nodes(world: World, state: LucidState) -> bool:
    """Whether jobs of every virtual cluster may run on some node, so that the end of one matters to all queues."""
    for node in range(world.nodes.shape[1]):
        if world.nodes[w.NODE_VC, node] == w.OPEN and state.home[node] == NOT_APART:
            return True
    return False


@kernel
def shift_out(values: I64, at: int, count: int) -> None:
    """Take one of the first ``count`` values out; the later ones move up."""
    for i in range(at, count - 1):
        values[i] = values[i + 1]


@kernel
def in_order(world: World, row: int, count: int, into: I64) -> int:
    """Copy one of the lists of jobs, sorted; returns how many."""
    for i in range(count):
        into[i] = world.lists[row, i]
    sort(into[:count])
    return count

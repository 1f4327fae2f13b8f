"""What can be seen of a cluster at one instant, as arrays: the one layout that engine, policies and kernels share.

``World`` holds only what a live cluster could know (true durations are kept elsewhere, by the simulator alone).  Every
table is indexed ``[column, row]``; the columns are the constants below.  Times are int64 milliseconds.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter.arrays import F2, I1, I2, Arrays

I64: TypeAlias = NDArray[np.int64]
F64: TypeAlias = NDArray[np.float64]

NEVER = 2**62  # a time that does not come

# -- job states
FUTURE, HELD, PENDING, RUNNING, STOPPING, DONE, FAILED = range(7)
# -- node states
UP, DOWN, ASLEEP, WAKING = range(4)

OPEN = -1  # the virtual cluster of a node that jobs of all of them may use

# -- columns of `jobs`: the request ...
SUBMIT, GPUS, SHARE, USER, VC, TYPE, LIMIT, CPU, MEM, AFTER, DEADLINE, MODEL, QOS, RETRIES, DECLARED = range(15)
NAME, ACCOUNT = range(15, 17)
# (DECLARED: run time at speed 1 that the user declared, right or wrong, ms; 0: none)
# ... what the cluster knows of its course (STARTED: first start, BEGUN: of the present run, WAITED/EXECUTED/ATTAINED:
# up to WAITING_SINCE or BEGUN; UNTIL: end of the lease; HEAD: first slot held; AT: position in the pending or running
# list; LOST: GPU-ms of work lost or spent on checkpoints and restarts; SINCE: work is counted from here on; RESTART:
# what starting again costs, ms; STOP_COST: what a checkpoint costs when the job is stopped, ms; STOP_LOSS: the most
# work that a stop loses, ms, 0: it saves all; CHECKPOINTABLE: 1: a policy may stop it; NUMBER: what draws are keyed by:
# its row in the whole simulation, also where it has another row in an excerpt)
STATE, ELIGIBLE, STARTED, BEGUN, ENDED_AT, WAITING_SINCE, WAITED, EXECUTED, ATTAINED, ATTEMPTS = range(17, 27)
PREEMPTIONS, WORKERS, UNTIL, HEAD, AT, LOST, SINCE, RESTART, SPAN = range(27, 36)
STOP_COST, STOP_LOSS, CHECKPOINTABLE, NUMBER = range(36, 40)
# the request of a job that can run on more or fewer GPUs than GPUS: the fewest and the most, both 0: it can't; CURVE:
# its curve in `scaling`, -1: its speed is in proportion to its GPUs
MIN_GPUS, MAX_GPUS, CURVE = range(40, 43)
JOB_COLUMNS = 43

# -- columns of `instances`: the request (the least and the most CPU and memory of an instance, both 0: it has no range;
# SERVERS: instances that are parameter servers) and what each instance has now, or will have if it starts as it asks
MIN_CPU, MAX_CPU, MIN_MEM, MAX_MEM, SERVERS, CPU_NOW, MEM_NOW, SERVERS_NOW = range(8)
INSTANCE_COLUMNS = 8
# SPAN: on exactly this many nodes, with as many GPUs on each; 0: as the placer has it; ANY_NODES: on any that have room
ANY_NODES = -1

# -- columns of `progress` (float): work done up to SINCE, work safe in a checkpoint, present speed (1: the trace's),
# what its spread over machines leaves of its speed in the present or last run (1: all), and ms of communication that no
# computing hid, in all runs up to SINCE
WORK, SAVED, RATE, SPREAD, COMMUNICATION = range(5)
PROGRESS_COLUMNS = 5

# -- rows of `use`: what a job that runs alone does to its GPUs, seen from its first start on (before: NaN): utilisation
# of the GPU in %, its memory in MiB, utilisation of the memory's bandwidth in %
GPU_USE, GPU_MEMORY, MEMORY_USE = range(3)

# -- columns of `nodes`; FREE counts wholly free GPUs of a node that is UP, else 0; OUTAGE: when the next begins;
# CHANGES: how often a job took or left one of its GPUs
FREE, TOTAL, NODE_TYPE, NODE_VC, CPU_FREE, MEM_FREE, NODE_STATE, OUTAGE, FIRST_GPU, SPEED, RANK, CHANGES = range(12)
NODE_COLUMNS = 12  # CPU_FREE in milli-cores, MEM_FREE in MiB, SPEED in millionths, RANK: the i-th node, largest first

# -- columns of `gpus`: its node, how many jobs are on it, the sum of their shares in thousandths
NODE, TENANTS, USED = range(3)
GPU_COLUMNS = 3

# -- `slots`: places for jobs on GPUs, S per GPU; NEXT links the slots of one job, the highest GPU first; GPU never
# changes, and saves a division
SLOT_JOB, SLOT_NEXT, SLOT_GPU = range(3)
SLOT_COLUMNS = 3

# -- rows of `lists`: job ids without order (sort to get submit order), lengths in `clock`
L_PENDING, L_RUNNING, L_ENDED, L_ARRIVED = range(4)
# -- entries of `clock`
NOW, N_PENDING, N_RUNNING, N_ENDED, N_ARRIVED, RELEASES, SLOTS_PER_GPU, SEED, BOUNDED, LAST_VC, REASONS, DRAINS = range(
    12
)
NUMBERS = 12
# RELEASES counts whatever freed room or changed nodes; BOUNDED: nodes limit CPU or memory; REASONS: they are wanted;
# DRAINS: no job is started on a node whose next known outage comes before the job's limit ends; NUMBERS: jobs of the
# whole simulation
CLOCK_SIZE = 13

# -- kinds in the event log, whose rows are (time, kind, job, a, b)
ARRIVE, START, FINISH, FAIL, PREEMPT, STOP, MOVE, NODE_DOWN, NODE_UP, SLEEP, WAKE, REASSIGN = range(1, 13)
EQUIP, ROLES = 13, 14
# START: one row per node, a = node, b = thousandths of GPUs there.  The job's GPUs are released at FINISH, FAIL
# (a = 1: for good), PREEMPT (a = cause, b = work lost) and MOVE (from a to b GPUs; START rows follow).  STOP: it is
# being checkpointed.  NODE_DOWN, NODE_UP, SLEEP, WAKE: a = node; NODE_DOWN: b = 1: its jobs
# run to their end.  REASSIGN: a = node, b = virtual cluster.  Of the START rows that follow: EQUIP: each instance has a
# milli-cores and b MiB, not what the job asks for; ROLES: a of the instances are parameter servers and b are workers,
# not as usual.
BY_POLICY, BY_LEASE, BY_FAILURE = range(3)  # causes of PREEMPT


class World(Arrays):
    """Everything visible, as arrays; the engine owns and changes them."""

    clock: I1  # (CLOCK_SIZE,)
    jobs: I2  # (JOB_COLUMNS, jobs)
    progress: F2  # (PROGRESS_COLUMNS, jobs)
    nodes: I2  # (NODE_COLUMNS, nodes)
    gpus: I2  # (GPU_COLUMNS, gpus)
    slots: I2  # (SLOT_COLUMNS, gpus * S)
    lists: I2  # (4, jobs)
    use: F2  # (3, jobs)
    domains: I2  # (levels, nodes) the rack of a node, then what its rack belongs to, and so on outwards
    admits: I2  # (types and sets of nodes, nodes) 1: a job whose TYPE is this may run there
    scaling: F2  # (2 x curves, GPUs + 1) speed over that of one GPU: of each curve on one machine, then across machines
    instances: I2  # (INSTANCE_COLUMNS, jobs), or of no size: no job says anything of its instances


class Job(NamedTuple):
    """One job as an order's ``key`` sees it: seconds and GPUs, as the papers write their formulas."""

    submit: float  # since the first submission of the trace
    wait: float  # time spent waiting so far
    gpus: float
    estimate: float  # of the run time, never 0
    executed: float  # run time so far
    remaining: float  # of the estimate, at speed 1
    attained: float  # GPU time so far
    declared: float  # run time at speed 1 that its user declared, right or wrong; 0: none
    work: float  # done so far: what this would have taken at speed 1
    started: float  # its first start, since the first submission of the trace; -1: not yet
    queued: float  # when it began to wait, since the first submission of the trace; now, if it runs
    size: float  # gpus / GPUs of the cluster
    usage: float  # the user's decayed GPU time over their fair share of all of it; 1 is exactly fair
    partition: float  # priority factor of the job's VC, 0..1
    qos: float  # priority factor of the job, 0..1
    begun: float  # when its present run began, since the first submission of the trace; -1: it waits
    checkpointable: float  # 1: a policy may stop it; 0: it keeps its GPUs until it ends
    # the nodes that it may use, with sees_pool = True; else 0
    pool_nodes: float
    pool_gpus: float
    free: float  # GPUs of these that are free ...
    largest: float  # ... and the most of them on one node
    partly: float  # nodes that have some of their GPUs free, but not all
    waiting: float  # jobs that wait for these nodes, itself included ...
    demand: float  # ... and the GPUs that they ask for
    fits: float  # 1: there is room for it now; 0: there is not
    ways: float  # in which it could be placed now, 0 to 3, see ``pools.ways_of``
    choice: float  # 1: a job that waits for these nodes has several ways
    growth: float  # by which the bounded slowdowns of jobs that wait for these nodes grow together, per second
    skipped: float  # time for which an inspector made it wait
    due: float  # when it is wanted by, since the first submission of the trace; 0: it has no deadline


class Decision(Arrays):
    """A plan as arrays, for compiled policies: ``counts`` is (actions, GPU ids, reasons) in use."""

    actions: I2  # (capacity, ACTION_COLUMNS)
    gpu_ids: I1  # (capacity,)
    counts: I1  # (3,)
    refusals: I1  # (capacity,) why each action can't be done, filled in by the backend
    reasons: I2  # (capacity, REASON_COLUMNS) why jobs wait


# -- columns of `actions`; a Start, Migrate or Resize takes the next SIZE entries of `gpu_ids`
KIND, TARGET, SIZE, ARG, EACH_CPU, EACH_MEM, SERVING = range(7)
ACTION_COLUMNS = 7
A_START, A_PREEMPT, A_MIGRATE, A_RESIZE, A_POWER, A_TIMER, A_ASSIGN = range(7)
# ARG: lease end or NEVER (Start), keep (Preempt), on (Power), virtual cluster (Assign), time (Timer)
# EACH_CPU, EACH_MEM: of each instance after a Start or Resize, 0: as it asks for or has; SERVING: parameter servers,
# 0: as usual
SHARED = 1 << 40  # added to SIZE of a Start whose GPUs may already have tenants

# -- columns of `reasons`: what it is about, which one, the code, three numbers; all as in ``shunter.reasons``
REASON_COLUMNS = 6
MOST_REASONS = 1024  # in one plan; what does not go in is said in the next


def new_decision(world: World) -> Decision:
    """An empty plan that has room to stop every job and to fill every GPU."""
    room = 64 + 2 * world.slots.shape[1]
    actions, refusals = np.zeros((room, ACTION_COLUMNS), np.int64), np.zeros(room, np.int64)
    reasons = np.zeros((MOST_REASONS * int(world.clock[REASONS]), REASON_COLUMNS), np.int64)
    return Decision(actions, np.zeros(room, np.int64), np.zeros(3, np.int64), refusals, reasons)


@cache
def signatures() -> dict[str, Any]:
    """The numba signatures of what policies may hand to kernels: an order's ``key`` and a placer's ``place``."""
    from numba import typeof, types

    floats, ints = types.float64[::1], types.int64[::1]
    job = typeof(Job(*[0.0] * len(Job._fields)))
    return {
        "key": types.float64(job, floats),
        "place": types.int64(ints, ints, ints, types.int64, types.int64, ints, ints),
    }

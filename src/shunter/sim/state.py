"""The simulator's state: the visible world, the hidden truth, the event queue and the log, all as arrays."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F2, I1, I2, Arrays
from shunter.cluster import Cluster
from shunter.errors import ClusterError
from shunter.model import GPU, Trace
from shunter.sim.links import Traffic, stretches, traffic
from shunter.sim.scenario import Scenario, Workloads
from shunter.sim.shape import Network, network
from shunter.sim.widths import curves_of, instances_of
from shunter.world import I64, World

UNLIMITED = 2**60

# -- columns of `truth`: what no policy may see ...
DURATION, FAILURES, FAIL_AFTER = range(3)
# ... how often a job checkpoints by itself; BASE: work when the present attempt began; CHILD and SIBLING: the jobs that
# wait for this one, as a linked list
INTERVAL, BASE, CHILD, SIBLING = range(3, 7)
# KEPT_NEXT: the user's next job that is kept back by the cap
KEPT_NEXT = 7
TRUTH_COLUMNS = 8

# -- rows of `quota`, by user: thousandths of GPUs that jobs in the queue and on GPUs ask for; the first and the last
# job that is kept back
ADMITTED, KEPT_FIRST, KEPT_LAST = range(3)

# -- columns of `faults`, in order of time
FAULT_TIME, FAULT_NODE, FAULT_END, FAULT_KNOWN, FAULT_DRAINS = range(5)

# -- entries of `counts`
NEXT_ARRIVAL, NEXT_FAULT, SEQUENCE, HEAP_SIZE, LOG_ROWS, LOG_MARGIN, UNFINISHED, EXPIRED, MORE, REASON_ROWS = range(10)
COUNTS_SIZE = 10

# -- rows of `heap`, indexed by source (jobs, then nodes, then timers) but for ORDER, indexed by position
TIME, PRIORITY, WHERE, ORDER = range(4)
TIMERS = 64

# -- rows of `tried`, one above the index of an action, 0: there is none: what last started or stopped a job, what last
# put it on GPUs
STOOD, PLACED = range(2)

LOG_COLUMNS = 5


class SimulationState(Arrays):
    """All that changes during a simulation; copying these arrays forks it."""

    world: World
    truth: I2  # (TRUTH_COLUMNS, jobs)
    counts: I1  # (COUNTS_SIZE,)
    heap: I2  # (4, jobs + nodes + TIMERS)
    log: I2  # (capacity, LOG_COLUMNS)
    reasons_log: I2  # (capacity, 1 + REASON_COLUMNS) time and reason; of no size unless they are wanted
    faults: I2  # (faults, 5), never changed
    cap: I1  # (1,) thousandths of GPUs per user
    quota: I2  # (3, users), or of no size: users may have any number
    tier_speed: F2  # (models + 1, 3) speed on one node, in one rack, across racks; last row: unknown model; or nothing
    network: Network  # never changed
    traffic: Traffic
    workload: I1  # (jobs,) what the tables below are about; -1: not known
    pair_speed: F2  # (workloads + 1, workloads + 1) speed of the first beside the second on one GPU; 0: by time slices
    uses: F2  # (3, workloads + 1) what each does to its GPUs, as `World.use`; or nothing
    wake: I1  # (1,) ms that a sleeping node needs
    paper: World  # to try a plan on: nodes and gpus of its own
    tried: I2  # (2, jobs) while a plan is tried, see STOOD; else 0


def copy(state: SimulationState) -> SimulationState:
    """An independent copy; what never changes is shared."""
    world = state.world.copy()
    rows = state.counts[LOG_ROWS]
    log = np.empty_like(state.log)
    log[:rows] = state.log[:rows]
    return state.replace(
        world=world,
        truth=state.truth.copy(),
        counts=state.counts.copy(),
        heap=state.heap.copy(),
        log=log,
        reasons_log=state.reasons_log.copy(),
        quota=state.quota.copy(),
        traffic=state.traffic.copy(),
        paper=paper_for(world),
        tried=np.zeros_like(state.tried),
    )


def paper_for(world: World) -> World:
    """A world to try plans on: it shares all but what a plan changes."""
    return world.replace(nodes=world.nodes.copy(), gpus=world.gpus.copy())


def build(trace: Trace, cluster: Cluster, seed: int, scenario: Scenario, reasons: bool = False) -> SimulationState:
    """The state before the first event."""
    jobs, truth = _jobs(trace, cluster)
    nodes = _nodes(cluster)
    gpus, slots, per_gpu = _gpus(cluster, jobs, scenario.sharing)
    n, m, g = len(trace), cluster.nodes, cluster.gpus

    clock = np.zeros(w.CLOCK_SIZE, np.int64)
    clock[w.NOW] = scenario.begin if scenario.begin is not None else (trace.submit[0] if n else 0)
    clock[w.LAST_VC] = len(cluster.vcs) - 1
    clock[w.SLOTS_PER_GPU] = per_gpu
    clock[w.SEED] = seed
    clock[w.NUMBERS] = n
    clock[w.REASONS] = reasons
    clock[w.DRAINS] = scenario.drains
    clock[w.BOUNDED] = int((cluster.node_cpu > 0).any() or (cluster.node_mem > 0).any())
    progress, lists, domains = np.zeros((w.PROGRESS_COLUMNS, n)), np.zeros((4, n), np.int64), np.array(cluster.domains)
    admits, use = _admits(cluster, scenario.node_sets), np.full((3, n), np.nan)
    jobs[w.CURVE], scaling = curves_of(trace, cluster, scenario)
    instances = instances_of(trace)
    world = World(clock, jobs, progress, nodes, gpus, slots, lists, use, domains, admits, scaling, instances)

    heap = np.zeros((4, n + m + TIMERS), np.int64)
    heap[WHERE] = -1
    counts = np.zeros(COUNTS_SIZE, np.int64)
    counts[UNFINISHED] = n
    children = np.bincount(trace.after[trace.after >= 0], minlength=1).max() if n else 0
    counts[LOG_MARGIN] = 256 + (6 if instances.shape[1] else 4) * g * per_gpu + 2 * children
    log = np.zeros((2 * counts[LOG_MARGIN] + 2**16, LOG_COLUMNS), np.int64)
    reasons_log = np.zeros((reasons * (w.MOST_REASONS + 2**14), 1 + w.REASON_COLUMNS), np.int64)
    faults = scenario.fault_table(m, int(clock[w.NOW]))
    for time, node, _, known, _ in faults[::-1]:
        if known:
            nodes[w.OUTAGE, node] = time
    tier_speed, pair_speed = scenario.speed_tables(trace.models)
    of_job = trace.model if scenario.pair_speed else np.full(n, -1)
    workloads = scenario.workloads or Workloads(of_job, np.zeros((3, 0)), pair_speed)
    wake = np.array([round(cluster.overheads.wake * 1000)], np.int64)
    costs, contention = scenario.network, scenario.contention
    links = (network(trace, cluster, costs, stretches(cluster, contention)), traffic(cluster, n, contention))
    speeds = (tier_speed, *links, workloads.of_job, workloads.speed, workloads.uses)
    quota = np.full((3, int(trace.user.max(initial=-1)) + 1 if scenario.user_cap else 0), -1, np.int64)
    quota[ADMITTED] = 0
    limits = (np.array([scenario.user_cap], np.int64), quota)
    return SimulationState(
        world,
        truth,
        counts,
        heap,
        log,
        reasons_log,
        faults,
        *limits,
        *speeds,
        wake,
        paper_for(world),
        np.zeros((2, n), np.int64),
    )


def _jobs(trace: Trace, cluster: Cluster) -> tuple[I64, I64]:
    n = len(trace)
    vc, kind = known_to(cluster, trace)
    jobs = np.zeros((w.JOB_COLUMNS, n), np.int64)
    jobs[w.SUBMIT] = trace.submit
    jobs[w.NUMBER] = np.arange(n)
    jobs[w.GPUS] = np.maximum(trace.gpus // GPU, 1)
    jobs[w.SHARE] = np.minimum(trace.gpus, GPU)
    for column, values in (
        (w.USER, trace.user),
        (w.VC, vc),
        (w.TYPE, kind),
        (w.LIMIT, trace.limit),
        (w.CPU, trace.each[0]),
        (w.MEM, trace.each[1]),
        (w.AFTER, trace.after),
        (w.DEADLINE, trace.deadline),
        (w.MODEL, trace.model),
        (w.QOS, trace.qos),
        (w.RETRIES, trace.retries),
        (w.NAME, trace.job_name),
        (w.ACCOUNT, trace.account),
        (w.DECLARED, trace.declarations),
    ):
        jobs[column] = values
    least, most = trace.widths
    jobs[w.MIN_GPUS], jobs[w.MAX_GPUS] = np.where(trace.elastic, least, 0), np.where(trace.elastic, most, 0)
    jobs[[w.STARTED, w.ENDED_AT, w.HEAD, w.AT]] = -1
    jobs[w.UNTIL] = w.NEVER

    truth = np.zeros((TRUTH_COLUMNS, n), np.int64)
    truth[DURATION], truth[FAILURES], truth[FAIL_AFTER] = trace.duration, trace.failures, trace.fail_after
    truth[INTERVAL] = trace.checkpoint
    _note_stop_costs(jobs, trace, cluster)
    truth[[CHILD, SIBLING, KEPT_NEXT]] = -1
    for job in np.flatnonzero(trace.after >= 0)[::-1]:
        parent = trace.after[job]
        truth[SIBLING, job], truth[CHILD, parent] = truth[CHILD, parent], job
    return jobs, truth


def _note_stop_costs(jobs: I64, trace: Trace, cluster: Cluster) -> None:
    """What a stop costs each job: as the trace says, else as the cluster does."""
    saves, costs = trace.saves_on_stop > 0, cluster.overheads
    stop = np.where(trace.stop_cost >= 0, trace.stop_cost, costs.of(costs.checkpoint, jobs[w.GPUS]))
    jobs[w.STOP_COST] = np.where(saves, stop, 0)
    jobs[w.STOP_LOSS] = np.where(saves, 0, trace.checkpoint)
    jobs[w.RESTART] = np.where(trace.start_cost >= 0, trace.start_cost, costs.of(costs.restart, jobs[w.GPUS]))
    jobs[w.CHECKPOINTABLE] = trace.may_stop


def codes(values: I64, names: tuple[str, ...], known: tuple[str, ...]) -> I64:
    """The trace's codes as the cluster's; -1: anywhere (all, if the cluster knows no such names), -2: it lacks it."""
    if not known:
        return np.full(len(values), -1, np.int64)
    index = {name: code for code, name in enumerate(known)}
    return np.array([index.get(name, -2) for name in names] + [-1], np.int64)[values]


def known_to(cluster: Cluster, trace: Trace) -> tuple[I64, I64]:
    """The jobs' virtual clusters and GPU types as codes of the cluster; refuses what the cluster lacks."""
    vc = codes(trace.vc, trace.vcs, cluster.vcs)
    kind = codes(trace.gpu_type, trace.gpu_types, cluster.named_types)
    for bad, what, known in (
        (vc == -2, "asks for '{vc}', none of the virtual clusters", cluster.vcs),
        (kind == -2, "asks for '{kind}', none of the GPU types", cluster.gpu_types),
        ((vc == -1) & bool(cluster.vcs), "does not name one of the virtual clusters", cluster.vcs),
    ):
        if bad.any():
            job = int(np.argmax(bad))
            names = {"vc": (*trace.vcs, "")[trace.vc[job]], "kind": (*trace.gpu_types, "")[trace.gpu_type[job]]}
            error = ClusterError(
                f"job '{trace.job_id[job]}' {what.format(**names)} that cluster '{cluster.name}' has "
                f"({bad.sum()} such jobs); it has {', '.join(known)}. Choose another cluster, or leave those jobs "
                "out (--drop-unfit)"
            )
            error.job_id = trace.job_id[job]
            raise error
    return vc, kind


def _admits(cluster: Cluster, node_sets: tuple[tuple[int, ...], ...]) -> I64:
    """Which nodes are of each GPU type, then which are in each set."""
    kinds = len(cluster.gpu_types)
    found = np.zeros((kinds + len(node_sets), cluster.nodes), np.int64)
    found[:kinds] = np.arange(kinds)[:, None] == cluster.node_type
    for row, members in enumerate(node_sets, kinds):
        found[row, list(members)] = 1
    return found


def _nodes(cluster: Cluster) -> I64:
    nodes = np.zeros((w.NODE_COLUMNS, cluster.nodes), np.int64)
    nodes[w.FREE] = nodes[w.TOTAL] = cluster.node_gpus
    nodes[w.NODE_TYPE], nodes[w.NODE_VC] = cluster.node_type, cluster.node_vc
    nodes[w.CPU_FREE] = np.where(cluster.node_cpu > 0, cluster.node_cpu, UNLIMITED)
    nodes[w.MEM_FREE] = np.where(cluster.node_mem > 0, cluster.node_mem, UNLIMITED)
    nodes[w.NODE_STATE] = w.UP
    nodes[w.OUTAGE] = w.NEVER
    nodes[w.FIRST_GPU] = np.concatenate(([0], np.cumsum(cluster.node_gpus)[:-1]))
    speeds = np.array([round(cluster.speeds.get(kind, 1.0) * 1e6) for kind in cluster.gpu_types], np.int64)
    nodes[w.SPEED] = speeds[cluster.node_type]
    nodes[w.RANK] = np.lexsort((np.arange(cluster.nodes), -cluster.node_gpus))
    return nodes


def _gpus(cluster: Cluster, jobs: I64, sharing: int) -> tuple[I64, I64, int]:
    """The GPUs, the slots on them, and how many jobs one holds: what the least share allows, at least ``sharing``."""
    smallest = int(jobs[w.SHARE].min()) if jobs.shape[1] else GPU
    per_gpu = max(sharing, min(GPU // smallest, 64))
    gpus = np.zeros((w.GPU_COLUMNS, cluster.gpus), np.int64)
    gpus[w.NODE] = np.repeat(np.arange(cluster.nodes), cluster.node_gpus)
    slots = np.full((w.SLOT_COLUMNS, cluster.gpus * per_gpu), -1, np.int64)
    slots[w.SLOT_GPU] = np.repeat(np.arange(cluster.gpus), per_gpu)
    return gpus, slots, per_gpu

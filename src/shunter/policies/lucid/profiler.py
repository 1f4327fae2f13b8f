"""Lucid's profiler: a few nodes on which jobs run for a short time first, to measure their load on a GPU."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.lucid.memory import (
    NOT_APART,
    PROFILING,
    TO_PROFILE,
    LucidState,
    shift_out,
    soil_all,
)
from shunter.policies.lucid.places import chosen, collected, suits, usable
from shunter.scheduling.placing import add_other, add_start, sort
from shunter.world import Decision, World

# ------------------------------------------------------------------------------------------- jobs that are profiled


@kernel
def profiles(world: World, state: LucidState, job: int) -> bool:
    """Whether a job is to be profiled at all: it has whole GPUs, not too many, and the profiler's nodes can hold it.

    A job that can't be stopped is not: it would have to leave the profiler.
    """
    scratch = state.scratch
    if world.jobs[w.CHECKPOINTABLE, job] == 0:
        return False
    if world.jobs[w.GPUS, job] > state.config.profile_gpus or world.jobs[w.SHARE, job] < 1000:
        return False
    scratch.usable[:] = 0
    scratch.total[:] = 0
    for at in range(state.profiler_nodes):
        node = state.nodes[at]
        if suits(world, job, node):
            scratch.total[node] = scratch.usable[node] = world.nodes[w.TOTAL, node]
    return bool(chosen(world, scratch, job) > 0)


@kernel
def line_up(world: World, state: LucidState, job: int) -> None:
    """A job waits to be profiled: the fewest GPUs first, then the first to arrive."""
    at, line, gpus = state.waiting, state.to_profile, world.jobs[w.GPUS, job]
    while at > 0:
        other = line[at - 1]
        theirs = world.jobs[w.GPUS, other]
        if theirs < gpus or (theirs == gpus and other < job):
            break
        line[at] = other
        at -= 1
    line[at] = job
    state.waiting += 1
    state.stage[job] = TO_PROFILE


@kernel
def turn_away(world: World, state: LucidState) -> int:
    """Fill ``scratch.jobs`` with those that waited for nodes that are no longer set apart; returns how many."""
    if not state.shrunk:
        return 0
    state.shrunk = False
    kept, away = 0, 0
    for at in range(state.waiting):
        job = state.to_profile[at]
        if profiles(world, state, job):
            state.to_profile[kept] = job
            kept += 1
        elif world.jobs[w.STATE, job] == w.PENDING:
            state.scratch.jobs[away] = job
            away += 1
    state.waiting = kept
    sort(state.scratch.jobs[:away])
    return away


@kernel
def off_profiler(state: LucidState, job: int) -> None:
    """A job is no longer being profiled."""
    for at in range(state.in_profiler):
        if state.being_profiled[at] == job:
            shift_out(state.being_profiled, at, state.in_profiler)
            state.in_profiler -= 1
            return


@kernel
def stop_profiling(world: World, state: LucidState, plan: Decision) -> bool:
    """Those whose time is up leave; what they did is lost, as the profiler runs jobs as they are."""
    for at in range(state.in_profiler):
        job = state.being_profiled[at]
        if world.jobs[w.UNTIL, job] <= world.clock[w.NOW] and world.jobs[w.STATE, job] == w.RUNNING:
            add_other(plan, w.A_PREEMPT, job, 0)
    return bool(plan.counts[0] > 0)


@kernel
def start_profiling(world: World, state: LucidState, plan: Decision) -> bool:
    """Start the next job in the queue; false if it finds no room: no job passes it."""
    line, scratch = state.to_profile, state.scratch
    while state.waiting > 0 and world.jobs[w.STATE, line[0]] != w.PENDING:
        shift_out(line, 0, state.waiting)
        state.waiting -= 1
    if state.waiting == 0:
        return False
    job = line[0]
    scratch.usable[:] = 0
    scratch.total[:] = 0
    for at in range(state.profiler_nodes):
        node = state.nodes[at]
        scratch.usable[node], scratch.total[node] = usable(world, job, node), world.nodes[w.TOTAL, node]
    gpus = collected(world, scratch, chosen(world, scratch, job))
    if gpus == 0:
        return False
    shift_out(line, 0, state.waiting)
    state.waiting -= 1
    state.being_profiled[state.in_profiler] = job
    state.in_profiler += 1
    state.stage[job], state.profiled[job] = PROFILING, 1
    add_start(plan, job, scratch.gpu_ids[:gpus], world.clock[w.NOW] + state.config.profile_time)
    return True


# ------------------------------------------------------------------------------------------- its nodes


@kernel
def set_apart(world: World, state: LucidState, node: int, plan: Decision) -> None:
    """Set a node apart; jobs of every virtual cluster are profiled there."""
    state.nodes[state.profiler_nodes] = node
    state.profiler_nodes += 1
    state.home[node] = world.nodes[w.NODE_VC, node]
    soil_all(state)
    if state.home[node] != w.OPEN:
        add_other(plan, w.A_ASSIGN, node, w.OPEN)


@kernel
def let_go(state: LucidState, at: int) -> None:
    """Profile no more jobs on one of the profiler's nodes; it goes back once it is idle."""
    state.leaving[state.nodes[at]] = 1
    shift_out(state.nodes, at, state.profiler_nodes)
    state.profiler_nodes -= 1
    state.shrunk = True


@kernel
def yield_to(state: LucidState, vc: int) -> None:
    """A job came that its virtual cluster can't hold without the nodes that were taken from it."""
    for at in range(state.profiler_nodes - 1, -1, -1):
        if vc in (w.OPEN, state.home[state.nodes[at]]):
            let_go(state, at)
    state.base = min(state.base, state.profiler_nodes)


@kernel
def is_idle(world: World, node: int) -> bool:
    """Whether nothing runs on a node that is up."""
    return bool(world.nodes[w.FREE, node] == world.nodes[w.TOTAL, node] and world.nodes[w.TOTAL, node] > 0)


@kernel
def give_back(world: World, state: LucidState, plan: Decision) -> None:
    """Give nodes back that are no longer wanted and idle."""
    for node in range(world.nodes.shape[1]):
        if state.leaving[node] == 1 and is_idle(world, node):
            state.leaving[node] = 0
            if state.home[node] != w.OPEN:
                add_other(plan, w.A_ASSIGN, node, state.home[node])
            state.home[node] = NOT_APART
            soil_all(state)


@kernel
def any_leaves(state: LucidState) -> bool:
    """Whether a node is still to go back."""
    leaving = 0
    for node in range(len(state.leaving)):
        leaving += state.leaving[node]
    return leaving > 0


@kernel
def is_kept(state: LucidState, node: int) -> bool:
    """Whether a node is kept for a job."""
    times = 0
    for vc in range(len(state.kept_for)):
        times += state.kept[vc, node]
    return times > 0


@kernel
def nodes_of(world: World, vc: int) -> int:
    """How many nodes a virtual cluster has now."""
    count = 0
    for node in range(world.nodes.shape[1]):
        if world.nodes[w.NODE_VC, node] == vc:
            count += 1
    return count


@kernel
def spare_node(world: World, state: LucidState) -> int:
    """An idle node of the largest virtual cluster, the last of those; -1: there is none."""
    best, most = -1, 0
    for node in range(world.nodes.shape[1]):
        if is_idle(world, node) and state.home[node] == NOT_APART and not is_kept(state, node):
            count = nodes_of(world, world.nodes[w.NODE_VC, node])
            if count >= most:
                best, most = node, count
    return best


@kernel
def rescale(world: World, state: LucidState, plan: Decision) -> None:
    """One node more while many wait; back to the base once few wait and few GPUs are asked for soon."""
    if not state.config.scaled or state.base == 0:
        return
    more = state.profiler_nodes < state.base + state.config.growth
    if state.waiting > state.config.long_queue and more and not any_leaves(state):
        node = spare_node(world, state)
        if node >= 0:
            set_apart(world, state, node, plan)
            return
    few = 2 * state.waiting <= state.config.long_queue
    if few and state.profiler_nodes > state.base and state.coming_gpus <= 5 * state.config.profile_gpus:
        let_go(state, state.profiler_nodes - 1)

"""What can happen to a node."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.sim.events import K_REPAIR, schedule
from shunter.sim.lists import record
from shunter.sim.state import FAULT_KNOWN, FAULT_NODE, FAULT_TIME, NEXT_FAULT, TIME, WHERE, SimulationState
from shunter.sim.transitions import kill


@kernel
def node_source(state: SimulationState, node: int) -> int:
    """The event source of a node: they come after the jobs'."""
    return int(state.world.jobs.shape[1] + node)


@kernel
def bring_up(state: SimulationState, node: int) -> None:
    """A node is repaired or awake: its free GPUs count again."""
    world = state.world
    world.nodes[w.NODE_STATE, node] = w.UP
    first = world.nodes[w.FIRST_GPU, node]
    free = 0
    for gpu in range(first, first + world.nodes[w.TOTAL, node]):
        if world.gpus[w.TENANTS, gpu] == 0:
            free += 1
    world.nodes[w.FREE, node] = free
    world.clock[w.RELEASES] += 1
    record(state, w.NODE_UP, -1, node, 0)


@kernel
def break_down(state: SimulationState, node: int, until: int, drains: bool) -> None:
    """A node fails or goes into maintenance: its jobs go back to the queue, or, where it drains, run to their end."""
    world = state.world
    source = node_source(state, node)
    if state.heap[WHERE, source] >= 0:  # it is down already, or waking up: it is not back before that is over too
        until = max(until, state.heap[TIME, source])
    if world.nodes[w.NODE_STATE, node] != w.DOWN:
        world.nodes[w.NODE_STATE, node] = w.DOWN
        world.nodes[w.FREE, node] = 0
        world.clock[w.RELEASES] += 1  # a blocked head may fit no better, but reservations must be made again
        record(state, w.NODE_DOWN, -1, node, int(drains))
    if not drains:
        kill_all(state, node)
    schedule(state.heap, state.counts, source, until, K_REPAIR)


@kernel
def kill_all(state: SimulationState, node: int) -> None:
    """Throw all jobs off a node."""
    world = state.world
    per_gpu, first = world.clock[w.SLOTS_PER_GPU], world.nodes[w.FIRST_GPU, node]
    for slot in range(first * per_gpu, (first + world.nodes[w.TOTAL, node]) * per_gpu):
        job = world.slots[w.SLOT_JOB, slot]
        if job >= 0:
            if world.jobs[w.STATE, job] == w.STOPPING:  # it was being checkpointed: that never finished
                world.jobs[w.STATE, job] = w.RUNNING
            kill(state, job, w.BY_FAILURE)


@kernel
def announce(state: SimulationState, node: int) -> None:
    """Set a node's next known outage."""
    state.world.nodes[w.OUTAGE, node] = w.NEVER
    for row in range(state.counts[NEXT_FAULT], len(state.faults)):
        if state.faults[row, FAULT_NODE] == node and state.faults[row, FAULT_KNOWN] == 1:
            state.world.nodes[w.OUTAGE, node] = state.faults[row, FAULT_TIME]
            return


@kernel
def power(state: SimulationState, node: int, on: bool) -> None:
    """Put an idle node to sleep at once, or wake a sleeping one, which takes a while."""
    world = state.world
    if not on:
        world.nodes[w.NODE_STATE, node] = w.ASLEEP
        world.nodes[w.FREE, node] = 0
        world.clock[w.RELEASES] += 1
        record(state, w.SLEEP, -1, node, 0)
        return
    world.nodes[w.NODE_STATE, node] = w.WAKING
    record(state, w.WAKE, -1, node, 0)
    schedule(state.heap, state.counts, node_source(state, node), world.clock[w.NOW] + state.wake[0], K_REPAIR)


@kernel
def assign(state: SimulationState, node: int, vc: int) -> None:
    """Move a node to another virtual cluster; what runs there runs on."""
    state.world.nodes[w.NODE_VC, node] = vc
    state.world.clock[w.RELEASES] += 1
    record(state, w.REASSIGN, -1, node, vc)

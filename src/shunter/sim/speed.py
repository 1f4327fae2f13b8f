"""How fast a job runs where it is: GPU type, neighbours on its GPUs, how far it is spread, how many workers it has."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.instances import cpu_speed, training
from shunter.sim.links import PLACE, REACH, RING
from shunter.sim.shape import place_of, reach, shape_key, slowdown_at
from shunter.sim.state import SimulationState
from shunter.world import World


@kernel
def shared_speed(state: SimulationState, job: int, gpu: int) -> float:
    """Speed of a job on one GPU beside its other tenants: measured pairs where known, else equal time slices."""
    world = state.world
    if world.gpus[w.TENANTS, gpu] <= 1:
        return 1.0
    speed, unknown = 1.0, False
    per_gpu = world.clock[w.SLOTS_PER_GPU]
    for slot in range(gpu * per_gpu, (gpu + 1) * per_gpu):
        other = world.slots[w.SLOT_JOB, slot]
        if other < 0 or other == job:
            continue
        pair = state.pair_speed[state.workload[job], state.workload[other]]
        if pair > 0.0:
            speed *= pair
        else:
            unknown = True
    used = world.gpus[w.USED, gpu]
    if unknown and used > 1000:
        speed = min(speed, 1000.0 / used)
    return speed


@kernel
def note_spread(state: SimulationState, job: int) -> None:
    """Take note of how a job on several GPUs is spread, and of what that leaves of its speed while it shares no link.

    The network's tables have no row for a job without a range that was resized; it is unknown what it costs.
    """
    network, shared = state.network, len(state.traffic.capacity) > 0
    widest, place, row = reach(state.world, job, len(network.radix)), -1, row_of(state, job)
    if row >= 0:
        key = shape_key(state.world, network.radix, job, widest)
        place = place_of(network, row, key)
        if shared:
            state.traffic.jobs[REACH, job] = widest
            state.traffic.jobs[RING, job] = key < 0
            state.traffic.jobs[PLACE, job] = place
    state.world.progress[w.SPREAD, job] = spread_speed(state, job, widest, place, 1.0)


@kernel
def spread_speed(state: SimulationState, job: int, widest: int, place: int, stretch: float) -> float:
    """What is left of a job's speed: by its tier, and by the network where it knows the job's shape."""
    found = 1.0
    if len(state.tier_speed) > 0:
        found = state.tier_speed[state.world.jobs[w.MODEL, job], min(widest, 2)]
    if place >= 0:
        found *= 1.0 / slowdown_at(state.network, row_of(state, job), place, stretch)
    return float(found)


@kernel
def row_of(state: SimulationState, job: int) -> int:
    """The network's row for a job on as many GPUs as it has now, -1: none; the rows of a range follow each other."""
    row, jobs = state.network.row[job], state.world.jobs
    more = jobs[w.WORKERS, job] - jobs[w.GPUS, job]
    return int(row + more) if row >= 0 and (more == 0 or jobs[w.MAX_GPUS, job] > 0) else -1


@kernel
def width_speed(world: World, job: int, apart: bool) -> float:
    """What its number of GPUs does to a job's speed, by its curve or in proportion, and the CPU of its instances."""
    jobs, own, factor = world.jobs, world.instances, 1.0
    width, asked = jobs[w.WORKERS, job], jobs[w.GPUS, job]
    if own.shape[1] > 0:
        width, asked = training(width, own[w.SERVERS_NOW, job]), training(asked, own[w.SERVERS, job])
        if own[w.MAX_CPU, job] > 0:
            factor = cpu_speed(own[w.CPU_NOW, job], jobs[w.CPU, job])
    if jobs[w.CURVE, job] < 0:
        return float(factor * (width / asked))
    row = 2 * jobs[w.CURVE, job]
    return float(factor * (world.scaling[row + int(apart), width] / world.scaling[row, asked]))


@kernel
def speed(state: SimulationState, job: int) -> float:
    """The job's present speed: that of its slowest GPU, times what its spread and its number of workers do to it."""
    world = state.world
    slot = world.jobs[w.HEAD, job]
    first = world.gpus[w.NODE, world.slots[w.SLOT_GPU, slot]]
    slowest, node = 1e300, first
    while slot >= 0:
        gpu = world.slots[w.SLOT_GPU, slot]
        node = world.gpus[w.NODE, gpu]
        here = world.nodes[w.SPEED, node] * 1e-6 * shared_speed(state, job, gpu)
        slowest = min(slowest, here)
        slot = world.slots[w.SLOT_NEXT, slot]
    slowest *= float(world.progress[w.SPREAD, job])
    resized = world.jobs[w.WORKERS, job] != world.jobs[w.GPUS, job]
    if resized or world.jobs[w.CURVE, job] >= 0 or world.instances.shape[1] > 0:
        slowest *= width_speed(world, job, node != first)
    return slowest

"""How fast a job runs where it is: GPU type, who shares its GPUs, how far it is spread, how many workers it has."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.sim.spread import reach, shape_key
from shunter.sim.state import State


@kernel
def shared_speed(state: State, job: int, gpu: int) -> float:
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
        pair = state.pair_speed[world.jobs[w.MODEL, job], world.jobs[w.MODEL, other]]
        if pair > 0.0:
            speed *= pair
        else:
            unknown = True
    used = world.gpus[w.USED, gpu]
    if unknown and used > 1000:
        speed = min(speed, 1000.0 / used)
    return speed


@kernel
def spread_speed(state: State, job: int) -> float:
    """What is left of a job's speed where its GPUs are spread so: by its tier, and by the network.

    The network's table has no row for a job that was resized: nobody knows what it costs.
    """
    network, jobs, found = state.network, state.world.jobs, 1.0
    if jobs[w.WORKERS, job] == 1 or len(state.tier_speed) + len(network.key) == 0:
        return found
    widest = reach(state.world, job, len(network.radix))
    if len(state.tier_speed) > 0:
        found = state.tier_speed[jobs[w.MODEL, job], min(widest, 2)]
    row = network.row[job]
    if row >= 0 and jobs[w.WORKERS, job] == jobs[w.GPUS, job]:
        key, place = shape_key(state.world, network.radix, job, widest), 0
        while network.key[row, place] != key and place + 1 < network.key.shape[1]:
            place += 1
        found *= 1.0 / network.slowdown[row, place]
    return float(found)


@kernel
def speed(state: State, job: int) -> float:
    """The job's present speed: that of its slowest GPU, times what its spread and its number of workers do to it."""
    world = state.world
    per_gpu = world.clock[w.SLOTS_PER_GPU]
    slot = world.jobs[w.HEAD, job]
    slowest = 1e300
    while slot >= 0:
        gpu = slot // per_gpu
        here = world.nodes[w.SPEED, world.gpus[w.NODE, gpu]] * 1e-6 * shared_speed(state, job, gpu)
        slowest = min(slowest, here)
        slot = world.slots[w.SLOT_NEXT, slot]
    slowest *= float(world.progress[w.SPREAD, job])
    if world.jobs[w.WORKERS, job] != world.jobs[w.GPUS, job]:
        slowest *= world.jobs[w.WORKERS, job] / world.jobs[w.GPUS, job]
    return slowest

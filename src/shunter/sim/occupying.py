"""Jobs take GPUs and leave them."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.instances import cpu_of, mem_of, usual_servers
from shunter.sim.links import REACH
from shunter.sim.links import leave as leave_links
from shunter.sim.lists import record
from shunter.sim.progress import retime_neighbours, share_links, spread_out
from shunter.sim.state import SimulationState
from shunter.world import I64, World


@kernel
def equip(state: SimulationState, job: int, width: int, cpu: int, mem: int, servers: int) -> None:
    """Give each of so many instances its CPU and memory, and some the role of a server; 0: as it has, or as usual.

    It is logged where it is not what the job asks for.
    """
    world = state.world
    if world.instances.shape[1] == 0:
        return
    own, jobs = world.instances, world.jobs
    usual = usual_servers(jobs[w.GPUS, job], own[w.SERVERS, job], width)
    own[w.CPU_NOW, job] = cpu if cpu > 0 else own[w.CPU_NOW, job]
    own[w.MEM_NOW, job] = mem if mem > 0 else own[w.MEM_NOW, job]
    own[w.SERVERS_NOW, job] = servers if servers > 0 else usual
    if own[w.CPU_NOW, job] != jobs[w.CPU, job] or own[w.MEM_NOW, job] != jobs[w.MEM, job]:
        record(state, w.EQUIP, job, own[w.CPU_NOW, job], own[w.MEM_NOW, job])
    if own[w.SERVERS_NOW, job] != usual:
        record(state, w.ROLES, job, own[w.SERVERS_NOW, job], width - own[w.SERVERS_NOW, job])


@kernel
def unequip(world: World, job: int) -> None:
    """A job that waits has what it asks for."""
    if world.instances.shape[1] > 0:
        world.instances[w.CPU_NOW, job] = world.jobs[w.CPU, job]
        world.instances[w.MEM_NOW, job] = world.jobs[w.MEM, job]
        world.instances[w.SERVERS_NOW, job] = world.instances[w.SERVERS, job]


@kernel
def take(state: SimulationState, job: int, gpu_ids: I64) -> None:
    """Put a job on GPUs (ascending) and log it."""
    world = state.world
    jobs, gpus, nodes = world.jobs, world.gpus, world.nodes
    per_gpu, share = world.clock[w.SLOTS_PER_GPU], jobs[w.SHARE, job]
    cpu, mem = cpu_of(world, job), mem_of(world, job)
    jobs[w.HEAD, job] = -1
    for i in range(len(gpu_ids)):
        gpu = gpu_ids[i]
        slot = gpu * per_gpu
        while world.slots[w.SLOT_JOB, slot] >= 0:
            slot += 1
        world.slots[w.SLOT_JOB, slot] = job
        world.slots[w.SLOT_NEXT, slot] = jobs[w.HEAD, job]
        jobs[w.HEAD, job] = slot
        node = gpus[w.NODE, gpu]
        if gpus[w.TENANTS, gpu] == 0:
            nodes[w.FREE, node] -= 1
        gpus[w.TENANTS, gpu] += 1
        gpus[w.USED, gpu] += share
        nodes[w.CHANGES, node] += 1
        nodes[w.CPU_FREE, node] -= cpu
        nodes[w.MEM_FREE, node] -= mem
    settle_in(state, job, gpu_ids)


@kernel
def settle_in(state: SimulationState, job: int, gpu_ids: I64) -> None:
    """Log that a job has got GPUs (ascending), one row per node, and note what it has."""
    world, share, here, count = state.world, state.world.jobs[w.SHARE, job], -1, 0
    for i in range(len(gpu_ids)):
        node = world.gpus[w.NODE, gpu_ids[i]]
        if node != here and count > 0:
            record(state, w.START, job, here, count * share)
            count = 0
        here = node
        count += 1
    record(state, w.START, job, here, count * share)
    world.jobs[w.WORKERS, job] = len(gpu_ids)
    world.progress[w.SPREAD, job] = 1.0
    if len(gpu_ids) > 1 and len(state.tier_speed) + len(state.network.key) > 0:
        spread_out(state, job)


@kernel
def release(state: SimulationState, job: int) -> None:
    """Take a job off its GPUs; the jobs that stay run faster."""
    world = state.world
    if len(state.traffic.capacity) > 0 and state.traffic.jobs[REACH, job] > 0:
        leave_links(world, state.traffic, job)
        share_links(state, job)
        state.traffic.jobs[REACH, job] = 0
    jobs, gpus, nodes, slots = world.jobs, world.gpus, world.nodes, world.slots
    slot, share = jobs[w.HEAD, job], jobs[w.SHARE, job]
    cpu, mem = cpu_of(world, job), mem_of(world, job)
    while slot >= 0:
        gpu, following = slots[w.SLOT_GPU, slot], slots[w.SLOT_NEXT, slot]
        node = gpus[w.NODE, gpu]
        slots[w.SLOT_JOB, slot] = -1
        gpus[w.TENANTS, gpu] -= 1
        gpus[w.USED, gpu] -= share
        nodes[w.CHANGES, node] += 1
        nodes[w.CPU_FREE, node] += cpu
        nodes[w.MEM_FREE, node] += mem
        if gpus[w.TENANTS, gpu] == 0:
            if nodes[w.NODE_STATE, node] == w.UP:
                nodes[w.FREE, node] += 1
        else:
            retime_neighbours(state, gpu, job, slots[w.SLOT_GPU, following] if following >= 0 else -1)
        slot = following
    jobs[w.HEAD, job] = -1
    world.clock[w.RELEASES] += 1


@kernel
def may_hand_over(state: SimulationState, job: int, other: int, gpu_ids: I64) -> bool:
    """Whether a job that leaves and another that comes need nothing but each other's slots: the same GPUs, all whole.

    A slot is the first on its GPU that is not taken, as ``take`` has it.
    """
    world = state.world
    jobs, slots, at = world.jobs, world.slots, len(gpu_ids)
    if jobs[w.SHARE, job] < 1000 or jobs[w.SHARE, other] < 1000 or jobs[w.WORKERS, job] != at:
        return False
    if world.instances.shape[1] > 0 or len(state.traffic.capacity) > 0:
        return False
    slot = jobs[w.HEAD, job]
    while slot >= 0:
        at -= 1
        gpu = slots[w.SLOT_GPU, slot]
        if gpu != gpu_ids[at]:
            return False
        for before in range(gpu * world.clock[w.SLOTS_PER_GPU], slot):
            if slots[w.SLOT_JOB, before] < 0:
                return False
        slot = slots[w.SLOT_NEXT, slot]
    return True


@kernel
def hand_over(state: SimulationState, job: int, other: int, gpu_ids: I64) -> None:
    """What ``release`` and ``take`` come to where a job leaves its GPUs to another; neighbours are left for later."""
    world = state.world
    jobs, nodes, slots = world.jobs, world.nodes, world.slots
    slot, cpu, mem = jobs[w.HEAD, job], jobs[w.CPU, job] - jobs[w.CPU, other], jobs[w.MEM, job] - jobs[w.MEM, other]
    jobs[w.HEAD, job], jobs[w.HEAD, other] = -1, slot
    while slot >= 0:
        node = world.gpus[w.NODE, slots[w.SLOT_GPU, slot]]
        slots[w.SLOT_JOB, slot] = other
        nodes[w.CHANGES, node] += 2
        nodes[w.CPU_FREE, node] += cpu
        nodes[w.MEM_FREE, node] += mem
        slot = slots[w.SLOT_NEXT, slot]
    world.clock[w.RELEASES] += 1
    settle_in(state, other, gpu_ids)

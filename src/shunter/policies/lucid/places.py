"""Where Lucid puts a job that gets GPUs of its own: fewest nodes, best fit, among the nodes that are open to it."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.placers import consolidate
from shunter.policies.lucid.memory import LucidScratch, LucidState, is_own
from shunter.world import World


@kernel
def largest_node(world: World) -> int:
    """The most GPUs of a node."""
    return int(world.nodes[w.TOTAL, world.nodes[w.RANK, 0]])


@kernel
def suits(world: World, job: int, node: int) -> bool:
    """Whether a node has the type of GPU that a job wants."""
    kind = world.jobs[w.TYPE, job]
    return bool(kind < 0 or world.admits[kind, node] == 1)


@kernel
def usable(world: World, job: int, node: int) -> int:
    """Free GPUs of a node that a job can use, given what CPU and memory it wants beside each."""
    found = world.nodes[w.FREE, node] if suits(world, job, node) else 0
    if world.jobs[w.CPU, job] > 0:
        found = min(found, world.nodes[w.CPU_FREE, node] // world.jobs[w.CPU, job])
    if world.jobs[w.MEM, job] > 0:
        found = min(found, world.nodes[w.MEM_FREE, node] // world.jobs[w.MEM, job])
    return int(max(found, 0))


@kernel
def chosen(world: World, scratch: LucidScratch, job: int) -> int:
    """Choose nodes by what stands in ``usable`` and ``total``; returns how many, 0: the job has no room."""
    nodes, gpus, room = world.nodes.shape[1], world.jobs[w.GPUS, job], 0
    for node in range(nodes):
        room += scratch.usable[node]
    if room < gpus:
        return 0
    order = world.nodes[w.RANK]
    return int(consolidate.place(scratch.usable, scratch.total, order, gpus, 0, scratch.nodes, scratch.counts))


@kernel
def collected(world: World, scratch: LucidScratch, used: int) -> int:
    """Fill ``gpu_ids`` (ascending) with free GPUs of the chosen nodes; returns how many."""
    found = 0
    for i in range(used):
        gpu, wanted = world.nodes[w.FIRST_GPU, scratch.nodes[i]], scratch.counts[i]
        while wanted > 0:
            if world.gpus[w.TENANTS, gpu] == 0:
                at = found
                while at > 0 and scratch.gpu_ids[at - 1] > gpu:
                    scratch.gpu_ids[at] = scratch.gpu_ids[at - 1]
                    at -= 1
                scratch.gpu_ids[at] = gpu
                found += 1
                wanted -= 1
            gpu += 1
    return found


@kernel
def find_own(world: World, state: LucidState, job: int, beside: int) -> int:
    """Free GPUs for a job of the main queue; ``beside``: 1: not those that are kept; 0: there are too few together."""
    scratch, vc = state.scratch, world.jobs[w.VC, job]
    for node in range(world.nodes.shape[1]):
        mine = is_own(world, state, vc, node) and (beside == 0 or state.kept[vc + 1, node] == 0)
        scratch.usable[node] = usable(world, job, node) if mine else 0
        scratch.total[node] = world.nodes[w.TOTAL, node] if mine else 0
    return collected(world, scratch, chosen(world, scratch, job))


@kernel
def could_hold(world: World, state: LucidState, job: int) -> bool:
    """Whether the nodes of the main queue would have room for a job if nothing ran there."""
    scratch, vc = state.scratch, world.jobs[w.VC, job]
    for node in range(world.nodes.shape[1]):
        mine = is_own(world, state, vc, node) and suits(world, job, node)
        scratch.total[node] = world.nodes[w.TOTAL, node] if mine else 0
        scratch.usable[node] = scratch.total[node]
    return bool(chosen(world, scratch, job) > 0)

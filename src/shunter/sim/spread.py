"""How a job is spread over nodes and racks, and what the network makes of that."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F2, I1, I2, Arrays
from shunter.cluster import Cluster
from shunter.compiled import kernel
from shunter.model import GPU, Trace
from shunter.network.placing import Costs, possible_shapes, room
from shunter.world import World


class Network(Arrays):
    """Speeds by model, number of GPUs and shape of the placement; of no size where the network has no effect."""

    row: I1  # (jobs,) of `speed`; -1: the job's model is not known, or it has one GPU
    column: I2  # (GPUs per machine + 1, machines per rack + 1) of `speed`
    speed: F2  # (rows, columns) compute time over iteration time
    racked: I1  # (1,) whether it matters in which rack a machine is


def network(trace: Trace, cluster: Cluster, costs: Costs | None) -> Network:
    """The tables for the jobs of a trace; every shape that one of them can have is worked out beforehand."""
    gpus = np.maximum(trace.gpus // GPU, 1)
    concerned = (gpus > 1) & (trace.model >= 0)
    row, column = np.full(len(trace), -1, np.int64), np.full((1, 1), -1, np.int64)
    if costs is None or not concerned.any():
        return Network(row, column, np.ones((0, 1)), np.ones(1, np.int64))
    most = room(cluster)
    pairs, inverse = np.unique(np.stack((trace.model[concerned], gpus[concerned]), axis=1), axis=0, return_inverse=True)
    row[concerned] = inverse
    shapes = {int(count): possible_shapes(int(count), most) for count in np.unique(pairs[:, 1])}
    kinds = sorted({(shape[0], shape[1]) for found in shapes.values() for shape in found})
    column = np.full((max(kind[0] for kind in kinds) + 1, max(kind[1] for kind in kinds) + 1), -1, np.int64)
    for index, kind in enumerate(kinds):
        column[kind] = index
    speed = np.ones((len(pairs), len(kinds)))
    for index, (model, count) in enumerate(pairs.tolist()):
        for shape in shapes[count]:
            speed[index, column[shape[0], shape[1]]] = 1 / costs.iteration(trace.models[model], shape).slowdown
    return Network(row, column, speed, np.array([len(most) > 2], np.int64))


@kernel
def shape(world: World, job: int, racked: bool) -> tuple[int, int]:
    """The shape of a job's placement: GPUs per machine and machines per rack; as in ``shunter.network.placing``.

    The rest follows from the number of GPUs; the GPUs of a job are listed node by node, and nodes rack by rack.
    """
    node, rack, here, machines, gpus, racks = -1, -1, 0, 0, 0, 0
    per_machine, per_rack, even = -1, -1, True
    slot = world.jobs[w.HEAD, job]
    while slot >= 0:
        at = world.gpus[w.NODE, slot // world.clock[w.SLOTS_PER_GPU]]
        if at != node:
            if node >= 0:
                even = even and per_machine in (-1, here)
                per_machine = here
            if racks == 0 or (racked and world.domains[0, at] != rack):
                if racks > 0:
                    even = even and per_rack in (-1, machines)
                    per_rack = machines
                rack, machines = world.domains[0, at], 0
                racks += 1
            node, here = at, 0
            machines += 1
        here += 1
        gpus += 1
        slot = world.slots[w.SLOT_NEXT, slot]
    even = even and per_machine in (-1, here) and per_rack in (-1, machines)
    if even:
        return here, machines
    return (1, gpus) if racks == 1 else (1, 1)

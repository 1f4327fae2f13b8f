"""How a job is spread over machines, racks and the tiers above, and its speed on the network."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays
from shunter.cluster import Cluster
from shunter.compiled import kernel
from shunter.model import GPU, Trace
from shunter.network.placing import Costs, Shape, possible_shapes, room, tightest, top
from shunter.world import F64, I64, World


class Network(Arrays):
    """What communication costs the jobs of a trace, by model, number of GPUs and shape; no rows: it costs nothing."""

    row: I1  # (jobs,) of the tables, for GPUS; -1: the job's model is not known, or it has one GPU and no range
    key: I2  # (rows, shapes) of the shapes that a row knows, as `shape_key` gives them; 0: none
    slowdown: F2  # (rows, shapes x stretches) iteration time over compute time
    stretch: F1  # (stretches,) of messages between machines, ascending from 1
    radix: I1  # (tiers,) with which the units of each tier enter a key


def network(trace: Trace, cluster: Cluster, costs: Costs | None, stretch: F64) -> Network:
    """The tables for the jobs of a trace; every shape that one of them can have is worked out beforehand.

    An iteration may be shorter where messages take longer, because others come first then.  So that no job gains from a
    neighbour, the longest up to each stretch counts.
    """
    most = room(cluster)
    radix = np.cumprod([1, *(units + 1 for units in most[:-1])])
    row, pairs = _rows(trace, int(np.prod(most)))
    if costs is None or not len(pairs):
        return Network(np.full(len(trace), -1, np.int64), np.zeros((0, 1), np.int64), np.ones((0, 1)), stretch, radix)
    shapes = {int(count): _keys(int(count), most, radix, costs.uneven) for count in np.unique(pairs[:, 1])}
    width = max(map(len, shapes.values()))
    key, slowdown = np.zeros((len(pairs), width), np.int64), np.ones((len(pairs), width, len(stretch)))
    for index, (model, count) in enumerate(pairs.tolist()):
        for place, (number, shape) in enumerate(shapes[count].items()):
            key[index, place] = number
            shares = 1 / stretch if top(shape) else stretch[:1]
            found = [costs.iteration(trace.models[model], shape, share).slowdown for share in shares.tolist()]
            slowdown[index, place] = np.maximum.accumulate(found)
    return Network(row, key, slowdown.reshape(len(pairs), -1), stretch, radix)


def _rows(trace: Trace, most: int) -> tuple[I64, I64]:
    """The row of each job, -1: none, and the model and GPUs of each row: all widths of jobs that give a range."""
    gpus, (least, widest) = np.maximum(trace.gpus // GPU, 1), trace.widths
    concerned = ((gpus > 1) | trace.elastic) & (trace.model >= 0) & (gpus <= most)  # the rest never fits
    row = np.full(len(trace), -1, np.int64)
    wanted = [np.stack((trace.model[concerned], gpus[concerned]), axis=1)]
    ranges = np.stack((trace.model, least, np.minimum(widest, most)), axis=1)[concerned & trace.elastic]
    for model, low, high in np.unique(ranges, axis=0).tolist():
        wanted.append(np.stack((np.full(high - low + 1, model), np.arange(low, high + 1)), axis=1))
    pairs = np.unique(np.concatenate(wanted), axis=0)
    key = pairs[:, 0] * (most + 1) + pairs[:, 1]
    row[concerned] = np.searchsorted(key, trace.model[concerned] * (most + 1) + gpus[concerned])
    return row, pairs


def _keys(gpus: int, most: Shape, radix: I64, uneven: str) -> dict[int, Shape]:
    """The shapes that this many GPUs can have, by key: even ones, and below 0, by their tier, what uneven ones cost."""
    found = {}
    for shape in possible_shapes(gpus, most):
        if all(units <= there for units, there in zip(shape, most, strict=True)):
            found[int(np.dot(shape, radix))] = shape
        if top(shape) and shape[top(shape)] == gpus:
            found[-top(shape)] = shape if uneven == "ring" else tightest(gpus, most, top(shape))
    return found


@kernel
def domain(world: World, tier: int, tiers: int, node: int) -> int:
    """Which domain of a tier a node is in: itself, its rack and so on outwards; the last tier joins all."""
    if tier == 0:
        return node
    return 0 if tier == tiers - 1 else int(world.domains[tier - 1, node])


@kernel
def reach(world: World, job: int, tiers: int) -> int:
    """The widest tier that a job spans.  Its GPUs are listed in order, and so are the nodes of a domain."""
    per_gpu = world.clock[w.SLOTS_PER_GPU]
    slot = last = world.jobs[w.HEAD, job]
    while world.slots[w.SLOT_NEXT, last] >= 0:
        last = world.slots[w.SLOT_NEXT, last]
    one, other = world.gpus[w.NODE, slot // per_gpu], world.gpus[w.NODE, last // per_gpu]
    tier = 0
    while domain(world, tier, tiers, one) != domain(world, tier, tiers, other):
        tier += 1
    return tier


@kernel
def units(world: World, job: int, tier: int, tiers: int) -> int:
    """How many units (GPUs, machines, racks ...) a job has in each domain of a tier; 0: not everywhere as many."""
    per_gpu = world.clock[w.SLOTS_PER_GPU]
    before, here, inner, outer = -1, 0, -1, -1
    slot = world.jobs[w.HEAD, job]
    while slot >= 0:
        gpu = slot // per_gpu
        node = world.gpus[w.NODE, gpu]
        around = domain(world, tier, tiers, node)
        within = gpu if tier == 0 else domain(world, tier - 1, tiers, node)
        if around != outer:
            if outer >= 0 and before not in (-1, here):
                return 0
            before = here if outer >= 0 else -1
            outer, here, inner = around, 0, -1
        if within != inner:
            here += 1
            inner = within
        slot = world.slots[w.SLOT_NEXT, slot]
    return here if before in (-1, here) else 0


@kernel
def shape_key(world: World, radix: I64, job: int, widest: int) -> int:
    """The shape of a job's placement as a number, as in ``shunter.network.placing``; below 0: a ring on that tier."""
    key = 0
    for tier in range(len(radix)):
        count = units(world, job, tier, len(radix)) if tier <= widest else 1
        if count == 0:
            return -widest
        key += count * radix[tier]
    return key


@kernel
def place_of(network: Network, row: int, key: int) -> int:
    """Which of its shapes a row has under a key; it knows all that its jobs can have."""
    place = 0
    while network.key[row, place] != key and place + 1 < network.key.shape[1]:
        place += 1
    return place


@kernel
def slowdown_at(network: Network, row: int, place: int, stretch: float) -> float:
    """The slowdown of a shape where messages between machines take this many times longer: linear between the known."""
    points = len(network.stretch)
    first, at = place * points, 1
    if stretch <= 1.0 or points == 1:
        return float(network.slowdown[row, first])
    while at + 1 < points and stretch > network.stretch[at]:
        at += 1
    low, high = network.stretch[at - 1], network.stretch[at]
    base, rise = network.slowdown[row, first + at - 1], network.slowdown[row, first + at]
    return float(base + (rise - base) * (stretch - low) / (high - low))

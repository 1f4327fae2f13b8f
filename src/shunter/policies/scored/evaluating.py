"""A model of an order as one array of numbers, as a compiled key reads it.

The array begins with where its parts are; then come the inputs, the model, and room to work in.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from shunter.compiled import kernel
from shunter.policies.scored.features import fill_inputs
from shunter.policies.scored.lanes import LANES, TOGETHER, one_sum, some_sums
from shunter.world import F64, Job

KIND, INPUTS, INPUTS_AT, MODEL_AT, ROOM_AT = range(5)
HEADER = 5
LINEAR, NETWORK, TREES = range(3)
U0, U1, U2, U3, U4, U5, U6, U7, U8 = (np.uint64(number) for number in range(9))  # places that can't be below 0
Place: TypeAlias = Any  # in the array, unsigned
NODE = 6  # numbers of a node of a tree: feature (-1: a leaf), children at most, above and NaN, threshold, value


@kernel
def score(job: Job, model: F64) -> float:
    """The model's value for a job; the least comes first."""
    room, count = int(model[ROOM_AT]), int(model[INPUTS])
    fill_inputs(job, model, int(model[INPUTS_AT]), count, model, room, 1)
    if model[KIND] == LINEAR:
        return linear(model, int(model[MODEL_AT]), room, count)
    if model[KIND] == NETWORK:
        return network(model, int(model[MODEL_AT]), room, count)
    return trees(model, int(model[MODEL_AT]), room)


@kernel
def linear(model: F64, at: int, row: int, count: int) -> float:
    """A constant and a weight for each input."""
    total = model[at]
    for i in range(count):
        total += model[at + 1 + i] * model[row + i]
    return float(total)


@kernel
def network(model: F64, at: int, row: int, count: int) -> float:
    """Layers of weighted sums, with ReLU between them."""
    layers, width, weights, into = int(model[at]), np.uint64(count), np.uint64(at + 1), np.uint64(row)
    for layer in range(layers):
        outputs = np.uint64(model[weights])
        least = 0.0 if layer < layers - 1 else -math.inf
        begin, weights, into = into, weights + U1, into + width
        sums(model, weights, begin, into, outputs, least)
        weights += (width + U1) * outputs
        width = outputs
    return float(model[into])


@kernel
def sums(model: F64, weights: Place, begin: Place, end: Place, outputs: Place, least: float) -> None:
    """One layer: its inputs are from ``begin`` to ``end``, where its outputs are put; eight at a time, for speed."""
    bias, at = weights + (end - begin) * outputs, U0
    while at + U8 <= outputs:
        place = bias + at
        a, b, c, d = model[place], model[place + U1], model[place + U2], model[place + U3]
        e, f, g, h = model[place + U4], model[place + U5], model[place + U6], model[place + U7]
        place, i = weights + at, begin
        while i < end:
            x = model[i]
            a, b = a + x * model[place], b + x * model[place + U1]
            c, d = c + x * model[place + U2], d + x * model[place + U3]
            e, f = e + x * model[place + U4], f + x * model[place + U5]
            g, h = g + x * model[place + U6], h + x * model[place + U7]
            place, i = place + outputs, i + U1
        place = end + at
        model[place], model[place + U1] = max(a, least), max(b, least)
        model[place + U2], model[place + U3] = max(c, least), max(d, least)
        model[place + U4], model[place + U5] = max(e, least), max(f, least)
        model[place + U6], model[place + U7] = max(g, least), max(h, least)
        at += U8
    while at < outputs:
        a, place, i = model[bias + at], weights + at, begin
        while i < end:
            a, place, i = a + model[i] * model[place], place + outputs, i + U1
        model[end + at] = max(a, least)
        at += U1


@kernel
def fill_lane(job: Job, model: F64, lane: int) -> None:
    """Write what a network gets of a job into a lane."""
    fill_inputs(job, model, int(model[INPUTS_AT]), int(model[INPUTS]), model, int(model[ROOM_AT]) + lane, LANES)


@kernel
def score_lanes(model: F64) -> int:
    """A network's values for the jobs whose inputs are in the lanes; returns where that of the first lane is."""
    at, width, into = int(model[MODEL_AT]), int(model[INPUTS]), int(model[ROOM_AT])
    layers, weights = int(model[at]), at + 1
    for layer in range(layers):
        outputs = int(model[weights])
        least = 0.0 if layer < layers - 1 else -math.inf
        begin, weights, into, output = into, weights + 1, into + LANES * width, 0
        while output + TOGETHER <= outputs:
            some_sums(model, weights + output, outputs, begin, width, into + LANES * output, least)
            output += TOGETHER
        while output < outputs:
            one_sum(model, weights + output, outputs, begin, width, into + LANES * output, least)
            output += 1
        weights, width = weights + (width + 1) * outputs, outputs
    return into


@kernel
def trees(model: F64, at: int, row: int) -> float:
    """A constant and one leaf of every tree."""
    roots, total = int(model[at]), model[at + 1]
    nodes = at + 2 + roots
    for tree in range(roots):
        node = nodes + NODE * int(model[at + 2 + tree])
        while model[node] >= 0:
            found = model[row + int(model[node])]
            upper, missing = found > model[node + 4], found != found  # noqa: PLR0124 NaN alone
            node = nodes + NODE * int(model[node + 1 + upper + 2 * missing])
        total += model[node + 5]
    return float(total)

"""The two ways to find the best of some widths: all of them tried, or the authors' genetic search."""

from __future__ import annotations

from shunter.compiled import copy_into, kernel
from shunter.policies.qoredl.memory import POPULATION, QoredlState, draw
from shunter.world import World

GENERATIONS, CROSSOVER, MUTATION = 4, 0.8, 0.003  # as in the authors' code
BITS = 4  # of a change of width
LIFT = 1e-4  # of all chances, so that the worst is not impossible


@kernel
def best_option(world: World, own: QoredlState, count: int) -> int:
    """The best of the first options; of equal ones the first."""
    if own.config.genetic:
        return genetic(world, own, count)
    best = 0
    for at in range(1, count):
        if own.worth[at] > own.worth[best]:
            best = at
    return int(own.option[best])


@kernel
def genetic(world: World, own: QoredlState, count: int) -> int:
    """Codes of bits, roulette, one-point crossover, mutation of one bit."""
    best = -1
    for at in range(POPULATION):
        own.codes[at] = int(draw(world, own) * 2**BITS)
    for _ in range(GENERATIONS):
        for at in range(POPULATION):
            place = own.codes[at] % count
            if best < 0 or own.worth[place] > own.worth[best]:
                best = place
        breed(world, own, count)
    return int(own.option[best])


@kernel
def parent(world: World, own: QoredlState, count: int, lowest: float, total: float) -> int:
    """A code drawn by how good it is."""
    left = draw(world, own) * total
    for at in range(POPULATION):
        left -= own.worth[own.codes[at] % count] - lowest + LIFT
        if left < 0:
            return int(own.codes[at])
    return int(own.codes[POPULATION - 1])


@kernel
def breed(world: World, own: QoredlState, count: int) -> None:
    """The next generation."""
    lowest, total = own.worth[own.codes[0] % count], 0.0
    for at in range(1, POPULATION):
        lowest = min(lowest, own.worth[own.codes[at] % count])
    for at in range(POPULATION):
        total += own.worth[own.codes[at] % count] - lowest + LIFT
    for at in range(POPULATION):
        one, other = parent(world, own, count, lowest, total), parent(world, own, count, lowest, total)
        if draw(world, own) < CROSSOVER:
            mask = (1 << (1 + int(draw(world, own) * (BITS - 1)))) - 1
            one = (one & ~mask) | (other & mask)
        if draw(world, own) < MUTATION:
            one = one ^ (1 << int(draw(world, own) * BITS))
        own.bred[at] = one
    copy_into(own.codes, own.bred)

"""The two ways to find the best of some options: all of them tried, or the authors' genetic search."""

from __future__ import annotations

from shunter.compiled import copy_into, kernel
from shunter.policies.qoredl.memory import POPULATION, QoredlState, draw
from shunter.world import World

GENERATIONS, CROSSOVER, MUTATION = 4, 0.8, 0.003  # as in the authors' code
BITS = 4  # of a change; where CPU can be changed, one more says whether it is, as in the paper
LIFT = 1e-4  # of all chances, so that the worst is not impossible


@kernel
def best_option(world: World, own: QoredlState) -> int:
    """The best of the options; of equal ones the first."""
    if own.config.genetic:
        return genetic(world, own)
    best = 0
    for at in range(1, own.options):
        if own.worth[at] > own.worth[best]:
            best = at
    return best


@kernel
def bits_of(own: QoredlState) -> int:
    """The length of a code."""
    return BITS + int(own.horizontal < own.options)


@kernel
def option_of(own: QoredlState, code: int) -> int:
    """The option that a code stands for."""
    vertical = own.options - own.horizontal
    if vertical > 0 and (code >= 2**BITS or own.horizontal == 0):
        return int(own.horizontal + code % 2**BITS % vertical)
    return int(code % 2**BITS % own.horizontal)


@kernel
def genetic(world: World, own: QoredlState) -> int:
    """Codes of bits, roulette, one-point crossover, mutation of one bit."""
    best = -1
    for at in range(POPULATION):
        own.codes[at] = int(draw(world, own) * 2 ** bits_of(own))
    for _ in range(GENERATIONS):
        for at in range(POPULATION):
            place = option_of(own, own.codes[at])
            if best < 0 or own.worth[place] > own.worth[best]:
                best = place
        breed(world, own)
    return best


@kernel
def parent(world: World, own: QoredlState, lowest: float, total: float) -> int:
    """A code drawn by how good it is."""
    left = draw(world, own) * total
    for at in range(POPULATION):
        left -= own.worth[option_of(own, own.codes[at])] - lowest + LIFT
        if left < 0:
            return int(own.codes[at])
    return int(own.codes[POPULATION - 1])


@kernel
def breed(world: World, own: QoredlState) -> None:
    """The next generation."""
    lowest, total, bits = own.worth[option_of(own, own.codes[0])], 0.0, bits_of(own)
    for at in range(1, POPULATION):
        lowest = min(lowest, own.worth[option_of(own, own.codes[at])])
    for at in range(POPULATION):
        total += own.worth[option_of(own, own.codes[at])] - lowest + LIFT
    for at in range(POPULATION):
        one, other = parent(world, own, lowest, total), parent(world, own, lowest, total)
        if draw(world, own) < CROSSOVER:
            mask = (1 << (1 + int(draw(world, own) * (bits - 1)))) - 1
            one = (one & ~mask) | (other & mask)
        if draw(world, own) < MUTATION:
            one = one ^ (1 << int(draw(world, own) * bits))
        own.bred[at] = one
    copy_into(own.codes, own.bred)

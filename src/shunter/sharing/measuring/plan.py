"""Which pairs are measured, and in which order they and the loops alone are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np

SEED = 1

Pair = tuple[str, str]


def planned(names: Sequence[str], partners: int) -> list[Pair]:
    """Every loop beside its equal and beside ``partners`` others: all that there are, or as many for each.

    With fewer than all, loops stand in a circle in an order by chance, and each is paired with those that are some
    distances away, on both sides.
    """
    if partners >= len(names) - 1:
        return list(combinations_with_replacement(names, 2))
    rng = np.random.default_rng(SEED)
    circle = [names[i] for i in rng.permutation(len(names))]
    distances = 1 + rng.permutation((len(names) - 1) // 2)[: (partners + 1) // 2]
    found = {(name, name) for name in names}
    for i, name in enumerate(circle):
        for distance in distances:
            one, two = sorted((name, circle[(i + distance) % len(circle)]), key=names.index)
            found.add((one, two))
    return sorted(found, key=lambda pair: (names.index(pair[0]), names.index(pair[1])))


def walk(pairs: Iterable[Pair]) -> Iterator[tuple[str, ...]]:
    """Loops alone and in pairs, so that each of a pair runs alone just before or just after it.

    From the first loop of a pair to the second, which runs alone next and is the first of the pair after that. Loops
    that have most pairs before them come first, so that all have about as many whenever time is up.
    """
    left: dict[str, list[str]] = {}
    for one, two in pairs:
        left.setdefault(one, []).append(two)
        left.setdefault(two, [])
        if one != two:
            left[two].append(one)
    here = ""
    while any(left.values()):
        if not left.get(here):
            here = max(left, key=lambda name: len(left[name]))
            yield (here,)
        if here in left[here]:
            left[here].remove(here)
            yield here, here
            continue
        other = max(left[here], key=lambda name: len(left[name]))
        left[here].remove(other)
        left[other].remove(here)
        yield here, other
        here = other
        yield (here,)

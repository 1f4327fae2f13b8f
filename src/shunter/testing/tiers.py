"""Placing by network tier, slowly: the rules of the reference for policies that take GPUs close together.

A cluster is a list of nodes; each node is a list that says for every GPU which job holds it, ``FREE`` if none does.
``Layout.domains`` has one list per level above the machine (racks first): the domain of each node.  Tier 0 is one
machine, tier 1 one domain of the first level, ..., and the last tier the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Literal, TypeAlias

from shunter.testing.placement import Places, least_free_first, most_free_first

Fit: TypeAlias = Literal["first", "best", "affinity"]
Spread: TypeAlias = Literal["list", "pack", "even"]
FREE = -1


@dataclass(frozen=True)
class Layout:
    """The machines: GPUs of each node, and for each level above the machine the domain of each node."""

    gpus: tuple[int, ...]
    domains: tuple[tuple[int, ...], ...] = ()

    @property
    def tiers(self) -> int:
        """How many tiers there are: machine, levels, anywhere."""
        return len(self.domains) + 2


@cache
def groups(layout: Layout, tier: int) -> tuple[tuple[int, ...], ...]:
    """The nodes of each machine, each domain, or the whole cluster: what a job of this tier must stay within."""
    nodes = range(len(layout.gpus))
    if tier == 0:
        return tuple((node,) for node in nodes)
    if tier == layout.tiers - 1:
        return (tuple(nodes),)
    level = layout.domains[tier - 1]
    return tuple(tuple(node for node in nodes if level[node] == domain) for domain in sorted(set(level)))


@cache
def holding(layout: Layout, gpus: int) -> tuple[int, ...]:
    """The tiers of which some machine or domain could hold this many GPUs if it were empty."""
    return tuple(tier for tier in range(layout.tiers) if most_in(layout, layout.gpus, tier) >= gpus)


def most_in(layout: Layout, free: Sequence[int], tier: int) -> int:
    """The most GPUs that are free together at a tier."""
    return max(sum(free[node] for node in group) for group in groups(layout, tier))


def tier_of(layout: Layout, places: Places) -> int:
    """The lowest tier that these places are within."""
    used = {node for node, _ in places}
    return min(tier for tier in range(layout.tiers) if any(used <= set(group) for group in groups(layout, tier)))


def free_on(nodes: Sequence[Sequence[int]]) -> list[int]:
    """The number of GPUs of each node that no job holds."""
    return [sum(job == FREE for job in node) for node in nodes]


def lowest_room(layout: Layout, nodes: Sequence[Sequence[int]], gpus: int, tiers: Iterable[int]) -> int | None:
    """The lowest of these tiers at which this many GPUs are free together."""
    free = free_on(nodes)
    return next((tier for tier in sorted(tiers) if most_in(layout, free, tier) >= gpus), None)


def place_at(
    layout: Layout, nodes: Sequence[Sequence[int]], sizes: Sequence[int], gpus: int, tier: int, fit: Fit, spread: Spread
) -> Places:
    """Where a job goes at a tier that has room for it; ``sizes`` says how many GPUs every job wants."""
    free = free_on(nodes)
    if tier == 0 and fit == "affinity":
        return ((affine_node(nodes, sizes, gpus), gpus),)
    roomy = [group for group in groups(layout, tier) if sum(free[node] for node in group) >= gpus]
    if fit == "best":
        roomy.sort(key=lambda group: sum(free[node] for node in group))
    within = roomy[0]
    if spread == "list":
        return in_node_order(free, within, gpus)
    return evenly(layout, free, within, gpus) if spread == "even" else packed(free, within, gpus)


def affine_node(nodes: Sequence[Sequence[int]], sizes: Sequence[int], gpus: int) -> int:
    """A node whose jobs are of this size (the one on its first GPU in use counts), else an idle one, else any.

    Of several the one with the most free GPUs.
    """
    free = free_on(nodes)

    def rank(node: int) -> int:
        held = [job for job in nodes[node] if job != FREE]
        return 1 if not held else 0 if sizes[held[0]] == gpus else 2

    roomy = [node for node in range(len(nodes)) if free[node] >= gpus]
    return min(roomy, key=lambda node: (rank(node), -free[node], node))


def in_node_order(free: Sequence[int], within: Iterable[int], gpus: int) -> Places:
    """All that is free, node by node, until there is enough."""
    places: Places = ()
    for node in sorted(within):
        part = min(free[node], gpus)
        if part > 0:
            places += ((node, part),)
            gpus -= part
    return places


def packed(free: Sequence[int], within: Iterable[int], gpus: int) -> Places:
    """The freest nodes whole, as long as none has room for the rest; then the fullest one that has."""
    places, left = [], set(within)
    while gpus > 0:
        enough = [node for node in left if free[node] >= gpus]
        node = least_free_first(enough, free)[0] if enough else most_free_first(left, free)[0]
        part = min(free[node], gpus)
        places.append((node, part))
        left.remove(node)
        gpus -= part
    return tuple(sorted(places))


def evenly(layout: Layout, free: Sequence[int], within: Sequence[int], gpus: int) -> Places:
    """As many GPUs on each machine and machines in each rack: fewest racks, then fewest machines; else packed."""
    racks: dict[int, list[int]] = {}
    for node in within:
        racks.setdefault(layout.domains[0][node] if layout.domains else 0, []).append(node)
    for count in range(1, len(racks) + 1):
        for machines in range(1, len(layout.gpus) + 1):
            if gpus % (count * machines):
                continue
            each = gpus // (count * machines)
            for chosen in combinations(sorted(racks), count):
                able = [[node for node in racks[rack] if free[node] >= each] for rack in chosen]
                if all(len(nodes) >= machines for nodes in able):
                    fullest = [node for nodes in able for node in least_free_first(nodes, free)[:machines]]
                    return tuple(sorted((node, each) for node in fullest))
    return packed(free, within, gpus)

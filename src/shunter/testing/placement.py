"""The placement rules of the reference: on which nodes a job goes, given what is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

Places: TypeAlias = tuple[tuple[int, int], ...]  # (node, GPUs there), by node
Placement: TypeAlias = Literal[
    "consolidate", "first-fit", "spread", "count", "tight", "weighed", "weighed-ahead", "weighed-artifact"
]


def place(
    need: int, free: Sequence[int], pool: Mapping[int, int], placement: Placement, following: int = 0
) -> Places | None:
    """Where a job of this many GPUs goes, or None; ``free`` is per node, ``pool`` its nodes and their sizes.

    ``following``: what the next waiting job wants, for rules that are given it.
    """
    if not pool:
        return None
    nodes = sorted(pool)
    if placement.startswith("weighed"):
        known, counted = following if placement != "weighed" else 0, placement != "weighed-artifact"
        where = min(layouts(need, free, pool), key=lambda way: cost(way, free, pool, known, counted), default=None)
    elif placement == "count":
        where = gather(need, free, nodes)
    elif placement == "spread":
        where = gather(need, free, most_free_first(nodes, free))
    elif need <= max(pool.values()):
        where = on_one_node(need, free, nodes if placement == "first-fit" else least_free_first(nodes, free))
    else:
        idle = [node for node in nodes if free[node] == pool[node]]
        if placement == "first-fit":
            where = whole_nodes_and_remainder(need, free, idle, nodes)
        else:  # an idle node's size is what it has free
            rest = least_free_first(nodes, free) if placement == "tight" else most_free_first(nodes, free)
            where = whole_nodes_and_remainder(need, free, most_free_first(idle, free), rest)
    return None if where is None else tuple(sorted(where))


def layouts(need: int, free: Sequence[int], pool: Mapping[int, int]) -> list[Places]:
    """The ways that ``weighed`` chooses from: consolidate, pack and spread, if they can be."""
    few = -(-need // max(pool.values())) + 1
    wide = [pack(need, free, pool), place(need, free, pool, "spread")]
    found = [place(need, free, pool, "consolidate"), *(where for where in wide if where and len(where) <= few)]
    return [where for where in found if where is not None]


def pack(need: int, free: Sequence[int], pool: Mapping[int, int]) -> Places | None:
    """Fill partly used nodes, the freest first, then idle ones, until one node has enough for the rest."""
    where: Places = ()
    rest = sorted(pool, key=lambda node: (free[node] == pool[node], -free[node], node))
    while rest:
        last = on_one_node(need, free, least_free_first(rest, free))
        if last is not None:
            return tuple(sorted(where + last))
        node = rest.pop(0)
        where += ((node, free[node]),) if free[node] else ()
        need -= free[node]
    return None


def cost(
    where: Places, free: Sequence[int], pool: Mapping[int, int], following: int = 0, counted: bool = True
) -> Fraction:
    """Partly used nodes (if ``counted``), free GPUs that differ, and nodes that still hold the following job.

    Weights: 1, 0.3 for each eighth of the largest node, and -0.5.
    """
    left = taken(free, where)
    partly = sum(0 < left[node] < size for node, size in pool.items()) if counted else 0
    fitting = sum(left[node] >= following for node in pool) if following else 0
    gap = max(left[node] for node in pool) - min(left[node] for node in pool)
    return partly + Fraction(3, 10) * 8 * gap / max(pool.values()) - Fraction(1, 2) * fitting


def most_free_first(nodes: Iterable[int], free: Sequence[int]) -> list[int]:
    """Sort by (most free, lowest index)."""
    return sorted(nodes, key=lambda node: (-free[node], node))


def least_free_first(nodes: Iterable[int], free: Sequence[int]) -> list[int]:
    """Sort by (least free, lowest index)."""
    return sorted(nodes, key=lambda node: (free[node], node))


def on_one_node(need: int, free: Sequence[int], order: Iterable[int]) -> Places | None:
    """Take the first node with enough."""
    for node in order:
        if free[node] >= need:
            return ((node, need),)
    return None


def gather(need: int, free: Sequence[int], order: Iterable[int]) -> Places | None:
    """Take what is free, node after node, until there is enough."""
    where: Places = ()
    for node in order:
        part = min(free[node], need)
        if part > 0:
            where += ((node, part),)
            need -= part
    return where if need == 0 else None


def whole_nodes_and_remainder(
    need: int, free: Sequence[int], idle: Iterable[int], rest: Iterable[int]
) -> Places | None:
    """Take idle nodes whole, in order, each that isn't too large; then one more node for the remainder."""
    where: Places = ()
    for node in idle:
        if free[node] <= need:
            where += ((node, free[node]),)
            need -= free[node]
    if need == 0:
        return where
    last = on_one_node(need, free, [node for node in rest if node not in dict(where)])
    return None if last is None else where + last


def taken(free: Sequence[int], where: Places) -> list[int]:
    """Return the free GPUs per node after these were taken."""
    there = dict(where)
    return [gpus - there.get(node, 0) for node, gpus in enumerate(free)]


def given_back(free: Sequence[int], where: Places) -> list[int]:
    """Return the free GPUs per node after these were released."""
    there = dict(where)
    return [gpus + there.get(node, 0) for node, gpus in enumerate(free)]

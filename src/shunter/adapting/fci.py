"""FCI by causal-learn: the same graph as in ``causal``, and directions in the middle layer where the data show them."""

from __future__ import annotations

import contextlib
import io
from itertools import combinations, product
from typing import Any

import numpy as np

from shunter import extras
from shunter.adapting.causal import ALPHA, MOST_GIVEN, OBJECTIVE, CausalGraph, CausalSamples, ranked
from shunter.world import F64

WHAT = "--causal fci"
WAYS = {("TAIL", "ARROW"): "->", ("ARROW", "TAIL"): "<-"}


def fci_graph(samples: CausalSamples, alpha: float = ALPHA) -> CausalGraph:
    """The edges that FCI finds; layers are tiers, and edges that skip a layer or join two settings are forbidden.

    causal-learn turns an edge between tiers into a cause, also where a hidden one could be behind it (its issue 266).
    Settings are set by us and have no hidden cause; between the middle layer and the objective there may be one.
    """
    search = extras.load("causallearn.search.ConstraintBased.FCI", WHAT)
    names = (*samples.settings, *samples.between, OBJECTIVE)
    layers = [0] * len(samples.settings) + [1] * len(samples.between) + [2]
    table = ranked(np.column_stack([samples.inputs, samples.middle, samples.objective]))
    moves = np.flatnonzero(table.std(axis=0) > 0)  # what never changes has no edges, and no correlations either
    if len(moves) < 2:
        return _graph(samples, names, layers, {})
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does, whatever it is asked for
        _, edges = search.fci(
            _jittered(table[:, moves]), "fisherz", alpha, depth=MOST_GIVEN, show_progress=False,
            background_knowledge=_knowledge([layers[at] for at in moves]),
        )  # fmt: skip
    return _graph(samples, names, layers, _ends(edges, moves.tolist()))


def _jittered(table: F64) -> F64:
    """With differences far below those of ranks: two equal columns have no partial correlations."""
    found: F64 = table + 1e-6 * len(table) * np.random.default_rng(0).standard_normal(table.shape)
    return found


def _knowledge(layers: list[int]) -> Any:
    """Which edges there can't be."""
    graph_node = extras.load("causallearn.graph.GraphNode", WHAT).GraphNode
    found = extras.load("causallearn.utils.PCUtils.BackgroundKnowledge", WHAT).BackgroundKnowledge()
    nodes = [graph_node(f"X{at + 1}") for at in range(len(layers))]  # as causal-learn names them
    for node, layer in zip(nodes, layers, strict=True):
        found.add_node_to_tier(node, layer)
    for a, b in combinations(range(len(nodes)), 2):
        if layers[a] == 0 and layers[b] != 1:
            found.add_forbidden_by_node(nodes[a], nodes[b])
            found.add_forbidden_by_node(nodes[b], nodes[a])
    return found


def _ends(edges: list[Any], moves: list[int]) -> dict[tuple[int, int], str]:
    """Of each pair of columns in order: ``->``, ``<-``, or "" where the direction is open or a cause is hidden."""
    found = {}
    for edge in edges:
        at = [moves[int(node.get_name()[1:]) - 1] for node in (edge.get_node1(), edge.get_node2())]
        marks = [edge.get_endpoint1().name, edge.get_endpoint2().name]
        if at[0] > at[1]:
            at, marks = at[::-1], marks[::-1]
        found[at[0], at[1]] = WAYS.get((marks[0], marks[1]), "")
    return found


def _graph(
    samples: CausalSamples, names: tuple[str, ...], layers: list[int], ends: dict[tuple[int, int], str]
) -> CausalGraph:
    pairs = product((0, 1), (1, 2))
    within = {pair: [key for key in ends if (layers[key[0]], layers[key[1]]) == pair] for pair in pairs}
    arrows = {(a, b) if ends[a, b] == "->" else (b, a) for a, b in within[1, 1] if ends[a, b]}
    return CausalGraph(
        samples.settings,
        samples.between,
        frozenset((names[a], names[b]) for a, b in within[0, 1]),
        frozenset(frozenset((names[a], names[b])) for a, b in within[1, 1]),
        frozenset(names[a] for a, _ in within[1, 2]),
        frozenset((names[a], names[b]) for a, b in arrows),
    )

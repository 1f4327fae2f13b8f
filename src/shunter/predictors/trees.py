"""Learned models as arrays of decision trees: whatever a library fitted ends up here, and one kernel evaluates it.

A gradient boosting machine is a sum of trees already.  An explainable boosting machine is a sum of tables, one per
term; each becomes a balanced tree over the edges of its bins, so that a term is a tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter.arrays import F1, I1, I2, Arrays
from shunter.compiled import kernel
from shunter.world import F64

Mask: TypeAlias = NDArray[np.bool_]

LEAF = -1
TOGETHER = 256  # rows
DEEPEST = 10_000  # nodes from a root to a leaf; models have some dozens
# -- columns of `nodes`: feature (LEAF: none), children where it is at most the threshold, above it, and NaN
FEATURE, LOWER, UPPER, MISSING = range(4)


class Trees(Arrays):
    """A sum of decision trees over rows of features."""

    nodes: I2  # (nodes, 4)
    threshold: F1  # (nodes,)
    value: F1  # (nodes,) of a leaf what it adds; of an inner node what is expected there, for explanations
    roots: I1  # (trees,)
    base: F1  # (1,) what is added to the sum


@kernel
def below(trees: Trees, node: int, row: F64) -> int:
    """The child of a node that a row falls into; computed, not branched to, because it can't be predicted."""
    value = row[trees.nodes[node, FEATURE]]
    upper, missing = value > trees.threshold[node], value != value  # noqa: PLR0124 NaN alone
    return int(trees.nodes[node, LOWER + upper + 2 * missing])


@kernel
def leaf_of(trees: Trees, root: int, row: F64) -> int:
    """The leaf of a tree that a row falls into."""
    node = root
    while trees.nodes[node, FEATURE] != LEAF:
        node = below(trees, node, row)
    return int(node)


@kernel
def evaluate(trees: Trees, row: F64) -> float:
    """The model's value for a row."""
    total = trees.base[0]
    for root in trees.roots:
        total += trees.value[leaf_of(trees, root, row)]
    return float(total)


@kernel
def evaluate_all(trees: Trees, rows: F64, values: F64) -> None:
    """The model's value for every row; some rows at a time, so that a tree stays in the cache for all of them."""
    for first in range(0, rows.shape[0], TOGETHER):
        last = min(first + TOGETHER, rows.shape[0])
        for at in range(first, last):
            values[at] = trees.base[0]
        for root in trees.roots:
            for at in range(first, last):
                values[at] += trees.value[leaf_of(trees, root, rows[at])]


@kernel
def by_tree(trees: Trees, row: F64, parts: F64) -> None:
    """What every tree adds for a row."""
    for at in range(len(trees.roots)):
        parts[at] = trees.value[leaf_of(trees, trees.roots[at], row)]


@kernel
def by_feature(trees: Trees, row: F64, parts: F64) -> None:
    """What every feature adds for a row: the change of what is expected at each split on the way to the leaf."""
    for root in trees.roots:
        node = root
        while trees.nodes[node, FEATURE] != LEAF:
            feature, before = trees.nodes[node, FEATURE], trees.value[node]
            node = below(trees, node, row)
            parts[feature] += trees.value[node] - before


def check(trees: Trees, width: int) -> None:
    """Refuse trees that would lead a kernel out of its arrays, round in a circle, or to no number."""
    nodes, count = trees.nodes, len(trees.value)
    if nodes.shape != (count, 4) or len(trees.threshold) != count or len(trees.base) != 1:
        raise ValueError("the parts of its trees have different lengths")
    feature, children = nodes[:, FEATURE], nodes[:, LOWER:]
    inner = feature != LEAF
    if np.any((feature < LEAF) | (feature >= width)) or not _within(children[inner], count):
        raise ValueError("a node of its trees leads nowhere")
    if not _within(trees.roots, count) or np.isnan(trees.threshold).any():
        raise ValueError("a tree has no root or no threshold")
    if not (np.isfinite(trees.value).all() and np.isfinite(trees.base).all()):
        raise ValueError("a leaf of its trees has no number")
    _check_ways(inner, children)


def _check_ways(inner: Mask, children: I2) -> None:
    """Refuse ways that never end in a leaf; from the leaves upwards, every node is looked at once."""
    above, below = np.repeat(np.flatnonzero(inner), children.shape[1]), children[inner].ravel()
    order = np.argsort(below, kind="stable")
    above, first = above[order], np.searchsorted(below[order], np.arange(len(inner) + 1))
    open_ways = np.where(inner, children.shape[1], 0)  # of each node
    ended, left = np.flatnonzero(~inner), int(inner.sum())
    for _ in range(DEEPEST):
        if not left or not len(ended):
            break
        counts = first[ended + 1] - first[ended]
        places = np.arange(counts.sum()) + np.repeat(first[ended] - np.cumsum(counts) + counts, counts)
        nodes, ways = np.unique(above[places], return_counts=True)
        open_ways[nodes] -= ways
        ended = nodes[open_ways[nodes] == 0]
        left -= len(ended)
    if left:
        raise ValueError(f"a path through its trees is a cycle, or has more than {DEEPEST:,} nodes")


def _within(places: I1, count: int) -> bool:
    return bool(np.all((places >= 0) & (places < count)))


class Builder:
    """Puts trees together, node by node; for models of third parties too."""

    def __init__(self) -> None:
        self.nodes: list[list[int]] = []
        self.threshold: list[float] = []
        self.value: list[float] = []
        self.roots: list[int] = []

    def add(self, value: float, feature: int = LEAF, threshold: float = 0.0) -> int:
        """A node; a leaf unless it has a feature."""
        self.nodes.append([feature, 0, 0, 0])
        self.threshold.append(threshold)
        self.value.append(value)
        return len(self.nodes) - 1

    def join(self, node: int, lower: int, upper: int, missing: int) -> int:
        """Say what is below a node."""
        self.nodes[node][LOWER:] = [lower, upper, missing]
        return node

    def grown(self, base: float) -> Trees:
        """The trees as arrays."""
        nodes = np.array(self.nodes, np.int64).reshape(-1, 4)
        return Trees(nodes, np.array(self.threshold), np.array(self.value), np.array(self.roots), np.array([base]))


def no_trees() -> Trees:
    """A model that says nothing."""
    return Builder().grown(0.0)


def mean_of(models: Sequence[Trees]) -> Trees:
    """The mean of several models as one."""
    count = len(models)
    offsets = np.cumsum([0, *(len(model.value) for model in models)])[:-1]
    nodes = [model.nodes + np.array([0, at, at, at]) for model, at in zip(models, offsets, strict=True)]
    return Trees(
        np.concatenate(nodes),
        np.concatenate([model.threshold for model in models]),
        np.concatenate([model.value for model in models]) / count,
        np.concatenate([model.roots + at for model, at in zip(models, offsets, strict=True)]),
        np.mean([model.base for model in models], axis=0),
    )


# ------------------------------------------------------------------------------------------- LightGBM


def of_lightgbm(dump: dict[str, Any]) -> Trees:
    """The trees of a LightGBM booster, from what its ``dump_model`` gives."""
    growing = Builder()
    for tree in dump["tree_info"]:
        growing.roots.append(_grow(growing, tree["tree_structure"]))
    return growing.grown(0.0)


def _grow(growing: Builder, at: dict[str, Any]) -> int:
    if "leaf_value" in at:
        return growing.add(at["leaf_value"])
    threshold = float(at["threshold"])
    node = growing.add(at["internal_value"], at["split_feature"], threshold)
    lower, upper = _grow(growing, at["left_child"]), _grow(growing, at["right_child"])
    # a split that saw nothing missing takes NaN for 0
    to_lower = at["default_left"] if at["missing_type"] == "NaN" else threshold >= 0.0
    return growing.join(node, lower, upper, lower if to_lower else upper)


# ------------------------------------------------------------------------------------------- EBM


def of_ebm(ebm: Any, columns: Sequence[int]) -> Trees:
    """One tree per term of an explainable boosting regressor; ``columns``: where in a row its features are."""
    growing = Builder()
    for features, scores in zip(ebm.term_features_, ebm.term_scores_, strict=True):
        edges = [ebm.bins_[f][min(len(features), len(ebm.bins_[f])) - 1] for f in features]
        growing.roots.append(_term(growing, [columns[f] for f in features], edges, np.asarray(scores)))
    return growing.grown(float(np.ravel(ebm.intercept_)[0]))


def _term(growing: Builder, features: list[int], edges: list[F64], scores: F64) -> int:
    """The tree of a table of scores: along its first axis missing, bins from low to high, and unknown (not used)."""
    if not features:
        return growing.add(float(scores))
    inner = [_term(growing, features[1:], edges[1:], part) for part in scores[:-1]]
    root = growing.add(0.0, features[0], math.inf)
    return growing.join(root, _between(growing, features[0], edges[0], inner[1:]), inner[0], inner[0])


def _between(growing: Builder, feature: int, edges: F64, bins: list[int]) -> int:
    """A balanced tree over bins; a value on an edge belongs to the bin above it."""
    if not len(edges):
        return bins[0]
    middle = len(edges) // 2
    node = growing.add(0.0, feature, float(np.nextafter(edges[middle], -math.inf)))
    lower = _between(growing, feature, edges[:middle], bins[: middle + 1])
    upper = _between(growing, feature, edges[middle + 1 :], bins[middle + 1 :])
    return growing.join(node, lower, upper, lower)

"""Learned models as arrays of decision trees: whatever a library fitted ends up here, and one kernel evaluates it.

A gradient boosting machine is a sum of trees already.  An explainable boosting machine is a sum of tables, one per
term; each becomes a balanced tree over the edges of its bins, so that a term is a tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shunter.arrays import F1, I1, I2, Arrays
from shunter.compiled import kernel
from shunter.world import F64

LEAF = -1
# -- rows of `nodes`: feature (LEAF: none), children where it is at most the threshold or above it, and where it is NaN
FEATURE, LOWER, UPPER, MISSING = range(4)


class Trees(Arrays):
    """A sum of decision trees over rows of features."""

    nodes: I2  # (4, nodes)
    threshold: F1  # (nodes,)
    value: F1  # (nodes,) of a leaf what it adds; of an inner node what is expected there, for explanations
    roots: I1  # (trees,)
    base: F1  # (1,) what is added to the sum


@kernel
def leaf_of(trees: Trees, root: int, row: F64) -> int:
    """The leaf of a tree that a row falls into."""
    node = root
    while trees.nodes[FEATURE, node] != LEAF:
        value = row[trees.nodes[FEATURE, node]]
        if math.isnan(value):
            node = trees.nodes[MISSING, node]
        elif value <= trees.threshold[node]:
            node = trees.nodes[LOWER, node]
        else:
            node = trees.nodes[UPPER, node]
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
    """The model's value for every row."""
    for at in range(rows.shape[0]):
        values[at] = evaluate(trees, rows[at])


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
        while trees.nodes[FEATURE, node] != LEAF:
            feature, before = trees.nodes[FEATURE, node], trees.value[node]
            if math.isnan(row[feature]):
                node = trees.nodes[MISSING, node]
            elif row[feature] <= trees.threshold[node]:
                node = trees.nodes[LOWER, node]
            else:
                node = trees.nodes[UPPER, node]
            parts[feature] += trees.value[node] - before


class _Growing:
    """Trees while they are put together."""

    def __init__(self) -> None:
        self.nodes: list[list[int]] = []
        self.threshold: list[float] = []
        self.value: list[float] = []
        self.roots: list[int] = []

    def add(self, value: float, feature: int = LEAF, threshold: float = 0.0) -> int:
        """A node; a leaf unless it is told a feature."""
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
        nodes = np.array(self.nodes, np.int64).reshape(-1, 4).T
        return Trees(nodes, np.array(self.threshold), np.array(self.value), np.array(self.roots), np.array([base]))


def no_trees() -> Trees:
    """A model that says nothing."""
    return _Growing().grown(0.0)


def mean_of(models: Sequence[Trees]) -> Trees:
    """The mean of several models as one."""
    count = len(models)
    offsets = np.cumsum([0, *(len(model.value) for model in models)])[:-1]
    nodes = [model.nodes + np.array([[0], [at], [at], [at]]) for model, at in zip(models, offsets, strict=True)]
    return Trees(
        np.concatenate(nodes, axis=1),
        np.concatenate([model.threshold for model in models]),
        np.concatenate([model.value for model in models]) / count,
        np.concatenate([model.roots + at for model, at in zip(models, offsets, strict=True)]),
        np.mean([model.base for model in models], axis=0),
    )


# ------------------------------------------------------------------------------------------- LightGBM


def of_lightgbm(dump: dict[str, Any]) -> Trees:
    """The trees of a LightGBM booster, from what its ``dump_model`` gives."""
    growing = _Growing()
    for tree in dump["tree_info"]:
        growing.roots.append(_grow(growing, tree["tree_structure"]))
    return growing.grown(0.0)


def _grow(growing: _Growing, at: dict[str, Any]) -> int:
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
    growing = _Growing()
    for features, scores in zip(ebm.term_features_, ebm.term_scores_, strict=True):
        edges = [ebm.bins_[f][min(len(features), len(ebm.bins_[f])) - 1] for f in features]
        growing.roots.append(_term(growing, [columns[f] for f in features], edges, np.asarray(scores)))
    return growing.grown(float(np.ravel(ebm.intercept_)[0]))


def _term(growing: _Growing, features: list[int], edges: list[F64], scores: F64) -> int:
    """The tree of a table of scores: along its first axis missing, bins from low to high, and unknown (not used)."""
    if not features:
        return growing.add(float(scores))
    inner = [_term(growing, features[1:], edges[1:], part) for part in scores[:-1]]
    root = growing.add(0.0, features[0], math.inf)
    return growing.join(root, _between(growing, features[0], edges[0], inner[1:]), inner[0], inner[0])


def _between(growing: _Growing, feature: int, edges: F64, bins: list[int]) -> int:
    """A balanced tree over bins; a value on an edge belongs to the bin above it."""
    if not len(edges):
        return bins[0]
    middle = len(edges) // 2
    node = growing.add(0.0, feature, float(np.nextafter(edges[middle], -math.inf)))
    lower = _between(growing, feature, edges[:middle], bins[: middle + 1])
    upper = _between(growing, feature, edges[middle + 1 :], bins[middle + 1 :])
    return growing.join(node, lower, upper, lower)

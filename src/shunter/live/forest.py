"""Quantiles learned from examples: a forest of random trees whose leaves remember the examples that fell into them.

Meinshausen's quantile regression forest (2006) on Geurts' extremely randomised trees (2006).  All quantiles come from
the same weights, so that they never cross; and it needs no library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shunter.seeding import rng
from shunter.world import F64, I64

LEAF = -1
FEATURE, LOWER, UPPER = range(3)  # columns of `nodes`; a leaf has LEAF in the first


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees in one array of nodes."""

    nodes: I64  # (nodes, 3)
    threshold: F64  # (nodes,)
    roots: I64  # (trees,)
    leaves: I64  # (trees, examples) the leaf of each example
    targets: F64  # (examples,)

    @classmethod
    def grown(cls, rows: F64, targets: F64, *, trees: int, smallest: int, tried: int, seed: int = 0) -> Self:
        """Trees with a minimum number of examples per leaf; each node takes the best of a number of random splits."""
        growing = _Growing(_filled(rows), targets, smallest, tried, seed)
        roots, leaves = zip(*(growing.tree() for _ in range(trees)), strict=True)
        nodes, threshold = np.array(growing.nodes, np.int64), np.array(growing.threshold)
        return cls(nodes, threshold, np.array(roots, np.int64), np.array(leaves), targets)

    def weights(self, rows: F64) -> F64:
        """How much each example says about each row; each row's sum is 1."""
        found = np.zeros((len(rows), len(self.targets)))
        for root, of_examples in zip(self.roots.tolist(), self.leaves, strict=True):
            same = self._leaves_of(_filled(rows), root)[:, None] == of_examples[None, :]
            found += same / same.sum(axis=1, keepdims=True)
        return found / len(self.roots)

    def _leaves_of(self, rows: F64, root: int) -> I64:
        at = np.full(len(rows), root)
        while True:
            feature = self.nodes[at, FEATURE]
            inner = np.flatnonzero(feature != LEAF)
            if not len(inner):
                return at
            above = rows[inner, feature[inner]] > self.threshold[at[inner]]
            at[inner] = self.nodes[at[inner], np.where(above, UPPER, LOWER)]


def quantiles(values: F64, known: NDArray[np.bool_], weights: F64, levels: F64) -> F64:
    """The least of these values up to which such shares of the weight are.

    Of what is not known yet the value is the least that it can be (Kaplan and Meier, 1958).
    """
    order = np.lexsort((~known, values))
    weight = weights[order]
    left = np.cumsum(weight[::-1])[::-1]
    gone = np.where(known[order], weight / np.maximum(left, 1e-300), 0.0)
    share = 1 - np.cumprod(1 - np.minimum(gone, 1.0))
    places = np.searchsorted(share, levels - 1e-9, side="left")
    found: F64 = values[order[np.minimum(places, len(values) - 1)]]
    return found


def _filled(rows: F64) -> F64:
    """What is not known lies below everything else."""
    return np.nan_to_num(rows, nan=-1.0)


class _Growing:
    """Trees while they grow."""

    def __init__(self, rows: F64, targets: F64, smallest: int, tried: int, seed: int) -> None:
        self._rows, self._targets, self._smallest, self._tried = rows, targets, smallest, tried
        self._draw = rng(seed, "forest")
        self.nodes: list[list[int]] = []
        self.threshold: list[float] = []

    def tree(self) -> tuple[int, I64]:
        """Grow a tree: its root, and the leaf of every example."""
        leaves = np.zeros(len(self._targets), np.int64)
        root = self._node()
        open_nodes = [(root, np.arange(len(self._targets)))]
        while open_nodes:
            node, members = open_nodes.pop()
            above = self._split(node, members)
            if above is None:
                leaves[members] = node
                continue
            self.nodes[node][LOWER:] = lower, upper = self._node(), self._node()
            open_nodes += [(lower, members[~above]), (upper, members[above])]
        return root, leaves

    def _node(self) -> int:
        self.nodes.append([LEAF, 0, 0])
        self.threshold.append(0.0)
        return len(self.nodes) - 1

    def _split(self, node: int, members: I64) -> NDArray[np.bool_] | None:
        """Which members go to the upper side; None: the node stays a leaf."""
        if len(members) < 2 * self._smallest:
            return None
        features = self._draw.integers(0, self._rows.shape[1], self._tried)
        values, targets = self._rows[members[:, None], features], self._targets[members]
        low, high = values.min(axis=0), values.max(axis=0)
        at = low + self._draw.random(self._tried) * (high - low)
        above = values > at
        upper = above.sum(axis=0)
        lower = len(members) - upper
        total, above_sum = targets.sum(), targets @ above
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = above_sum**2 / upper + (total - above_sum) ** 2 / lower
        gain[(upper < self._smallest) | (lower < self._smallest)] = -np.inf
        best = int(np.argmax(gain))
        if not np.isfinite(gain[best]):
            return None
        self.nodes[node][FEATURE], self.threshold[node] = int(features[best]), float(at[best])
        upper_side: NDArray[np.bool_] = above[:, best]
        return upper_side

"""A causal model in three layers: settings, what happens in between, and the objective.

No setting causes another, and none acts on the objective but through what happens in between.  With these layers as
background knowledge, edges are found by tests of conditional independence, as in the first phase of FCI.  Within the
middle layer a hidden cause can't be distinguished from an effect, so links there have no direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from shunter.world import F64

ALPHA = 0.05  # of each test of independence
MOST_GIVEN = 2  # variables that a test holds fixed
RIDGE = 1e-2
OBJECTIVE = "objective"


@dataclass(frozen=True, eq=False)
class CausalSamples:
    """Runs with different settings; one row each."""

    settings: tuple[str, ...]
    between: tuple[str, ...]
    inputs: F64  # (runs, settings)
    middle: F64  # (runs, between)
    objective: F64  # (runs,) larger is better


@dataclass(frozen=True)
class CausalGraph:
    """What acts on what."""

    settings: tuple[str, ...]
    between: tuple[str, ...]
    effects: frozenset[tuple[str, str]]  # of settings, on what happens in between
    links: frozenset[frozenset[str]]  # between two of these, without a direction
    causes: frozenset[str]  # of the objective
    arrows: frozenset[tuple[str, str]] = frozenset()  # links of which the direction is known

    def inputs_of(self, name: str) -> tuple[str, ...]:
        """The settings that act on it, also through what it is linked with."""
        reached, found = {name}, {name}
        while found:
            found = {other for at in found for other in self._before(at)} - reached
            reached |= found
        return tuple(s for s in self.settings if any((s, middle) in self.effects for middle in reached))

    def _before(self, name: str) -> set[str]:
        """What may act on it within the middle layer."""
        return {other for link in self.links if name in link for other in link if (name, other) not in self.arrows}

    def acts(self, setting: str) -> bool:
        """Whether a setting acts on anything that was measured."""
        return any(setting == acting for acting, _ in self.effects)

    def lines(self) -> list[str]:
        """The graph in words, an edge per line."""
        known = {frozenset(arrow): " -> ".join(arrow) for arrow in self.arrows}
        return [
            *(f"{setting} -> {middle}" for setting, middle in sorted(self.effects)),
            *(known.get(link, " - ".join(sorted(link))) for link in sorted(self.links, key=sorted)),
            *(f"{middle} -> {OBJECTIVE}" for middle in sorted(self.causes)),
        ]


class CausalModel:
    """A graph with an equation for each variable, fitted to all samples."""

    def __init__(self, samples: CausalSamples, graph: CausalGraph | None = None) -> None:
        self.samples, self.graph = samples, graph or learned_graph(samples)
        columns = {name: at for at, name in enumerate(samples.settings)}
        self._inputs = {
            name: np.array([columns[s] for s in self.graph.inputs_of(name)], np.int64) for name in samples.between
        }
        self._middle = {
            name: _Ridge(samples.inputs[:, self._inputs[name]], samples.middle[:, at])
            for at, name in enumerate(samples.between)
        }
        self._causes = np.array([at for at, name in enumerate(samples.between) if name in self.graph.causes], np.int64)
        self._objective = _Ridge(samples.middle[:, self._causes], samples.objective)

    def predicted(self, inputs: F64) -> F64:
        """The objective with settings (rows) that may not have been tried."""
        middle = [self._middle[name].at(inputs[:, self._inputs[name]]) for name in self.samples.between]
        return self._objective.at(np.array(middle).T[:, self._causes])

    @cached_property
    def error(self) -> float:
        """The mean relative error on its own samples."""
        off = np.abs(self.predicted(self.samples.inputs) - self.samples.objective)
        return float(np.mean(off / np.maximum(np.abs(self.samples.objective), 1e-9)))


class _Ridge:
    """A quadratic function of a few columns, by least squares with a small penalty."""

    def __init__(self, inputs: F64, values: F64) -> None:
        self._mean, self._scale = inputs.mean(axis=0), inputs.std(axis=0) + 1e-9
        self._level = float(values.mean())
        terms = self._terms(inputs)
        normal = terms.T @ terms + RIDGE * len(values) * np.eye(terms.shape[1])
        self._weights = np.linalg.solve(normal, terms.T @ (values - self._level))
        self._low, self._high = float(values.min()), float(values.max())

    def at(self, inputs: F64) -> F64:
        """Its values; none lies outside of those that it was fitted to."""
        return np.clip(self._level + self._terms(inputs) @ self._weights, self._low, self._high)

    def _terms(self, inputs: F64) -> F64:
        scaled = (inputs - self._mean) / self._scale
        pairs = [scaled[:, a] * scaled[:, b] for a in range(scaled.shape[1]) for b in range(a, scaled.shape[1])]
        return np.column_stack([scaled, *pairs]) if scaled.shape[1] else np.zeros((len(inputs), 0))


def learned_graph(samples: CausalSamples, alpha: float = ALPHA) -> CausalGraph:
    """The edges that no test of conditional independence removes."""
    names = (*samples.settings, *samples.between, OBJECTIVE)
    settings, between = len(samples.settings), len(samples.between)
    layer = np.array([0] * settings + [1] * between + [2])
    table = correlations(np.column_stack([samples.inputs, samples.middle, samples.objective]))
    edges = {
        (a, b) for a, b in combinations(range(len(names)), 2) if layer[b] - layer[a] == 1 or layer[a] == layer[b] == 1
    }
    for size in range(MOST_GIVEN + 1):
        kept = set(edges)  # as of this size, so that the order of tests does not matter
        for a, b in sorted(kept):
            near = {x for edge in kept if a in edge or b in edge for x in edge} - {a, b}
            # what holds something fixed must not come after it
            given = sorted(x for x in near if layer[x] <= layer[b])
            if any(
                _independent(table, a, b, some, len(samples.objective), alpha) for some in combinations(given, size)
            ):
                edges.discard((a, b))
    return CausalGraph(
        samples.settings,
        samples.between,
        frozenset((names[a], names[b]) for a, b in edges if layer[a] == 0),
        frozenset(frozenset((names[a], names[b])) for a, b in edges if layer[a] == layer[b] == 1),
        frozenset(names[a] for a, b in edges if layer[b] == 2),
    )


def ranked(columns: F64) -> F64:
    """The ranks in each column, so that a bent line is a line, too; equal values have equal ranks."""
    ranks = np.argsort(np.argsort(columns, axis=0, kind="stable"), axis=0).astype(np.float64)
    for at in range(columns.shape[1]):
        _, inverse, counts = np.unique(columns[:, at], return_inverse=True, return_counts=True)
        ranks[:, at] = (np.bincount(inverse, ranks[:, at]) / counts)[inverse]
    return ranks


def correlations(columns: F64) -> F64:
    """Of ranks; 0 with a column that never changes."""
    ranks = ranked(columns)
    centred = ranks - ranks.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    scaled = np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-9)
    found: F64 = scaled.T @ scaled
    np.fill_diagonal(found, 1.0)
    return found


def _independent(table: F64, a: int, b: int, given: tuple[int, ...], runs: int, alpha: float) -> bool:
    """Fisher's test of a partial correlation."""
    free = runs - len(given) - 3
    if free < 1:
        return True
    rows = [a, b, *given]
    inverse = np.linalg.pinv(table[np.ix_(rows, rows)])
    scale = math.sqrt(max(inverse[0, 0] * inverse[1, 1], 1e-12))
    partial = min(max(-inverse[0, 1] / scale, -0.999999), 0.999999)
    return math.erfc(math.sqrt(free) * abs(math.atanh(partial)) / math.sqrt(2)) > alpha

"""What a fitted model has learned, and why it says what it says about a job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.errors import ModelError
from shunter.model import Trace
from shunter.predictors import features as f
from shunter.predictors.fitted import Fitted, estimates, quantiles
from shunter.predictors.trees import FEATURE, LEAF, LOWER, MISSING, UPPER, Trees, by_feature, by_tree, leaf_of
from shunter.world import F64

CURVES = 4  # of a term of two features: this many values of the second


@dataclass(frozen=True, eq=False)
class Shape:
    """What a term adds to log run time over the values of its first feature, for some values of its second, if any."""

    term: str
    features: tuple[str, ...]
    x: F64  # in the middle of each bin
    curves: dict[str, F64]  # by the value of the second feature; one without a name where there is none
    missing: float  # what is added where the first is not known


@dataclass(frozen=True)
class TermEffect:
    """What a term or feature adds to one estimate."""

    name: str
    value: tuple[float, ...]  # of its features, NaN: not known
    log_factor: float


@dataclass(frozen=True)
class Reasons:
    """An estimate, taken apart."""

    job: str
    recent_s: float  # what the nearest took most recently: where the model begins
    base: float  # what it adds to any job, log
    parts: tuple[TermEffect, ...]  # the largest first
    history_s: float  # the rolling mean, NaN: nothing had ended
    estimate_s: float
    quantiles_s: tuple[float, ...]  # as in ``calibrating``
    actual_s: float


def shapes(fitted: Fitted) -> list[Shape]:
    """The curve of every term, the most important first; none where trees are no terms."""
    at = dict(zip(fitted.terms, fitted.trees.roots, strict=False))
    return [_shape(fitted.trees, term, int(at[term])) for term in fitted.importance if term in at]


def _shape(trees: Trees, term: str, root: int) -> Shape:
    names = tuple(term.split(" & "))
    columns = [f.NAMES.index(name) for name in names]
    middles = [_middles(_edges(trees, root, column)) for column in columns]
    row, curves = np.full(f.WIDTH, np.nan), {}
    for second in _some(middles[1]) if len(columns) > 1 else [np.nan]:
        if len(columns) > 1:
            row[columns[1]] = second
        curve = []
        for x in middles[0]:
            row[columns[0]] = x
            curve.append(trees.value[leaf_of(trees, root, row)])
        curves["" if np.isnan(second) else f"{names[1]} {second:.3g}"] = np.array(curve)
    row[columns[0]] = np.nan
    return Shape(term, names, middles[0], curves, float(trees.value[leaf_of(trees, root, row)]))


def _edges(trees: Trees, root: int, column: int) -> F64:
    """Where a tree splits a feature."""
    found, left, seen = set(), [root], {root}
    while left:
        node = left.pop()
        if trees.nodes[node, FEATURE] != LEAF:
            if trees.nodes[node, FEATURE] == column and np.isfinite(trees.threshold[node]):
                found.add(float(trees.threshold[node]))
            new = {int(trees.nodes[node, way]) for way in (LOWER, UPPER, MISSING)} - seen
            left += new
            seen |= new  # several ways may lead to a node
    return np.array(sorted(found))


def _middles(edges: F64) -> F64:
    """A value in each bin."""
    if not len(edges):
        return np.zeros(1)
    step = (edges[-1] - edges[0]) / len(edges) if len(edges) > 1 else 1.0
    return np.concatenate(([edges[0] - step / 2], (edges[1:] + edges[:-1]) / 2, [edges[-1] + step / 2]))


def _some(values: F64) -> F64:
    """A few of them, from end to end."""
    places = np.unique(np.linspace(0, len(values) - 1, CURVES).round().astype(np.int64))
    some: F64 = values[places]
    return some


def reasons(fitted: Fitted, trace: Trace, job_id: str) -> Reasons:
    """Why a model estimates a job of a trace as it does, as of its submission."""
    found = np.flatnonzero(trace.job_id == job_id)
    if not len(found):
        raise ModelError(f"trace '{trace.name}' has no job '{job_id}'; its first is '{trace.job_id[0]}'")
    job = int(found[0])
    row = f.stream(trace, half_life_days=fitted.half_life_days)[job]
    seconds = estimates(fitted, row[None])
    base, parts = taken_apart(fitted, row)
    return Reasons(
        job_id,
        float(np.exp(row[f.F_RECENT])),
        base,
        tuple(sorted(parts, key=lambda part: -abs(part.log_factor))),
        float(np.exp(row[f.F_RECENT] + row[f.F_HISTORY])),
        float(seconds[0]),
        tuple(quantiles(fitted, seconds)[:, 0].tolist()),
        float(trace.duration[job] / 1000),
    )


def taken_apart(fitted: Fitted, row: F64) -> tuple[float, list[TermEffect]]:
    """What a model adds to any job, and what each term, or feature where it has no terms, adds to this one (logs)."""
    trees = fitted.trees
    if fitted.terms:
        added = np.zeros(len(trees.roots))
        by_tree(trees, row, added)
        names, base = fitted.terms, float(trees.base[0])
    else:
        added = np.zeros(f.WIDTH)
        by_feature(trees, row, added)
        names, base = f.NAMES, float(trees.base[0] + trees.value[trees.roots].sum())
    parts = [
        TermEffect(name, tuple(float(row[f.NAMES.index(one)]) for one in name.split(" & ")), float(value))
        for name, value in zip(names, added, strict=True)
        if value != 0.0
    ]
    return base, parts

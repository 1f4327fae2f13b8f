"""Trees as arrays say what the libraries' own models say."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import FAR_BELOW_QUADRATIC, growth
from shunter.predictors import trees as t
from shunter.seeding import rng


def table(jobs: int, width: int, seed: int, missing: float = 0.2):
    draw = rng(seed, "table")
    rows = np.round(draw.normal(0, 2, (jobs, width)), 1)  # round, so that values fall on edges
    target = (
        np.nan_to_num(rows[:, 0]) * 2 + np.sin(rows[:, 1]) + (rows[:, 2] > 0) * rows[:, 0] + draw.normal(0, 0.1, jobs)
    )
    rows[draw.random(rows.shape) < missing] = np.nan
    return rows, target


def values(trees, rows):
    found = np.empty(len(rows))
    t.evaluate_all(trees, rows, found)
    return found


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("objective", ["l1", "l2"])
def test_the_same_as_lightgbm(missing, objective):
    lightgbm = pytest.importorskip("lightgbm", reason="no lightgbm; ./scripts/install all,dev has it")
    rows, target = table(2_000, 5, 0, missing)
    options = {"objective": objective, "verbosity": -1, "num_threads": 1, "seed": 0}
    booster = lightgbm.train(options, lightgbm.Dataset(rows, target), num_boost_round=30)
    trees = t.of_lightgbm(booster.dump_model())
    asked, _ = table(3_000, 5, 1, 0.3)  # also where nothing was missing when it was trained
    np.testing.assert_allclose(values(trees, asked), booster.predict(asked), atol=1e-6)
    parts = np.zeros(5)
    t.by_feature(trees, asked[0], parts)
    roots = trees.value[trees.roots].sum()
    assert roots + parts.sum() == pytest.approx(booster.predict(asked[:1])[0])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_same_as_an_ebm(missing):
    glassbox = pytest.importorskip("interpret.glassbox", reason="no interpret; ./scripts/install all,dev has it")
    rows, target = table(1_500, 4, 2, missing)
    ebm = glassbox.ExplainableBoostingRegressor(outer_bags=1, max_rounds=100, interactions=3, n_jobs=1, random_state=0)
    asked, _ = table(3_000, 4, 3, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ebm.fit(rows, target)
        expected = ebm.predict(asked)
    columns = [6, 1, 4, 2]  # where its features are in a wider row
    wide = np.full((len(asked), 8), np.nan)
    wide[:, columns] = asked
    trees = t.of_ebm(ebm, columns)
    assert len(trees.roots) == len(ebm.term_features_) > 4
    np.testing.assert_allclose(values(trees, wide), expected, atol=1e-6)
    parts = np.zeros(len(trees.roots))
    t.by_tree(trees, wide[0], parts)
    assert parts.sum() + trees.base[0] == pytest.approx(expected[0])


EDGES = st.lists(st.floats(-10, 10), unique=True, max_size=6).map(sorted)


@settings(max_examples=60, deadline=None)
@given(EDGES, EDGES, st.lists(st.floats(-12, 12) | st.just(math.nan), min_size=2, max_size=2), st.data())
def test_a_table_of_bins_as_a_tree(first, second, row, data):
    """Against a plain look-up, on edges too."""
    row = [data.draw(st.sampled_from([x, *edges])) for x, edges in zip(row, (first, second), strict=True)]
    scores = np.arange((len(first) + 3) * (len(second) + 3), dtype=float).reshape(len(first) + 3, -1)
    growing = t.Builder()
    growing.roots.append(t._term(growing, [0, 1], [np.array(first), np.array(second)], scores))
    bins = [0 if math.isnan(x) else 1 + sum(x >= edge for edge in e) for x, e in zip(row, (first, second), strict=True)]
    assert t.evaluate(growing.grown(0.5), np.array(row)) == scores[bins[0], bins[1]] + 0.5


def test_no_trees_say_nothing():
    assert t.evaluate(t.no_trees(), np.zeros(3)) == 0.0


def test_the_mean_of_models():
    """Each of them a tree of one split and a tree that is a leaf."""
    models = []
    for shift in (0.0, 3.0):
        growing = t.Builder()
        leaves = growing.add(1 + shift), growing.add(2 + shift)
        growing.roots += [growing.join(growing.add(0, 0, shift), *leaves, leaves[0]), growing.add(shift)]
        models.append(growing.grown(shift))
    mean = t.mean_of(models)
    for row in np.array([[-1.0], [1.0], [5.0], [math.nan]]):
        assert t.evaluate(mean, row) == pytest.approx(np.mean([t.evaluate(model, row) for model in models]))


def chain(length: int) -> t.Trees:
    """A tree in which every node but the last leads to the next one, numbered from the leaf upwards."""
    growing = t.Builder()
    node = growing.add(1.0)
    for _ in range(length - 1):
        node = growing.join(growing.add(0.0, 0, 1.0), node, node, node)
    growing.roots.append(node)
    return growing.grown(0.0)


def test_checking_takes_as_long_as_there_are_nodes():
    assert growth(lambda trees: t.check(trees, 1), chain(600), chain(9_600)) < FAR_BELOW_QUADRATIC


def test_a_tree_that_is_too_deep_or_a_circle_is_refused():
    t.check(chain(t.DEEPEST), 1)
    with pytest.raises(ValueError, match="has more than 10,000 nodes"):
        t.check(chain(t.DEEPEST + 2), 1)
    circle = chain(100)
    circle.nodes[50, t.UPPER] = 80
    with pytest.raises(ValueError, match="is a cycle"):
        t.check(circle, 1)

"""What the model says of pairs that were not measured, on our tables and on Lucid's; the fragile and the heavy."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import profiles

from shunter.cluster import SHARING
from shunter.errors import SharingError
from shunter.sharing import published
from shunter.sharing.interference import FLOOR, Interference, curve, held_out, terms
from shunter.sharing.judging import GOOD, good_pairs_by_model, good_pairs_by_tree, recall_at, roles
from shunter.sharing.profiles import measured

PER_CENT = st.floats(0, 100)


@given(st.lists(st.tuples(PER_CENT, PER_CENT), min_size=2, max_size=5))
def test_speeds_are_speeds(workloads):
    gpu, mem = zip(*workloads, strict=True)
    for way in SHARING:
        speeds = measured(way).interference.speeds(profiles(gpu, mem))
        assert ((speeds >= FLOOR) & (speeds <= 1)).all()


@pytest.mark.parametrize("way", SHARING)
def test_a_busier_neighbour_hardly_makes_anything_faster(way):
    """The weights may have any sign; what they say together still has sense."""
    gpu = np.linspace(5, 100, 20)
    speeds = measured(way).interference.speeds(profiles(gpu, np.full(20, 10.0)))
    assert (np.diff(speeds, axis=1) < 0.01).all()


def test_a_plain_relation_is_found():
    """A loss that is one of the terms is fitted, up to what the ridge costs."""
    gpu = np.linspace(5, 100, 24)
    blank = profiles(gpu, np.random.default_rng(1).uniform(2, 60, 24))
    true = 1 - 0.5 * terms(blank)[:, :, 2]
    fitted = Interference.fit(replace(blank, pair=true)).speeds(blank)
    assert np.abs(fitted - true).max() < 0.05


def test_measured_first_then_fitted():
    speeds = np.full((3, 3), np.nan)
    speeds[0, 1], speeds[1, 0], speeds[1, 1], speeds[0, 0] = 1.07, 0.2, 0.6, 0.9
    found = profiles([20, 90, 50], pair=speeds)
    full = found.speeds()
    assert full[0, 1] == 1.0  # faster than alone: the noise of measuring
    assert full[1, 0] == 0.2
    assert full[1, 1] == 0.6
    assert full[2, 2] == found.interference.speeds(found)[2, 2]


def test_too_few_pairs():
    with pytest.raises(SharingError, match="there are 0 measured speeds of pairs; the interference model needs 3"):
        profiles([10, 20]).speeds()


@pytest.mark.parametrize("by_model", [True, False])
def test_pairs_held_out_are_not_looked_at(by_model):
    """What is said about a pair does not change when any pair of either, or of either's model, does."""
    rng = np.random.default_rng(5)
    found = profiles(rng.uniform(5, 100, 6), pair=rng.uniform(0.5, 1, (6, 6)), models=["a", "a", "b", "c", "d", "e"])
    other = found.pair.copy()
    other[0, 2:], other[2:, 0] = 0.31, 0.32  # all of the first workload, of model a
    same = held_out(found, by_model) == held_out(replace(found, pair=other), by_model)
    assert same[0].all()
    assert same[:, 0].all()
    assert same[1].all() == by_model
    assert not same[2:, 2:].all()


def check_shape(rows):
    """The published shape: little is lost below 50 %, more and more beyond."""
    speeds = [row["speed"] for row in rows if row["pairs"] >= 4]
    assert all(b <= a + 0.05 for a, b in pairwise(speeds))
    assert speeds[-1] < speeds[0] - 0.2


def mistakes(found):
    """Mean error of the model on pairs of models not seen, and that of one speed for all."""
    known = ~np.isnan(found.pair)
    seen, said = np.minimum(found.pair[known], 1), held_out(found)[known]
    return np.abs(seen - said).mean(), np.abs(seen - seen.mean()).mean()


@pytest.mark.parametrize(("way", "bound"), [("time-slice", 0.075), ("mps", 0.045)])
def test_our_tables(way, bound):
    found = measured(way)
    check_shape([row for row in curve(found) if way == "mps" or row["from"] >= 25])
    error, plain = mistakes(found)
    assert error < bound
    assert error < 0.6 * plain


@pytest.mark.parametrize("way", SHARING)
def test_good_pairs_are_found(way):
    """Of two workloads of models that were never seen, the model says better than the tree whether they suit."""
    found = measured(way)
    model = good_pairs_by_model(found)
    assert model.precision > 0.9
    assert model.recall > 0.9
    assert recall_at(found, 0.8) >= 0.89
    pytest.importorskip("sklearn", reason="no scikit-learn")
    tree = good_pairs_by_tree(found)
    assert tree.precision < model.precision - 0.05
    assert tree.recall > 0.9


def test_what_finding_means():
    """Half of the workloads suit each other, and nobody else."""
    gpu = np.append(np.linspace(20, 40, 10), np.linspace(80, 98, 10))
    light = gpu < 50
    found = profiles(gpu, pair=np.where(light[:, None] & light[None, :], 0.99, 0.5))
    chosen, precision, recall = good_pairs_by_model(found)
    assert (precision, recall) == (1.0, chosen / 55)
    assert recall > 0.6
    never = profiles(gpu, pair=np.full((20, 20), GOOD - 0.01))
    assert good_pairs_by_model(never) == (0, 0.0, 0.0)


def test_fragile_and_heavy_are_not_the_same():
    """Who loses and who makes others lose, whatever neighbours each was measured with."""
    keeps, leaves = np.array([0.4, 1.0, 0.9, 0.8]), np.array([0.0, 0.1, 0.0, -0.1])
    pair = keeps[:, None] + leaves[None, :]
    pair[0, 3] = pair[2, 1] = np.nan
    kept, left = roles(profiles([5, 20, 50, 95], pair=pair))
    assert kept == pytest.approx(keeps)
    assert left - left.mean() == pytest.approx(leaves)
    slices = measured()
    kept, left = roles(slices)
    ppo, gpt = slices.index("ppo-b256"), slices.index("gpt-b8")
    assert kept[ppo] < 0.6  # fragile
    assert left[ppo] > 0.9  # and light
    assert left[gpt] < 0.8  # heavy
    assert roles(measured("mps"))[0][ppo] > 0.9


def test_lucids_tables(data):
    found, _ = published.read(data)
    busy = found.gpu_util[:, None] + found.gpu_util[None, :]
    assert np.nanmean(np.where(busy < 50, found.pair, np.nan)) >= 0.9
    check_shape(curve(found))
    error, plain = mistakes(found)
    assert error < 0.08
    assert error < 0.9 * plain

"""The interference model: what it says of pairs that were not measured, on our tables and on Lucid's."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from made import profiles

from shunter.errors import SharingError
from shunter.sharing import published
from shunter.sharing.interference import FLOOR, Interference, curve, held_out, nonnegative, terms
from shunter.sharing.profiles import measured

PER_CENT = st.floats(0, 100)
WEIGHT = st.floats(0, 3)


@given(arrays(int, (9, 3), elements=st.integers(0, 100)), arrays(int, 9, elements=st.integers(-100, 200)))
def test_least_squares_without_negative_weights(factors, wanted):
    """No small change of the weights helps: the conditions of Karush, Kuhn and Tucker."""
    factors, wanted = factors / 100, wanted / 100
    found = nonnegative(factors, wanted)
    slope = factors.T @ (factors @ found - wanted)
    assert (found >= 0).all()
    assert (slope[found == 0] >= -1e-6).all()
    assert np.abs(slope[found > 1e-9]).max(initial=0.0) < 1e-6


@given(st.tuples(WEIGHT, WEIGHT, WEIGHT), st.lists(st.tuples(PER_CENT, PER_CENT), min_size=2, max_size=5), PER_CENT)
def test_a_busier_neighbour_makes_nothing_faster(weights, workloads, more):
    gpu, mem = map(np.array, zip(*workloads, strict=True))
    model = Interference(weights)
    before = model.speeds(profiles(gpu, mem))
    gpu, mem = gpu.copy(), mem.copy()
    gpu[0], mem[0] = max(gpu[0], more), max(mem[0], more)
    after = model.speeds(profiles(gpu, mem))
    assert (after[1:, 0] <= before[1:, 0] + 1e-12).all()
    assert ((before >= FLOOR) & (before <= 1)).all()


def test_weights_are_found_again():
    gpu, mem = np.linspace(5, 100, 8), np.array([3, 50, 10, 70, 20, 40, 5, 60.0])
    blank = profiles(gpu, mem)
    true = Interference((0.3, 0.2, 0.1))
    found = Interference.fit(replace(blank, pair=true.speeds(blank)))
    assert found.weights == pytest.approx(true.weights)


def test_measured_first_then_fitted():
    speeds = np.full((3, 3), np.nan)
    speeds[0, 1], speeds[1, 0], speeds[1, 1], speeds[0, 0] = 1.07, 0.2, 0.6, 0.9
    found = profiles([20, 90, 50], pair=speeds)
    full = found.speeds()
    assert full[0, 1] == 1.0  # faster than alone: the noise of measuring
    assert full[1, 0] == 0.2
    assert full[1, 1] == 0.6
    assert full[2, 2] == found.interference.speeds(found)[2, 2]
    assert full[2, 1] <= full[2, 0] < 1.0  # never "no slowdown"


def test_too_few_pairs():
    with pytest.raises(SharingError, match="there are 0 measured speeds of pairs; the interference model needs 3"):
        profiles([10, 20]).speeds()


def test_pairs_held_out_are_not_looked_at():
    """What is said about a pair doesn't change when its own speed does."""
    rng = np.random.default_rng(5)
    found = profiles(rng.uniform(5, 100, 6), pair=rng.uniform(0.5, 1, (6, 6)), models=["a", "a", "b", "c", "d", "e"])
    other = found.pair.copy()
    other[0, 2], other[1, 2] = 0.31, 0.32  # of models a and b
    one, two = held_out(found)[1], held_out(replace(found, pair=other))[1]
    same = one == two
    of_a_or_b = np.array([i < 3 or j < 3 for i in range(6) for j in range(6)])
    assert same[[0 * 6 + 2, 1 * 6 + 2, 2 * 6 + 0]].all()
    assert not same[~of_a_or_b].any()


def check_shape(rows):
    """The published shape: little is lost below 50 %, more and more beyond."""
    speeds = [row["speed"] for row in rows if row["pairs"] >= 4]
    assert all(b <= a + 0.05 for a, b in pairwise(speeds))
    assert speeds[-1] < speeds[0] - 0.2


def below_50(found):
    """Mean speed of those whose GPU utilisations sum below 50 %."""
    busy = found.gpu_util[:, None] + found.gpu_util[None, :]
    return np.nanmean(np.where(busy < 50, found.pair, np.nan))


def without(found, name):
    """The tables without what one workload loses."""
    pair = found.pair.copy()
    pair[found.index(name)] = np.nan
    return replace(found, pair=pair)


def mistakes(found):
    """Mean error of the model on pairs of models not seen, and that of one speed for all."""
    seen, said = held_out(found)
    return np.abs(seen - said).mean(), np.abs(seen - seen.mean()).mean()


def test_our_tables():
    """PPO waits for each of its tiny kernels, so it loses most of its speed to any neighbour, at 6 % utilisation."""
    found = measured()
    others = without(found, "ppo-b256")
    assert 0.85 <= below_50(found) < 0.9 <= below_50(others)
    assert found.pair[found.index("ppo-b256")].max() < 0.75
    check_shape(curve(others))
    check_shape([row for row in curve(found) if row["from"] >= 25])
    for tables, bound in ((found, 0.11), (others, 0.075)):
        error, plain = mistakes(tables)
        assert error < bound
        assert error < 0.75 * plain


def test_lucids_tables(data):
    found, _ = published.read(data)
    assert below_50(found) >= 0.9
    check_shape(curve(found))
    error, plain = mistakes(found)
    assert error < 0.08
    assert error < 0.9 * plain
    assert terms(found).shape == (66, 66, 3)

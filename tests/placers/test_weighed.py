"""The placement ``weighed`` beside HiGHS, which gets RLTune's model as constraints and knows nothing of trying."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from shunter.placers.weighed import place
from shunter.testing.placement import cost, layouts
from shunter.testing.placement import place as reference


def placed(free, sizes, gpus):
    """What the rule chooses, by node; () if it declines."""
    nodes, counts = np.zeros(64, np.int64), np.zeros(64, np.int64)
    order = np.lexsort((np.arange(len(sizes)), -np.array(sizes)))
    used = place(np.array(free), np.array(sizes), order, gpus, 0, nodes, counts)
    return tuple(sorted(zip(nodes[:used].tolist(), counts[:used].tolist(), strict=True)))


def solved(ways, free, sizes):
    """The least cost by HiGHS.

    Columns: one for each way (one of them is 1), then for each node whether it has free GPUs, has used ones, and is
    partly used, then the most and the fewest free GPUs of a node.
    """
    n, w = len(free), len(ways)
    taken = np.zeros((n, w))
    for way, where in enumerate(ways):
        for node, count in where:
            taken[node, way] = count
    one, none, size, free = np.eye(n), np.zeros((n, n)), np.diag(sizes), np.array(free)
    no, yes = np.zeros((n, 1)), np.ones((n, 1))
    rows = [
        (np.hstack([-taken, -size, none, none, no, no]), -np.inf, -free),  # free GPUs: the first flag is 1
        (np.hstack([taken, none, -size, none, no, no]), -np.inf, free - np.array(sizes)),  # used ones: the second is 1
        (np.hstack([np.zeros((n, w)), one, one, -one, no, no]), -np.inf, np.ones(n)),  # both: partly used
        (np.hstack([-taken, none, none, none, -yes, no]), -np.inf, -free),  # the most is no less than any
        (np.hstack([taken, none, none, none, no, yes]), -np.inf, free),  # the fewest no more
        (np.hstack([np.ones((1, w)), np.zeros((1, 3 * n + 2))]), 1, 1),  # one way
    ]
    weights = np.hstack([np.zeros(w + 2 * n), np.ones(n), np.array([1, -1]) * 0.3 * 8 / max(sizes)])
    flags = w + 3 * n
    return milp(
        weights,
        constraints=[LinearConstraint(*row) for row in rows],
        integrality=np.hstack([np.ones(flags), np.zeros(2)]),
        bounds=Bounds(0, np.hstack([np.ones(flags), np.full(2, max(sizes))])),
    ).fun


@st.composite
def states(draw):
    """Sizes of nodes, what is free on them, and a job."""
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=7))
    if draw(st.booleans()):
        sizes = [8] * len(sizes)
    free = [draw(st.one_of(st.sampled_from([0, size]), st.integers(0, size))) for size in sizes]
    return free, sizes, draw(st.integers(1, max(1, sum(free))))


@given(states())
def test_no_way_is_better_by_highs(state):
    free, sizes, gpus = state
    pool = dict(enumerate(sizes))
    ways, chosen = layouts(gpus, free, pool), placed(free, sizes, gpus)
    assert bool(chosen) == bool(ways)
    if ways:
        assert chosen in ways
        assert chosen == reference(gpus, free, pool, "weighed")  # ties included
        assert float(cost(chosen, free, pool)) == pytest.approx(solved(ways, free, sizes))


@pytest.mark.parametrize(
    ("free", "gpus", "least"),
    [
        ([2, 8, 8], 2, 2.4),  # no node in part, 8 - 0 free
        ([4, 4, 4, 6], 2, 4.0),  # four in part, all even
        ([8, 5, 7, 3], 12, 1 + 2.4),  # one in part; consolidated there would be three
    ],
)
def test_the_model_is_not_indifferent_to_partly_used_nodes(free, gpus, least):
    """As published, a flag for a partly used node may always be 0."""
    pool = dict.fromkeys(range(len(free)), 8)
    assert solved(layouts(gpus, free, pool), free, [8] * len(free)) == pytest.approx(least)


def test_shares_of_a_gpu_are_weighed_as_gpus_of_a_node():
    """In thousandths the gap is larger, but not worth more."""
    assert placed([2, 2, 8], [8] * 3, 2) == ((0, 2),)
    assert placed([250, 250, 1000], [1000] * 3, 250) == ((0, 250),)

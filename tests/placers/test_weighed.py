"""The placement ``weighed`` beside HiGHS, which gets RLTune's model as constraints and knows nothing of trying."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

import shunter
from shunter import world as w
from shunter.placers import weighed_ahead, weighed_artifact
from shunter.placers.weighed import place
from shunter.testing.placement import cost, layouts
from shunter.testing.placement import place as reference

RULES = {"weighed": place, "weighed-ahead": weighed_ahead.place, "weighed-artifact": weighed_artifact.place}


def placed(free, sizes, gpus, rule="weighed", following=0):
    """What the rule chooses, by node; () if it declines."""
    nodes, counts = np.zeros(64, np.int64), np.zeros(64, np.int64)
    order = np.lexsort((np.arange(len(sizes)), -np.array(sizes)))
    used = RULES[rule](np.array(free), np.array(sizes), order, gpus, following, nodes, counts)
    return tuple(sorted(zip(nodes[:used].tolist(), counts[:used].tolist(), strict=True)))


def solved(ways, free, sizes, following=0, published=False):
    """The least cost by HiGHS.

    Columns: one for each way (one of them is 1), then for each node whether it has free GPUs, has used ones, is partly
    used, and holds the following job, then the most and the fewest free GPUs of a node.  As published, a flag of a
    partly used node only says that it may be 1, by RLTune's large number of 10 more than a node has.
    """
    n, many = len(free), len(ways)
    taken = np.zeros((n, many))
    for way, where in enumerate(ways):
        for node, count in where:
            taken[node, way] = count
    one, none, size, free = np.eye(n), np.zeros((n, n)), np.diag(sizes), np.array(free)
    no, yes = np.zeros((n, 1)), np.ones((n, 1))
    wanted = following or 10_000  # none follows: it fits nowhere, which is as good
    rows = [
        (np.hstack([taken, none, none, none, wanted * one, no, no]), -np.inf, free),  # the following job fits there
        (np.hstack([-taken, none, none, none, none, -yes, no]), -np.inf, -free),  # the most is no less than any
        (np.hstack([taken, none, none, none, none, no, yes]), -np.inf, free),  # the fewest no more
        (np.hstack([np.ones((1, many)), np.zeros((1, 4 * n + 2))]), 1, 1),  # one way
    ]
    if published:
        rows += [
            (np.hstack([taken, none, none, one, none, no, no]), -np.inf, free),  # partly used: something is free
            (np.hstack([-taken, none, none, 11 * one, none, no, no]), -np.inf, np.array(sizes) + 10 - free),  # not all
        ]
    else:
        used = free - np.array(sizes)
        rows += [
            (np.hstack([-taken, -size, none, none, none, no, no]), -np.inf, -free),  # free GPUs: the first flag is 1
            (np.hstack([taken, none, -size, none, none, no, no]), -np.inf, used),  # used ones: the second is 1
            (np.hstack([np.zeros((n, many)), one, one, -one, none, no, no]), -np.inf, np.ones(n)),  # both: partly used
        ]
    gap = np.array([1, -1]) * 0.3 * 8 / max(sizes)
    weights = np.hstack([np.zeros(many + 2 * n), np.ones(n), np.full(n, -0.5), gap])
    flags = many + 4 * n
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


@pytest.mark.parametrize("rule", ["weighed-ahead", "weighed-artifact"])
@given(states(), st.integers(0, 9))
def test_no_way_is_better_by_highs_with_the_next_job_in_view(rule, state, following):
    free, sizes, gpus = state
    pool = dict(enumerate(sizes))
    ways, chosen = layouts(gpus, free, pool), placed(free, sizes, gpus, rule, following)
    assert bool(chosen) == bool(ways)
    if ways:
        assert chosen == reference(gpus, free, pool, rule, following)
        published = rule == "weighed-artifact"
        least = float(cost(chosen, free, pool, following, not published))
        assert least == pytest.approx(solved(ways, free, sizes, following, published))


def test_a_node_stays_whole_for_the_next_job():
    assert placed([4, 8], [8, 8], 2) == ((1, 2),)  # evenly
    assert placed([4, 8], [8, 8], 2, "weighed-ahead", 8) == ((0, 2),)
    assert placed([4, 8], [8, 8], 2, "weighed-ahead", 0) == ((1, 2),)


@pytest.mark.parametrize(("placement", "where"), [("weighed", [(0, 2), (1, 6)]), ("weighed-ahead", [(1, 8)])])
def test_the_rule_is_told_what_the_next_waiting_job_wants(placement, where):
    """The second job goes beside the first if the third is to have a node of its own."""
    jobs = shunter.Trace.of(
        "three", ["half", "small", "whole"], submit=[0, 10_000, 10_000], duration=[100_000, 40_000, 40_000],
        gpus=[4000, 2000, 8000],
    )  # fmt: skip
    found = shunter.simulate(jobs, "2x8", f"fifo:placement={placement}")
    starts = [(node, gpus // 1000) for _, kind, job, node, gpus in found.events.tolist() if (kind, job) == (w.START, 2)]
    assert starts == where


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

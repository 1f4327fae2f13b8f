"""Placing by network tier: where there is room, which nodes are chosen, and how far a placement reaches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.cluster import Cluster, NodeGroup, Tier
from shunter.network.placing import shape_of, top
from shunter.scheduling import tiers as t
from shunter.sim import Simulator
from shunter.traces.synthetic import synthetic

TIERS = (Tier("machine", 100, 1), Tier("rack", 50, 1), Tier("network", 10, 10))
FLAT = Cluster("2 racks of 3 x 4", (NodeGroup(6, 4, racks=(3, 3)),), tiers=TIERS)
DEEP = Cluster(
    "4 racks in 2 pods",
    (NodeGroup(12, 4, racks=(3, 3, 3, 3)),),
    tiers=(*TIERS[:2], Tier("pod", 20, 5, joins=2), TIERS[2]),
)


def world_of(cluster):
    return Simulator(synthetic(jobs=1, gpus=4), cluster).world


def chosen(rule, usable, gpus, *more):
    """What a rule takes of each node; only nodes with something."""
    nodes, counts = np.zeros(64, np.int64), np.zeros(64, np.int64)
    mine = np.ones(len(usable), np.int64)
    used = rule(np.array(usable), mine, gpus, *more, nodes, counts)
    return dict(zip(nodes[:used].tolist(), counts[:used].tolist(), strict=True))


def evenly(usable, gpus, cluster=FLAT):
    nodes, counts = np.zeros(64, np.int64), np.zeros(64, np.int64)
    mine, racks = np.ones(len(usable), np.int64), len(set(cluster.node_rack.tolist()))
    used = t.evenly(world_of(cluster), np.array(usable), mine, gpus, racks, nodes, counts)
    return dict(zip(nodes[:used].tolist(), counts[:used].tolist(), strict=True))


def test_in_order_takes_what_comes_first():
    assert chosen(t.in_order, [1, 0, 4, 4], 6) == {0: 1, 2: 4, 3: 1}


def test_packed_takes_the_freest_and_then_the_fullest_that_suffices():
    assert chosen(t.packed, [1, 3, 4, 2], 6) == {2: 4, 3: 2}
    assert chosen(t.packed, [1, 1, 1, 1], 3) == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize(
    ("usable", "gpus", "expected"),
    [
        ([4, 4, 4, 4, 4, 4], 8, {0: 4, 1: 4}),  # fewest machines of one rack
        ([0, 4, 0, 0, 2, 2], 4, {1: 4}),  # one machine is the most even of all
        ([3, 2, 3, 0, 0, 0], 4, {0: 2, 1: 2}),  # the fullest machines that do
        ([2, 0, 0, 0, 2, 0], 4, {0: 2, 4: 2}),  # one machine in each of two racks
        ([3, 0, 0, 0, 1, 0], 4, {0: 3, 4: 1}),  # nothing even is free
    ],
)
def test_evenly(usable, gpus, expected):
    assert evenly(usable, gpus) == expected


@given(usable=st.lists(st.integers(0, 4), min_size=6, max_size=6), gpus=st.integers(2, 24), seed=st.integers(0, 2**62))
def test_every_rule_takes_as_many_as_wanted_and_only_what_is_free(usable, gpus, seed):
    if sum(usable) < gpus:
        return
    by_node = [chosen(t.in_order, usable, gpus), chosen(t.scattered, usable, gpus, seed)]
    by_room = [chosen(t.packed, usable, gpus), evenly(usable, gpus)]  # these may begin anywhere
    assert all(list(counts) == sorted(counts) for counts in by_node)
    for counts in by_node + by_room:
        assert sum(counts.values()) == gpus
        assert all(0 < count <= usable[node] for node, count in counts.items())


@pytest.mark.parametrize("gpus", [4, 12])  # few are drawn, of many it is asked of each free one
def test_scattering_is_by_chance_and_every_gpu_is_as_likely(gpus):
    usable, hits = [1, 4, 0, 3, 4, 4], np.zeros(6)
    for seed in range(4000):
        for node, count in chosen(t.scattered, usable, gpus, seed * 7_919_999).items():
            hits[node] += count
    share = hits / 4000 / np.maximum(usable, 1)
    assert share[[0, 1, 3, 4, 5]] == pytest.approx(gpus / 16, abs=0.03)


@pytest.mark.parametrize("cluster", [FLAT, DEEP], ids=["three tiers", "four tiers"])
@given(data=st.data())
def test_the_reach_of_a_placement_is_that_of_its_shape(cluster, data):
    """Units of the widest tier where it is even, else all its GPUs."""
    nodes = sorted(data.draw(st.sets(st.integers(0, cluster.nodes - 1), min_size=1, max_size=6)))
    alike = data.draw(st.integers(0, 4))
    counts = [alike or data.draw(st.integers(1, 4)) for _ in nodes]
    domains = [domain[nodes].tolist() for domain in cluster.domains]
    shape = shape_of(counts, *domains)
    tier = top(shape) if len(nodes) > 1 else 0
    ring = tier > 0 and shape[tier] == sum(counts)
    found = t.reach_of(world_of(cluster), tier, np.array(nodes), np.array(counts), len(nodes))
    even_everywhere = len(set(counts)) == 1 and not ring
    assert found == (1 if tier == 0 else shape[tier] if ring or even_everywhere else sum(counts))

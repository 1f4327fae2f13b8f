"""From placements to shapes and times; Dally's Table I."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter import clusters
from shunter.cluster import Cluster, NodeGroup, Tier
from shunter.errors import NetworkError
from shunter.network.collectives import Dimension
from shunter.network.iteration import iteration
from shunter.network.models import find
from shunter.network.paper import PRINTED, SHAPES, TableFabric, agrees, table
from shunter.network.placing import Costs, TierNetwork, placed, possible_shapes, room, shape_of, top

TIERS = (Tier("machine", 100, 0.25), Tier("rack", 50, 1), Tier("pod", 25, 5, "ring"), Tier("site", 10, 50, "full"))


@pytest.mark.parametrize(
    ("gpus", "domains", "shape"),
    [
        ([8], [[3]], (8, 1, 1)),
        ([4, 4], [[0, 0]], (4, 2, 1)),
        ([4, 4], [[0, 1]], (4, 1, 2)),
        ([2, 2, 2, 2], [[5, 9, 5, 9]], (2, 2, 2)),
        ([5, 3], [[0, 0]], (1, 8, 1)),
        ([5, 3], [[0, 1]], (1, 1, 8)),
        ([4, 4, 4], [[0, 0, 1]], (1, 1, 12)),
        ([4, 4], [], (4, 2)),
        ([1, 1, 1, 1], [[0, 0, 1, 1], [0, 0, 1, 1]], (1, 2, 1, 2)),
        ([1, 1, 1, 1], [[0, 1, 2, 3], [0, 0, 0, 0]], (1, 1, 4, 1)),
        ([1, 1, 1], [[0, 1, 2], [0, 0, 1]], (1, 1, 1, 3)),
    ],
)
def test_shapes(gpus, domains, shape):
    assert shape_of(gpus, *domains) == shape


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3)), min_size=1, max_size=8))
def test_a_shape_has_all_gpus_and_is_among_the_possible_ones(machines):
    gpus, racks = [count for count, _ in machines], [rack for _, rack in machines]
    shape = shape_of(gpus, racks)
    assert shape[0] * shape[1] * shape[2] == sum(gpus)
    assert top(shape) == (0 if len(gpus) == 1 else 1 if len(set(racks)) == 1 else 2)
    assert shape in possible_shapes(sum(gpus), (8, 8, 4))


def test_the_possible_shapes_of_four_gpus():
    assert possible_shapes(4, (4, 2, 2)) == [(4, 1, 1), (2, 2, 1), (2, 1, 2), (1, 2, 2), (1, 4, 1), (1, 1, 4)]
    with pytest.raises(NetworkError, match="at most 16"):
        possible_shapes(17, (4, 2, 2))


def test_tiers_become_dimensions():
    dimensions, scheme = TierNetwork(TIERS).dimensions((4, 3, 2, 5))
    assert scheme == "hierarchical"
    assert dimensions == [
        Dimension(4, 100, 500),
        Dimension(3, 50, 2000),
        Dimension(2, 25, 5000, "ring"),
        Dimension(5, 10, 50_000, "full"),
    ]


def test_four_tiers_cost_what_the_iteration_says():
    costs, shape = Costs(TierNetwork(TIERS)), shape_of([2, 2, 2, 2], [0, 1, 2, 3], [0, 0, 1, 1])
    dimensions = [Dimension(2, 100, 500), Dimension(1, 50, 2000), Dimension(2, 25, 5000, "ring"),
                  Dimension(2, 10, 50_000, "full")]  # fmt: skip
    assert costs.iteration("gpt2", shape) == iteration(find("gpt2").layers, dimensions)


def test_an_uneven_placement_is_a_ring_on_the_highest_tier():
    found = Costs(TierNetwork(TIERS)).iteration("resnet18", shape_of([5, 3], [0, 0]))
    assert found == iteration(find("resnet18").layers, [Dimension(8, 50, 2000)])


def test_one_gpu_is_never_slowed(data):
    assert Costs(TableFabric(), "paper", data=data).iteration("resnet50", (1, 1, 1)).slowdown == 1


@given(st.sampled_from(["alexnet", "mobilenetv3", "gpt2"]), st.sampled_from(possible_shapes(16, (8, 8, 4))))
def test_no_placement_is_faster_than_computing(model, shape):
    assert Costs(TierNetwork(TIERS[:3])).iteration(model, shape).slowdown >= 1


def test_answers_are_remembered():
    costs = Costs(TierNetwork(TIERS))
    assert costs.iteration("gpt2", (4, 2, 1)) is costs.iteration("gpt2", (4, 2, 1))


@pytest.mark.parametrize(
    ("tier", "said"),
    [(Tier("rack", 0, 1), "tier 'rack'.*bandwidth"), (Tier("rack", 50, -1), "tier 'rack'.*latency"),
     (Tier("rack", 50, 1, "tree"), "tier 'rack'.*no topology 'tree'")],
)  # fmt: skip
def test_an_impossible_tier_is_reported(tier, said):
    with pytest.raises(NetworkError, match=said):
        TierNetwork((TIERS[0], tier)).dimensions((4, 2))


def test_a_placement_above_the_tiers_is_reported():
    with pytest.raises(NetworkError, match="spans 3 tiers, but the network has 2: machine, rack"):
        TierNetwork(TIERS[:2]).dimensions((4, 2, 2))
    with pytest.raises(NetworkError, match="'bare' has no tiers"):
        TierNetwork.of(Cluster("bare", (NodeGroup(2, 8),)))
    with pytest.raises(NetworkError, match="spans 4 tiers"):
        TableFabric().dimensions((1, 1, 1, 2))


# ------------------------------------------------------------------------------------------- placements as text

DALLY = clusters.load("dally-2rack")


@pytest.mark.parametrize(
    ("text", "shape"), [("8", (8, 1, 1)), ("4+4", (4, 2, 1)), ("4/4", (4, 1, 2)), ("2+2/2+2", (2, 2, 2)),
                        ("5+3", (1, 8, 1)), ("4+4/8", (1, 1, 16))],
)  # fmt: skip
def test_placements_as_people_write_them(text, shape):
    assert placed(text, DALLY) == shape


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be GPUs per machine"),
        ("4,4", "must be GPUs per machine"),
        ("4+-4", "must be GPUs per machine"),
        ("4+0", "1 or more GPUs"),
        ("4+/4", "must be GPUs per machine"),
        ("9", "9 GPUs in a machine.*at most 8"),
        ("4//4", "// leads out of the tier 'network', but cluster 'dally-2rack' has no tier above"),
        ("+".join("1" * 9), "9 machines in a rack.*at most 8"),
        ("1/1/1", "3 racks.*at most 2"),
    ],
)
def test_placements_outside_the_cluster_are_reported(text, said):
    with pytest.raises(NetworkError, match=said):
        placed(text, DALLY)


def test_fewer_tiers():
    two = Cluster("two", (NodeGroup(3, 8),), tiers=TIERS[:2])
    assert room(two) == (8, 3)
    assert placed("4+4", two) == (4, 2)
    with pytest.raises(NetworkError, match="no tier above"):
        placed("4/4", two)
    with pytest.raises(NetworkError, match="no tier joins its 3 machines"):
        TierNetwork.of(Cluster("one", (NodeGroup(3, 8),), tiers=TIERS[:1]))


PODS = Cluster(
    "pods", (NodeGroup(13, 4, racks=(2, 3, 2, 2, 2, 2)),),
    tiers=(*TIERS[:2], Tier("pod", 25, 5, joins=2), Tier("hall", 20, 5, joins=2), Tier("site", 10, 50)),
)  # fmt: skip


def test_the_room_of_deeper_clusters():
    assert PODS.domains[1].tolist() == [0] * 5 + [1] * 4 + [2] * 4
    assert PODS.domains[2].tolist() == [0] * 9 + [1] * 4
    assert room(PODS) == (4, 3, 2, 2, 2)
    assert room(Cluster("no tiers", (NodeGroup(3, 8), NodeGroup(2, 4)))) == (8, 3, 2)


@pytest.mark.parametrize(
    ("text", "shape"),
    [("4+4", (4, 2, 1, 1, 1)), ("4/4", (4, 1, 2, 1, 1)), ("4//4", (4, 1, 1, 2, 1)), ("4///4", (4, 1, 1, 1, 2)),
     ("1+1/1+1//1+1/1+1", (1, 2, 2, 2, 1)), ("1/1//1/1///1/1//1/1", (1, 1, 2, 2, 2)), ("1+1/1+1//2", (1, 1, 1, 6, 1)),
     ("4//4///4", (1, 1, 1, 1, 12))],
)  # fmt: skip
def test_placements_in_deeper_clusters(text, shape):
    assert placed(text, PODS) == shape


@pytest.mark.parametrize(
    ("text", "said"),
    [("1/1/1", "3 racks in a pod.*at most 2"), ("1//1//1", "3 pods in a hall.*at most 2"),
     ("1///1///1", "3 halls in a site.*at most 2"), ("1////1", "//// leads out of the tier 'site'")],
)  # fmt: skip
def test_placements_outside_deeper_clusters_are_reported(text, said):
    with pytest.raises(NetworkError, match=said):
        placed(text, PODS)


# ------------------------------------------------------------------------------------------- Table I


def test_every_cell_of_table_one(data):
    rows = table("paper", data)
    assert [row["model"] for row in rows] == list(PRINTED)
    far = [(row["model"], tier) for row in rows for tier in SHAPES
           if not agrees(row["percent"][tier], row["paper_percent"][tier])]  # fmt: skip
    assert not far


def test_table_one_profiled(data):
    network = [row["percent"]["network"] for row in table("profiled", data)]
    assert network == pytest.approx([0.09, 0.39, 34.5, 0.17, 0.06, 0.0], abs=0.05)


def test_table_one_without_layer_files_says_so():
    assert all("no layer files" in row["source"] for row in table("paper"))


def test_agreement_is_one_point_or_half_a_percent():
    assert agrees(8, 7)
    assert agrees(1004, 1000)
    assert not agrees(8.1, 7)
    assert not agrees(1006, 1000)


def test_gpus_that_fill_no_boards_are_a_ring():
    (board, ring), _ = TableFabric().dimensions((6, 1, 1))
    assert (board.units, ring.units) == (1, 6)
    (board, ring), _ = TableFabric().dimensions((2, 1, 1))
    assert (board.units, ring.units) == (2, 1)

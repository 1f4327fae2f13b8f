"""Links that jobs share: by hand, and what must hold for any jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter import clusters
from shunter.cluster import Tier
from shunter.errors import NetworkError
from shunter.network.contention import Flows, Uplinks, fair_level, fair_shares
from shunter.network.placing import Costs, TierNetwork, shape_of

TIERS = (Tier("machine", 100, 0.25), Tier("rack", 50, 1), Tier("network", 25, 25))
RACKS = (0, 0, 1, 1)  # of machines 0 to 3


def links(machine_ports=1, rack_ports=1) -> Uplinks:
    return Uplinks(TIERS, (RACKS,), 4, (machine_ports, rack_ports))


def test_ports_are_links():
    assert links(2, 3).capacity == (100, 100, 100, 100, 75, 75)


def test_the_gpus_of_a_machine_share_its_port():
    assert links().flows([0, 1], [4, 4]) == [Flows(0, 4, 50), Flows(1, 4, 50)]
    assert fair_shares([links().flows([0, 1], [4, 4])], links().capacity) == [0.25]


def test_a_job_in_one_machine_shares_nothing():
    assert links().flows([2], [8]) == []
    assert fair_shares([[]], links().capacity) == [1.0]


def test_a_job_across_racks_leaves_machines_and_racks():
    found = links().flows([0, 1, 2, 3], [2, 2, 2, 2])
    assert {(flow.link, flow.senders, flow.wanted) for flow in found} == {
        (0, 2, 50), (1, 2, 50), (2, 2, 50), (3, 2, 50), (4, 4, 25), (5, 4, 25),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("machines", "gpus"), [([0, 1], [5, 3]), ([0, 1, 2], [4, 4, 4])], ids=["unlike machines", "unlike racks"]
)
def test_a_ring_leaves_each_domain_once(machines, gpus):
    assert {flow.senders for flow in links().flows(machines, gpus)} == {1}


def test_what_one_leaves_is_divided_among_the_others():
    flows = [Flows(0, 1, 10), Flows(0, 2, 100), Flows(0, 1, 100)]
    assert fair_level(flows, 100) == 30
    assert fair_level(flows, 1000) == 100


def test_the_slowest_link_decides():
    jobs = [[Flows(0, 1, 10), Flows(1, 1, 10)], [Flows(1, 3, 10)]]
    assert fair_shares(jobs, [5, 10]) == [0.25, 0.25]


def test_a_neighbour_that_is_slowed_elsewhere_does_not_speed_anyone_up():
    # a fair share over both links at once would give what the first loses on link 0 to the second
    first, second, third = [Flows(0, 1, 1), Flows(1, 1, 1)], [Flows(1, 1, 1)], [Flows(0, 3, 1)]
    assert fair_shares([first, second], [1, 1]) == [0.5, 0.5]
    assert fair_shares([first, second, third], [1, 1]) == [0.25, 0.5, 0.25]


PLACEMENTS = st.dictionaries(st.integers(0, 3), st.integers(1, 8), min_size=1).map(
    lambda found: links().flows(list(found), list(found.values()))
)
PORTS = st.tuples(st.integers(1, 8), st.integers(1, 16))
NEARLY = 1e-12


@given(st.lists(PLACEMENTS, max_size=8), PLACEMENTS, PORTS)
def test_a_job_that_comes_never_speeds_up_another(jobs, newcomer, ports):
    capacity = links(*ports).capacity
    before, after = fair_shares(jobs, capacity), fair_shares([*jobs, newcomer], capacity)
    assert all(now <= then + NEARLY for now, then in zip(after, before, strict=False))


@given(st.lists(PLACEMENTS, max_size=8), PORTS)
def test_no_link_carries_more_than_its_bandwidth_and_everyone_moves(jobs, ports):
    capacity = links(*ports).capacity
    shares = fair_shares(jobs, capacity)
    assert all(0 < share <= 1 for share in shares)
    carried = [0.0] * len(capacity)
    for flows, share in zip(jobs, shares, strict=True):
        for flow in flows:
            carried[flow.link] += share * flow.senders * flow.wanted
    assert all(load <= most * (1 + NEARLY) for load, most in zip(carried, capacity, strict=True))


@given(st.lists(st.tuples(st.integers(1, 8), st.floats(1, 100)), min_size=1, max_size=6), st.floats(1, 2000))
def test_one_link_is_shared_max_min_fairly(wishes, capacity):
    flows = [Flows(0, count, wanted) for count, wanted in wishes]
    rates = [
        share * flow.wanted for share, flow in zip(fair_shares([[f] for f in flows], [capacity]), flows, strict=True)
    ]
    used = sum(rate * flow.senders for rate, flow in zip(rates, flows, strict=True))
    for rate, flow in zip(rates, flows, strict=True):
        if rate < flow.wanted * (1 - NEARLY):  # held back: the link is full, and nobody has more
            assert used == pytest.approx(capacity)
            assert rate >= max(rates) * (1 - NEARLY)


@given(st.dictionaries(st.integers(0, 3), st.integers(1, 8), min_size=1))
def test_a_port_for_every_gpu_is_the_network_without_contention(found):
    machines, gpus = list(found), list(found.values())
    with_contention = links(8, 64)
    (share,) = fair_shares([with_contention.flows(machines, gpus)], with_contention.capacity)
    shape, costs = shape_of(gpus, [RACKS[m] for m in machines]), Costs(TierNetwork(TIERS))
    assert share == 1
    assert costs.iteration("resnet18", shape, share) == costs.iteration("resnet18", shape)


def test_less_bandwidth_between_machines_slows_a_job_that_leaves_its_machine():
    costs = Costs(TierNetwork(TIERS))
    assert costs.iteration("vgg11", (4, 2, 1), 0.05).total_ns > costs.iteration("vgg11", (4, 2, 1)).total_ns
    assert costs.iteration("vgg11", (8, 1, 1), 0.05) == costs.iteration("vgg11", (8, 1, 1))
    with pytest.raises(NetworkError, match="above 0"):
        costs.iteration("vgg11", (8, 1, 1), 0)


def test_the_uplinks_of_a_cluster():
    made = Uplinks.of(clusters.load("dally-2rack"), (1, 8))
    assert len(made.capacity) == 16 + 2
    assert made.capacity[0] == 100  # a port carries what any tier above gives a GPU
    with pytest.raises(NetworkError, match="got 1"):
        Uplinks.of(clusters.load("dally-2rack"), (1,))
    with pytest.raises(NetworkError, match="1 or more ports"):
        Uplinks.of(clusters.load("dally-2rack"), (0, 1))

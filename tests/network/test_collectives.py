"""All-reduce times: by hand, in general, and beside the reference."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import NetworkError
from shunter.network.collectives import (
    ALGORITHMS,
    SCHEMES,
    TOPOLOGIES,
    Dimension,
    Phase,
    Stream,
    allreduce_ns,
    finish_times,
    phases,
)


def test_a_ring_by_hand():
    # 3 steps each way of 10 + (100 + 1000/4 / 0.5) ns, and 10 ns to begin
    assert allreduce_ns([Dimension(4, 0.5, 100)], 1000) == 10 + 6 * (100 + 500 + 10)


def test_halving_doubling_by_hand():
    # 500 and 250 bytes there, the same back
    assert allreduce_ns([Dimension(4, 0.5, 100, "switch", "halving-doubling")], 1000) == 10 + 2 * (1100 + 20 + 610 - 10)


def test_a_partner_further_along_a_ring_costs_more_hops():
    near = Dimension(8, 1e9, 100, "switch", "halving-doubling")
    far = Dimension(8, 1e9, 100, "ring", "halving-doubling")
    assert allreduce_ns([far], 1000) - allreduce_ns([near], 1000) == 2 * 100 * (0 + 1 + 3)


def test_a_fully_connected_unit_divides_its_bandwidth_among_its_peers():
    assert Dimension(5, 4.0, 0, "full").message_ns(1000) == 1000


def test_hierarchical_shrinks_on_the_way_up_and_baseline_does_not():
    two = [Dimension(4, 1.0, 0), Dimension(1, 1.0, 0), Dimension(2, 1.0, 0)]
    assert phases(two, 4000) == (Phase(0, 3040), Phase(2, 1030), Phase(0, 3040))
    assert phases(two, 4000, "baseline") == (Phase(0, 6070), Phase(2, 4030))


def test_chunks_follow_one_another():
    # two chunks of (0: 10, 1: 30): the second waits for dimension 1
    assert finish_times([Stream(0, 0, (Phase(0, 10), Phase(1, 30)))] * 2) == [40, 70]


def test_the_newest_goes_first_but_none_is_interrupted():
    streams = [Stream(issued, issued, (Phase(0, 10),)) for issued in (0, 1, 2)]
    assert finish_times(streams) == [10, 30, 20]


DIMENSIONS = st.builds(
    Dimension,
    units=st.sampled_from([1, 2, 4, 8]),
    bandwidth=st.floats(0.5, 500),
    latency=st.integers(0, 50_000),
    topology=st.sampled_from(TOPOLOGIES),
    algorithm=st.sampled_from(ALGORITHMS),
)


@given(st.lists(DIMENSIONS, max_size=4), st.integers(0, 10**8), st.sampled_from(SCHEMES), st.integers(1, 20))
def test_chunks_keep_every_dimension_within_its_bounds(dimensions, size, scheme, chunks):
    parts = phases(dimensions, size // chunks, scheme)
    total = allreduce_ns(dimensions, size, scheme, chunks)
    busy = [chunks * sum(ns for at, ns in parts if at == index) for index in range(len(dimensions))]
    assert max(busy, default=0) <= total <= chunks * sum(ns for _, ns in parts)


@given(st.lists(DIMENSIONS, max_size=4), st.integers(0, 10**8), st.integers(0, 10**6), st.sampled_from(SCHEMES))
def test_more_bytes_never_take_less_time(dimensions, size, more, scheme):
    assert allreduce_ns(dimensions, size, scheme) <= allreduce_ns(dimensions, size + more, scheme)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Dimension(0, 1, 1), "units must be 1"),
        (lambda: Dimension(2, 0, 1), "bandwidth must be above 0"),
        (lambda: Dimension(2, float("nan"), 1), "bandwidth must be above 0"),
        (lambda: Dimension(2, 1, -1), "latency must be 0"),
        (lambda: Dimension(2, 1, 1, "swich"), "did you mean 'switch'"),
        (lambda: Dimension(2, 1, 1, "switch", "rings"), "did you mean 'ring'"),
        (lambda: Dimension(6, 1, 1, "switch", "halving-doubling"), "power of two"),
        (lambda: phases([], 1, "baselin"), "did you mean 'baseline'"),
        (lambda: allreduce_ns([], -1), "bytes >= 0"),
        (lambda: allreduce_ns([], 1, chunks=0), "chunks >= 1"),
    ],
)
def test_what_cannot_be_is_refused(build, said):
    with pytest.raises(NetworkError, match=said):
        build()


def test_every_row_of_the_reference_within_a_tenth_of_a_percent(data):
    topologies = {"Switch": "switch", "Ring": "ring", "FullyConnected": "full"}
    algorithms = {"ring": "ring", "halvingDoubling": "halving-doubling"}
    schemes = {"localBWAware": "hierarchical", "baseline": "baseline"}
    with (data / "network" / "allreduce_reference.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 1800
    far = []
    for row in rows:
        columns = ("bw_GBps_per_gpu_per_dim", "alpha_ns_per_message_per_dim", "topology_per_dim", "algorithm")
        bandwidths, latencies, kinds, ways = (row[column].split("_") for column in columns)
        dimensions = [
            Dimension(int(units), float(bandwidth), float(latency), topologies[kind], algorithms[way])
            for units, bandwidth, latency, kind, way in zip(
                row["units_per_dim"].split("x"), bandwidths, latencies, kinds, ways, strict=True
            )
        ]
        scheme = schemes[row["collective_optimization"]]
        ours = allreduce_ns(dimensions, int(row["bytes"]), scheme, int(row["chunks"])) / 1000
        if abs(ours / float(row["oracle_us"]) - 1) > 0.001:
            far.append((row, ours))
    assert not far

"""Jobs that name no virtual cluster are put into one by a rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.reproduce import venus
from shunter.reproduce.venus import APART, NODE_GPUS, assigned, divided


def jobs_of(sizes):
    n = len(sizes)
    return Trace.of("made", [str(i) for i in range(n)], submit=np.arange(n), duration=np.full(n, 1000), gpus=sizes)


clusters = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 12), min_size=1, max_size=6)


@given(clusters, st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(0, 5))
def test_every_job_goes_where_it_fits_and_the_seed_says_where(nodes, parts, seed):
    most = max(nodes.values()) * NODE_GPUS
    trace = jobs_of([max(1, round(part * most)) * GPU for part in parts])
    found = assigned(trace, nodes, seed)
    room = np.array([nodes[vc] for vc in found.vcs]) * NODE_GPUS * GPU
    assert (trace.gpus <= room[found.vc]).all()
    assert (found.vc == assigned(trace, nodes, seed).vc).all()
    assert (found.job_id == trace.job_id).all()


def test_the_nodes_are_the_weights_and_other_seeds_draw_others():
    nodes = {"a": 6, "b": 3, "c": 1}
    trace = jobs_of(np.full(20_000, GPU))
    found = assigned(trace, nodes, 0)
    assert np.bincount(found.vc) / len(trace) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert (found.vc != assigned(trace, nodes, 1).vc).any()


def test_of_jobs_that_only_some_can_hold_those_get_them_in_proportion():
    found = assigned(jobs_of(np.full(20_000, 20 * GPU)), {"a": 6, "b": 3, "c": 1}, 0)
    assert np.bincount(found.vc, minlength=3) / 20_000 == pytest.approx([2 / 3, 1 / 3, 0], abs=0.01)


def test_sizes_apart_share_no_virtual_cluster_and_large_ones_get_their_part_of_the_nodes():
    sizes = np.where(np.arange(4000) % 10 == 0, 32, 2)  # two in three GPU hours are in large jobs
    found = assigned(jobs_of(sizes * GPU), {"a": 2, "b": 5, "c": 4, "d": 1}, 0, APART)
    of_large, of_small = set(found.vc[sizes > NODE_GPUS]), set(found.vc[sizes <= NODE_GPUS])
    assert (of_large, of_small) == ({1, 2}, {0, 3})


def test_a_job_that_no_virtual_cluster_can_hold_is_refused():
    with pytest.raises(TraceError, match="no virtual cluster holds a job of 17 GPUs"):
        assigned(jobs_of(np.array([17 * GPU])), {"a": 2}, 0)


def test_the_machines_are_divided_and_stops_cost():
    cluster = divided("made", {"a": 2, "b": 1}, ((1, 7.0), (8, 30.0), (9, 60.0)))
    assert (cluster.nodes, cluster.vcs, cluster.gpus) == (3, ("a", "b"), 24)
    cost = cluster.overheads.of(cluster.overheads.restart, np.array([1, 2, 8, 9, 64]))
    assert cost.tolist() == [7000, 30_000, 30_000, 60_000, 60_000]


def test_the_public_jobs_of_venus_all_find_a_place(data):
    found = venus.venus(data, 0)
    nodes = venus.nodes_in(data / venus.NODES)
    assert (len(found), len(found.vcs), sum(nodes.values())) == (112_664, 15, 135)
    assert found.vc.min() >= 0

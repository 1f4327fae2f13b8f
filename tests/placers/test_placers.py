"""Each placement rule on hand-made states: what is free on each node, and who gets what."""

import importlib

import numpy as np
import pytest

from shunter import placers, registry
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace, View
from shunter.sim.engine import Simulator

MAX_INT = 2**63 - 1


def place(rule, free, gpus, total=None, draw=0):
    """Nodes and counts, {} if the rule declines."""
    usable = np.array(free, np.int64)
    sizes = np.array(total if total is not None else [8] * len(free), np.int64)
    order = np.lexsort((np.arange(len(free)), -sizes))
    nodes, counts = np.zeros(64, np.int64), np.zeros(64, np.int64)
    used = importlib.import_module(f"shunter.placers.{rule.replace('-', '_')}").place(
        usable, sizes, order, gpus, draw, nodes, counts
    )
    assert usable.tolist() == list(free), "a rule must not write into what it is told"
    return dict(zip(nodes[:used].tolist(), counts[:used].tolist(), strict=True))


@pytest.mark.parametrize(
    ("rule", "free", "gpus", "expected"),
    [
        # one node
        ("consolidate", [8, 3, 4, 3], 3, {1: 3}),
        ("consolidate", [8, 2, 4, 2], 3, {2: 3}),
        ("consolidate", [7, 7, 7], 8, {}),
        ("first-fit", [2, 8, 3], 3, {1: 3}),
        ("first-fit", [7, 7], 8, {}),
        ("spread", [3, 8, 8], 2, {1: 2}),
        ("spread", [3, 3], 4, {0: 3, 1: 1}),
        ("spread", [3, 3], 7, {}),
        ("count", [1, 0, 2, 8], 4, {0: 1, 2: 2, 3: 1}),
        ("count", [1, 0, 2], 4, {}),
        # more than a node
        ("consolidate", [8, 5, 8, 3], 16, {0: 8, 2: 8}),
        ("consolidate", [8, 5, 8, 3], 12, {0: 8, 2: 4}),
        ("consolidate", [8, 5, 7, 3], 12, {0: 8, 2: 4}),
        ("consolidate", [8, 3, 3, 3], 12, {}),
        ("tight", [8, 5, 8, 3], 12, {0: 8, 1: 4}),
        ("tight", [8, 5, 8, 3], 16, {0: 8, 2: 8}),
        ("tight", [8, 3, 8, 3], 12, {0: 8, 2: 4}),
        ("tight", [8, 3, 4, 3], 3, {1: 3}),
        ("tight", [8, 3, 3, 3], 12, {}),
        ("weighed", [2, 8, 8], 2, {0: 2}),  # no node is left in part
        ("weighed", [4, 4, 4, 6], 2, {3: 2}),  # as many are left in part in any case: evenly
        ("weighed", [8, 5, 7, 3], 12, {2: 7, 1: 5}),  # two partly used nodes are filled
        ("weighed", [3, 3], 4, {0: 3, 1: 1}),
        ("weighed", [2, 2, 2, 2], 6, {}),  # two nodes at most, where one would do
        ("first-fit", [5, 8, 8], 12, {1: 8, 0: 4}),
        ("first-fit", [3, 8, 8], 12, {1: 8, 2: 4}),
        ("spread", [5, 8, 7], 12, {1: 8, 2: 4}),
    ],
)
def test_even_nodes(rule, free, gpus, expected):
    assert place(rule, free, gpus) == expected


@pytest.mark.parametrize(
    ("rule", "total", "free", "gpus", "expected"),
    [
        ("consolidate", [4, 8, 2, 8], [4, 8, 2, 8], 20, {1: 8, 3: 8, 0: 4}),  # the largest idle nodes first
        ("consolidate", [4, 8, 2, 8], [4, 8, 2, 8], 17, {1: 8, 3: 8, 0: 1}),  # the rest where most is free
        ("consolidate", [4, 8, 2], [3, 8, 2], 12, {1: 8, 2: 2, 0: 2}),  # node 0 isn't idle: it gets the rest alone
        ("consolidate", [4, 8, 2], [3, 8, 1], 12, {}),  # the rest must be on one node
        ("consolidate", [2, 2, 8], [2, 2, 7], 8, {}),  # a job of node size waits for a whole node
        ("consolidate", [4, 8], [4, 8], 5, {1: 5}),
        ("tight", [4, 8, 2, 8], [4, 8, 2, 8], 17, {1: 8, 3: 8, 2: 1}),
        ("first-fit", [2, 8, 4], [2, 8, 4], 14, {0: 2, 1: 8, 2: 4}),
        ("first-fit", [2, 8, 4], [2, 8, 4], 11, {0: 2, 1: 8, 2: 1}),
        ("spread", [2, 8, 4], [2, 3, 4], 8, {2: 4, 1: 3, 0: 1}),
        ("count", [2, 8, 4], [2, 3, 4], 8, {0: 2, 1: 3, 2: 3}),
        ("weighed", [4, 8, 2], [4, 8, 2], 14, {1: 8, 0: 4, 2: 2}),
        ("random", [2, 8, 4], [2, 8, 4], 12, {1: 8, 2: 4}),  # the only way: a full largest node, the rest on one
    ],
)
def test_uneven_nodes(rule, total, free, gpus, expected):
    assert place(rule, free, gpus, total) == expected


@pytest.mark.parametrize("rule", placers.names())
@pytest.mark.parametrize("gpus", [1, 3, 8, 11, 16, 24])
def test_no_job_gets_more_than_is_free_or_less_than_it_wants(rule, gpus):
    rng = np.random.default_rng(1)
    placed = 0
    for _ in range(200):
        free = rng.integers(0, 9, 5).tolist()
        chosen = place(rule, free, gpus, draw=int(rng.integers(0, MAX_INT)))
        if chosen:
            placed += 1
            assert sum(chosen.values()) == gpus
            assert all(0 < count <= free[node] for node, count in chosen.items())
        else:
            assert sum(free) < gpus or rule not in ("count", "spread"), free
    assert placed


def test_random_reaches_every_node_that_suffices():
    seen = {next(iter(place("random", [8, 2, 8, 5], 4, draw=draw))) for draw in range(60)}
    assert seen == {0, 2, 3}


def busy(placement, seed):
    rng = np.random.default_rng(0)
    names, submit, duration = [str(i) for i in range(60)], np.arange(60), rng.integers(1, 99, 60)
    trace = Trace.of("t", names, submit=submit, duration=duration, gpus=rng.integers(1, 5, 60) * GPU)
    simulator = Simulator(trace, Cluster("c", (NodeGroup(6, 8),)), seed=seed)
    simulator.run(registry.policy(f"fifo:placement={placement}"))
    return simulator.digest


def test_random_is_the_same_for_the_same_seed_alone():
    assert busy("random", 1) == busy("random", 1) != busy("random", 2)


@pytest.mark.parametrize("rule", sorted(set(placers.names()) - {"random"}))
def test_the_others_do_not_care_about_the_seed(rule):
    assert busy(rule, 1) == busy(rule, 2)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("consolidate", [(0,), (1,), (1,), (2, 3)]),  # the fullest GPU that has room
        ("first-fit", [(0,), (1,), (0,), (2, 3)]),
        ("count", [(0,), (1,), (0,), (2, 3)]),
        ("spread", [(0,), (1,), (2,), ()]),  # the emptiest GPU: nothing is left for two whole ones
    ],
)
def test_shares_of_a_gpu(rule, expected):
    """0.5, 0.7, 0.3 of a GPU and two whole ones, on two nodes of two GPUs, all at once."""
    trace = Trace.of("t", list("abcd"), submit=[0] * 4, duration=[1000] * 4, gpus=[500, 700, 300, 2000])
    simulator = Simulator(trace, Cluster("c", (NodeGroup(2, 2),)))
    simulator.run(registry.policy(f"fifo:placement={rule}"), until=0)
    view = View(simulator.world)
    assert [view.placement(job) for job in range(4)] == expected


@pytest.mark.parametrize(("rule", "gpu"), [("consolidate", 1), ("first-fit", 0), ("spread", 3)])
def test_a_share_goes_where_the_rule_says(rule, gpu):
    """GPU 0 is half full, GPU 1 three quarters, GPU 2 full, GPU 3 empty: a quarter comes."""
    trace = Trace.of("t", list("abcd"), submit=[0, 0, 0, 1], duration=[1000] * 4, gpus=[500, 750, 1000, 250])
    cluster = Cluster("c", (NodeGroup(1, 4),))
    simulator = Simulator(trace, cluster)
    simulator.run(registry.policy("fifo:placement=spread"), until=0)
    assert [View(simulator.world).placement(job) for job in range(3)] == [(0,), (1,), (2,)]
    simulator.run(registry.policy(f"fifo:placement={rule}"), until=1)
    assert View(simulator.world).placement(3) == (gpu,)

"""Jobs that are bound to a set of nodes, to a number of nodes, or kept away from a node that goes into maintenance."""

from __future__ import annotations

import numpy as np
import pytest

from shunter import clusters, registry
from shunter import world as w
from shunter.model import GPU, Trace
from shunter.sim.engine import Simulator
from shunter.sim.scenario import Fault, Scenario

HOUR = 3_600_000


def simulated(
    gpus, *, sets=(), bound=None, span=None, faults=(), limit=HOUR, policy="fifo:backfill=easy", compiled=True
):
    """Jobs of one hour on 3 nodes of 4 GPUs; returns when each started, and on which nodes."""
    count = len(gpus)
    columns = {"submit": range(count), "gpus": [each * GPU for each in gpus], "limit": [limit] * count}
    trace = Trace.of("t", [str(row) for row in range(count)], duration=[HOUR] * count, **columns)
    scenario = Scenario(node_sets=sets, faults=faults, drains=bool(faults))
    simulator = Simulator(trace, clusters.load("3x4"), scenario=scenario)
    table = simulator.world.jobs
    table[w.TYPE] = [1 + each if each >= 0 else -1 for each in bound or [-1] * count]
    table[w.SPAN] = span or [0] * count
    simulator.run(registry.policy(policy), compiled=compiled)
    starts = simulator.events[simulator.events[:, 1] == w.START]
    return table[w.STARTED].tolist(), [sorted(starts[starts[:, 2] == row, 3].tolist()) for row in range(count)]


@pytest.mark.parametrize("policy", ["fifo", "fifo:backfill=easy", "fifo:backfill=conservative", "sjf"])
@pytest.mark.parametrize("compiled", [True, False])
def test_jobs_stay_on_their_nodes(policy, compiled):
    begun, nodes = simulated([4, 4, 4], sets=((1, 2), (2,)), bound=[0, 1, 0], policy=policy, compiled=compiled)
    assert set(nodes[0] + nodes[2]) <= {1, 2}
    assert nodes[1] == [2]
    assert max(begun) >= HOUR  # three jobs, two nodes


def test_sets_that_overlap_share_one_line():
    """The first that does not fit has a reservation, also against jobs of another set."""
    begun, nodes = simulated([4, 4, 4, 4], sets=((0,), (0, 1)), bound=[0, 0, 1, 1])
    assert nodes == [[0], [0], [1], [1]]
    assert np.array(begun) // HOUR == pytest.approx([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("gpus", "span", "where"), [(3, 3, [0, 1, 2]), (2, 2, None), (6, w.ANY_NODES, None), (4, 1, None)]
)
def test_a_job_takes_this_many_nodes(gpus, span, where):
    _, (nodes,) = simulated([gpus], span=[span])
    assert len(nodes) == (2 if span == w.ANY_NODES else span)
    assert where is None or nodes == where


def test_equal_parts_wait_for_as_many_nodes():
    begun, _ = simulated([4, 4, 2, 1], span=[0, 0, 2, 0])  # two GPUs are free, but on one node
    assert [each // HOUR for each in begun] == [0, 0, 1, 0]


@pytest.mark.parametrize("limit", [HOUR, 3 * HOUR, 0])
def test_no_job_starts_that_could_reach_into_an_outage(limit):
    outage = tuple(Fault(2 * HOUR, node, 5 * HOUR, known=True) for node in range(3))
    begun, _ = simulated([4], faults=outage, limit=limit)
    assert begun[0] // HOUR == (0 if limit == HOUR else 5)

"""How long a decision takes with many jobs waiting."""

from __future__ import annotations

import time

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.learning.agents import agent_for
from shunter.learning.engine import LearnedOrder, ground_for
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.setup import set_up
from shunter.sim.engine import Simulator

NODES, NODE_GPUS, SMALL = 16, 8, 100
TIMES = 9  # of which the least counts


def decision_ms(waiting: int, visible: int = 0) -> float:
    """CPU milliseconds of a decision of RLTune's network, untrained, with this many jobs waiting and in view (0: all).

    Jobs that have just come are not part of it.
    """
    draws = rng(0, "long queue")
    gpus = draws.choice([1, 2, 4, 8], waiting + 1) * GPU
    gpus[0] = NODE_GPUS * GPU
    duration = draws.integers(60, 86_400, waiting + 1) * 1000
    submit = np.zeros(waiting + 1, np.int64)
    trace = Trace.of("long", [str(i) for i in range(waiting + 1)], submit=submit, duration=duration, gpus=gpus)
    cluster = Cluster("nodes", (NodeGroup(NODES, NODE_GPUS),))
    small = ground_for(set_up(trace.select(np.arange(SMALL)), cluster), "oracle", 10)
    model = agent_for("rltune", small).untrained(rng(0, "benchmark"))
    policy = LearnedOrder(given=model, estimate="oracle", visible=visible)
    simulator = Simulator(trace, cluster)
    simulator.prepare(policy.needs)
    view, memory = simulator.present(), policy.start(cluster)
    policy.decide(view, memory)
    simulator.world.clock[w.N_ARRIVED] = 0  # they were taken in: a later decision does not see them as new
    found = []
    for _ in range(TIMES):
        begun = time.process_time()
        policy.decide(view, memory)
        found.append(1000 * (time.process_time() - begun))
    assert view.world.clock[w.N_PENDING] > waiting
    return min(found)

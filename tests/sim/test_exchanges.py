"""A job that leaves its GPUs to another: one step of the engine that comes to what a stop and a start do."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import cluster, jobs, play

from shunter import world as w
from shunter.model import Plan, Preempt, Start, Timer
from shunter.sim import Scenario, Simulator
from shunter.sim.checking import check, only_exchanges
from shunter.sim.transitions import may_replace

PLACES = ([0, 1], [2, 4], [3, 5])  # the nodes have the GPUs 0 to 3 and 4 to 5
TIMES = range(100, 1300, 100)
TABLES = ("jobs", "progress", "nodes", "gpus", "slots")
PAIRS = Scenario(sharing=2)


def exchanges(seed, apart):
    """Plans that exchange running jobs with waiting ones; ``apart``: with another action between stop and start."""
    draws = np.random.default_rng(seed)
    there = [[0, 1], [2, 3], [4]]
    plans = {0: [[Start(job, place, shared=True) for on, place in zip(there, PLACES, strict=True) for job in on]]}
    waiting = [5, 6, 7]
    for time in TIMES:
        actions = []
        for _ in range(draws.integers(1, 4)):
            place = int(draws.integers(3))
            at, following = int(draws.integers(len(there[place]))), waiting.pop(0)
            old, there[place][at] = there[place][at], following
            timer = Timer(time + 100)
            start = Start(following, PLACES[place], shared=len(there[place]) > 1)
            actions += [Preempt(old), timer, start] if apart else [Preempt(old), start, timer]
            waiting.append(old)
        plans[time] = [actions]
    return plans


def tables(view):
    """What is there, and who waits and runs, in the order of the lists."""
    world = view.world
    lists = [world.lists[row, : world.clock[count]] for row, count in
             ((w.L_PENDING, w.N_PENDING), (w.L_RUNNING, w.N_RUNNING), (w.L_ARRIVED, w.N_ARRIVED))]  # fmt: skip
    return [getattr(world, name).tolist() for name in TABLES] + [each.tolist() for each in lists]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("restart", [0.0, 0.03])
def test_an_exchange_comes_to_what_a_stop_and_a_start_do(seed, restart):
    trace = jobs(*((0, 900 + 70 * job, 2, {"cpus": 1 + job % 3}) for job in range(8)))
    runs = [
        play(trace, cluster(4, 2, restart=restart), exchanges(seed, apart), greedy=True, scenario=PAIRS, look=tables)
        for apart in (False, True)
    ]
    assert [run.refused for run in runs] == [[], []]
    assert runs[0].seen == runs[1].seen
    assert runs[0].digest == runs[1].digest


@pytest.mark.parametrize(
    ("gpus", "costs", "plain"),
    [
        ([0, 1], {}, True),
        ([0, 2], {}, False),  # other GPUs
        ([0, 1], {"checkpoint": 0.1}, False),  # the stop takes time
        ([0, 1], {"restart": 0.1}, True),
    ],
)
def test_only_the_same_gpus_at_once_are_a_plain_exchange(gpus, costs, plain):
    simulator = Simulator(jobs((0, 1000, 2), (0, 1000, 2)), cluster(4, **costs))
    simulator.present()
    assert not simulator.apply(Plan([Start(0, [0, 1])]))
    assert may_replace(simulator._state, 0, 1, np.array(gpus)) == plain
    assert not may_replace(simulator._state, 1, 0, np.array(gpus))


@pytest.mark.parametrize(
    ("actions", "known"),
    [
        ([Preempt(0), Start(2, [0], shared=True)], True),  # beside job 1, which stays
        ([Start(2, [1], shared=True)], True),
        ([Start(2, [0], shared=True)], False),  # no slot is left
        ([Preempt(0), Start(2, [0])], False),  # not alone
        ([Preempt(0), Preempt(1), Start(2, [0])], True),
        ([Preempt(0), Start(2, [0], shared=True), Start(3, [0], shared=True)], False),
    ],
)
def test_shared_starts_that_can_be_done_need_no_calculation(actions, known):
    simulator = Simulator(jobs(*((0, 1000) for _ in range(4))), cluster(2), scenario=PAIRS)
    simulator.present()
    assert not simulator.apply(Plan([Start(0, [0], shared=True), Start(1, [0], shared=True)]))
    plan = simulator._encode(actions)
    assert only_exchanges(simulator._state, plan) == known
    assert (check(simulator._state, plan) == 0) == known

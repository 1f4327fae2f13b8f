"""Forks, threads, the log, and policies changed while they run."""

from __future__ import annotations

import copy
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from worlds import Script, cluster, column, ends, jobs, story

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Start, Trace
from shunter.sim import Simulator
from shunter.sim.state import LOG_COLUMNS, LOG_MARGIN

PLAIN = Cluster("plain", (NodeGroup(8, 8),))
POLICIES = (
    "fifo",
    "sjf:estimate=history,backfill=easy",
    "srtf:estimate=oracle",
    "multifactor",
    "fifo:placement=random",
)


def busy(n, seed=0):
    """A crowded trace of jobs by a few users."""
    draws = np.random.default_rng(seed)
    return Trace.of(
        "busy",
        [f"j{i}" for i in range(n)],
        submit=np.sort(draws.integers(0, n * 4000, n)),
        duration=draws.integers(1, 200_000, n),
        gpus=draws.choice([1, 2, 4, 8], n) * GPU,
        user=draws.integers(0, 5, n),
        users=tuple("abcde"),
    )


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("compiled", [True, False])
def test_original_and_fork_go_on_like_an_unforked_run(name, compiled):
    trace, policy = busy(300), registry.policy(name)
    straight = Simulator(trace, PLAIN)
    straight.run(policy, compiled=compiled)
    original = Simulator(trace, PLAIN)
    memory = original.run(policy, until=int(trace.submit[150]), compiled=compiled)
    twin, twin_memory, early = original.fork(), copy.deepcopy(memory), original.digest
    original.run(policy, memory=memory, compiled=compiled)
    assert twin.digest == early  # the original's going on did nothing to the twin
    twin.run(policy, memory=twin_memory, compiled=not compiled)
    assert original.digest == twin.digest == straight.digest
    assert (original.world.jobs == straight.world.jobs).all()


def test_a_fork_can_go_another_way():
    simulator = Simulator(jobs((0, 100), (0, 100), (50, 10)), cluster(1))
    policy = Script({0: [[Start(0, [0])]]})
    memory = simulator.run(policy, until=60)
    twin, twin_memory = simulator.fork(), copy.deepcopy(memory)
    simulator.run(Script({100: [[Start(1, [0])]], 200: [[Start(2, [0])]]}), memory=memory)
    twin.run(Script({100: [[Start(2, [0])]], 110: [[Start(1, [0])]]}), memory=twin_memory)
    assert ends(simulator) == [100, 200, 210]
    assert ends(twin) == [100, 210, 110]


def test_threads_give_what_one_after_another_gives():
    traces = [busy(2000, seed) for seed in range(8)]

    def digest(trace):
        simulator = Simulator(trace, PLAIN, seed=1)
        simulator.run(registry.policy("srtf:estimate=oracle,placement=random"))
        return simulator.digest

    expected = [digest(trace) for trace in traces]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(digest, traces)) == expected
    assert len(set(expected)) == 8


def test_others_go_on_while_a_simulation_runs():
    """The compiled loop holds no lock: another thread has its turn again and again."""
    trace, policy, turns = busy(60_000), registry.policy("wfp3"), 0
    Simulator(busy(100), PLAIN).run(policy)
    simulator = Simulator(trace, PLAIN)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(simulator.run, policy)
        while not running.done():
            time.sleep(0.001)
            turns += 1
    assert simulator.elapsed_s > 0.1  # else this shows nothing
    assert turns > 10


@pytest.mark.parametrize("name", ["fifo", "fifo:placement=random", "srtf:estimate=oracle"])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_log_in_pieces_is_the_same_log(name, compiled):
    trace, policy = busy(400), registry.policy(name)
    whole, pieces = Simulator(trace, PLAIN), Simulator(trace, PLAIN)
    state = pieces._state
    pieces._state = state.replace(log=np.zeros((state.counts[LOG_MARGIN] + 100, LOG_COLUMNS), np.int64))
    for simulator in (whole, pieces):
        simulator.run(policy, compiled=compiled)
    assert len(whole._chunks) == 0
    assert len(pieces._chunks) > 3
    assert pieces.digest == whole.digest
    assert (pieces.world.jobs == whole.world.jobs).all()


def test_the_seed_decides_random_placement_and_nothing_else():
    trace = busy(400)

    def digest(name, seed):
        simulator = Simulator(trace, PLAIN, seed=seed)
        simulator.run(registry.policy(name))
        return simulator.digest

    assert digest("fifo:placement=random", 1) == digest("fifo:placement=random", 1)
    assert digest("fifo:placement=random", 1) != digest("fifo:placement=random", 2)
    assert digest("fifo", 1) == digest("fifo", 2)


# ---------------------------------------------------------------------------------------------- changing policies

CHANGES = [
    ("fifo", "sjf:estimate=history"),
    ("sjf:estimate=oracle", "sjf:estimate=history"),
    ("fifo", "fifo:blocking=skip"),
    ("fifo:placement=spread", "srtf:estimate=oracle"),
    ("srtf:estimate=oracle", "fifo:backfill=conservative"),
    ("multifactor", "sjf:estimate=history,backfill=easy"),
    ("fifo", "multifactor"),
]


def change(trace, names, compiled, *, keep=True):
    first, second = (registry.policy(name) for name in names)
    simulator = Simulator(trace, PLAIN)
    memory = simulator.run(first, until=int(trace.submit[150]), compiled=compiled)
    memory = second.start(PLAIN, memory) if keep else None
    simulator.run(second, memory=memory, compiled=compiled)
    return simulator


@pytest.mark.parametrize("names", CHANGES)
def test_a_policy_changed_while_it_runs_loses_no_job_in_either_loop(names):
    trace = busy(300)
    fast, slow = change(trace, names, True), change(trace, names, False)
    assert fast.digest == slow.digest
    assert (fast.world.jobs[w.STATE] == w.DONE).all()
    straight = Simulator(trace, PLAIN)
    straight.run(registry.policy(names[0]))
    assert fast.digest != straight.digest


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_taken_over_by_itself_goes_on_as_if_nothing_had_been(name):
    trace = busy(300)
    straight = Simulator(trace, PLAIN)
    straight.run(registry.policy(name))
    assert change(trace, (name, name), True).digest == straight.digest


def test_a_policy_without_the_memory_of_the_one_before_it_still_finds_the_waiting_jobs():
    names = ("fifo", "fifo:blocking=skip")
    trace = busy(300)
    assert change(trace, names, True, keep=False).digest == change(trace, names, False, keep=False).digest


def test_a_policy_takes_over_from_one_that_is_of_another_kind():
    simulator = Simulator(jobs((0, 100), (0, 100), (0, 100)), cluster(1))
    memory = simulator.run(Script(greedy=True), until=150)
    policy = registry.policy("lifo")
    simulator.run(policy, memory=policy.start(simulator.cluster, memory))
    assert ends(simulator) == [100, 200, 300]
    assert column(simulator, w.STATE) == [w.DONE] * 3


def test_the_truth_does_not_pass_to_a_policy_that_is_no_oracle():
    """Lengths that only the truth could tell apart must not order the queue after an oracle has gone."""
    trace = jobs((0, 100), (0, 900, 1, {"user": "a"}), (0, 10, 1, {"user": "a"}))
    oracle, honest = registry.policy("fifo:estimate=oracle,backfill=easy"), registry.policy("sjf:estimate=history")
    simulator = Simulator(trace, cluster(1))
    memory = simulator.run(oracle, until=50)
    simulator.run(honest, memory=honest.start(simulator.cluster, memory))
    assert ends(simulator) == [100, 1000, 1010]  # nothing tells 1 and 2 apart: first come, first served


def test_paused_and_resumed_is_the_same_as_in_one_go():
    trace, policy = busy(300), registry.policy("srtf:estimate=oracle")
    straight, halting, memory = Simulator(trace, PLAIN), Simulator(trace, PLAIN), None
    straight.run(policy)
    for until in (-5, 0, 1, *trace.submit[[10, 11, 200]].tolist(), *range(10**6, 2 * 10**6, 10**5)):
        memory = halting.run(policy, until=until, memory=memory)
        assert halting.now <= max(until, int(trace.submit[0]))
    halting.run(policy, memory=memory)
    assert halting.digest == straight.digest
    assert story(halting)[0][1] == "ARRIVE"


def test_a_trace_is_not_changed_by_running_it():
    trace = busy(50)
    before = trace.digest
    Simulator(trace, PLAIN).run(registry.policy("fifo"))
    assert replace(trace).digest == before

"""Simulations that get nowhere are stopped, with a message; those that only take long are not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import shunter
from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.errors import PolicyError
from shunter.model import GPU, NOTHING, Plan, Preempt, Start, Timer, Trace
from shunter.sim import Simulator, engine, stalling

FREE = Overheads()
COSTLY = Overheads(checkpoint=((64, 60.0),), restart=((64, 120.0),))


def jobs(count, duration=1000, gpus=1, apart=0):
    return Trace.of(
        "t",
        [f"j{i}" for i in range(count)],
        submit=[1000 * apart * i for i in range(count)],
        duration=[1000 * duration] * count,
        gpus=[gpus * GPU] * count,
    )


def cluster(nodes=1, gpus=1, costs=FREE):
    return Cluster("c", (NodeGroup(nodes, gpus),), overheads=costs)


class Plain:
    """A policy in plain Python whose plans a test writes down."""

    needs: frozenset[str] = frozenset()

    def start(self, cluster):
        return None


class Flutters(Plain):
    """Starts and stops the first job at the same instant, for ever."""

    def decide(self, view, memory):
        running = view.world.clock[w.N_RUNNING]
        return Plan([Preempt(0) if running else Start(0, (0,))])


class Dithers(Plain):
    """Never starts anything, but always looks again in a second."""

    def decide(self, view, memory):
        return Plan([Timer(view.now + 1000)])


class Thrashes(Plain):
    """Stops a job as soon as it runs again, so that its time goes into restarts."""

    def decide(self, view, memory):
        if view.world.clock[w.N_PENDING]:
            return Plan([Start(0, (0,))])
        begun = int(view.world.jobs[w.BEGUN, 0])
        if view.world.jobs[w.STATE, 0] == w.RUNNING and view.now >= begun + 121_000:
            return Plan([Preempt(0)])
        return Plan([Timer(begun + 121_000)]) if view.now < begun + 121_000 else NOTHING


@pytest.fixture
def impatient(monkeypatch):
    """Limits that a test reaches in no time."""
    for name, value in (("EVERY", 20), ("MOST_IDLE", 1000), ("MOST_LOSSES", 500), ("MOST_ROWS", 2000)):
        monkeypatch.setattr(stalling, name, value)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Flutters(), "no job got any work done"),
        (Dithers(), "no job got any work done"),
        (Thrashes(), "restarting jobs"),
    ],
)
def test_what_gets_nowhere_is_stopped(impatient, policy, why):
    simulator = Simulator(jobs(1, duration=100_000), cluster(costs=COSTLY if why == "restarting jobs" else FREE))
    with pytest.raises(PolicyError, match=why) as caught:
        simulator.run(policy)
    message = str(caught.value)
    assert f"policy '{type(policy).__name__.lower()}'" in message
    assert f"{simulator.now / 1000:,.0f} s of the simulation" in message
    assert "1 of 1 jobs unfinished" in message
    assert "min_run" in message


def test_it_is_stopped_at_the_same_place_every_time(impatient):
    found = []
    for _ in range(2):
        simulator = Simulator(jobs(1, duration=100_000), cluster(costs=COSTLY))
        with pytest.raises(PolicyError):
            simulator.run(Thrashes())
        found.append((simulator.now, simulator.digest))
    assert found[0] == found[1]


def test_a_log_that_grows_without_an_end_stops_it_too(impatient):
    """Two jobs take turns for ever; nothing is lost, but nothing ends."""
    simulator = Simulator(jobs(2, duration=10**6), cluster())
    with pytest.raises(PolicyError, match="no job ended in the last"):
        simulator.run(registry.policy("gandiva:slicing=true,look_again=1"))


class Patient(Plain):
    """Starts jobs in their order and looks again every second."""

    def decide(self, view, memory):
        if view.world.clock[w.N_PENDING] and not view.world.clock[w.N_RUNNING]:
            return Plan([Start(int(view.pending[0]), (0,))])
        return Plan([Timer(view.now + 1000)])


def test_a_log_that_grows_beyond_memory_stops_it_even_while_jobs_end(monkeypatch):
    for name, value in (("EVERY", 20), ("most_loaded", lambda: 3000 * stalling.ROW_BYTES)):
        monkeypatch.setattr(stalling, name, value)
    simulator = Simulator(jobs(3000, duration=5), cluster())
    with pytest.raises(PolicyError, match=r"the event log has grown to \d,\d+ rows") as caught:
        simulator.run(Patient())
    assert "3,000 of 3,000 jobs unfinished" not in str(caught.value)


def test_a_job_that_only_takes_long_is_left_alone(impatient):
    """It runs for 50,000 looks; every one finds it further."""
    simulator = Simulator(jobs(1, duration=50_000), cluster())
    simulator.run(Patient())
    assert simulator.over


def test_so_is_a_job_that_failed_late_and_begins_again(impatient, monkeypatch):
    """After the failure it takes 38,000 decisions until more work is done than before."""
    monkeypatch.setattr(stalling, "MOST_IDLE", 5000)
    trace = dataclasses.replace(jobs(1, duration=40_000), failures=np.array([1]), fail_after=np.array([38_000_000]))
    simulator = Simulator(trace, cluster())
    simulator.run(Patient())
    assert simulator.over
    assert (simulator.events[:, 1] == w.FAIL).sum() == 1


def test_so_is_a_slow_network(impatient):
    """At a thousandth of its speed a job gets little done in its time, but none of that is lost."""
    simulator = Simulator(jobs(2, duration=5), cluster())
    simulator.world.nodes[w.SPEED] = 1000
    simulator.run(Patient())
    assert simulator.over


def test_a_fork_counts_for_itself(impatient):
    simulator = Simulator(jobs(1), cluster())
    twin = simulator.fork()
    with pytest.raises(PolicyError):
        twin.run(Dithers())
    simulator.run(registry.policy("fifo"))
    assert simulator.over


def test_the_compiled_loop_comes_back_after_a_fraction_of_a_second(monkeypatch):
    """However long a decision takes: the clock is one that counts a hundredth of a second for each."""
    clock, stretches = [0.0], []
    entry = engine.entry

    def counted(*types):
        steps = entry(*types)

        def count(*arguments):
            before = clock[0]
            clock[0] += 0.01 * arguments[-2]
            stretches.append(clock[0] - before)
            return steps(*arguments)

        return count

    monkeypatch.setattr(engine.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(engine, "entry", counted)
    monkeypatch.setattr(engine, "STEPS", {})
    shunter.simulate("synthetic:jobs=3000,gpus=16,load=1.2", "2x8", "fifo")
    assert len(stretches) > 50
    assert max(stretches[2:]) <= 2 * engine.STRETCH_S


def test_steps_grow_while_they_are_quick():
    steps = [engine.FIRST_STEP]
    while steps[-1] < engine.STEP:
        steps.append(engine.next_step(steps[-1], took=0.0))
    assert len(steps) < 6
    assert engine.next_step(1, took=10.0) == 1

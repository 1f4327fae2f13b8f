"""A part of a simulation: unfinished jobs, arrivals of any kind, and a budget."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import InvariantError
from shunter.model import GPU, Trace
from shunter.registry import policy
from shunter.sim.engine import Simulator
from shunter.testing.cases import CASES

SECOND = 1000
ONE_GPU = Cluster("one", (NodeGroup(1, 1),))


def three_jobs() -> Trace:
    """One GPU: a runs for 10 s, then b for 20 s, then c for 30 s."""
    durations = [10_000, 20_000, 30_000]
    return Trace.of("three", ["a", "b", "c"], submit=[0, 1000, 2000], duration=durations, gpus=[GPU] * 3)


def ends(simulator: Simulator) -> dict[str, int]:
    return dict(zip(simulator.trace.job_id.tolist(), simulator.world.jobs[w.ENDED_AT].tolist(), strict=True))


def test_only_what_is_unfinished_is_there() -> None:
    simulator, fifo = Simulator(three_jobs(), ONE_GPU), policy("fifo")
    memory = simulator.run(fifo, until=15_000)
    part = simulator.excerpt()
    assert part.trace.job_id.tolist() == ["a", "b", "c"]  # a, which has ended, says when the trace begins
    assert part.world.jobs[w.STATE].tolist() == [w.DONE, w.RUNNING, w.PENDING]
    part.run(fifo, memory=fifo.start(part.cluster, memory))
    assert ends(part) == {"a": 10_000, "b": 30_000, "c": 60_000}
    assert simulator.now == 10_000  # the last event up to then
    assert simulator.world.jobs[w.STATE].tolist() == [w.DONE, w.RUNNING, w.PENDING]


def test_a_job_comes_again_as_another() -> None:
    simulator, fifo = Simulator(three_jobs(), ONE_GPU), policy("fifo")
    memory = simulator.run(fifo, until=15_000)
    part = simulator.excerpt(np.array([0, 1, 0]), np.array([16_000, 40_000, 40_000]))
    part.run(fifo, memory=fifo.start(part.cluster, memory))
    assert part.rows is not None
    table, first = part.world.jobs, part.rows.begins
    assert table[w.SUBMIT, first:].tolist() == [16_000, 40_000, 40_000]
    assert table[w.ENDED_AT, first:].tolist() == [70_000, 90_000, 100_000]  # after b (30 s) and c (60 s)
    assert table[w.STARTED, first:].tolist() == [60_000, 70_000, 90_000]
    assert len(set(table[w.NUMBER].tolist())) == len(table[w.NUMBER])  # draws of one are not those of another


def test_jobs_may_take_other_times_there() -> None:
    simulator, fifo = Simulator(three_jobs(), ONE_GPU), policy("fifo")
    memory = simulator.run(fifo, until=15_000)
    part = simulator.excerpt(durations=np.array([1, 7_000, 2_000]))
    part.run(fifo, memory=fifo.start(part.cluster, memory))
    assert ends(part) == {"a": 10_000, "b": 17_000, "c": 19_000}
    assert simulator.trace.duration.tolist() == [10_000, 20_000, 30_000]


def test_where_jobs_take_other_times_nothing_is_known_of_what_will_fail() -> None:
    fails = dataclasses.replace(three_jobs(), failures=np.array([0, 1, 1]), fail_after=np.array([0, 8_000, 1_000]))
    simulator, fifo = Simulator(fails, ONE_GPU), policy("fifo")
    memory = simulator.run(fifo, until=15_000)
    part = simulator.excerpt(durations=np.array([1, 7_000, 2_000]))
    part.run(fifo, memory=fifo.start(part.cluster, memory))
    assert ends(part) == {"a": 10_000, "b": 17_000, "c": 19_000}


@pytest.mark.parametrize("submit", [[14_000, 30_000], [30_000, 20_000], [30_000]])
def test_arrivals_are_in_order_and_not_in_the_past(submit: list[int]) -> None:
    simulator = Simulator(three_jobs(), ONE_GPU)
    simulator.run(policy("fifo"), until=30_000)
    with pytest.raises(InvariantError, match="in the order of their submission"):
        simulator.excerpt(np.array([0, 1]), np.array(submit))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_budget_of_decisions_ends_a_run(compiled: bool) -> None:
    case, las = CASES[0], policy("las")
    simulator = case.simulator()
    memory = simulator.run(las, budget=7, compiled=compiled)
    assert simulator.exhausted
    assert not simulator.over
    simulator.run(las, memory=memory, compiled=compiled)
    assert simulator.over
    assert not simulator.exhausted
    whole = case.simulator()
    whole.run(las, budget=1_000_000, compiled=compiled)
    assert not whole.exhausted
    assert whole.digest == simulator.digest


def test_an_excerpt_of_an_excerpt() -> None:
    case, themis = CASES[0], policy("themis:lease=20")
    simulator = case.simulator()
    memory = simulator.run(themis, until=60_000)
    part = simulator.excerpt(simulator.coming)
    other = themis.start(case.cluster, memory)
    part.run(themis, memory=other, until=120_000)
    again, fork = part.excerpt(part.coming), part.fork()
    begun = len(part.events)
    for twin in (again, fork):
        twin.run(themis, memory=themis.start(case.cluster, other))
    assert again.rows is not None
    events = again.events
    events[:, 2] = again.rows.taken[events[:, 2]]
    assert events.tolist() == fork.events[begun:].tolist()

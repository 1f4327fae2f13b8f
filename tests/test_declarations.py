"""What users declare and what is true are two things: policies see only the first."""

import dataclasses

import numpy as np
import pytest

from shunter import registry, simulation
from shunter.model import GPU, Trace
from shunter.report.terminal.tables import mark
from shunter.setup import set_up
from shunter.sim.engine import Simulator
from shunter.testing.cases import CASES
from shunter.traces import read, write

BY_DECLARATION = ("themis", "marshal", "srtf:estimate=declared", "sjf:estimate=declared,backfill=easy")
WRONG = next(case for case in CASES if case.name == "wrong declarations")


def seen(trace, until):
    """All that a policy sees of jobs in views before a time, where the first job that fits always starts."""
    simulator = Simulator(trace, WRONG.cluster)
    policy = registry.policy("fifo:blocking=skip")
    memory, found = policy.start(simulator.cluster), []
    simulator.prepare(policy.needs)
    for view in simulator:
        if view.now >= until:
            return found
        while (plan := policy.decide(view, memory)).actions:
            assert not simulator.apply(plan)
        found.append((view.now, {name: values.copy() for name, values in vars(view.jobs).items()}))
    return found


def test_traces_that_differ_in_the_truth_alone_look_alike_until_it_shows():
    trace, shows_at = WRONG.trace, 40_000
    longer = np.where(trace.duration >= shows_at, trace.duration * 3, trace.duration)
    here, there = seen(trace, shows_at), seen(dataclasses.replace(trace, duration=longer), shows_at)
    assert (longer != trace.duration).any()
    assert len(here) == len(there) > 5
    for (now, jobs), (later, others) in zip(here, there, strict=True):
        assert now == later
        for name, values in jobs.items():
            np.testing.assert_array_equal(values, others[name], err_msg=name)


def test_a_declaration_is_not_the_truth():
    job = {"submit": [0], "duration": [60_000], "gpus": [GPU], "iterations": [100]}
    assert Trace.of("t", ["a"], **job, declared=[5_000]).declarations.tolist() == [5_000]
    assert Trace.of("t", ["a"], **job).declarations.tolist() == [60_000]  # exact: nothing else is known
    assert Trace.of("t", ["a"], **job | {"iterations": [0]}).declarations.tolist() == [0]
    assert Trace.of("t", ["a"], **job | {"iterations": [0]}, declared=[5_000]).declarations.tolist() == [5_000]


@pytest.mark.parametrize("policy", BY_DECLARATION)
def test_wrong_declarations_change_decisions_and_every_job_ends(policy):
    exact = dataclasses.replace(WRONG.trace, declared=WRONG.trace.duration * (WRONG.trace.declared > 0))
    results = [simulation.run(set_up(trace, WRONG.cluster), policy) for trace in (WRONG.trace, exact)]
    assert [result.summary["finished"] for result in results] == [len(WRONG.trace)] * 2
    assert results[0].digest != results[1].digest


@pytest.mark.parametrize("policy", BY_DECLARATION)
def test_tables_mark_them(policy):
    result = simulation.run(set_up(WRONG.trace, WRONG.cluster), policy)
    assert "declared" in result.summary["estimate"]
    assert mark(result.summary) == "†"
    assert mark(simulation.run(set_up(WRONG.trace, WRONG.cluster), "marshal:order=attained").summary) == ""
    assert mark(simulation.run(set_up(WRONG.trace, WRONG.cluster), "srtf:estimate=oracle").summary) == "*"


@pytest.mark.parametrize("policy", BY_DECLARATION)
def test_exact_declarations_are_remarked_on(policy):
    exact = dataclasses.replace(WRONG.trace, declared=np.zeros(len(WRONG.trace), np.int64))
    remark = "declared run times are taken as exact"
    assert any(remark in each for each in registry.policy(policy).remarks(exact))
    assert not any(remark in each for each in registry.policy(policy).remarks(WRONG.trace))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_declarations_are_kept_in_files(tmp_path, ending):
    write(WRONG.trace, tmp_path / f"t.{ending}")
    assert (read(tmp_path / f"t.{ending}").declared == WRONG.trace.declared).all()

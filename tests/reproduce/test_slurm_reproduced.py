"""RLTune's live experiment in small: its jobs, its numbers, and how they are told. What is live is in tests/slurm."""

from __future__ import annotations

import json
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.errors import RunError
from shunter.reproduce import trials
from shunter.reproduce.slurm import design, page, paper, view
from shunter.reproduce.slurm.outcome import ScheduleTimes, Spread, fidelity, predicted, spreads
from shunter.reproduce.slurm.study import (
    AGAIN,
    LIVE,
    SIMULATED,
    SIMULATED_SLURM,
    SLURM,
    WITH_HANDOVER,
    SlurmPart,
    SlurmStudy,
)
from shunter.simulation import simulate
from shunter.slurm.lab import Lab

PER_NODE = {group.kind: (group.count, group.gpus) for group in design.NODES}


@given(jobs=st.integers(1, 80), seed=st.integers(0, 1000), longest=st.sampled_from([1.0, 5.0, 20.0]))
def test_every_job_of_a_mix_can_run_and_has_a_limit_that_its_user_could_give(jobs, seed, longest):
    made = design.mix(jobs, seed, longest)
    assert len(made) == jobs
    assert made == design.mix(jobs, seed, longest)
    assert [job.submit_s for job in made] == sorted(job.submit_s for job in made)
    assert made[0].submit_s == 0
    for job in made:
        nodes, gpus = PER_NODE[job.kind]
        assert 1 <= job.nodes <= nodes
        assert 1 <= job.gpus_per_node <= gpus
        assert 1 <= job.run_s <= longest
        assert job.limit_min >= job.run_s  # a minute for every second that is expected
        assert job.user in design.USERS


def test_each_kind_gets_gpu_time_in_proportion_to_its_gpus():
    made = design.mix(10_000, 0)
    total = sum(job.run_s * job.gpus for job in made)
    for kind, (count, gpus) in PER_NODE.items():
        part = sum(job.run_s * job.gpus for job in made if job.kind == kind) / total
        assert part == pytest.approx(count * gpus / design.GPUS, abs=0.02)


def test_the_trace_says_what_is_submitted():
    made = design.mix(40, 3)
    trace = design.trace(made)
    assert trace.limit.tolist() == [60_000 * job.limit_min for job in made]
    assert (trace.duration * trace.gpus).sum() == pytest.approx(1e6 * sum(job.run_s * job.gpus for job in made))
    assert [trace.gpu_types[code] for code in trace.gpu_type] == [job.kind for job in made]
    assert "--gres=gpu:" + f"{made[0].kind}:{made[0].gpus_per_node}" in made[0].options


@pytest.mark.parametrize("jobs", [0, 10_001])
def test_a_mix_without_jobs_is_refused(jobs):
    with pytest.raises(RunError, match="--jobs must be from 1 to 10000"):
        design.mix(jobs, 0)


def test_the_numbers_of_an_outcome():
    found = ScheduleTimes(np.array([0.0, 1.0]), np.array([0.0, 4.0]), np.array([4.0, 10.0]), np.array([1.0, 4.0]))
    numbers = found.measures()
    assert numbers["makespan_s"] == 10
    assert numbers["wait_mean_s"] == 1.5
    assert numbers["jct_mean_s"] == 6.5
    assert numbers["utilization"] == pytest.approx((4 * 1 + 6 * 4) / (13 * 10))


def test_hand_over_delays_every_job_and_lengthens_none():
    jobs = design.mix(30, 1)
    found = predicted(jobs, ["fifo"], handover_s=0.5)["fifo"]
    assert found.wait.min() == pytest.approx(0.5)
    assert found.end - found.start == pytest.approx([job.run_s for job in jobs], abs=0.002)
    assert found.measures()["makespan_s"] > predicted(jobs, ["fifo"])["fifo"].measures()["makespan_s"]


def test_what_was_simulated_is_kept(monkeypatch):
    jobs, policies = design.mix(25, 2), ["fifo", "sjf:backfill=easy"]
    first = predicted(jobs, policies, 0.25)
    with monkeypatch.context() as patched:
        patched.setattr(trials.simulation, "run", None)
        again = predicted(jobs, policies, 0.25)
    for policy in policies:
        assert [values.tolist() for values in astuple(first[policy])] == [v.tolist() for v in astuple(again[policy])]
    direct = simulate(design.trace(jobs), design.cluster(), "sjf:backfill=easy")
    assert predicted(jobs, policies)["sjf:backfill=easy"].start.tolist() == direct.jobs["start"].to_list()


def test_a_simulation_that_is_right_is_not_off():
    found = predicted(design.mix(30, 1), ["fifo"])["fifo"]
    late = replace(found, start=found.start + 1, end=found.end + 1)
    assert fidelity(found, found)["makespan_s"] == fidelity(found, found)["wait_p95_s"] == 0
    assert fidelity(late, found)["wait_mean_abs_error_s"] == pytest.approx(1)
    assert fidelity(late, found)["wait_rank_correlation"] == pytest.approx(1, abs=0.01)
    assert fidelity(late, found)["wait_mean_s"] < 0


def test_a_spread_is_the_mean_and_half_of_the_range():
    found = spreads([{"a": 1.0, "b": 2.0}, {"a": 5.0, "b": 2.0}, {"a": 3.0, "b": 2.0}])
    assert found == {"a": (3.0, 2.0), "b": (2.0, 0.0)}
    assert [view.spread(found["a"], "{:.1f}".format), view.spread(found["b"], view.percent)] == [
        "3.0 ± 2.0",
        "+200.0 %",
    ]
    assert view.spread(Spread(-0.251, 0.02), view.percent, 100) == "−25.1 ± 2.0 %"


@pytest.fixture
def study():
    """As if it had been run: what happened is what was simulated, half a second later."""
    jobs = design.mix(40, 0)
    live, simulated = {}, {}
    policies = {SLURM: SIMULATED_SLURM, "sjf:backfill=easy": "sjf:backfill=easy"}
    found = [predicted(jobs, policies.values(), handover) for handover in (0.0, 0.5)]
    for scheduler, policy in policies.items():
        plain, longer = (each[policy] for each in found)
        live[scheduler] = [longer, replace(longer, start=longer.start + 1, end=longer.end + 1)]
        simulated[scheduler] = {SIMULATED: plain, WITH_HANDOVER: longer}
    return SlurmStudy(SlurmPart(40, ("sjf:backfill=easy",)), jobs, live, simulated, 0.5)


def test_all_that_is_reported_is_there(study):
    told = json.loads(json.dumps(study.summary()))
    assert told["printed"]["makespan_s"] == pytest.approx(-0.248, abs=5e-4)
    near = told["fidelity"][SLURM]
    assert near[WITH_HANDOVER]["makespan_s"]["mean"] == pytest.approx(-near[WITH_HANDOVER]["makespan_s"]["half"])
    assert near[SIMULATED]["makespan_s"]["mean"] < near[WITH_HANDOVER]["makespan_s"]["mean"] < 0
    assert near[AGAIN]["wait_mean_abs_error_s"] == pytest.approx({"mean": 1, "half": 0})
    there, base = (told["results"][s][SIMULATED]["wait_mean_s"]["mean"] for s in ("sjf:backfill=easy", SLURM))
    changed = told["changes"]["sjf:backfill=easy"]
    assert changed[SIMULATED]["wait_mean_s"] == pytest.approx({"mean": there / base - 1, "half": 0})
    assert changed[LIVE]["wait_mean_s"]["half"] > 0
    assert study.table.height == 40 * 8


def test_tables_fit_and_the_page_has_what_is_printed(study, capsys):
    from rich.console import Console

    Console(width=100).print(view.view(study))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    assert "−24.8 %" in shown
    assert shown.count("live again") == shown.count("one live run to another") == 2
    assert "±" in shown
    made = page.page(study, "shunter reproduce slurm")
    for text in ("−24.8", "−30.5", "+3.9", "controller, ", paper.WHY[0]):
        assert text in made


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--jobs", "0"], "--jobs must be from 1 to 10000"),
        (["-p", "sjff"], "did you mean 'sjf'"),
        (["--repeat", "0"], "--repeat must be >= 1"),
        (["--interval", "0.01"], "--interval must be at least 0.2 s"),
        ([], "there is no slurmctld"),
    ],
)
def test_what_can_not_be_run_is_refused_before_anything_starts(options, said, monkeypatch, tmp_path):
    monkeypatch.setattr(Lab, "missing", staticmethod(lambda database: "there is no slurmctld"))
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["reproduce", "slurm", *options])
    assert ended.exit_code == 2
    assert said in " ".join(ended.stderr.split())
    assert not list(tmp_path.iterdir())

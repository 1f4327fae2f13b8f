"""``reproduce qoredl`` in small: its workload, its testbeds, and what is shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks import qoredl_bound
from typer.testing import CliRunner

from shunter import clusters, registry
from shunter.cli.main import app
from shunter.reproduce.qoredl import design, page, study
from shunter.reproduce.qoredl.design import NOISY, TESTBEDS, TRUE, Variant, instances, varied, with_servers, workload


def test_the_testbeds_have_what_is_printed():
    assert (clusters.load("qoredl-7").nodes, clusters.load("qoredl-7").node_cpu.sum()) == (7, 176_000)
    assert (clusters.load("qoredl-24").nodes, clusters.load("qoredl-24").node_cpu.sum()) == (24, 488_000)
    assert (clusters.load("qoredl-5gpu").nodes, clusters.load("qoredl-5gpu").gpus) == (5, 14)
    assert all(testbed.cluster.overheads.restart == ((1, 25.0),) for testbed in TESTBEDS.values())


def test_a_job_has_a_server_for_every_four_workers():
    assert [instances(workers) for workers in (1, 4, 5, 9)] == [2, 5, 7, 12]
    speeds = {width: width * value for width, value in with_servers(12)}
    assert [round(speeds[width]) for width in (2, 3, 5, 6, 7, 12)] == [1, 2, 4, 4, 5, 9]


@pytest.mark.parametrize("name", TESTBEDS)
def test_the_workload_is_that_of_the_authors_generator(name):
    testbed = TESTBEDS[name]
    jobs = workload(testbed, 1.2, seed=3)
    assert len(jobs) == design.JOBS
    slack = (jobs.deadline / 1000 - design.GRACE_S) / (jobs.declared / 1000)
    assert slack.min() >= 0.65
    assert slack.max() <= 2.45
    assert (jobs.duration <= jobs.declared).all()
    work = (jobs.duration * jobs.gpus).sum() / 1000
    assert work / (clusters.load(testbed.cluster_name).gpus * jobs.submit[-1]) == pytest.approx(1.2, rel=0.01)
    assert workload(testbed, 1.2, seed=3).digest == jobs.digest
    assert workload(testbed, 1.2, seed=4).digest != jobs.digest


def test_policies_are_compared_on_the_same_jobs_seed_by_seed(monkeypatch):
    named = {"Kubeflow": "kubeflow", "Qore-DL": "qoredl", "Elastic": "elastic"}
    monkeypatch.setattr(study, "POLICIES", {label: Variant(text) for label, text in named.items()})
    part = study.QoredlPart(("7",), (1.2,), seeds=2, jobs=12, ablations=False)
    seen = []
    found = study.run(part, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (6, 6)
    assert found.table.height == 6
    gaps = found.values("Elastic", "met") - found.values("Qore-DL", "met")
    assert found.ahead("Elastic", "Qore-DL").value == pytest.approx(gaps.mean())
    assert np.isfinite(found.values("Elastic", "efficiency")).all()
    claims = {claim: printed for claim, printed, _ in found.findings()}
    assert claims["deadlines met, Qore-DL over Kubeflow"] == "up to +42.4%"
    text = page.page(found, "shunter reproduce qoredl")
    assert "Qore-DL" in text
    assert "no intervals: there are too few seeds" in text


def test_the_command_prints_json_and_refuses_what_it_does_not_know(monkeypatch):
    named = {"Kubeflow": "kubeflow", "Qore-DL": "kubeflow", "Elastic": "edf"}
    monkeypatch.setattr(study, "POLICIES", {label: Variant(text) for label, text in named.items()})
    monkeypatch.setattr(study, "ABLATIONS", {"Late": Variant("edf", TRUE, base="Elastic")})
    found = CliRunner().invoke(app, ["reproduce", "qoredl", "--quick", "--testbed", "7", "--repeat", "1", "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["experiment"] == "qoredl"
    wrong = CliRunner().invoke(app, ["reproduce", "qoredl", "--testbed", "8"])
    assert wrong.exit_code != 0


def test_predictions_take_the_place_of_what_was_declared():
    jobs = workload(TESTBEDS["7"], 1.2, seed=3)
    true, noisy = varied(jobs, Variant("edf", TRUE), 3), varied(jobs, Variant("edf", NOISY), 3)
    assert (true.declared == jobs.duration).all()
    error = np.abs(noisy.declared - jobs.duration) / jobs.declared
    assert 0.08 < error.mean() <= design.NOISE  # what exceeds the declared run is cut off
    assert (noisy.declared <= jobs.declared).all()
    assert (
        varied(jobs, Variant("edf", NOISY), 3).digest == noisy.digest != varied(jobs, Variant("edf", NOISY), 4).digest
    )
    for other in (true, noisy):
        assert (other.duration == jobs.duration).all()
        assert (other.deadline == jobs.deadline).all()
    assert not varied(jobs, Variant("edf", ranged=False), 3).max_gpus.any()


def test_what_could_be_met_is_the_same_with_and_without_ranges():
    jobs, bed = workload(TESTBEDS["7"], 0.8, seed=3, jobs=12), "7"
    assert (jobs.deadline < jobs.duration).any(), "some deadlines can be met by wider jobs alone"
    narrow = study.one_run(Variant("edf", ranged=False), bed, 0.8, 3, 12)
    assert narrow["met"] < 1


def test_servers_as_a_column_are_the_same_as_servers_in_the_curve():
    jobs = varied(workload(TESTBEDS["7"], 1.2, seed=3, jobs=40), Variant("optimus", equipped=True), 3)
    assert set(jobs.servers.tolist()) == {1, 2}
    assert (jobs.each[0] == 4000).all()
    assert (jobs.min_cpus[0], jobs.max_cpus[0]) == (1900, 8040)
    runs = [study.one_run(Variant("optimus:interval=600", equipped=each), "7", 1.2, 3, 40) for each in (False, True)]
    assert runs[0] == runs[1]
    assert not varied(workload(TESTBEDS["gpu"], 1.2, seed=3), Variant("optimus", equipped=True), 3).equipped.any()


def test_as_many_settings_are_searched_of_most_rivals_and_more_of_the_best_and_the_chosen_ones_are_among_them():
    assert {len(set(texts)) for label, texts in design.SEARCHED.items() if label != design.STOPPING} == {8}
    assert len(set(design.SEARCHED[design.STOPPING])) == 81
    for label, texts in design.SEARCHED.items():
        assert registry.policy(design.POLICIES[label].policy) in {registry.policy(text) for text in texts}
    judged = range(design.FIRST_SEED, design.FIRST_SEED + design.SEEDS)
    assert not set(judged) & set(design.SEARCH_SEEDS)


def test_no_policy_meets_more_deadlines_than_the_bound():
    area, begin = np.array([4.0, 4.0, 4.0]), np.array([0.0, 0.0, 0.0])
    assert qoredl_bound.most_met(area, begin, np.array([4.0, 4.0, 4.0]), 2) == 2
    assert qoredl_bound.most_met(area, begin, np.array([2.0, 4.0, 6.0]), 2) == 3
    assert qoredl_bound.most_met(area, begin, np.array([1.0, 1.0, 1.0]), 2) == 0
    assert qoredl_bound.most_met(area, np.array([0.0, 5.0, 5.0]), np.array([2.0, 8.0, 8.0]), 2) == 2

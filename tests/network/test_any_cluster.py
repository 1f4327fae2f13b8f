"""A network for every cluster, models of one's own, and a stand-in for models that nobody knows."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from typer.testing import CliRunner

from shunter import clusters, simulation
from shunter.cli.main import app
from shunter.model import GPU, Trace
from shunter.network.models import STAND_IN
from shunter.setup import set_up

MINE = """
[[model]]
name = "mine"
[[model.layer]]
name = "all"
gradient_bytes = 4_000_000_000
forward_us = 1000.0
"""


def a_job(model, gpus=16):
    """One job of an hour on two machines of eight GPUs."""
    return Trace.of("t", ["a"], submit=[0], duration=[3_600_000], gpus=[gpus * GPU], model=[0], models=(model,))


def communication(trace, cluster, **choices):
    result = simulation.run(set_up(trace, cluster, network="profiled", **choices), "fifo")
    return result.summary["communication_s"]["mean"], result


def test_every_ready_made_cluster_of_gpus_has_tiers_named_as_before():
    """Their names are those that tiers have when nobody says, so that no policy sees a difference."""
    loaded = {name: clusters.load(name) for name in clusters.names()}
    without_gpus = {name for name, cluster in loaded.items() if cluster.named_types == ("slot",)}
    assert without_gpus == {"qoredl-7", "qoredl-24"}
    for name in loaded.keys() - without_gpus:
        found = loaded[name]
        assert len(found.tiers) > 1, name
        assert found.tier_names == dataclasses.replace(found, tiers=()).tier_names, name


@pytest.mark.parametrize(("cluster", "tiers"), [("36x8", 2), ("2x8+2x4", 3)])
def test_a_cluster_without_a_network_gets_one_that_is_named(cluster, tiers):
    took, result = communication(a_job("resnet50", 16), cluster)
    assert took > 0
    assert [tier.name for tier in result.cluster.tiers] == ["machine", "rack", "network"][:tiers]
    (remark,) = [text for text in result.summary["remarks"] if "network model" in text]
    assert "machine 112.5 GB/s, rack 50 GB/s" in remark
    assert "assumed for clusters that describe no network" in remark
    again = simulation.rerun(result.experiment) if result.experiment.trace.path else None
    assert again is None or again.digest == result.digest


def test_without_a_network_nothing_is_assumed():
    assert set_up(a_job("resnet50"), "36x8").cluster.tiers == ()


def test_described_tiers_are_not_called_assumed():
    remark = set_up(a_job("resnet50"), "philly", network="profiled").remarks[0]
    assert "rack 1.5625 GB/s" in remark
    assert "assumed" not in remark


def test_an_unknown_model_communicates_as_the_stand_in():
    known, _ = communication(a_job(STAND_IN), "dally-2rack")
    unknown, result = communication(a_job("our-secret-net"), "dally-2rack")
    assert unknown == known > 0
    (remark,) = [text for text in result.summary["remarks"] if "our-secret-net" in text]
    assert f"as {STAND_IN} does" in remark
    assert "(1 job)" in remark
    assert "--models" in remark
    assert result.trace.models == ("our-secret-net",)  # what is reported is its own name


def test_models_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    ours, result = communication(a_job("mine"), "dally-2rack", models=str(file))
    theirs, _ = communication(a_job("mine"), "dally-2rack")
    assert ours > 10 * theirs
    assert result.experiment.models == str(file)
    assert not any("not known" in remark for remark in result.summary["remarks"])


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_from_the_command_line(tmp_path, command):
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus,model\na,0,100,16,mine\nb,0,100,16,odd\n")
    arguments = [command, str(tmp_path / "jobs.csv"), "-c", "4x8", "-p", "fifo", "--network", "profiled", "--json"]
    if command == "compare":
        arguments += ["--workers", "1"]
    done = CliRunner().invoke(app, [*arguments, "--models", str(tmp_path / "mine.toml")], env=dict(os.environ))
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert "assumed for clusters that describe no network" in said
    assert "'odd' (1 job)" in said
    assert json.loads(done.stdout)


def test_models_without_a_network_are_refused(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus\na,0,100,16\n")
    arguments = ["simulate", str(tmp_path / "jobs.csv"), "-c", "4x8", "-p", "fifo"]
    done = CliRunner().invoke(app, [*arguments, "--models", str(tmp_path / "mine.toml")])
    assert done.exit_code == 2
    assert "add --network profiled" in " ".join(done.stderr.split())

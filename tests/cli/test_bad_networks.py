"""What can't be on a network, through the command line: a message that helps, exit code 2, and nothing written."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from shunter.cli.main import app

HEAD = "job_id,submit,duration,gpus,model\na,0,100,2,resnet50\n"
NODES = "[[nodes]]\ncount = 4\ngpus = 8\nrack_size = 2\n"
MACHINE = "[[tier]]\nname = 'machine'\nbandwidth_gbps = 100\nlatency_us = 1\n"
RACK = "[[tier]]\nname = 'rack'\nbandwidth_gbps = 50\nlatency_us = 1\n"


def tier(text: str) -> str:
    return NODES + MACHINE + "[[tier]]\nname = 'rack'\n" + text


CASES = {
    "model without published times": (
        HEAD + "b,0,50,4,gpt2\n", "dally-2rack", "dally",
        ["jobs.csv line 3: job 'b': model: model 'gpt2' has no published compute", "use the profiled calibration"],
    ),
    "unknown network": (HEAD, "dally-2rack", "daly", ["there is no network 'daly'", "did you mean 'dally'?"]),
    "tier without bandwidth": (
        HEAD, tier("latency_us = 1\n"), "profiled", ["c.toml: [[tier]] 2: bandwidth_gbps is missing"],
    ),
    "tier with bandwidth 0": (
        HEAD, tier("bandwidth_gbps = 0\nlatency_us = 1\n"), "profiled",
        ["c.toml: [[tier]] 2: bandwidth_gbps must be greater than 0, got 0"],
    ),
    "negative latency": (
        HEAD, tier("bandwidth_gbps = 1\nlatency_us = -1\n"), "profiled",
        ["c.toml: [[tier]] 2: latency_us must be greater than or equal to 0, got -1"],
    ),
    "no uplinks": (
        HEAD, NODES + MACHINE + "uplinks = 0\n" + RACK, "profiled", ["c.toml: [[tier]] 1: uplinks must be", "got 0"],
    ),
    "uplinks to nowhere": (
        HEAD, NODES + MACHINE + RACK + "uplinks = 2\n", "profiled",
        ["c.toml: cluster 'c': tier 'rack': uplinks must not be given, because nothing is above it, got 2"],
    ),
    "machines that nothing joins": (
        HEAD, NODES + MACHINE, "profiled", ["cluster 'c': no tier joins its 4 machines; add a second [[tier]]"],
    ),
    "tiers that are not the paper's": (
        HEAD, NODES + MACHINE + RACK, "dally", ["cluster 'c': must have three tiers", "got 2", "--network profiled"],
    ),
    "job larger than the last tier": (
        HEAD + "b,0,50,129,vgg11\n", "dally-2rack", "profiled",
        ["jobs.csv line 3: job 'b' (129 GPUs) can never run on cluster 'dally-2rack' of 128 GPUs", "--drop-unfit"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", ["simulate", "compare"])
@pytest.mark.parametrize(("trace", "cluster", "network", "parts"), CASES.values(), ids=CASES)
def test_a_run_is_refused(tmp_path, command, trace, cluster, network, parts):
    (tmp_path / "jobs.csv").write_text(trace)
    if "\n" in cluster:
        (tmp_path / "c.toml").write_text(cluster)
        cluster = str(tmp_path / "c.toml")
    before = sorted(tmp_path.iterdir())
    arguments = [command, str(tmp_path / "jobs.csv"), "-c", cluster, "-p", "fifo", "--network", network, "--contention"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2, told
    assert [part for part in parts if part not in told] == [], told
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_contention_without_a_network_is_refused(tmp_path, command):
    (tmp_path / "jobs.csv").write_text(HEAD)
    done = CliRunner().invoke(app, [command, str(tmp_path / "jobs.csv"), "-c", "4x8", "-p", "fifo", "--contention"])
    assert done.exit_code == 2
    assert "give --network" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["slowdown", "resnet51", "--gpus", "4"], ["no model 'resnet51'", "did you mean 'resnet50'?"]),
        (["slowdown", "resnet50", "--gpus", "513"], ["--gpus 513: must be at most 512", "choose another"]),
        (["slowdown", "resnet50", "--placement", "9"], ["placement '9': has 9 GPUs in a machine", "at most 8"]),
        (
            ["slowdown", "resnet50", "--placement", "1//1"],
            ["// leads out of the tier 'network'", "machine, rack, network"],
        ),
        (
            ["allreduce", "--bytes", "8", "--dim", "4,100,-5"],
            ["--dim 4,100,-5", "latency must be 0 ns or more, got -5"],
        ),
        (["allreduce", "--bytes", "8", "--dim", "4,0,5"], ["--dim 4,0,5", "bandwidth must be above 0 GB/s, got 0"]),
    ],
)
def test_a_question_about_the_network_is_refused(arguments, parts):
    done = CliRunner().invoke(app, ["network", *arguments])
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2
    assert [part for part in parts if part not in told] == [], told

"""What a job gets that asks for neither CPUs nor memory: what-if, when and a real Slurm agree."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.live.daemons import wait
from shunter.live.forecast import Outlook
from shunter.live.nodes import Node
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.surroundings import Defaults
from shunter.slurm import questions
from shunter.slurm.dialect import SLURM
from shunter.slurm.lab import Lab, LabNodes
from shunter.slurm.surroundings import counts_memory, defaults

CONSUMED = {"selecttypeparameters": "CR_CORE_MEMORY", "defmempernode": "UNLIMITED"}
# Each has a node of its own with 4 GPUs, 16 CPUs and 64,000 MiB, of which 4 CPUs and 40,000 MiB are in use.
PARTITIONS = {
    "percpu": "Default=YES Nodes=v100-1 DefMemPerCPU=100",
    "pernode": "Nodes=v100-2 DefMemPerNode=30000",
    "pergpu": "Nodes=v100-3 DefMemPerGPU=15000 DefMemPerNode=100",
    "all": "Nodes=v100-4 DefMemPerNode=0",
    "cpus": "Nodes=v100-5 DefMemPerCPU=100 DefCpuPerGPU=7",
}


def of(config: dict[str, str], **partition: str) -> Defaults:
    return next(defaults(CONSUMED | config, [{"PartitionName": "p"} | partition]))


def test_the_partition_goes_before_the_cluster():
    free = {"DefMemPerNode": "UNLIMITED", "JobDefaults": "(null)"}
    assert of({}, **free) == Defaults("p", all_memory=True)
    assert of({"defmempernode": "900"}, **free) == Defaults("p", mem_per_node=900)
    assert of({"defmempernode": "900"}, DefMemPerCPU="100") == Defaults("p", mem_per_cpu=100)
    assert of({"defmempercpu": "200"} | {"defmempernode": ""}, **free) == Defaults("p", mem_per_cpu=200)
    assert of({}, DefMemPerCPU="UNLIMITED") == Defaults("p")  # set to 0: such a job takes none
    cluster = {"jobdefaults": "DefCpuPerGPU=3,DefMemPerGPU=700"}
    assert of(cluster, **free) == Defaults("p", cpus_per_gpu=3, mem_per_gpu=700)
    own = of(cluster, DefMemPerCPU="100", JobDefaults="DefMemPerGPU=3000")
    assert own == Defaults("p", cpus_per_gpu=3, mem_per_gpu=3000, mem_per_cpu=100)
    assert (own.cpus(1, 2), own.cpus(8, 2), own.mem_mib(2, 6, 1)) == (6, 8, 6000)
    assert of({"selecttypeparameters": "CR_CORE"}, DefMemPerCPU="100") == Defaults("p")
    assert not counts_memory({})


SMALL = Snapshot(0, (), (Node("n1", "idle", ("main",), 4, "v100", cpus=16, mem_mib=1000),), dialect=SLURM)


def test_what_is_not_recorded_is_unknown():
    said = questions.Wish(1, "60").forecast(Outlook(SMALL, samples=2))
    assert said.at(0.5) is None
    assert said.because == (
        "the default CPUs and memory of partition main are not recorded here; set --cpus and --mem",
    )
    assert questions.Wish(1, "60", cpus=1, mem="1M").forecast(Outlook(SMALL, samples=2)).at(0.5) == 0


def test_a_job_that_takes_all_memory_waits_for_an_empty_node():
    held = LiveJob("1", "1", "RUNNING", partition="main", gpus=1, mem_mib=1, nodes=("n1",), limit=60_000, start=0)
    node = replace(SMALL.nodes[0], used=(0,), mem_used=1)
    other = replace(node, name="n2", mem_mib=2000)
    busy = replace(SMALL, jobs=(held,), nodes=(node,), defaults=(Defaults("main", all_memory=True),))
    assert questions.Wish(1, "60").forecast(Outlook(busy, samples=2)).at(0.5) > 0
    unlike = questions.Wish(1, "60").forecast(Outlook(replace(busy, nodes=(node, other)), samples=2))
    assert "all memory of its nodes" in unlike.because[0]


@pytest.fixture
def site(monkeypatch) -> Iterator[Lab]:
    if reason := Lab.missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="lab", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with Lab(Path(folder), [LabNodes("v100", 5, 4)], partitions=PARTITIONS) as lab:
            monkeypatch.setenv("SLURM_CONF", str(lab.conf))
            yield lab


@pytest.mark.slurm
def test_what_if_when_and_slurm_agree(site: Lab, tmp_path: Path) -> None:
    """Two GPUs are free everywhere; only in one partition the defaults leave room for the job beside another one."""
    until = f"while [ ! -e {tmp_path / 'end'} ]; do sleep 0.1; done"
    for name in PARTITIONS:
        beside = ("--gres=gpu:2", "--mem=40000", "--cpus-per-task=4", "--time=20", "--comment=shunter: run_s=600")
        site.wait_job(site.submit(f"--partition={name}", *beside, script=until), "RUNNING")
    outlook = questions.AnswerSources().outlook(samples=10)
    foreseen = {name: questions.Wish(2, "20", name).forecast(outlook) for name in PARTITIONS}
    assert not any(each.because for each in foreseen.values())
    waits = {name: each.at(0.5) - outlook.snapshot.now for name, each in foreseen.items()}
    assert waits.pop("percpu") == 0
    assert min(waits.values()) > 60_000
    jobs = {name: str(site.submit(f"--partition={name}", "--gres=gpu:2", "--time=20")) for name in PARTITIONS}
    waiting = {name: job for name, job in jobs.items() if name != "percpu"}
    assert wait(lambda: all(site.job(job)["Reason"] == "Resources" for job in waiting.values()), 180)
    later = questions.AnswerSources().outlook(samples=10)
    when = later.of(*(questions.pending(later.snapshot, job) for job in waiting.values()))
    for name, said in zip(waiting, when, strict=True):
        assert abs(said.at(0.5) - foreseen[name].at(0.5)) <= 2000, (name, said.because)
    site.wait_job(jobs["percpu"], "RUNNING", "COMPLETED")
    assert {site.job(job)["JobState"] for job in waiting.values()} == {"PENDING"}
    (tmp_path / "end").touch()
    for job in waiting.values():
        site.wait_job(job, "RUNNING", "COMPLETED")

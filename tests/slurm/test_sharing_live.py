"""Jobs that share a GPU, and jobs that say of themselves how far they are, on a real Slurm."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.controller import Controller, Mode
from shunter.live.daemons import wait
from shunter.live.journal import Journal
from shunter.live.levers import levers_from
from shunter.live.releasing import release
from shunter.model import Plan, Start
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab, LabNodes
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import Watcher

pytestmark = pytest.mark.slurm


def test_half_the_shards_are_enough(lab_folder: Path, tmp_path: Path) -> None:
    if reason := Lab.missing():
        pytest.skip(reason)
    levers = levers_from("nice,shard")
    with Lab(lab_folder, [LabNodes("m40", 1, 1, shards=4)]) as lab:
        first = lab.submit("--gres=shard:2", "--time=5", script="sleep 300")
        lab.wait_job(first, "RUNNING")
        second, third = (lab.submit("--gres=shard:4", "--time=5", script="sleep 300") for _ in range(2))
        manager = SlurmManager(Client(lab.conf))
        controller = Controller(manager, Journal(tmp_path / "journal.db"), mode=Mode.ACT, levers=levers)
        backend = LiveBackend(manager, rhythm=Rhythm(0.3, 0.3), levers=levers)
        view = backend.look()
        assert view.jobs.share.tolist() == [500, 1000, 1000]
        assert not backend.apply(Plan((Start(int(view.pending[0]), (0,), shared=True),)))
        controller.act_on(backend.wanted())
        lab.wait_job(second, "RUNNING")
        assert lab.job(second)["TresPerNode"] == "gres:shard:2"
        assert lab.job(third)["TresPerNode"] == "gres:shard:4"


def test_a_shard_goes_back(lab_folder: Path, tmp_path: Path) -> None:
    if reason := Lab.missing():
        pytest.skip(reason)
    levers = levers_from("nice,shard")
    with Lab(lab_folder, [LabNodes("m40", 1, 1, shards=4)]) as lab:
        lab.wait_job(lab.submit("--gres=shard:4", "--time=5", script="sleep 300"), "RUNNING")
        job = lab.submit("--gres=shard:4", "--time=5", script="sleep 300")
        manager, book = SlurmManager(Client(lab.conf)), Journal(tmp_path / "journal.db")
        controller = Controller(manager, book, mode=Mode.ACT, levers=levers)
        backend = LiveBackend(manager, rhythm=Rhythm(0.3, 0.3), levers=levers)
        view = backend.look()
        assert not backend.apply(Plan((Start(int(view.pending[0]), (0,), shared=True),)))
        controller.act_on(backend.wanted())
        assert lab.job(job)["TresPerNode"] == "gres:shard:2"
        assert release(manager, book, manager.snapshot()) == (1, [])
        assert lab.job(job)["TresPerNode"] == "gres:shard:4"


def test_a_training_says_how_far_it_is(lab: Lab) -> None:
    """The two lines for training scripts, run by a job of Slurm's own."""
    lines = "from shunter.slurm.comments import report; print(report(done=120, iteration_s=0.25))"
    source = Path(__file__).parents[2] / "src"
    job = lab.submit(
        "--gpus=1", "--comment=of ann's shunter: model=resnet50 iterations=1000",
        script=f"SLURM_CONF={lab.conf} PYTHONPATH={source} {sys.executable} -c '{lines}'; sleep 300",
    )  # fmt: skip
    lab.wait_job(job, "RUNNING")

    def told():
        return next(each.hints for each in Watcher(Client(lab.conf)).snapshot().jobs if each.id == str(job))

    assert wait(lambda: told().done > 0, 180)
    assert (told().model, told().iterations, told().done, told().iteration_s) == ("resnet50", 1000, 120, 0.25)
    assert told().run_time_ms == 250_000
    assert told().done_ms == 30_000
    assert "of ann's" in lab.run("squeue", "-h", "-j", str(job), "-o", "%k")

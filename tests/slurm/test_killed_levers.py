"""Requeue and shard on a real Slurm: a controller is killed before or after Slurm makes a change that it has noted."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shunter.live.backend import Round
from shunter.live.controller import ChangeLimits, Controller, Mode
from shunter.live.daemons import wait
from shunter.live.journal import ABANDONED, DONE, INTENT, LANDING_S, UNDONE, Journal
from shunter.live.releasing import release
from shunter.live.stops import StopLimits
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab, LabNodes
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import Watcher

pytestmark = pytest.mark.slurm


class Dying(Client):
    """Is killed (kill -9) before Slurm hears of the change, or after it has done it and before anybody noted that."""

    before = True

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        changes = program == "scontrol" and arguments[0] in ("requeue", "update")
        if changes and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        said = super().run(program, *arguments, **more)
        if changes:
            os.kill(os.getpid(), signal.SIGKILL)
        return said


def rounds(client: Client, journal: Path, lever: str, count: int = 1, **wanted) -> None:
    """A controller that wants this of the cluster; between two rounds any command that was under way is over."""
    with closing(Journal(journal)) as book:
        at_once = ChangeLimits(stops=StopLimits(min_run_s=0.0))
        controller = Controller(
            SlurmManager(client), book, mode=Mode.ACT, levers=frozenset({lever}), bounds=at_once, interval_s=5.0
        )
        for number in range(count):
            time.sleep(LANDING_S + 0.2 if number else 0.0)
            snapshot = controller.manager.snapshot()
            controller.act_on(Round(number, snapshot, None, snapshot.jobs, **wanted))


def killed_round(lab: Lab, journal: Path, lever: str, before: bool, **wanted) -> None:
    client = Dying(lab.conf)
    client.before = before
    child = os.fork()
    if child == 0:
        try:
            rounds(client, journal, lever, **wanted)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def states(journal: Path, lever: str) -> list[str]:
    with closing(Journal(journal)) as book:
        return [act.state for act in book.acts() if act.order.lever == lever]


def released(lab: Lab, journal: Path) -> tuple[int, list[str]]:
    client = Client(lab.conf)
    with closing(Journal(journal)) as book:
        found = release(SlurmManager(client), book, Watcher(client).snapshot())
        assert not book.in_force()
        assert not book.left_alone()
    return found


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_job_is_stopped_once_or_not_at_all(lab: Lab, tmp_path: Path, before: bool) -> None:
    journal, agrees = tmp_path / "j.db", ("--requeue", "--comment=shunter: requeue=yes")
    job = str(lab.submit("--gres=gpu:p100:4", "--time=5", *agrees, script="sleep 600"))
    lab.wait_job(job, "RUNNING")
    killed_round(lab, journal, "requeue", before, preempts=[job])
    assert states(journal, "requeue") == [INTENT]
    if not before:
        lab.wait_job(job, "PENDING")
    rounds(Client(lab.conf), journal, "requeue", 2)  # the next controller sees what came of it
    assert states(journal, "requeue") == [ABANDONED if before else DONE]
    assert released(lab, journal) == (0, [])
    now = lab.job(job)
    assert (now["JobState"], now["Restarts"]) == (("RUNNING", "0") if before else ("PENDING", "1"))
    if not before:  # it is not held, and runs again
        assert now["Priority"] != "0"
        lab.wait_idle()
        time.sleep(2)  # on the same node at once Slurm would end it
        lab.run("scontrol", "update", f"jobid={job}", "starttime=now")
        lab.wait_job(job, "RUNNING")
        rounds(Client(lab.conf), journal, "requeue")
        assert lab.job(job)["Restarts"] == "1"


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_job_gets_its_shards_back(lab_folder: Path, tmp_path: Path, before: bool) -> None:
    if reason := Lab.missing():
        pytest.skip(reason)
    journal = tmp_path / "j.db"
    with Lab(lab_folder, [LabNodes("m40", 1, 1, shards=4)]) as lab:
        lab.wait_job(lab.submit("--gres=shard:4", "--time=5", script="sleep 300"), "RUNNING")
        job = str(lab.submit("--gres=shard:4", "--time=5", script="sleep 300"))
        assert wait(lambda: lab.job(job)["Reason"] == "Resources", 180)
        shares = {"starts": {job: ("m40-1",)}, "shared": {job}}
        killed_round(lab, journal, "shard", before, **shares)
        assert states(journal, "shard") == [INTENT]
        assert lab.job(job)["TresPerNode"] == f"gres:shard:{4 if before else 2}"
        rounds(Client(lab.conf), journal, "shard", 2, **shares)
        done = [ABANDONED, DONE] if before else [DONE]  # never halved twice
        assert states(journal, "shard") == done
        assert lab.job(job)["TresPerNode"] == "gres:shard:2"
        assert released(lab, journal) == (1, [])
        assert states(journal, "shard") == [*done[:-1], UNDONE]
        now = lab.job(job)
        assert (now["TresPerNode"], now["JobState"], now.get("AdminComment", "")) == ("gres:shard:4", "PENDING", "")

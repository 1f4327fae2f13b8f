"""Resizing on a real Slurm: a training that agreed is asked to save, queues itself, and goes on with other GPUs."""

from __future__ import annotations

import os
import signal
import sys
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
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import Watcher

pytestmark = pytest.mark.slurm
EXAMPLES = Path(__file__).parents[2] / "examples"
AGREES = ("--requeue", "--comment=shunter: requeue=yes resize=1-3")
OBEYS = """trap asked=yes USR1; sleep 600 & wait $!
[ "$asked" ] || exit  # it is cancelled, and its sleep died first
kill $!; scontrol requeue $SLURM_JOB_ID"""


class Dying(Client):
    """Is killed (kill -9) before Slurm hears of a change by this program, or after it and before anybody noted that."""

    program, before = "", True

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        changes = program == self.program and (program == "scancel" or arguments[0] == "update")
        if changes and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        said = super().run(program, *arguments, **more)
        if changes:
            os.kill(os.getpid(), signal.SIGKILL)
        return said


def rounds(client: Client, journal: Path, count: int = 1, **wanted: Any) -> list[str]:
    """A controller that wants this of the cluster; returns the levers that it pulled.

    Between two rounds any command that was under way is over.
    """
    with closing(Journal(journal)) as book:
        limits, levers = ChangeLimits(stops=StopLimits(min_run_s=0.0)), frozenset({"requeue", "resize"})
        controller = Controller(SlurmManager(client), book, mode=Mode.ACT, levers=levers, bounds=limits, interval_s=5.0)
        pulled = []
        for number in range(count):
            time.sleep(LANDING_S + 0.2 if number else 0.0)
            snapshot = controller.manager.snapshot()
            found = controller.act_on(Round(number, snapshot, None, snapshot.jobs, **wanted))
            pulled += [order.lever for order in found.orders]
        return pulled


def killed_round(lab: Lab, journal: Path, program: str, before: bool, **wanted: Any) -> None:
    client = Dying(lab.conf)
    client.program, client.before = program, before
    child = os.fork()
    if child == 0:
        try:
            rounds(client, journal, **wanted)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def acts(journal: Path) -> list[tuple[str, str]]:
    with closing(Journal(journal)) as book:
        return [(act.order.lever, act.state) for act in book.acts()]


def start_now(lab: Lab, job: str) -> None:
    lab.wait_idle()
    time.sleep(2)  # on the same node at once Slurm would end it
    lab.run("scontrol", "update", f"jobid={job}", "starttime=now")


def test_a_training_is_resized_and_ends_with_the_loss_of_an_unbroken_run(lab: Lab, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="no torch; ./scripts/install rl has it")
    tmp_path.chmod(0o755)
    train = [sys.executable, str(EXAMPLES / "resizable_training.py")]
    script, journal, out = (EXAMPLES / "resizable.sh").read_text(), tmp_path / "j.db", tmp_path / "out"

    def submitted(folder: str, output: Path, gpus: int, *more: str) -> str:
        words = [*train, str(tmp_path / folder), *more]
        body = script.replace('"$@"\n', " ".join(words) + "\n").partition("\n")[2]
        options = [f"--gpus=p100:{gpus}", "--time=5", *AGREES, f"--output={output}", "--open-mode=append"]
        return str(lab.submit(*options, script=body))

    job = submitted("parts", out, 3, "--step-s=0.5")
    lab.wait_job(job, "RUNNING")
    assert wait(lambda: any((tmp_path / "parts").glob("meet.*")), 180)
    time.sleep(1)
    client = Client(lab.conf)
    assert rounds(client, journal, sizes={job: 2}) == ["signal"]
    lab.wait_job(job, "PENDING")
    assert rounds(client, journal) == ["resize"]  # whatever the policy wants by now
    assert lab.job(job)["TresPerJob"] == "gres:gpu:p100:2"
    assert rounds(client, journal) == []
    start_now(lab, job)
    lab.wait_job(job, "COMPLETED")
    whole = submitted("whole", tmp_path / "whole.out", 1)
    lab.wait_job(whole, "COMPLETED")
    first, last = [line for line in out.read_text().splitlines() if " workers, " in line]
    assert first.startswith("3 workers, step")
    assert not first.startswith("3 workers, step 60,")
    assert last.startswith("2 workers, step 60,")
    unbroken = next(line for line in (tmp_path / "whole.out").read_text().splitlines() if " workers, " in line)
    assert unbroken.startswith("1 workers, step 60,")
    assert last.partition("loss")[2] == unbroken.partition("loss")[2]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_controller_that_is_killed_while_it_signals_asks_a_job_once(lab: Lab, tmp_path: Path, before: bool) -> None:
    journal = tmp_path / "j.db"
    script = OBEYS.replace("USR1;", f"USR1; touch {tmp_path}/traps;")
    job = str(lab.submit("--gpus=3", "--time=5", *AGREES, script=script))
    assert wait((tmp_path / "traps").exists, 180)
    killed_round(lab, journal, "scancel", before, sizes={job: 1})
    assert acts(journal) == [("signal", INTENT)]
    if not before:
        lab.wait_job(job, "PENDING")
    rounds(Client(lab.conf), journal, 2)
    if before:
        assert acts(journal) == [("signal", DONE)]  # it may have been sent
        assert (lab.job(job)["JobState"], lab.job(job)["TresPerJob"]) == ("RUNNING", "gres:gpu:3")
    else:  # it queued itself, and the next controller gives it what it was stopped for
        assert acts(journal) == [("signal", DONE), ("resize", DONE)]
        assert (lab.job(job)["Restarts"], lab.job(job)["TresPerJob"]) == ("1", "gres:gpu:1")


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_controller_that_is_killed_while_it_resizes_leaves_no_job_behind(
    lab: Lab, tmp_path: Path, before: bool
) -> None:
    journal, client = tmp_path / "j.db", Client(lab.conf)
    job = str(lab.submit("--gpus=3", "--time=5", "--begin=now+1hour", *AGREES, script=OBEYS))
    killed_round(lab, journal, "scontrol", before, sizes={job: 2})
    assert acts(journal) == [("resize", INTENT)]
    rounds(client, journal, 2)
    assert acts(journal) == [("resize", ABANDONED if before else DONE)]
    assert lab.job(job)["TresPerJob"] == ("gres:gpu:3" if before else "gres:gpu:2")
    with closing(Journal(journal)) as book:
        undone = release(SlurmManager(client), book, Watcher(client).snapshot())
        assert not book.in_force()
        assert [act.state for act in book.acts()] == [ABANDONED if before else UNDONE]
    assert undone == (0 if before else 1, [])
    now = lab.job(job)
    assert now["TresPerJob"] == "gres:gpu:3"
    assert "shunter" not in now.get("AdminComment", "")


def test_a_job_that_runs_resized_is_given_back_once_it_waits(lab: Lab, tmp_path: Path) -> None:
    journal, client = tmp_path / "j.db", Client(lab.conf)
    job = str(lab.submit("--gres=gpu:p100:3", "--nodes=1", "--time=5", "--begin=now+1hour", *AGREES, script=OBEYS))
    assert rounds(client, journal, sizes={job: 2}) == ["resize"]
    lab.run("scontrol", "update", f"jobid={job}", "starttime=now")
    lab.wait_job(job, "RUNNING")
    assert lab.job(job)["TresPerNode"] == "gres:gpu:p100:2"
    with closing(Journal(journal)) as book:
        undone, problems = release(SlurmManager(client), book, Watcher(client).snapshot())
    assert undone == 0
    assert "only while it waits" in problems[0]
    lab.run("scontrol", "requeue", job)
    lab.wait_job(job, "PENDING")
    with closing(Journal(journal)) as book:
        assert release(SlurmManager(client), book, Watcher(client).snapshot()) == (1, [])
    assert lab.job(job)["TresPerNode"] == "gres:gpu:p100:3"


def request(lab: Lab, job: str) -> dict[str, str]:
    fields = ("JobState", "TresPerJob", "TresPerNode", "TresPerTask", "NumTasks", "Comment", "AdminComment", "Nice")
    return {name: value for name, value in lab.job(job).items() if name in fields}


def test_what_others_write_makes_the_controller_touch_no_job_of_theirs(lab: Lab, tmp_path: Path) -> None:
    """A policy wants to resize jobs that have not agreed, not in a form that can be, or not to that many GPUs."""
    forms = {
        "silent": ["--gpus=3", "--requeue"],
        "no requeue": ["--gpus=3", "--no-requeue", "--comment=shunter: requeue=yes resize=1-3"],
        "half": ["--gpus=3", "--requeue", "--comment=shunter: resize=1-3"],
        "absurd": ["--gpus=3", "--requeue", "--comment=shunter: requeue=yes resize=0-99999999999"],
        "turned": ["--gpus=3", "--requeue", "--comment=shunter: requeue=yes resize=3-1"],
        "names another": ["--gpus=3", "--requeue", "--comment=shunter: jobid=1 requeue=yes resize=1-3;jobid=1"],
        "per task": ["--ntasks=3", "--gpus-per-task=1", *AGREES],
        "array": ["--gpus=3", "--array=1-2", *AGREES],
        "narrow": ["--gpus=3", "--requeue", "--comment=shunter: requeue=yes resize=3-4096"],
    }
    jobs = {name: str(lab.submit("--time=5", "--begin=now+1hour", *more)) for name, more in forms.items()}
    before = {name: request(lab, job) for name, job in jobs.items()}
    for wanted in (1, 8, 100_000):
        others = [job for name, job in jobs.items() if name != "names another"]
        assert rounds(Client(lab.conf), tmp_path / "j.db", sizes=dict.fromkeys(others, wanted)) == []
    assert {name: request(lab, job) for name, job in jobs.items()} == before
    assert acts(tmp_path / "j.db") == []
    own = jobs.pop("names another")  # agrees for itself, whatever else it names
    assert rounds(Client(lab.conf), tmp_path / "j.db", sizes={own: 2}) == ["resize"]
    assert lab.job(own)["TresPerJob"] == "gres:gpu:2"
    assert all(request(lab, job) == before[name] for name, job in jobs.items())

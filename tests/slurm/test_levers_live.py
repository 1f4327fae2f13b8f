"""Levers on a real Slurm: whatever is interrupted or lost, each job gets its own values back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shunter.errors import LiveError
from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.daemons import wait
from shunter.live.journal import ABANDONED, DONE, INTENT, Journal
from shunter.live.levers import Order, levers_from
from shunter.live.manager import UnreachableError
from shunter.live.releasing import release
from shunter.live.running import ControllerSettings, run
from shunter.live.snapshot import LiveJob
from shunter.registry import policy
from shunter.slurm.client import Client, declined
from shunter.slurm.lab import Lab
from shunter.slurm.levers import commands
from shunter.slurm.manager import SlurmManager
from shunter.slurm.marks import marks_in
from shunter.slurm.watcher import OutputFormat, Watcher

pytestmark = pytest.mark.slurm
FAST = Rhythm(0.3, 0.3)


@pytest.fixture
def full(lab: Lab) -> Lab:
    """All GPUs are taken, so that whatever comes waits."""
    lab.wait_job(lab.submit("--gpus=22", "--time=30", script="sleep 600"), "RUNNING")
    return lab


def controlled(
    lab: Lab, journal: Path, rounds: int = 2, levers: str = "nice", client: Client | None = None
) -> list[RoundResult]:
    outcomes: list[RoundResult] = []
    settings = ControllerSettings(Mode.ACT, FAST, levers=levers_from(levers), rounds=rounds)
    run(policy("sjf"), SlurmManager(client or Client(lab.conf)), journal, settings, on_round=outcomes.append)
    return outcomes


def released(lab: Lab, journal: Path, client: Client | None = None, own: bool = True) -> tuple[int, list[str]]:
    with closing(Journal(journal)) as book:
        return release(
            SlurmManager(client or Client(lab.conf)),
            book,
            Watcher(Client(lab.conf), OutputFormat.TEXT).snapshot(),
            own=own,
        )


def jobs(lab: Lab) -> dict[str, LiveJob]:
    return {
        job.id: job for job in Watcher(Client(lab.conf), OutputFormat.TEXT).snapshot().unfolded().jobs if not job.over
    }


def waiting(lab: Lab, *minutes: int, more: tuple[str, ...] = ()) -> list[int]:
    return [lab.submit("--gpus=2", f"--time={each}", *more, script="sleep 600") for each in minutes]


# -- each task of an array has a nice of its own


class Operator(Client):
    """One who may change the jobs of others and not write their AdminComment."""

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        if any(each.startswith("admincomment=") for each in arguments):
            raise declined("Access/permission denied")
        return super().run(program, *arguments, **more)


@pytest.mark.parametrize("kind", [Client, Operator])
def test_the_nice_of_single_tasks_survives(full: Lab, tmp_path: Path, kind: type[Client]) -> None:
    """Two were set before the array was moved, one after it, one ran meanwhile; none becomes that of the others."""
    others, client = waiting(full, 9, 9, 9, more=("--nice=-500",)), kind(full.conf)
    array = full.submit("--gpus=11", "--time=2", "--array=1-6", "--nice=7", "--requeue", script="sleep 600")
    full.run("scontrol", "update", f"jobid={array}_3", "nice=400")
    full.run("scontrol", "update", f"jobid={array}_4", "nice=30")
    full.run("scontrol", "hold", f"{array}_4")
    assert wait(lambda: all(job.waits or job.runs or job.held for job in jobs(full).values()), 180)
    controlled(full, tmp_path / "j.db", client=client)
    moved = jobs(full)
    assert moved[f"{array}_1"].nice < 0
    assert moved[f"{array}_1"].nice == moved[f"{array}_6"].nice
    full.run("scontrol", "update", f"jobid={array}_5", "nice=5")
    outcomes = controlled(full, tmp_path / "j.db", rounds=3, client=client)
    if kind is Client:
        assert list(outcomes[0].respected) == [f"{array}_5"]
        assert jobs(full)[f"{array}_5"].nice == 5
    (filler,) = (job.id for job in jobs(full).values() if job.runs)
    full.run("scontrol", "hold", ",".join(map(str, others)))
    full.run("scancel", filler)
    full.wait_job(f"{array}_1", "RUNNING")
    full.run("scontrol", "requeue", f"{array}_1")
    controlled(full, tmp_path / "j.db", client=client)
    assert released(full, tmp_path / "j.db", client)[1] == []
    found = jobs(full)
    assert [found[f"{array}_{task}"].nice for task in range(1, 7)] == [7, 7, 400, 30, 5, 7]
    assert found[f"{array}_4"].held
    assert not any(job.annotation for job in found.values())


# -- marks


def test_marks_come_with_the_change_and_go_with_it(full: Lab, tmp_path: Path) -> None:
    """They survive a restart of slurmctld, keep the site's own text, and are enough to give everything back."""
    first, second = waiting(full, 9, 3, more=("--nice=20",))
    site = "ticket 4711, see 'wiki' $(x)"
    full.run("scontrol", "update", f"jobid={second}", f"admincomment={site}")
    controlled(full, tmp_path / "j.db")
    full.stop_controller()
    full.start_controller()
    marked = jobs(full)[str(second)]
    book = Journal(tmp_path / "j.db")
    mark = marks_in(marked.annotation)["nice"]
    assert (mark.journal, mark.before, mark.value) == (book.id, "20", str(marked.nice))
    assert marked.annotation.startswith(f"{site},")
    with pytest.raises(LiveError, match="denied"):
        full.run("scontrol", "update", f"jobid={first}", "admincomment=shunter:0:nice", user="nobody")
    snapshot = Watcher(Client(full.conf)).snapshot()
    assert release(SlurmManager(Client(full.conf)), Journal.in_memory(), snapshot, own=False) == (1, [])
    assert (jobs(full)[str(second)].nice, jobs(full)[str(second)].annotation) == (20, site)


@pytest.mark.parametrize("marked", [True, False])
def test_a_change_that_lands_late_is_ours_all_the_same(full: Lab, tmp_path: Path, marked: bool) -> None:
    """Its controller gave it up; then it was done. Nobody else did it, and it is undone like all others."""
    job = waiting(full, 9)[0]
    late: list[tuple[str, ...]] = []

    class Slow(Client):
        def run(self, program: str, *arguments: str, **more: Any) -> str:
            if program == "scontrol" and arguments[0] == "update" and arguments[1].startswith("jobid="):
                late.append(arguments)
                raise UnreachableError("no answer")
            return super().run(program, *arguments, **more)

    other = waiting(full, 3)[0]
    settings = ControllerSettings(Mode.ACT, FAST, rounds=2)
    run(policy("sjf"), SlurmManager(Slow(full.conf)), tmp_path / "j.db", settings)
    with closing(Journal(tmp_path / "j.db")) as book:
        for act in book.acts(INTENT):
            book.settle(act, ABANDONED)
        assert not book.in_force()
    full.run("scontrol", *(each for each in late[0] if marked or not each.startswith("admincomment")))
    outcomes = controlled(full, tmp_path / "j.db")
    assert not outcomes[0].respected
    assert (str(other), "nice") in Journal(tmp_path / "j.db").in_force()
    assert released(full, tmp_path / "j.db") == (1, [])
    assert {jobs(full)[str(each)].nice for each in (job, other)} == {0}


# -- priority


class Interrupted(Client):
    """Killed before its n-th change."""

    def __init__(self, conf: Path, changes: int) -> None:
        super().__init__(conf)
        self.left = changes

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        if program == "scontrol" and arguments[0] != "show":
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
        return super().run(program, *arguments, **more)


def test_a_priority_is_undone_without_holding_the_job_whenever_it_is_interrupted(full: Lab, tmp_path: Path) -> None:
    numbers = waiting(full, 9, 3, 5, more=("--nice=7",))
    before = {str(each): (full.job(each)["Priority"], "7") for each in numbers}
    controlled(full, tmp_path / "j.db", levers="priority")
    assert jobs(full)[str(numbers[1])].priority > jobs(full)[str(numbers[0])].priority
    for changes in range(20):
        try:
            released(full, tmp_path / "j.db", Interrupted(full.conf, changes % 2))
            break
        except KeyboardInterrupt:
            assert not any(full.job(each)["Reason"].startswith("JobHeld") for each in numbers)
    assert {str(each): (full.job(each)["Priority"], full.job(each)["Nice"]) for each in numbers} == before
    assert not Journal(tmp_path / "j.db").acts(DONE)


def test_a_job_that_its_user_holds_stays_held_and_gets_its_nice_back(full: Lab, tmp_path: Path) -> None:
    first, second = waiting(full, 9, 3, more=("--nice=7",))
    for act in (
        lambda: controlled(full, tmp_path / "j.db", levers="priority"),
        lambda: released(full, tmp_path / "j.db"),
    ):
        assert wait(lambda: jobs(full)[str(second)].waits, 180)
        controlled(full, tmp_path / "j.db", levers="priority")
        assert jobs(full)[str(second)].nice == 0  # Slurm clears it when a priority is set
        full.run("scontrol", "hold", str(second))
        act()
        assert full.job(second)["Reason"] == "JobHeldAdmin"
        assert (full.job(second)["Nice"], jobs(full)[str(second)].annotation) == ("7", "")
        assert str(second) not in Journal(tmp_path / "j.db").left_alone()
        full.run("scontrol", "release", str(second))
    assert full.job(first)["Nice"] == "7"


# -- pins


def pinned(lab: Lab, journal: Path) -> int:
    """A job that runs on the node that the policy chose, k80-1."""
    job = lab.submit("--gpus=1", "--hold", "--requeue", script="sleep 600")
    client, book = Client(lab.conf), Journal(journal)
    found = jobs(lab)[str(job)]
    order = Order(str(job), "pin", "k80-1", "", "chosen", found.target, found.annotation, book.id)
    (act,) = book.intend(1, [order])
    for command in commands(order):
        client.run(*command)
    book.settle(act, DONE)
    book.close()
    lab.run("scontrol", "release", str(job))
    lab.wait_job(job, "RUNNING")
    return job


def fails(lab: Lab, node: str) -> None:
    """A node dies, and what ran there is queued again."""
    lab.stop_node(node, kill=True)
    lab.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")


def free(lab: Lab, job: int) -> bool:
    return lab.job(job)["JobState"] == "PENDING" and lab.job(job)["ReqNodeList"] == "(null)"


def test_a_pinned_job_whose_node_dies_is_not_stranded(lab: Lab, tmp_path: Path, monkeypatch) -> None:
    """Slurm changes required nodes only of waiting jobs: a pin is over when Slurm shows that it is gone."""
    monkeypatch.setattr("shunter.live.rounds.ensure", lambda *_: None)  # a watchdog would lift it before
    job = pinned(lab, tmp_path / "j.db")
    undone, problems = released(lab, tmp_path / "j.db")
    assert (undone, len(problems)) == (0, 1)
    assert "only while it waits" in problems[0]
    controlled(lab, tmp_path / "j.db", levers="nice,pin")
    assert Journal(tmp_path / "j.db").in_force().keys() == {(str(job), "pin")}
    fails(lab, "k80-1")
    assert wait(lambda: lab.job(job)["JobState"] == "PENDING", 180)
    assert lab.job(job)["ReqNodeList"] == "k80-1"
    controlled(lab, tmp_path / "j.db", levers="nice,pin")
    assert free(lab, job)
    assert not Journal(tmp_path / "j.db").in_force()


@pytest.mark.parametrize("lost", [False, True], ids=["journal", "marks"])
def test_release_lifts_the_pin_of_a_controller_that_is_gone(lab: Lab, tmp_path: Path, lost: bool) -> None:
    job = pinned(lab, tmp_path / "j.db")
    fails(lab, "k80-1")
    assert wait(lambda: lab.job(job)["JobState"] == "PENDING", 180)
    assert released(lab, tmp_path / ("other.db" if lost else "j.db"), own=not lost) == (1, [])
    assert free(lab, job)


def test_a_controller_with_another_journal_takes_over_what_is_marked(lab: Lab, tmp_path: Path) -> None:
    job = pinned(lab, tmp_path / "lost.db")
    fails(lab, "k80-1")
    assert wait(lambda: lab.job(job)["JobState"] == "PENDING", 180)
    controlled(lab, tmp_path / "new.db", levers="nice")
    assert free(lab, job)

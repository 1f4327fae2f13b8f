"""A controller that is killed in the middle of a switch of its policy, on a real Slurm."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acting import fill, nices, untouched

from shunter.errors import LiveError
from shunter.live.backend import Rhythm, Round
from shunter.live.backing_out import back_out
from shunter.live.controller import Mode
from shunter.live.daemons import wait
from shunter.live.journal import ABANDONED, DONE, INTENT, Journal
from shunter.live.running import ControllerSettings, policy_of, run
from shunter.live.sources import PolicyChoice, PolicySource
from shunter.live.switch_log import LoggedSwitch, SwitchLog
from shunter.registry import policy
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager

pytestmark = pytest.mark.slurm
FIRST, SECOND = "sjf:estimate=limit", "ljf:estimate=limit"
POINTS = ("after the intent", "before a change", "after a change", "before it is done")


@dataclass
class Turning(PolicySource):
    """Changes between two policies after every few rounds, beginning with what was in force."""

    every: int = 2
    name: str = "a turning source"
    remark: str = ""
    seen: int = field(default=0)

    def begin(self, in_force: str, switched: float | None) -> PolicyChoice:
        return PolicyChoice(policy(in_force if in_force in (FIRST, SECOND) else FIRST), "it begins")

    def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
        self.seen += 1
        if self.seen % (self.every + 1):
            return None
        return PolicyChoice(policy(FIRST if in_force == SECOND else SECOND), "its turn", f"round {self.seen}")

    def hand_back(self, why: str) -> PolicyChoice | None:
        return PolicyChoice(policy(FIRST), why)

    def close(self) -> None:
        pass


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(Client):
    """Is killed at the first change after a switch: before Slurm hears of it, or after it was made."""

    armed, before = False, True

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        changes = program == "scontrol" and arguments[0] == "update" and "jobid=" in arguments[1]
        if changes and self.armed and self.before:
            die()
        said = super().run(program, *arguments, **more)
        if changes and self.armed:
            die()
        return said


def armed(client: Dying, point: str) -> None:
    """Let this process be killed at a point of its first switch."""
    intend, settle = SwitchLog.intend, SwitchLog.settle

    def intended(self: SwitchLog, *what: str, back: bool = False) -> int:
        number = intend(self, *what, back=back)
        if point == "after the intent":
            die()
        client.armed, client.before = "change" in point, point == "before a change"
        return number

    def settled(self: SwitchLog, number: int, state: str) -> None:
        if point == "before it is done":
            die()
        settle(self, number, state)

    SwitchLog.intend, SwitchLog.settle = intended, settled  # type: ignore[method-assign]


def control(client: Client, journal: Path, rounds: int, every: int = 2) -> None:
    run(Turning(every), SlurmManager(client), journal, ControllerSettings(Mode.ACT, Rhythm(0.2, 0.2), rounds=rounds))


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        with suppress(LiveError):
            work()
        os._exit(0)
    return child


def last_switch(journal: Path) -> LoggedSwitch:
    with closing(Journal.reading(journal)) as book:
        return SwitchLog(book).all()[-1]


def given_back(lab: Lab, journal: Path) -> None:
    """Nothing is left behind: neither nice nor mark nor open act, and no policy is in force."""
    assert wait(lambda: not back_out(SlurmManager(Client(lab.conf)), journal, from_marks=False).problems, 180)
    assert untouched(lab)
    with closing(Journal(journal)) as book:
        assert not book.acts(INTENT, DONE)
        assert not book.left_alone()
        assert SwitchLog(book).in_force() == ""


@pytest.mark.parametrize("point", POINTS)
def test_killed_in_the_middle_of_a_switch(lab: Lab, tmp_path: Path, point: str) -> None:
    """After the restart the controller knows which policy is in force, finishes its order, and gives all back."""
    jobs, journal = fill(lab, 9, 3, 6), tmp_path / "journal.db"
    control(Client(lab.conf), journal, 1)
    client = Dying(lab.conf)

    def work() -> None:
        armed(client, point)
        control(client, journal, 30)

    assert os.waitpid(forked(work), 0)[1] == signal.SIGKILL
    found = last_switch(journal)
    assert (found.before, found.policy, found.state) == (FIRST, SECOND, INTENT)
    with closing(Journal.reading(journal)) as book:
        assert policy_of(book) == SECOND

    def ordered() -> bool:
        """The longest first; what became of a change that was under way is known some seconds later."""
        control(Client(lab.conf), journal, 4 if point == POINTS[0] else 35, every=1000)
        moved = nices(lab)
        return sorted(jobs, key=lambda job: (moved[job], job)) == [jobs[0], jobs[2], jobs[1]]

    assert wait(ordered, 180)
    with closing(Journal(journal)) as book:
        log = SwitchLog(book)
        assert log.in_force() == SECOND
        assert {each.state for each in log.all()} == {DONE}
    given_back(lab, journal)


@pytest.mark.slow
def test_killed_again_and_again_while_the_policy_turns(lab: Lab, tmp_path: Path) -> None:
    """Forty kills at any moment: the journal always knows what is in force, and all is given back."""
    fill(lab, 9, 3, 6, 2, 8)
    journal, draw = tmp_path / "journal.db", random.Random(int(os.environ.get("KILLING_SEED", "13")))
    control(Client(lab.conf), journal, 1)
    for _ in range(40):
        child = forked(lambda: control(Client(lab.conf), journal, 0, every=draw.choice((1, 2))))
        time.sleep(draw.uniform(0.2, 2.5))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with closing(Journal.reading(journal)) as book:
            log = SwitchLog(book)
            assert log.in_force() in (FIRST, SECOND)
            assert all(each.state != ABANDONED for each in log.all())
    with closing(Journal(journal)) as book:
        assert sum(bool(each.before) for each in SwitchLog(book).all()) >= 10
    given_back(lab, journal)

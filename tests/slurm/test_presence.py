"""Two controllers that see each other by a reservation: one gives way; and what happens if Slurm does not answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from acting import rights

from shunter.errors import LiveError
from shunter.live.backend import Rhythm, Round
from shunter.live.controller import Controller, Mode, RoundResult
from shunter.live.daemons import wait
from shunter.live.journal import Journal
from shunter.live.levers import Order
from shunter.live.manager import DeclinedError, UnreachableError
from shunter.live.rounds import Authority
from shunter.live.running import ControllerSettings, run
from shunter.live.snapshot import Snapshot
from shunter.registry import policy
from shunter.slurm.client import Client, declined
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager
from shunter.slurm.presence import Sign, SlurmPresence, signs_in
from shunter.slurm.surroundings import reservations
from shunter.slurm.watcher import Watcher

TEXT = (
    "ReservationName=shunter_1f2e3d4c StartTime=2026-11-16T10:52:43 EndTime=2026-11-16T10:54:43 Duration=00:02:00"
    " Nodes=(null) NodeCnt=0 Flags=ANY_NODES Users=root Watts=1\n"
    "ReservationName=maint StartTime=2026-11-16T10:52:43 EndTime=2026-11-16T10:54:43 Nodes=n1 Flags=MAINT\n"
)


class As(Client):
    """Another account."""

    def __init__(self, lab: Lab, user: str) -> None:
        super().__init__(lab.conf)
        self.lab, self.user = lab, user

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        try:
            return self.lab.run(program, *arguments, user=self.user, **more)
        except LiveError as error:
            raise declined(str(error)) from None


def test_signs_are_distinguished_from_reservations() -> None:
    assert signs_in(TEXT) == [Sign(1_794_826_363_000, "1f2e3d4c", 1_794_826_483_000)]
    assert signs_in("No reservations in the system\n") == []
    assert [found.name for found in reservations(TEXT)] == ["maint"]


@pytest.mark.parametrize(
    "changed",
    [("NodeCnt=0", "NodeCnt=4"), ("shunter_1f2e3d4c", "shunter_maintenance"), ("StartTime=2026-11-16T10:52:43 ", "")],
)
def test_only_a_reservation_without_nodes_is_a_sign(changed: tuple[str, str]) -> None:
    text = TEXT.replace(*changed, 1)
    assert signs_in(text) == []
    if "StartTime" not in changed[0]:
        assert len(reservations(text)) == 2


class Answers(Client):
    """Keeps reservations, and is silent as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.silent, self.kept, self.ran = 0, dict[str, int](), list[tuple[str, ...]]()

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        self.ran.append((program, *arguments))
        if self.silent:
            self.silent -= 1
            raise UnreachableError(f"{program} did not answer within 10 s")
        name = next((word.partition("=")[2] for word in arguments if word.startswith("reservationname=")), "")
        if arguments[0] == "update" and name not in self.kept:
            raise DeclinedError("no such reservation")
        if arguments[0] == "create":
            self.kept[name] = 10 + len(self.kept)
        return "".join(
            f"ReservationName={name} StartTime=2026-11-16T10:{minute}:00 EndTime=2026-11-16T11:59:00 NodeCnt=0\n"
            for name, minute in self.kept.items()
        )


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[list[Controller]]:
    """Two that mark jobs, with journals of their own, on one cluster."""
    client = Answers()
    with closing(Journal(tmp_path / "a.db")) as one, closing(Journal(tmp_path / "b.db")) as two:
        made = [Controller(SlurmManager(client), book, mode=Mode.ACT) for book in (one, two)]
        for each in made:
            each.orders = lambda _: ([Order("1", "nice", "-9", "0")], 0)  # type: ignore[method-assign]
            each._carry_out = lambda _orders, result: setattr(result, "done", 1)  # type: ignore[method-assign]
            each.respect = lambda _, may_change=True: {}  # type: ignore[method-assign]
        yield made


def rounds_of(controller: Controller, count: int = 1) -> Iterator[RoundResult]:
    """Rounds in which the policy wants nothing."""
    authority = Authority(controller, controller.manager.presence(controller.journal, controller.interval_s))
    for number in range(count):
        wanted = Round(number, Snapshot(0, (), ()), None, ())  # type: ignore[arg-type]
        authority.check(wanted.snapshot)
        yield controller.act_on(wanted)


def test_one_that_marks_jobs_shows_itself_to_one_that_does_not(controllers: list[Controller]) -> None:
    """No job waits that has a mark, so the reservation alone shows the first one."""
    first, second = controllers
    second.marks = False
    outcomes = [next(rounds_of(each)) for each in (first, second, first)]
    assert [bool(outcome.paused) for outcome in outcomes] == [False, True, False]
    assert f"another controller (journal {first.journal.id}) acts on this cluster" in outcomes[1].paused
    assert second.journal.handed_back()
    assert not first.journal.handed_back()


@pytest.mark.parametrize("silent", [1, 2])
def test_no_answer_is_no_permission(controllers: list[Controller], silent: int) -> None:
    """Whether it is the first or the second command that gets none; in the next round all is as before."""
    first = controllers[0]
    rounds = rounds_of(first, silent + 2)
    outcomes = [next(rounds)]
    first.manager.client.silent = silent  # type: ignore[attr-defined]
    outcomes += rounds
    assert [outcome.done for outcome in outcomes] == [1, *[0] * silent, 1]
    assert all("can't tell whether another controller acts" in each.silence for each in outcomes[1:-1])
    assert [outcome.paused for outcome in outcomes] == [""] * len(outcomes)
    assert not first.journal.handed_back()


def acted(client: Client, journal: Path, rounds: int = 3) -> list[RoundResult]:
    outcomes: list[RoundResult] = []
    run(
        policy("sjf"),
        SlurmManager(client),
        journal,
        ControllerSettings(Mode.ACT, Rhythm(0.3, 0.3), rounds=rounds),
        on_round=outcomes.append,
    )
    return outcomes


def nices_of(lab: Lab) -> list[int]:
    """Of those that wait; those of tests before are over, and still listed."""
    return [job.nice for job in Watcher(Client(lab.conf)).snapshot().jobs if job.state == "PENDING"]


def listed(lab: Lab) -> list[str]:
    return [sign.journal for sign in signs_in(lab.run("scontrol", "-o", "show", "reservations"))]


@pytest.fixture
def operated(lab_with_database: Lab) -> Iterator[Lab]:
    """A lab of which daemon is an operator."""
    with rights(lab_with_database, "daemon") as become:
        become("Operator")
        yield lab_with_database


@pytest.mark.slurm
def test_the_second_controller_of_an_operator_gives_way(operated: Lab, tmp_path: Path) -> None:
    lab = operated
    lab.wait_job(lab.submit("--gpus=22", "--time=30", script="sleep 600"), "RUNNING")
    for minutes in (9, 7, 5, 3):
        lab.submit("--gpus=2", f"--time={minutes}", script="sleep 600")
    run(policy("sjf"), SlurmManager(Client(lab.conf)), tmp_path / "none.db", ControllerSettings(rounds=1))  # compiles
    child = os.fork()
    try:
        if child == 0:  # the first one, which will be killed
            try:
                acted(As(lab, "daemon"), tmp_path / "one.db", rounds=0)
            finally:
                os._exit(1)
        assert wait(lambda: len(listed(lab)) == 1, 180)
        with closing(Journal(tmp_path / "one.db")) as book:
            (first,) = listed(lab)
            assert first == book.id
        assert wait(lambda: sum(nice != 0 for nice in nices_of(lab)) == 3, 180)  # it shows itself, then it acts
        nices = nices_of(lab)
        for number, user in enumerate(("daemon", "root")):  # an operator, and an administrator, who could mark jobs
            outcomes = acted(As(lab, user), tmp_path / f"two{number}.db")
            assert f"another controller (journal {first}) acts on this cluster" in outcomes[-1].paused
            assert not any(outcome.done for outcome in outcomes)
        assert nices_of(lab) == nices
        os.kill(child, signal.SIGKILL)
        assert listed(lab) == [first]  # until it ends by itself
        with pytest.raises(DeclinedError, match="Invalid user id"):  # nobody else can make one, or take it away
            As(lab, "nobody").run("scontrol", "delete", f"reservationname=shunter_{first}")
        lab.stop_controller()
        lab.start_controller()
        assert listed(lab) == [first]
        assert not acted(As(lab, "daemon"), tmp_path / "one.db")[-1].paused  # its own journal goes on, and ends
        assert listed(lab) == []  # and takes its sign away
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for journal in listed(lab):
            lab.run("scontrol", "delete", f"reservationname=shunter_{journal}")


@pytest.mark.slurm
def test_a_sign_is_renewed_and_keeps_nothing_from_anybody(lab: Lab, tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j.db")) as book, closing(Journal(tmp_path / "k.db")) as other:
        sign, second = SlurmPresence(Client(lab.conf), book), SlurmPresence(Client(lab.conf), other)
        assert sign.rival() == ""
        (before,) = signs_in(lab.run("scontrol", "-o", "show", "reservations"))
        assert before.until - before.since == 600_000
        time.sleep(1.1)
        assert book.id in second.rival()
        assert sign.rival() == ""  # the first one stays
        second.remove()
        sign._renewed = float("-inf")
        assert sign.rival() == ""
        (after,) = signs_in(lab.run("scontrol", "-o", "show", "reservations"))
        assert (after.since, after.until > before.until) == (before.since, True)
        assert Watcher(Client(lab.conf), surroundings=True).snapshot().reservations == ()
        lab.wait_job(lab.submit("--gpus=22", "--time=1440", script="sleep 1"), "RUNNING", "COMPLETED")
        sign.remove()
        assert listed(lab) == []

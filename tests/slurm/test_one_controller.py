"""One controller acts on a journal, also when several start at once; its claim goes with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pretend import Played, Pretend

from shunter.errors import LiveError
from shunter.live.audit import entries
from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.journal import Journal
from shunter.live.locks import held, only_controller
from shunter.live.releasing import release
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import Watcher

REFUSED, CONTROLLERS = 3, 3


def jobs():
    return {str(number): Played(100 + number, minutes=number) for number in range(1, 4)}


def settings(mode=Mode.ACT, rounds=0):
    return ControllerSettings(mode, Rhythm(0.2, 0.2), rounds=rounds)


class Controllers:
    """Processes that are ready to act on one journal, each with a Slurm of its own to play with."""

    def __init__(self, journal: Path, count: int) -> None:
        command, pipe = [sys.executable, __file__, str(journal)], subprocess.PIPE
        self.all = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(count)]
        assert [process.stdout.readline() for process in self.all] == ["ready\n"] * count

    def start(self):
        """Let all begin at once; those that act, after their first round, and those that don't."""
        for process in self.all:
            process.stdin.write("go\n")
            process.stdin.flush()
        said = {process: process.stdout.readline() for process in self.all}
        return [process for process in said if said[process]], [process for process in said if not said[process]]

    def close(self):
        for process in self.all:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(BrokenPipeError):
                    stream.close()


@pytest.fixture
def controllers(tmp_path):
    made = []

    def start(count):
        made.append(Controllers(tmp_path / "new" / "j.db", count))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_of_several_that_start_at_once_one_acts(controllers, tmp_path):
    (first,), others = controllers(CONTROLLERS).start()
    assert len(others) == CONTROLLERS - 1
    for process in others:
        assert process.wait(180) == REFUSED
        said = process.stderr.read()
        assert "another controller acts, process " in said
        assert f"process {first.pid};" in said or "process that has just begun;" in said
    book = Journal(tmp_path / "new" / "j.db")  # watchdogs, audits and releases read and write it all the same
    assert book.life()[0] == first.pid
    assert [entry.kind for entry in entries(book) if not entry.job] == ["begin"]
    client = Pretend(jobs())
    for (handle, _), act in book.in_force().items():
        client.jobs[handle].nice = int(act.order.value)
    undone, problems = release(SlurmManager(client), book, Watcher(client).snapshot())
    assert (undone > 0, problems) == (True, [])
    first.send_signal(signal.SIGKILL)
    first.wait()
    with only_controller(book.path):
        pass
    book.close()


def test_an_observer_needs_no_claim_and_does_not_end_a_controller_that_acts(tmp_path):
    path = tmp_path / "j.db"
    with only_controller(path):
        run(policy("sjf"), SlurmManager(Pretend(jobs())), path, settings(Mode.WATCH, 1))
        with pytest.raises(LiveError, match=f"another controller acts, process {os.getpid()}; stop it first"):
            run(policy("sjf"), SlurmManager(Pretend(jobs())), path, settings(rounds=1))
    assert not path.exists()  # it writes nothing


@pytest.mark.parametrize("mode", [Mode.WATCH, Mode.DRY_RUN])
def test_an_observer_needs_no_place_to_write(mode):
    outcomes: list[RoundResult] = []
    run(
        policy("sjf"),
        SlurmManager(Pretend(jobs())),
        Path("/proc/nowhere/j.db"),
        settings(mode, 2),
        on_round=outcomes.append,
    )
    assert len(outcomes) == 2
    assert outcomes[-1].orders


def test_an_observer_sees_what_another_has_done_by_then(tmp_path):
    path, outcomes = tmp_path / "j.db", []
    client = Pretend(jobs())

    def told(outcome: RoundResult) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 1:
            with closing(Journal(path)) as book:
                book.leave_alone("1", "someone set its nice")

    run(policy("sjf"), SlurmManager(client), path, settings(Mode.WATCH, 2), on_round=told)
    assert "1" in {order.handle for order in outcomes[0].orders}
    assert "1" not in {order.handle for order in outcomes[1].orders}


def test_a_claim_ends_with_the_run_whatever_ends_it(tmp_path):
    path = tmp_path / "j.db"

    def told(_: RoundResult) -> None:
        raise RuntimeError("somebody stumbles")

    with pytest.raises(RuntimeError):
        run(policy("sjf"), SlurmManager(Pretend(jobs())), path, settings(rounds=1), on_round=told)
    run(policy("sjf"), SlurmManager(Pretend(jobs())), path, settings(rounds=1))
    lock = held(path, "controller")
    assert lock is not None
    lock.close()


def main(journal: Path) -> int:
    """One of the processes."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()

    def told(_: RoundResult) -> None:
        with suppress(BrokenPipeError):
            sys.stdout.write("a round\n")
            sys.stdout.flush()

    try:
        run(policy("sjf"), SlurmManager(Pretend(jobs())), journal, settings(), on_round=told)
    except LiveError as error:
        sys.stderr.write(str(error))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""``release`` beside a controller that runs, on a real Slurm: it is stopped first, whatever it is doing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from acting import acting, fill, shunter, untouched
from pretend import Played, Pretend

from shunter.errors import LiveError
from shunter.live import journal_file, stopping
from shunter.live.backend import Rhythm
from shunter.live.backing_out import back_out
from shunter.live.controller import Mode
from shunter.live.daemons import wait
from shunter.live.journal import DONE, INTENT, Journal
from shunter.live.levers import Order
from shunter.live.locks import claimed, only_controller
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager

pytestmark = pytest.mark.slurm


@pytest.fixture
def queue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Many jobs wait in an order that shortest-first turns round."""
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    fill(lab, *range(30, 0, -1))
    return lab


class Unhurried(Client):
    """Takes its time for each change, so that a round of many lasts long enough to be stopped in the middle."""

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        if arguments[:1] == ("update",):
            time.sleep(0.3)
        return super().run(program, *arguments, **more)


def test_a_controller_in_the_middle_of_its_changes_is_stopped_and_stays_so(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    with acting(queue, journal, kind=Unhurried) as controller:
        assert wait(journal.exists, 180)
        with closing(Journal(journal)) as book:
            assert wait(lambda: len(book.acts(DONE)) >= 3 and book.acts(INTENT), 180)  # it has more to do in this round
            result = shunter("release", "--journal", journal)
            assert result.exit_code == 0, result.output
            assert f"controller {os.getpid()} changes nothing any more; it only watches until" in result.stderr
            assert untouched(queue)
            controller.wait_rounds()
            assert untouched(queue)
            assert not book.acts(INTENT, DONE)
            assert "handed back by 'shunter slurm release' (root on " in controller.outcomes[-1].paused
            assert shunter("resume", "--journal", journal).exit_code == 0
            assert wait(lambda: not untouched(queue), 180)


def test_what_can_not_be_undone_now_is_undone_by_the_controller_later(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    with acting(queue, journal) as controller:
        assert wait(lambda: len(controller.outcomes) >= 2, 180)
        queue.stop_controller()
        with pytest.raises(LiveError, match=r"Slurm does not answer: .*; the controller gives the jobs back when it"):
            back_out(SlurmManager(Client(queue.conf, timeout_s=1.0)), journal, from_marks=False)
        queue.start_controller()
        assert wait(lambda: untouched(queue), 180)
        controller.wait_rounds()
        assert untouched(queue)


@pytest.fixture
def forked(queue: Lab, tmp_path: Path) -> Iterator[int]:
    """A controller in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("forking.py")), str(queue.conf), str(tmp_path / "j.db")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("nice 1\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    yield child
    process.stdin.close()
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    process.terminate()
    process.wait()
    process.stdout.close()


def halt_within_changes(controller: int, book: Journal) -> None:
    """Stop a process in a round of changes, but not while it writes: ``release`` has to write too."""
    done = len(book.acts())

    def halted() -> bool:
        if len(book.acts()) == done or not book.acts(INTENT):
            return False
        book._file.execute("begin immediate")
        os.kill(controller, signal.SIGSTOP)
        book._file.execute("rollback")
        if not book.acts(INTENT):  # the round has just ended
            os.kill(controller, signal.SIGCONT)
        return bool(book.acts(INTENT))

    assert wait(halted, 180)


def test_one_that_hangs_is_reported_and_one_that_was_killed_is_not_waited_for(
    queue: Lab, tmp_path: Path, forked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "j.db"
    with closing(Journal(journal)) as book:
        halt_within_changes(forked, book)
        with monkeypatch.context() as patch:
            patch.setattr(stopping, "QUIET_S", 0.5)
            result = shunter("release", "--journal", journal, "--json")
        assert result.exit_code == 1, result.output
        assert json.loads(result.stdout)["problems"] == [
            f"the controller, process {forked}, hangs within a change; end it (kill -9 {forked}), and run this again"
        ]
        os.kill(forked, signal.SIGCONT)
        assert wait(lambda: not book.acts(INTENT, DONE), 180)  # it gives back what it had under way
        assert untouched(queue)
        assert shunter("resume", "--journal", journal).exit_code == 0
        halt_within_changes(forked, book)
    os.kill(forked, signal.SIGKILL)
    result = shunter("release", "--journal", journal)
    assert result.exit_code == 0, result.output
    assert "changes nothing any more" not in result.stderr
    assert untouched(queue)


def one_round(lab: Lab, journal: Path, **more) -> None:
    settings = ControllerSettings(Mode.ACT, Rhythm(0.1, 0.1), rounds=1, **more)
    run(policy("sjf:estimate=limit"), SlurmManager(Client(lab.conf)), journal, settings)


def test_what_was_released_stays_so_after_a_restart(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    one_round(queue, journal)
    assert not untouched(queue)
    assert shunter("release", "--journal", journal).exit_code == 0
    one_round(queue, journal)  # as systemd would start it
    assert untouched(queue)
    one_round(queue, journal, resume=True)
    assert not untouched(queue)


def test_jobs_are_given_back_also_if_a_hung_controller_has_the_journal_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "BUSY_S", 0.05)
    path, client = tmp_path / "j.db", Pretend({"1": Played(5, nice=-40)})
    with only_controller(path), closing(Journal(path)) as book:
        book.settle(book.intend(1, [Order("1", "nice", "-40", "3")])[0], DONE)
        book._file.execute("begin immediate")
        found = back_out(SlurmManager(client), path, from_marks=False)
        book._file.execute("rollback")
    assert client.jobs["1"].nice == 3
    assert found.undone == 1
    assert "what was undone (1) is not noted: " in found.problems[0]
    assert f"the controller, process {os.getpid()}, could not be asked to stop" in found.problems[1]


def test_none_can_be_started_while_jobs_are_given_back(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j.db")) as book:
        with stopping.stopped(book, "a test"):
            assert claimed(book.path) is None
        lock = claimed(book.path)
        assert lock is not None
        lock.close()

"""``release`` beside a controller that runs, on a real Slurm: it is stopped first, whatever it is doing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from acting import acting, fill, shunter, untouched

from shunter.registry import policy
from shunter.slurm import stopping
from shunter.slurm.backend import Rhythm
from shunter.slurm.client import Client
from shunter.slurm.controller import Mode
from shunter.slurm.daemons import wait
from shunter.slurm.journal import DONE, INTENT, Journal
from shunter.slurm.lab import Lab
from shunter.slurm.locks import claimed
from shunter.slurm.running import Settings, run

pytestmark = pytest.mark.xdist_group("slurm")


@pytest.fixture
def queue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Many jobs wait in an order that shortest-first turns round."""
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    fill(lab, *range(40, 0, -1))
    return lab


def test_a_controller_in_the_middle_of_its_changes_is_stopped_and_stays_so(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    with acting(queue, journal) as controller:
        assert wait(journal.exists, 60)
        with closing(Journal(journal)) as book:
            assert wait(lambda: len(book.acts(DONE)) >= 3, 60)
            assert book.acts(INTENT)  # it has more to do in this round
            result = shunter("release", "--journal", journal)
            assert result.exit_code == 0, result.output
            assert f"process {os.getpid()}; it only watches until" in result.stderr
            assert untouched(queue)
            controller.wait_rounds()
            assert untouched(queue)
            assert not book.acts(INTENT, DONE)
            assert "handed back to Slurm by 'shunter slurm release' (root on " in controller.outcomes[-1].paused
            assert shunter("resume", "--journal", journal).exit_code == 0
            assert wait(lambda: not untouched(queue), 30)


def test_what_can_not_be_undone_now_is_undone_by_the_controller_later(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    with acting(queue, journal) as controller:
        assert wait(lambda: len(controller.outcomes) >= 2, 60)
        queue.stop_controller()
        result = shunter("release", "--journal", journal)
        assert result.exit_code == 2, result.output
        assert "Slurm does not answer" in result.stderr
        assert "gives the jobs back when it answers" in result.stderr
        queue.start_controller()
        assert wait(lambda: untouched(queue), 30)
        controller.wait_rounds()
        assert untouched(queue)


@pytest.fixture
def forked(queue: Lab, tmp_path: Path) -> Iterator[int]:
    """A controller in a process of its own, halted within a round of changes."""
    journal = tmp_path / "j.db"
    command = [sys.executable, str(Path(__file__).with_name("forking.py")), str(queue.conf), str(journal)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("one\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    with closing(Journal(journal)) as book:
        assert wait(lambda: len(book.acts(DONE)) >= 3, 60)
        book._file.execute("begin immediate")  # not while it writes: release has to write too
        os.kill(child, signal.SIGSTOP)
        book._file.execute("rollback")
        assert book.acts(INTENT)
    yield child
    process.stdin.close()
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    process.terminate()
    process.wait()
    process.stdout.close()


def test_one_that_hangs_is_said_to_and_gives_back_when_it_wakes(
    queue: Lab, tmp_path: Path, forked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "j.db"
    monkeypatch.setattr(stopping, "QUIET_S", 0.5)
    result = shunter("release", "--journal", journal, "--json")
    assert result.exit_code == 1, result.output
    said = json.loads(result.stdout)
    assert said["undone"] >= 3
    assert said["problems"] == [
        f"the controller, process {forked}, hangs within a change; end it (kill -9 {forked}), and run this again"
    ]
    os.kill(forked, signal.SIGCONT)
    with closing(Journal(journal)) as book:
        assert wait(lambda: not book.acts(INTENT, DONE), 30)
    assert untouched(queue)


def test_one_that_was_killed_is_not_waited_for(queue: Lab, tmp_path: Path, forked: int) -> None:
    journal = tmp_path / "j.db"
    os.kill(forked, signal.SIGKILL)
    result = shunter("release", "--journal", journal)
    assert result.exit_code == 0, result.output
    assert "controller stopped" not in result.stderr
    assert untouched(queue)
    settings = Settings(Mode.ACT, Rhythm(0.1, 0.1), rounds=2)
    run(policy("sjf:estimate=limit"), Client(queue.conf), journal, settings)  # as systemd would
    assert untouched(queue)
    settings = Settings(Mode.ACT, Rhythm(0.1, 0.1), rounds=1, resume=True)
    run(policy("sjf:estimate=limit"), Client(queue.conf), journal, settings)
    assert not untouched(queue)


def test_none_can_be_started_while_jobs_are_given_back(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j.db")) as book:
        with stopping.stopped(book):
            assert claimed(book.path) is None
        lock = claimed(book.path)
        assert lock is not None
        lock.close()

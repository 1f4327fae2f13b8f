"""``release`` beside a controller that runs, on a real Slurm: it is stopped first, whatever it is doing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shunter.cli.main import app
from shunter.errors import SlurmError
from shunter.registry import policy
from shunter.slurm import stopping
from shunter.slurm.backend import Rhythm
from shunter.slurm.client import Client
from shunter.slurm.controller import Bounds, Mode, Outcome
from shunter.slurm.daemons import wait
from shunter.slurm.journal import DONE, INTENT, Journal
from shunter.slurm.lab import Lab
from shunter.slurm.locks import claimed
from shunter.slurm.running import Settings, run

pytestmark = pytest.mark.xdist_group("slurm")
JOBS = 40


@pytest.fixture
def queue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """All GPUs are taken, and many jobs wait in an order that shortest-first turns round."""
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    lab.wait_job(lab.submit("--gpus=22", "--time=120", script="sleep 600"), "RUNNING")
    for minutes in range(JOBS, 0, -1):
        lab.submit("--gpus=2", f"--time={minutes}", script="sleep 600")
    return lab


def nices(lab: Lab) -> set[str]:
    return set(lab.run("squeue", "-h", "-t", "PD", "-O", "nice:12").split())


def shunter(*words: str) -> Result:
    return CliRunner().invoke(app, ["slurm", *words])


@contextmanager
def acting(lab: Lab, journal: Path) -> Iterator[tuple[list[Outcome], list[SlurmError]]]:
    """A controller at work; what came of its rounds, and what went wrong."""
    outcomes: list[Outcome] = []
    problems: list[SlurmError] = []
    stop = threading.Event()
    settings = Settings(Mode.ACT, Rhythm(0.3, 0.2), bounds=Bounds(changes=JOBS))
    thread = threading.Thread(
        target=run, args=(policy("sjf:estimate=limit"), Client(lab.conf), journal, settings),
        kwargs={"stop": stop, "told": outcomes.append, "away": problems.append},
    )  # fmt: skip
    thread.start()
    try:
        yield outcomes, problems
    finally:
        stop.set()
        thread.join()


def rounds_later(outcomes: list[Outcome], count: int = 3) -> bool:
    end = len(outcomes) + count
    return wait(lambda: len(outcomes) >= end, 30)


def test_a_controller_in_the_middle_of_its_changes_is_stopped_and_stays_so(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    with acting(queue, journal) as (outcomes, _):
        assert wait(journal.exists, 60)
        with closing(Journal(journal)) as book:
            assert wait(lambda: len(book.acts(DONE)) >= 3, 60)
            assert book.acts(INTENT)  # it has more to do in this round
            result = shunter("release", "--journal", str(journal))
            assert result.exit_code == 0, result.output
            assert f"process {os.getpid()} changes nothing until" in result.stderr
            assert nices(queue) == {"0"}
            assert rounds_later(outcomes)
            assert nices(queue) == {"0"}
            assert not book.acts(INTENT, DONE)
            assert "handed back to Slurm by 'shunter slurm release' (root on " in outcomes[-1].paused
            assert shunter("resume", "--journal", str(journal)).exit_code == 0
            assert wait(lambda: nices(queue) != {"0"}, 30)


def test_what_can_not_be_undone_now_is_undone_by_the_controller_later(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    with acting(queue, journal) as (outcomes, _):
        assert wait(lambda: len(outcomes) >= 2, 60)
        queue.stop_controller()
        result = shunter("release", "--journal", str(journal))
        assert result.exit_code == 2, result.output
        assert "Slurm does not answer" in result.stderr
        assert "gives the jobs back when it answers" in result.stderr
        queue.start_controller()
        assert wait(lambda: nices(queue) == {"0"}, 30)
        assert rounds_later(outcomes)
        assert nices(queue) == {"0"}


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
    result = shunter("release", "--journal", str(journal), "--json")
    assert result.exit_code == 1, result.output
    said = json.loads(result.stdout)
    assert said["undone"] >= 3
    assert said["problems"] == [
        f"the controller, process {forked}, hangs within a change; end it (kill -9 {forked}), and run this again"
    ]
    os.kill(forked, signal.SIGCONT)
    with closing(Journal(journal)) as book:
        assert wait(lambda: not book.acts(INTENT, DONE), 30)
    assert nices(queue) == {"0"}


def test_one_that_was_killed_is_not_waited_for(queue: Lab, tmp_path: Path, forked: int) -> None:
    journal = tmp_path / "j.db"
    os.kill(forked, signal.SIGKILL)
    result = shunter("release", "--journal", str(journal))
    assert result.exit_code == 0, result.output
    assert "controller stopped" not in result.stderr
    assert nices(queue) == {"0"}
    outcomes: list[Outcome] = []
    settings = Settings(Mode.ACT, Rhythm(0.1, 0.1), rounds=2)
    run(policy("sjf:estimate=limit"), Client(queue.conf), journal, settings, told=outcomes.append)  # as systemd would
    assert nices(queue) == {"0"}
    settings = Settings(Mode.ACT, Rhythm(0.1, 0.1), rounds=1, resume=True)
    run(policy("sjf:estimate=limit"), Client(queue.conf), journal, settings)
    assert nices(queue) != {"0"}


def test_none_can_be_started_while_jobs_are_given_back(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j.db")) as book:
        with stopping.stopped(book):
            assert claimed(book.path) is None
        lock = claimed(book.path)
        assert lock is not None
        lock.close()

"""A controller that is killed at random points, again and again, while 200 jobs go through."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shunter.slurm.client import Client
from shunter.slurm.journal import Journal
from shunter.slurm.lab import Lab
from shunter.slurm.releasing import release
from shunter.slurm.watcher import Watcher

pytestmark = pytest.mark.xdist_group("slurm")
JOBS, KILLS = 200, 20


@pytest.fixture
def controllers(lab: Lab, tmp_path: Path):
    """A process that starts a controller for each line that it is given, and says which process that is."""
    command = [sys.executable, str(Path(__file__).with_name("forking.py")), str(lab.conf), str(tmp_path / "journal.db")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.stdin.close()
    process.terminate()
    process.wait()
    process.stdout.close()


def test_killed_at_random_points(lab: Lab, controllers: subprocess.Popen[str], tmp_path: Path) -> None:
    """Each job leaves a line when it starts: in the end there is one of each, and all of them have completed."""
    draw, marks, journal = random.Random(6), tmp_path / "marks", tmp_path / "journal.db"
    marks.mkdir()
    filler = lab.submit("--nodes=3", "--gpus-per-node=p100:4", "--time=30", script="sleep 600")
    jobs = []
    for number in range(JOBS):
        script = f"echo $SLURM_RESTART_COUNT >> {marks}/{number}\nsleep {draw.choice((0.2, 0.5, 1))}"
        jobs.append(lab.submit(f"--gpus={draw.choice((1, 2, 4))}", f"--time={draw.randint(1, 9)}", script=script))
    kills = 0
    deadline = time.monotonic() + 180
    while len(lab.jobs()) > 1 and time.monotonic() < deadline:
        controllers.stdin.write("another\n")
        controllers.stdin.flush()
        child = int(controllers.stdout.readline())
        time.sleep(draw.uniform(0.05, 1.0))
        os.kill(child, signal.SIGKILL)
        kills += 1
        if kills == KILLS:
            lab.run("scancel", str(filler))  # the rest may go faster
    assert {lab.job(job)["JobState"] for job in jobs} == {"COMPLETED"}  # none lost, none held, none cancelled
    assert sorted(int(file.name) for file in marks.iterdir()) == list(range(JOBS))
    assert all(len(file.read_text().splitlines()) == 1 for file in marks.iterdir())  # none run twice
    assert kills >= KILLS
    book, client = Journal(journal), Client(lab.conf)
    assert len(book.acts("done", "undone")) > KILLS
    release(client, book, Watcher(client).snapshot())
    assert not book.acts("intent", "done")

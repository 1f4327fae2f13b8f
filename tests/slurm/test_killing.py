"""The controller is killed at random points, again and again, while 200 jobs go through: nothing is lost or repeated."""

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
from shunter.slurm.controller import release
from shunter.slurm.journal import Journal
from shunter.slurm.lab import Lab
from shunter.slurm.snapshot import Watcher

pytestmark = pytest.mark.xdist_group("slurm")
JOBS, KILLS = 200, 20


def controller(lab: Lab, journal: Path) -> subprocess.Popen[bytes]:
    command = (
        "slurm run --policy sjf --mode act --interval 0.4 --poll 0.2 --levers nice,requeue --max-changes 30".split()
    )
    return subprocess.Popen(
        [sys.executable, "-m", "shunter", *command, "--journal", str(journal)],
        env=os.environ | lab.env | {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=journal.parent,
    )


def test_killed_at_random_points(lab: Lab, tmp_path: Path) -> None:
    """Each job leaves a line when it starts: as many as there are jobs, one for each, when all is over."""
    draw, marks, journal = random.Random(6), tmp_path / "marks", tmp_path / "journal.db"
    tmp_path.chmod(0o755)
    marks.mkdir()
    jobs = []
    for number in range(JOBS):
        script = f"echo $SLURM_RESTART_COUNT >> {marks}/{number}\nsleep {draw.choice((1.5, 2, 2.5))}"
        jobs.append(lab.submit(f"--gpus={draw.choice((2, 2, 4, 4))}", f"--time={draw.randint(1, 9)}", script=script))
    process, kills, acted = controller(lab, journal), 0, 0
    end = time.monotonic() + 240
    try:
        while lab.jobs() and time.monotonic() < end:
            if (
                journal.exists() and len(Journal(journal).acts()) > acted
            ):  # it has done something: now is as good as ever
                time.sleep(draw.uniform(0, 0.5))
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                acted = len(Journal(journal).acts())
                process = controller(lab, journal)
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    states = {job: lab.job(job)["JobState"] for job in jobs}
    assert set(states.values()) == {"COMPLETED"}  # none lost, none held, none cancelled
    assert sorted(int(file.name) for file in marks.iterdir()) == list(range(JOBS))
    assert all(len(file.read_text().splitlines()) == 1 for file in marks.iterdir())  # none run twice
    book, client = Journal(journal), Client(lab.conf)
    assert kills >= KILLS, f"only {kills} kills while {JOBS} jobs ran"
    done = book.acts("done", "undone")
    assert len(done) > KILLS
    release(client, book, Watcher(client).snapshot())
    assert not book.acts("intent", "done")

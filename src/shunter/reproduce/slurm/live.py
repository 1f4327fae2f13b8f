"""Jobs on a live cluster: submitted in time, followed to their end, with or without the controller."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from shunter.errors import SlurmError
from shunter.live.daemons import last_lines, wait
from shunter.reproduce.slurm.design import ACCOUNTS, GPUS, NODES, PERIOD_MIN, SETTINGS, USERS, SubmittedJob
from shunter.reproduce.slurm.outcome import ScheduleTimes
from shunter.slurm.lab import Lab

POLL_S = 0.25
SLOWER, SLACK_S = 4.0, 120.0  # this many times the least time, and this much more, is waited for
PATIENCE_S = 180.0  # the controller's kernels may have to be compiled first
CONTROLLER_LOG = "controller.log"
WARM_UP = [SubmittedJob(f"warm{number}", USERS[number % len(USERS)], 0.0, 0.5, 1, "m40", 1, 1) for number in range(12)]
SAW_A_QUEUE = re.compile(rb"round \d+: [1-9]\d* wait")


@contextmanager
def fresh_lab() -> Iterator[Lab]:
    """The cluster of the experiment, without any usage yet; gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix="lab"))
    folder.chmod(0o755)  # the jobs are those of several users
    lab = Lab(folder, NODES, database=True, settings=SETTINGS, accounts=ACCOUNTS)
    try:
        with lab:
            lab.run("sacctmgr", "-i", "modify", "user", "where", "name=root", "account=root", "set", "fairshare=0")
            yield lab
    finally:
        lab.remove()


def play(
    lab: Lab, jobs: Sequence[SubmittedJob], on_progress: Callable[[int], None] = lambda ended: None
) -> ScheduleTimes:
    """Submit jobs when it is their time, wait for all, and return what their own clocks said."""
    notes = lab.folder / "notes"
    notes.mkdir(exist_ok=True)
    notes.chmod(0o1777)
    numbers: list[int] = []
    submitted: list[float] = []
    begun = time.time()
    for job in jobs:
        while time.time() < begun + job.submit_s:
            on_progress(_ended(notes, numbers))
            time.sleep(min(POLL_S, max(0.0, begun + job.submit_s - time.time())))
        submitted.append(time.time())
        script = f"date +%s.%N; sleep {job.run_s}; date +%s.%N"
        numbers.append(lab.submit(*job.options, f"--output={notes}/%j", script=script, user=job.user))
    _wait(lab, notes, numbers, jobs, on_progress)
    clocks = np.array([[float(line) for line in (notes / str(n)).read_text().split()] for n in numbers])
    first = submitted[0]
    gpus = np.array([job.gpus for job in jobs], np.float64)
    return ScheduleTimes(np.array(submitted) - first, clocks[:, 0] - first, clocks[:, 1] - first, gpus)


def _ended(notes: Path, numbers: Sequence[int]) -> int:
    """How many have written when they ended; Slurm is not asked, so that watching costs it nothing."""
    files = (notes / str(number) for number in numbers)
    return sum(file.exists() and len(file.read_text().split()) == 2 for file in files)


def _wait(
    lab: Lab, notes: Path, numbers: Sequence[int], jobs: Sequence[SubmittedJob], on_progress: Callable[[int], None]
) -> None:
    least = sum(job.run_s * job.gpus for job in jobs) / GPUS
    end = time.monotonic() + SLOWER * least + SLACK_S
    while (ended := _ended(notes, numbers)) < len(jobs):
        on_progress(ended)
        if time.monotonic() > end:
            log = last_lines(lab.folder / "log" / "slurmctld.log")
            raise SlurmError(f"{len(jobs) - ended} of {len(jobs)} jobs have not ended in time; slurmctld says: {log}")
        time.sleep(POLL_S)
    on_progress(ended)
    wait(lambda: not lab.jobs(), SLACK_S)


def warm_up(lab: Lab) -> float:
    """Let a short queue through one GPU: how long it stands free between two jobs, in seconds.

    A controller that runs has then seen a queue, and compiled all that it needs for one.
    """
    log = lab.folder / "log" / CONTROLLER_LOG
    found = play(lab, WARM_UP)
    if log.exists():
        while not SAW_A_QUEUE.search(log.read_bytes()):
            found = play(lab, WARM_UP)
    order = np.argsort(found.start)
    return float(np.median(found.start[order[1:]] - found.end[order[:-1]]))


def level(lab: Lab) -> None:
    """Reset all usage, at the beginning of a period after which Slurm computes priorities again."""
    lab.run("sacctmgr", "-i", "modify", "account", "where", "name=root", "set", "RawUsage=0")
    computed = lab.folder / "state" / "priority_last_decay_ran"
    before = computed.stat().st_mtime_ns
    if not wait(lambda: computed.stat().st_mtime_ns != before, 60 * PERIOD_MIN + SLACK_S):
        raise SlurmError(f"slurmctld must compute priorities again every {PERIOD_MIN} min, but it does not")


@contextmanager
def controlled(lab: Lab, policy: str, interval_s: float) -> Iterator[None]:
    """Our controller acts on the cluster as long as the block lasts."""
    log, seconds = lab.folder / "log" / CONTROLLER_LOG, f"{interval_s:g}"
    options = ["--policy", policy, "--mode", "act", "--guard", "off", "--interval", seconds, "--poll", seconds]
    path = f"{os.environ.get('PATH', '')}:{lab.env['PATH']}"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "shunter", "slurm", "run", *options],
            env={**os.environ, **lab.env, "PATH": path, "HOME": os.environ.get("HOME", "/")},
            cwd=lab.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
        try:
            wait(lambda: process.poll() is not None or b"round 1:" in log.read_bytes(), PATIENCE_S)
            if process.poll() is not None:
                raise SlurmError(f"the controller did not start: {last_lines(log)}")
            yield
            if process.poll() is not None:
                raise SlurmError(f"the controller ended before the jobs: {last_lines(log)}")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

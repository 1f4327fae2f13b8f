"""Forecasts beside ``squeue --start`` on a real Slurm: ``python -m benchmarks.live_forecasts [SECONDS]``.

Users with habits submit short jobs to a lab.  Every few seconds the queue is recorded, with Slurm's own estimates, and
what happened is compared afterwards.  A forecast at an instant knows only jobs that had ended by then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shunter.seeding import rng
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.snapshot import Snapshot
from shunter.slurm.watcher import Watcher

SECONDS = 300
EVERY_S = 3.0
USERS = ("root", "nobody", "daemon")
KINDS = 4  # of each user
LOAD = 1.05
GPUS = 22


@dataclass(frozen=True)
class Kind:
    """Jobs that are alike."""

    user: str
    name: str
    gpus: int
    usual_s: float
    limit_min: int


def kinds(seed: int) -> list[Kind]:
    """What each user submits; limits are some times what is usual, as on most sites."""
    draw = rng(seed, "kinds of jobs")
    usual = draw.uniform(np.log(4), np.log(40), (len(USERS), KINDS))
    gpus, minutes = draw.choice((1, 1, 2, 4), usual.shape), draw.choice((1, 2, 5, 10), usual.shape)
    return [
        Kind(user, f"kind{at}", int(gpus[row, at]), float(np.exp(usual[row, at])), int(minutes[row, at]))
        for row, user in enumerate(USERS)
        for at in range(KINDS)
    ]


def submit(lab: Lab, seconds: float, seed: int) -> int:
    """A stream of jobs for so long, at a load just above what the nodes can do; returns how many."""
    draw, known = rng(seed, "stream of jobs"), kinds(seed)
    gap = float(np.mean([kind.gpus * kind.usual_s for kind in known])) * np.exp(0.08) / (GPUS * LOAD)
    begun, due, count = time.monotonic(), 0.0, 0
    while due < seconds:
        time.sleep(max(due - (time.monotonic() - begun), 0))
        kind = known[int(draw.integers(len(known)))]
        ran = min(kind.usual_s * float(np.exp(draw.normal(0, 0.4))), 60.0 * kind.limit_min)
        options = f"--gpus={kind.gpus} --nodes=1 --time={kind.limit_min} --mem=50 --job-name={kind.name}"
        lab.submit(*options.split(), script=f"sleep {ran:.1f}", user=kind.user)
        due += float(draw.exponential(gap))
        count += 1
    return count


def record(lab: Lab, seconds: float, seed: int = 0) -> list[Snapshot]:
    """The queue every few seconds, until all jobs have started."""
    watcher, found = Watcher(Client(lab.conf)), list[Snapshot]()
    stream = threading.Thread(target=submit, args=(lab, seconds, seed))
    stream.start()
    while stream.is_alive() or any(job.state == "PENDING" for job in found[-1].jobs):
        found.append(watcher.snapshot())
        stream.join(EVERY_S) if stream.is_alive() else time.sleep(EVERY_S)
    return found


def starts(recorded: Sequence[Snapshot]) -> dict[str, int]:
    """When each job started (ms)."""
    return {job.id: job.start for each in recorded for job in each.jobs if job.state != "PENDING" and job.start > 0}

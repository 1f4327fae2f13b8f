"""How long a round takes on a real Slurm with a long queue: ``python -m benchmarks.live_rounds [JOBS]``.

A Slurm of virtual nodes gets this many jobs, all of their own (an array would be one record), and a controller
watches it, once for each policy.  What a round takes is divided into what Slurm's commands take and what we do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.seeding import rng
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import OutputFormat, Watcher

JOBS = 10_000
ROUNDS = 20
POLICIES = ("fifo", "sjf", "wfp3", "multifactor", "sjf:backfill=easy")
SETTINGS = {"MaxJobCount": "30000", "SchedulerParameters": "bf_interval=30"}  # the lab's own backfills every second
MOST = 8  # sbatch at once


class Timed(Client):
    """A client that knows how long Slurm took to list jobs and nodes."""

    asking_s = 0.0

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        """What a command prints."""
        begun = time.perf_counter()
        try:
            return super().run(program, *arguments, **more)
        finally:
            self.asking_s += time.perf_counter() - begun if program in ("squeue", "sinfo") else 0.0


def fill(lab: Lab, jobs: int) -> None:
    """Jobs of all sizes and limits, by as many processes as Slurm likes."""
    draw = rng(0, "live rounds")
    gpus, minutes = draw.choice((1, 1, 2, 4, 8), jobs).tolist(), draw.integers(1, 1440, jobs).tolist()

    def submit(number: int) -> None:
        lab.submit(f"--gpus={gpus[number]}", f"--time={minutes[number]}", "--mem=100", script="sleep 3600")

    with ThreadPoolExecutor(MOST) as pool:
        list(pool.map(submit, range(jobs)))


def rounds(lab: Lab, name: str, count: int = ROUNDS) -> tuple[list[float], list[float]]:
    """Seconds that each round took in all, and of these what Slurm took; without the first, which compiles."""
    client, whole, asking = Timed(lab.conf), [], [0.0]

    def seen(result: RoundResult) -> None:
        whole.append(result.round.took_s)
        asking.append(client.asking_s)

    settings = ControllerSettings(Mode.WATCH, Rhythm(0.2, 0.2), rounds=count + 1)
    with tempfile.TemporaryDirectory() as folder:
        run(policy(name), SlurmManager(client), Path(folder) / "journal.db", settings, on_round=seen)
    return whole[1:], np.diff(asking[1:]).tolist()


def look(lab: Lab, form: OutputFormat) -> float:
    """Seconds that the quickest of five looks takes."""
    watcher, took = Watcher(Client(lab.conf), form), []
    for _ in range(5):
        begun = time.perf_counter()
        watcher.snapshot()
        took.append(time.perf_counter() - begun)
    return min(took)


def main(jobs: int) -> None:
    """Fill a lab and measure every policy."""
    with (
        tempfile.TemporaryDirectory(prefix="lab", ignore_cleanup_errors=True) as folder,
        Lab(Path(folder), settings=SETTINGS) as lab,
    ):
        begun = time.perf_counter()
        fill(lab, jobs)
        sys.stdout.write(f"{jobs:,} jobs submitted in {time.perf_counter() - begun:.0f} s\n")
        for form in OutputFormat:
            sys.stdout.write(f"one look in {form}: {look(lab, form):.2f} s\n")
        sys.stdout.write("seconds a round           median     90 %     most    of these ours\n")
        for name in POLICIES:
            whole, asking = (np.array(each) for each in rounds(lab, name))
            low, high = np.quantile(whole, (0.5, 0.9))
            sys.stdout.write(f"{name:24} {low:8.2f} {high:8.2f} {whole.max():8.2f} {np.median(whole - asking):16.2f}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS)

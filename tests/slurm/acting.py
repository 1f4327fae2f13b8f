"""A controller that acts on a lab in a thread of the test, and what tests ask of both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner, Result

from shunter.cli.main import app
from shunter.errors import LiveError
from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.daemons import wait
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager


@dataclass
class Acting:
    """What came of its rounds, and what went wrong."""

    outcomes: list[RoundResult] = field(default_factory=list)
    problems: list[LiveError] = field(default_factory=list)
    ended: LiveError | None = None  # what ended it before its time

    def wait_rounds(self, count: int = 3) -> None:
        """Wait for some rounds more, good or bad."""
        end = len(self.outcomes) + len(self.problems) + count
        assert wait(lambda: len(self.outcomes) + len(self.problems) >= end, 180)


@contextmanager
def acting(lab: Lab, journal: Path, name: str = "sjf:estimate=limit", kind: type[Client] = Client) -> Iterator[Acting]:
    """A controller at work, until the end of the block."""
    made, stop = Acting(), threading.Event()
    settings = ControllerSettings(Mode.ACT, Rhythm(0.3, 0.2))

    def control() -> None:
        try:
            told, away = made.outcomes.append, made.problems.append
            run(
                policy(name),
                SlurmManager(kind(lab.conf)),
                journal,
                settings,
                stop=stop,
                on_round=told,
                on_silence=away,
            )
        except LiveError as error:
            made.ended = error

    thread = threading.Thread(target=control)
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join()


def fill(lab: Lab, *minutes: int) -> list[int]:
    """Take all GPUs, and let jobs of these limits wait."""
    lab.wait_job(lab.submit("--gpus=22", "--time=120", script="sleep 600"), "RUNNING")
    return [lab.submit("--gpus=2", f"--time={each}", script="sleep 600") for each in minutes]


def nices(lab: Lab) -> dict[int, int]:
    """The nice of each job that waits."""
    rows = lab.run("squeue", "-h", "-t", "PD", "-O", "jobid:12,nice:12").split()
    return {int(job): int(nice) for job, nice in zip(rows[::2], rows[1::2], strict=True)}


def untouched(lab: Lab) -> bool:
    """Whether no job that waits is nice."""
    return set(nices(lab).values()) == {0}


@contextmanager
def rights(lab: Lab, user: str) -> Iterator[Callable[[str], None]]:
    """Set the administrator level of a user, which slurmctld hears of a little later; in the end it is none."""

    def become(level: str) -> None:
        lab.run("sacctmgr", "-i", "modify", "user", user, "set", f"adminlevel={level}")
        known = ("scontrol", "show", "assoc_mgr", f"users={user}", "flags=users")
        assert wait(lambda: f"AdminLevel={level}" in lab.run(*known), 180)

    try:
        yield become
    finally:
        become("None")


def shunter(*words: object) -> Result:
    """``shunter slurm`` with these words."""
    return CliRunner().invoke(app, ["slurm", *map(str, words)])

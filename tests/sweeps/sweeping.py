"""Sweeps as commands in processes of their own, with a policy that is slow enough to be stopped in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shunter.sweeps.store import RUNS, Store

POLICY = """
    import os, signal, time
    from dataclasses import dataclass
    from shunter.model import Plan, Start
    from shunter.params import param

    @dataclass(frozen=True)
    class Slow:
        '''First come, first served, with pauses.'''

        number: int = param(0, "one of several that do the same", low=0, high=99)
        needs: frozenset[str] = frozenset()

        def start(self, cluster, previous=None):
            time.sleep(float(os.environ.get("PAUSE_S", 0)))

        def decide(self, view, memory):
            for job in view.pending.tolist():
                if gpus := view.room(job):
                    return Plan([Start(job, gpus)])
            return Plan()

    @dataclass(frozen=True)
    class Deadly(Slow):
        '''Ends the process that runs it.'''

        def decide(self, view, memory):
            os.kill(os.getpid(), signal.SIGKILL)
"""
SWEEP = """
    traces = ["synthetic:jobs=8,gpus=8"]
    clusters = ["1x8"]
    policies = ["slowly.Slow"{more}]
    seeds = {seeds}
"""


class Sweeping:
    """A sweep file in a folder, and the commands that run it."""

    def __init__(self, folder: Path, seeds: int = 60, more: str = "") -> None:
        self.folder, self.seeds = folder, seeds
        (folder / "slowly.py").write_text(textwrap.dedent(POLICY))
        (folder / "sweep.toml").write_text(textwrap.dedent(SWEEP).format(seeds=seeds, more=more))

    def environment(self, **more: str) -> dict[str, str]:
        """In which a process finds the policy."""
        path = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, "PYTHONPATH": path, "COLUMNS": "300", **more}

    def start(self, out: str, *options: str, **environment: str) -> subprocess.Popen[str]:
        """The sweep, begun."""
        command = [sys.executable, "-m", "shunter", "sweep", "sweep.toml", "--out", out, "--allow-code", *options]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment(**environment), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, out: str, *options: str, code: int = 0, **environment: str) -> str:
        """What the sweep says on standard error."""
        process = self.start(out, *options, **environment)
        _, said = process.communicate()
        assert process.returncode == code, said
        return said

    def runs(self, out: str) -> Any:
        """The runs that are kept."""
        return Store.existing(self.folder / out).read()

    def digests(self, out: str) -> dict[str, str]:
        """The digest of each run, by its key."""
        return dict(self.runs(out).select("key", "digest").iter_rows())

    def wait_for_some(self, out: str, process: subprocess.Popen[str]) -> None:
        """Until the first runs are kept."""
        folder = self.folder / out / RUNS
        until(lambda: process.poll() is not None or (folder.is_dir() and any(folder.glob("*.parquet"))))
        assert process.poll() is None, process.communicate()


def until(there: Callable[[], Any]) -> None:
    """Wait for something; a test that waits for ever is stopped by whoever runs it."""
    while not there():
        time.sleep(0.05)


def begun(runs: Any) -> Mapping[str, float]:
    """When each run began: what is equal in two stores was not repeated."""
    return dict(runs.select("key", "begun").iter_rows())

"""Thousands of waiting jobs, and hundreds of rounds."""

from __future__ import annotations

import gc
import resource
import time
from itertools import pairwise
from pathlib import Path

import pytest
from recorded import Recorded

from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.slurm.manager import SlurmManager

NO_TIME = Rhythm(0.0, 0.0)


def round_s(name: str, jobs: int, folder: Path) -> float:
    """Processor time of the quickest of some rounds, with every priority new in each."""
    outcomes: list[RoundResult] = []
    used: list[float] = []

    def told(outcome: RoundResult) -> None:
        outcomes.append(outcome)
        used.append(time.process_time())

    run(
        policy(name),
        SlurmManager(Recorded(jobs)),
        folder / "journal.db",
        ControllerSettings(Mode.DRY_RUN, NO_TIME, rounds=5),
        on_round=told,
    )
    assert len(outcomes[-1].round.ranking) == jobs
    assert outcomes[-1].orders
    return min(after - before for before, after in pairwise(used))


@pytest.mark.parametrize("name", ["fifo", "sjf:backfill=easy", "wfp3", "multifactor"])
def test_a_round_grows_with_the_queue_and_no_more(name: str, tmp_path: Path) -> None:
    """How long one takes is what ``python -m benchmarks.live_rounds`` measures."""
    assert round_s(name, 4_000, tmp_path) < 10 * round_s(name, 1_000, tmp_path)  # 16 if quadratic


def test_memory_stays_flat_over_hundreds_of_rounds(tmp_path: Path) -> None:
    sizes: list[int] = []

    def told(outcome: RoundResult) -> None:
        if outcome.round.number in (100, 400):
            gc.collect()
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())

    settings = ControllerSettings(Mode.DRY_RUN, NO_TIME, rounds=400)
    run(policy("sjf"), SlurmManager(Recorded(60, 16)), tmp_path / "journal.db", settings, on_round=told)
    assert sizes[1] - sizes[0] < 3 * 2**20, f"grew by {(sizes[1] - sizes[0]) / 2**20:.1f} MiB in 300 rounds"

"""The example of a training that continues with another number of workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "resizable_training.py"


@pytest.fixture(scope="module", autouse=True)
def _needed():
    """Not while tests are collected: each process would import it."""
    pytest.importorskip("torch", reason="no torch; ./scripts/install rl has it")


def train(folder, workers, *more):
    """Exit code and output of the first worker."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), *map(str, more)],
            env=usual | {"RANK": str(rank), "WORLD_SIZE": str(workers)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(workers)
    ]
    outputs = [process.communicate()[0] for process in started]
    codes = {process.returncode for process in started}
    assert len(codes) == 1
    return codes.pop(), outputs[0].strip()


@pytest.mark.slow  # test_resizing_live has three workers and two, beside an unbroken run of one
def test_a_training_that_was_resized_ends_with_the_same_loss(tmp_path):
    unbroken, whole = train(tmp_path / "whole", 1)
    first, half = train(tmp_path / "parts", 2, "--stop-at", 25)
    second, rest = train(tmp_path / "parts", 3)
    assert (unbroken, first, second) == (0, 75, 0)
    assert half.startswith("2 workers, step 25,")
    assert rest.startswith("3 workers, step 60,")
    assert rest.partition("loss")[2] == whole.partition("loss")[2]
    loss = float(whole.rpartition(" ")[2])
    assert loss < 0.6  # it learned: the mean of sin(x)^2 is 0.5 for wide x, and the first loss is near 0.7

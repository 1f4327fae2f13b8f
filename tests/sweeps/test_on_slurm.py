"""The example of a sweep whose workers are Slurm jobs, on a real Slurm with virtual nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweeping import Sweeping

from shunter.slurm.lab import Lab

EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep_on_slurm.py"


@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue", reason="no dask-jobqueue; ./scripts/install all,dev has it")
    if reason := Lab.missing():
        pytest.skip(reason)
    sweeping = Sweeping(tmp_path, seeds=8)
    sweeping.run("here", "--workers", "1")
    lab = [sys.executable, "-m", "shunter", "slurm", "lab", "--nodes", "4x4:p100", "--"]
    command = [*lab, sys.executable, str(EXAMPLE), "sweep.toml", "--out", "slurm", "--allow-code"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=sweeping.environment(SHARED=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sweeping.digests("slurm") == sweeping.digests("here")
    logs = [path.read_text() for path in (tmp_path / "sweep-on-slurm" / "logs").glob("dask-worker-*.err")]
    assert any("Registered to: " in log and "tls://" in log for log in logs)
    assert os.stat(tmp_path / "sweep-on-slurm").st_mode & 0o77 == 0

"""Processes of a sweep that die: runs that were with them are repeated, and a run that always kills is a failed one."""

from __future__ import annotations

import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from sweeping import Sweeping, begun, until

from shunter import extras
from shunter.sweeps.store import Store
from shunter.texts import agreeing


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Sweeping:
    made = Sweeping(tmp_path_factory.mktemp("undisturbed"))
    made.run("runs", "--workers", "1")
    return made


def workers_of(pid: int) -> list[int]:
    """The worker processes that a command has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = []
    for child in children:
        with suppress(FileNotFoundError):  # it has just ended
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


def test_a_worker_process_that_is_killed(undisturbed: Sweeping, tmp_path: Path) -> None:
    sweeping = Sweeping(tmp_path)
    process = sweeping.start("runs", "--workers", "2", PAUSE_S="0.1")
    sweeping.wait_for_some("runs", process)
    workers: list[int] = []
    until(lambda: workers.extend(workers_of(process.pid)) or workers)
    os.kill(workers[-1], signal.SIGKILL)
    said = process.communicate()[1]
    assert process.returncode == 0, said
    assert sweeping.digests("runs") == undisturbed.digests("runs")


def test_a_command_that_is_killed_takes_its_workers_along_and_goes_on(undisturbed: Sweeping, tmp_path: Path) -> None:
    sweeping = Sweeping(tmp_path)
    process = sweeping.start("runs", "--workers", "2", PAUSE_S="1")
    sweeping.wait_for_some("runs", process)
    workers = workers_of(process.pid)
    process.kill()
    process.communicate()
    until(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers))
    before = begun(sweeping.runs("runs"))
    assert 0 < len(before) < sweeping.seeds
    assert f"{len(before)} of {sweeping.seeds} runs {agreeing('were', len(before))} in runs already" in sweeping.run(
        "runs", "--workers", "2"
    )
    assert before.items() <= begun(sweeping.runs("runs")).items()
    assert sweeping.digests("runs") == undisturbed.digests("runs")
    rows = pl.concat([pl.read_parquet(path) for path in Store.existing(tmp_path / "runs").files()])
    assert rows["key"].is_unique().all()  # nothing was run twice


@pytest.mark.parametrize("options", [("--workers", "2"), ("--dask", "local:2")])
def test_a_run_that_kills_its_process_fails_and_no_other_does(options: tuple[str, str], tmp_path: Path) -> None:
    if "--dask" in options and not (extras.is_there("distributed") and extras.is_there("cryptography")):
        pytest.skip("no distributed and cryptography; ./scripts/install all,dev has them")
    sweeping = Sweeping(tmp_path, seeds=6, more=', "slowly.Deadly"')
    text = (tmp_path / "sweep.toml").read_text()
    (tmp_path / "sweep.toml").write_text(text + '\n[[exclude]]\npolicy = "slowly.Deadly"\nseed = [1, 2, 3, 4, 5]\n')
    sweeping.run("runs", *options)
    runs = sweeping.runs("runs")
    failed = runs.filter(runs["error"].is_not_null())
    assert (runs.height, failed.height) == (7, 1)
    row = failed.row(0, named=True)
    assert row["policy"] == "slowly.Deadly"
    assert row["error"].startswith("its process died, also when nothing else ran")
    assert shlex.split(row["command"])[:2] == ["shunter", "simulate"]

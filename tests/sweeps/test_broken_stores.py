"""Stores that can't be written or read: nothing is lost, and the message names the file and the remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sweeping import Sweeping, begun

from shunter.sweeps.store import MARK, RUNS


@pytest.fixture
def sweeping(tmp_path: Path) -> Sweeping:
    return Sweeping(tmp_path, seeds=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was run once."""
    whole = Sweeping(tmp_path_factory.mktemp("made"), seeds=6)
    whole.run("runs", "--workers", "1")
    return whole.folder / "runs"


@pytest.fixture
def swept(sweeping: Sweeping, made: Path) -> Sweeping:
    """One with all of its runs."""
    shutil.copytree(made, sweeping.folder / "runs")
    return sweeping


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few files of runs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small file system can't be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_keeps_what_is_there_and_the_command_goes_on(sweeping: Sweeping, disk: Path) -> None:
    (sweeping.folder / "sweep.toml").write_text((sweeping.folder / "sweep.toml").read_text().replace("= 6", "= 60"))
    pause = {"PAUSE_S": "0.05"}  # so that there are several batches, and files
    said = sweeping.run("disk/runs", "--workers", "1", code=2, **pause)
    assert "disk/runs: can't be written: No space left on device; all runs before are kept" in said
    before = begun(sweeping.runs("disk/runs"))
    assert before
    assert not [path for path in (disk / "runs" / RUNS).iterdir() if not path.name.endswith(".parquet")]
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    sweeping.run("disk/runs", "--workers", "1")
    after = begun(sweeping.runs("disk/runs"))
    assert len(after) == 60
    assert before.items() <= after.items()


def test_a_folder_that_can_not_be_made(sweeping: Sweeping) -> None:
    (sweeping.folder / "file").write_text("in the way")
    said = sweeping.run("file/runs", code=2)
    assert "file/runs: can't be written: Not a directory; choose another folder" in said


def test_a_damaged_file_of_runs_is_named_and_without_it_its_runs_are_made_again(swept: Sweeping) -> None:
    whole = swept.digests("runs")
    damaged = sorted((swept.folder / "runs" / RUNS).iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    said = swept.run("runs", "--workers", "1", code=2)
    assert f"runs/{RUNS}/{damaged.name}: is no file of runs (" in said
    assert "remove it, and its runs are made again" in said
    damaged.unlink()
    swept.run("runs", "--workers", "1")
    assert swept.digests("runs") == whole


def test_a_store_of_another_format(swept: Sweeping) -> None:
    (swept.folder / "runs" / MARK).write_text('format = 7\nversion = "9.1.0+abc"\n')
    said = swept.run("runs", "--workers", "1", code=2)
    assert f"runs/{MARK}: format 7 was written by shunter 9.1.0+abc; this one reads format 1" in said


def test_runs_by_another_version(swept: Sweeping) -> None:
    import polars as pl

    for path in (swept.folder / "runs" / RUNS).iterdir():
        pl.read_parquet(path).with_columns(version=pl.lit("0.0.1+abc")).write_parquet(path)
    said = swept.run("runs", "--workers", "1", code=2)
    assert "runs: has runs by shunter 0.0.1+abc, and this is " in said
    before = begun(swept.runs("runs"))
    swept.run("runs", "--workers", "1", "--any-version")
    assert begun(swept.runs("runs")) == before


def test_a_store_to_which_others_can_add_is_named(swept: Sweeping) -> None:
    (swept.folder / "runs" / RUNS).chmod(0o777)
    assert "runs that they put there count as done" in swept.run("runs", "--workers", "1")

"""Jobs by hour on disk: kept, bounded, and read without trust."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from shunter.generating import repository
from shunter.generating.known_jobs import HOUR
from shunter.generating.repository import MOST_JOBS, MOST_NAME, WorkloadRepository, with_past
from shunter.model import Trace

COLUMNS = ("submit", "duration", "gpus", "cpus", "mem_gib")


def some_jobs(count: int = 40, first: int = 0, name: str = "j") -> Trace:
    """Four jobs an hour, of two users, in two virtual clusters."""
    rows = np.arange(count)
    return Trace.of(
        "some", [f"{name}{first + row}" for row in rows], submit=(first + rows) * HOUR // 4, duration=60_000 + rows,
        gpus=1000 * (1 + rows % 3), cpus=rows % 2 * 4000, user=rows % 3 - 1, users=("ann", "bob"), vc=rows % 2,
        vcs=("x", "y"),
    )  # fmt: skip


def named(trace: Trace, column: str) -> list[str]:
    names = (*getattr(trace, column + "s"), "")
    return [names[code] for code in getattr(trace, column).tolist()]


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    jobs, kept = some_jobs(), WorkloadRepository(tmp_path / "kept")
    kept.add(jobs)
    assert len(list((tmp_path / "kept").iterdir())) == 10
    like = Trace.of("run", ["a"], submit=[0], duration=[1], gpus=[1000], user=[0], users=("bob",), vcs=("y",))
    found = kept.read(like, 8 * HOUR)
    assert found.job_id.tolist() == jobs.job_id[:32].tolist()
    for column in COLUMNS:
        assert getattr(found, column).tolist() == getattr(jobs, column)[:32].tolist()
    for column in ("user", "vc", "gpu_type"):
        assert named(found, column) == named(jobs.select(np.arange(32)), column)
    assert found.users[0] == "bob"  # codes of the run stay as they are
    assert kept.problems == []


def test_long_names_are_cut_and_spoil_no_hour(tmp_path: Path) -> None:
    kept, jobs = WorkloadRepository(tmp_path), some_jobs()
    kept.add(replace(jobs, users=("a" * 300, "bob")))
    kept.add(some_jobs(4, first=40))
    found = kept.read(jobs, 100 * HOUR)
    assert kept.problems == []
    assert len(found) == 44
    assert max(map(len, found.users)) == MOST_NAME


def test_a_job_is_kept_once_and_the_oldest_hours_go(tmp_path: Path) -> None:
    kept = WorkloadRepository(tmp_path, most_hours=5)
    kept.add(some_jobs())
    kept.add(some_jobs())
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"hour-{hour}.parquet" for hour in range(5, 10)]
    assert len(kept.read(some_jobs(1), 100 * HOUR)) == 20
    kept.add(some_jobs(8, first=40))
    assert sorted(path.name for path in tmp_path.iterdir())[0] == "hour-10.parquet"
    assert len(list(tmp_path.iterdir())) == 5


def test_files_of_hours_to_come_push_nothing_out(tmp_path: Path) -> None:
    kept = WorkloadRepository(tmp_path, most_hours=5)
    kept.add(some_jobs())
    for hour in range(900, 920):
        shutil.copy(tmp_path / "hour-9.parquet", tmp_path / f"hour-{hour}.parquet")
    kept.add(some_jobs())
    assert len(kept.read(some_jobs(1), 100 * HOUR)) == 20


BROKEN = {
    "column": lambda frame: frame.drop("gpus"),
    "type": lambda frame: frame.with_columns(pl.col("gpus").cast(pl.String)),
    "null": lambda frame: frame.with_columns(duration=pl.lit(None, pl.Int64)),
    "range": lambda frame: frame.with_columns(gpus=pl.lit(-5, pl.Int64)),
    "huge": lambda frame: frame.with_columns(duration=pl.lit(2**62, pl.Int64)),
    "hour": lambda frame: frame.with_columns(submit=pl.col("submit") + 10 * HOUR),
    "name": lambda frame: frame.with_columns(user=pl.lit("u" * 1000)),
    "rows": lambda frame: frame.select(pl.all().repeat_by(MOST_JOBS).explode()),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_is_no_table_of_its_hour_is_left_out(tmp_path: Path, how: str) -> None:
    kept = WorkloadRepository(tmp_path)
    kept.add(some_jobs())
    path = tmp_path / "hour-3.parquet"
    BROKEN[how](pl.read_parquet(path)).write_parquet(path)
    assert len(kept.read(some_jobs(1), 100 * HOUR)) == 36
    assert len(kept.problems) == 1
    assert kept.problems[0].startswith("hour-3.parquet: ")


@pytest.mark.parametrize("how", ["text", "link", "pipe", "folder"])
def test_what_is_no_file_is_left_out(tmp_path: Path, how: str) -> None:
    kept = WorkloadRepository(tmp_path)
    kept.add(some_jobs())
    path = tmp_path / "hour-3.parquet"
    other = path.rename(tmp_path / "elsewhere")
    match how:
        case "text":
            path.write_text("PAR1 not really PAR1")
        case "link":
            path.symlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    assert len(kept.read(some_jobs(1), 100 * HOUR)) == 36
    assert len(kept.problems) == 1


def test_a_file_with_a_wrong_byte_is_left_out_or_read(tmp_path: Path) -> None:
    """On some, polars panics, which is no exception that others catch."""
    kept = WorkloadRepository(tmp_path)
    kept.add(some_jobs(4))
    path = tmp_path / "hour-0.parquet"
    sound = path.read_bytes()
    for at in range(80, 260):
        path.write_bytes(sound[:at] + b"\0" + sound[at + 1 :])
        assert len(kept.read(some_jobs(1), HOUR)) <= 4


def test_an_hour_has_one_file_and_a_job_counts_once(tmp_path: Path) -> None:
    kept = WorkloadRepository(tmp_path)
    kept.add(some_jobs(4))
    path = tmp_path / "hour-0.parquet"
    (tmp_path / "hour-00.parquet").write_bytes(path.read_bytes())
    frame = pl.read_parquet(path)
    pl.concat([frame, frame]).write_parquet(path)
    assert len(kept.read(some_jobs(1), HOUR)) == 4


def test_two_pasts_become_one(tmp_path: Path) -> None:
    jobs = some_jobs()
    kept = WorkloadRepository(tmp_path)
    kept.add(jobs)
    known = jobs.select(np.arange(10, 30))
    both = with_past(known, kept.read(jobs, 100 * HOUR))
    assert both.job_id.tolist() == jobs.job_id.tolist()
    assert named(both, "user") == named(jobs, "user")
    assert with_past(None, jobs) is jobs


def test_no_more_jobs_are_read_than_fit_and_these_are_the_last(tmp_path: Path, monkeypatch) -> None:
    kept, like = WorkloadRepository(tmp_path), some_jobs(1)
    kept.add(some_jobs())
    hours = kept.read(like, 100 * HOUR).submit // HOUR
    last = (hours == hours.max()).sum()
    monkeypatch.setattr(repository, "MOST_READ", last)
    assert len(kept.read(like, 100 * HOUR)) == last
    assert "and all before" in kept.problems[0]
    few = WorkloadRepository(tmp_path, most_hours=2)
    monkeypatch.undo()
    assert len(set(few.read(like, 100 * HOUR).submit // HOUR)) == 2


def test_long_names_take_no_more_memory_than_there_is(tmp_path: Path, monkeypatch) -> None:
    kept, like = WorkloadRepository(tmp_path), some_jobs(1)
    kept.add(some_jobs())
    monkeypatch.setattr(repository, "most_loaded", lambda: 1000)
    assert 0 < len(kept.read(like, 100 * HOUR)) < 40
    assert "and all before: more than" in kept.problems[0]


def test_a_folder_in_the_place_of_an_hour_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    for hour in (0, 3):
        (tmp_path / f"hour-{hour}.parquet").mkdir()
    kept = WorkloadRepository(tmp_path, most_hours=8)
    kept.add(some_jobs())
    assert kept.problems == ["hour-3.parquet: is a folder"]
    assert len(set(kept.read(some_jobs(1), 100 * HOUR).submit // HOUR)) == 7


def test_what_killed_writers_left_is_removed_and_what_others_write_is_not(tmp_path: Path) -> None:
    WorkloadRepository(tmp_path).add(some_jobs())
    old, new = (tmp_path / f".hour-1.parquet.{name}.part" for name in ("0a", "0b"))
    for part in (old, new):
        part.write_bytes(b"PAR1")
    os.utime(old, (0, 0))
    WorkloadRepository(tmp_path).add(some_jobs())
    assert (old.exists(), new.exists()) == (False, True)


def test_an_hour_that_can_not_be_read_just_now_is_not_overwritten(tmp_path: Path, monkeypatch) -> None:
    jobs = some_jobs(40)
    WorkloadRepository(tmp_path).add(jobs)
    with monkeypatch.context() as patched:
        full = OSError(errno.EMFILE, "Too many open files")
        patched.setattr("shunter.generating.repository.parquet_frame", lambda *_: (_ for _ in ()).throw(full))
        with pytest.raises(OSError, match="Too many open files"):
            WorkloadRepository(tmp_path).add(some_jobs(4, name="k"))
        kept = WorkloadRepository(tmp_path)
        assert not len(kept.read(jobs, 100 * HOUR))  # one bad sector must not keep others from being read
        assert all("Too many open files" in problem for problem in kept.problems)
    assert len(WorkloadRepository(tmp_path).read(jobs, 100 * HOUR)) == 40

"""Writing traces: what comes back, and what is refused."""

from __future__ import annotations

import dataclasses
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from whole_traces import traces

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces import read, write
from shunter.traces.synthetic import synthetic
from shunter.traces.writing import swf_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_what_is_written_comes_back(folder: Path, ending: str) -> None:
    @settings(max_examples=40, deadline=None)
    @given(traces())
    def comes_back(trace: Trace) -> None:
        write(trace, folder / f"t{ending}")
        back = read(folder / f"t{ending}")
        assert back.digest == trace.digest
        for name in Trace.columns():
            if name in ("submit", "duration", "gpus", "limit", "mem_gib", "recorded_wait", "after", "retries"):
                assert getattr(back, name).tolist() == getattr(trace, name).tolist(), name

    comes_back()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_csv_has_only_the_columns_in_which_something_stands(tmp_path: Path) -> None:
    trace = Trace.of("t", ["a", "b"], submit=[0, 1500], duration=[1, 2000], gpus=[500, 8000], limit=[0, 60_000])
    write(trace, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "job_id,submit,duration,gpus,limit\na,0,0.001,0.5,\nb,1.5,2,8,60\n"


def test_a_link_that_someone_put_beside_the_file_is_not_followed(tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.write_text("mine")
    (tmp_path / f".t.csv.{os.getpid()}.part").symlink_to(treasure)
    write(synthetic(5), tmp_path / "t.csv")
    assert treasure.read_text() == "mine"


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write(synthetic(50), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"job_id,")


@pytest.mark.parametrize("name", ["", " a", "a\t", "a\rb", "a\0b"])
def test_names_that_a_csv_would_change_are_refused(tmp_path: Path, name: str) -> None:
    trace = Trace.of("t", ["a"], submit=[0], duration=[1], gpus=[1000], user=[0], users=(name,))
    with pytest.raises(TraceError, match=r"can't hold the user .*write \.parquet"):
        write(trace, tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_and_broken_traces_are_refused(tmp_path: Path) -> None:
    trace = synthetic(5)
    with pytest.raises(TraceError, match=r"written as \.parquet, \.csv"):
        write(trace, tmp_path / "t.json")
    with pytest.raises(TraceError, match="can't be written"):
        write(trace, tmp_path / "nowhere" / "t.csv")
    with pytest.raises(TraceError, match="job_id must be unique"):
        write(dataclasses.replace(trace, job_id=np.array(["x"] * 5, object)), tmp_path / "t.csv")
    with pytest.raises(TraceError, match="duration must be"):
        write(dataclasses.replace(trace, duration=-trace.duration), tmp_path / "t.swf")
    assert list(tmp_path.iterdir()) == []


def test_swf_has_gpus_as_processors_and_says_so() -> None:
    begin = 1_600_000_000_400
    trace = Trace.of(
        "my trace", ["a", "b", "c"], submit=[begin, begin + 61_000, begin + 70_000], duration=[3_600_000, 1500, 400],
        gpus=[8000, 250, 1000], user=[1, 0, -1], users=("x", "y"), vc=[0, 0, -1], vcs=("vc one",),
        limit=[7_200_000, 0, 0], mem_gib=[16 * 1024, 0, 0], after=[-1, 0, -1], qos=[1, 1, 1],
        recorded_wait=[5000, -1, 0], outcome=[0, 1, -1], outcomes=("completed", "cancelled"),
    )  # fmt: skip
    lines = swf_text(trace).splitlines()
    header = [line for line in lines if line.startswith(";")]
    assert lines[len(header) :] == [
        "1 0 5 3600 8 -1 -1 8 7200 2097152 1 2 -1 -1 -1 1 -1 -1",
        "2 61 -1 2 1 -1 -1 1 -1 -1 5 1 -1 -1 -1 1 1 -1",
        "3 70 0 0 1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1",
    ]
    text = "\n".join(header)
    for part in (
        "Version: 2.2",
        "UnixStartTime: 1600000000",
        "processors are GPUs",
        "rounded up",
        "Partition: 1 vc one",
    ):
        assert part in text
    assert "left out, having no field here: qos" in text


def test_swf_without_dates_keeps_its_own_clock() -> None:
    text = swf_text(Trace.of("t", ["a"], submit=[7000], duration=[1000], gpus=[1000]))
    assert "UnixStartTime" not in text
    assert text.splitlines()[-1].startswith("1 7 -1 1 1 ")


@pytest.mark.parametrize("shift", [0, 1_600_000_000_000])
def test_swf_is_read_back_to_the_second(tmp_path: Path, shift: int) -> None:
    made = synthetic(200)
    trace = dataclasses.replace(made, submit=made.submit + shift, limit=made.duration + 5000, after=np.arange(200) - 1)
    write(trace, tmp_path / "t.swf.gz")
    back = read(tmp_path / "t.swf.gz")
    for name in ("submit", "duration", "limit"):
        assert np.abs(getattr(back, name) - getattr(trace, name)).max() <= 500, name
    assert back.gpus.tolist() == trace.gpus.tolist()
    assert back.after.tolist() == trace.after.tolist()
    assert len(set(back.user.tolist())) == len(set(trace.user.tolist()))

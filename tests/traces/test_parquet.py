"""The canonical Parquet."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shunter import safe_files
from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces import read, write
from shunter.traces.synthetic import synthetic


def everything() -> Trace:
    """Three jobs with a value of their own in every column, and names that no job uses."""
    values: dict[str, Any] = {name: np.array([3, 1, 2]) for name in Trace.columns()}
    values |= {"submit": [-5, 1_600_000_000_123, 7], "gpus": [500, 1, 16_000], "after": [1, -1, 1], "user": [2, 0, -1]}
    values |= {"vc": [-1, -1, -1], "gpu_type": [0, 0, 0], "model": [1, 0, -1], "account": [0, 1, 0]}
    values |= {"job_name": [0, -1, 0], "outcome": [1, 0, -1], "recorded_wait": [-1, 0, 5]}
    values |= {"checkpointable": [0, 1, 1], "saves_on_stop": [1, 0, 1]}
    values |= {"loss_curve": [0, -1, 0], "min_gpus": [0, 0, 2], "max_gpus": [0, 0, 32]}  # a share of a GPU has no range
    values |= {"min_cpus": [1, 1, 1], "min_mem_gib": [2, 1, 1], "servers": [0, 0, 3]}
    names = {"users": ("ü", "unused", "z"), "vcs": ("v",), "gpu_types": ("t",), "models": ("", "m")}
    names |= {
        "accounts": ("a", "b"),
        "job_names": ("train",),
        "loss_curves": ("c",),
        "outcomes": ("failed", "completed"),
    }
    return Trace.of("a name, 'quoted' — ü", ["x", "y", "z"], **values, **names, remarks=("left out 2 jobs",))


@pytest.mark.parametrize("trace", [everything(), synthetic(300), everything().select(np.array([0, 2]))])
def test_round_trip_is_exact(tmp_path: Path, trace: Trace) -> None:
    write(trace, tmp_path / "t.parquet")
    back = read(tmp_path / "t.parquet")
    assert (back.digest, back.name) == (trace.digest, trace.name)
    assert (back.users, back.remarks) == (trace.users, trace.remarks)
    assert list(tmp_path.iterdir()) == [tmp_path / "t.parquet"]


def test_the_file_is_typed_and_readable_by_others(tmp_path: Path) -> None:
    write(everything(), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table["submit"].type == pa.int64()
    assert table["user"].to_pylist() == ["z", None, "ü"]
    assert table["after"].to_pylist() == ["y", "y", None]
    assert table.schema.metadata[b"shunter.version"] == b"1"


def changed(path: Path, metadata: dict[str, str | None] | None = None, **columns: Any) -> Path:
    """A good file with some metadata or columns replaced; None takes them away."""
    write(everything(), path)
    table = pq.read_table(path)
    kept = {k.decode(): v.decode() for k, v in table.schema.metadata.items()} | (metadata or {})
    for name, values in columns.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        if values is not None:
            table = table.append_column(name, values)
    pq.write_table(table.replace_schema_metadata({k: v for k, v in kept.items() if v is not None}), path)
    return path


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no version": ({"metadata": {"shunter.version": None}}, "no shunter.version"),
    "newer": ({"metadata": {"shunter.version": "2"}}, "must be 1 to 1, got '2'; read it with"),
    "odd version": ({"metadata": {"shunter.version": "one"}}, "got 'one'"),
    "no names": ({"metadata": {"shunter.users": None}}, "shunter.users"),
    "odd remarks": ({"metadata": {"shunter.remarks": "left out"}}, "shunter.remarks"),
    "odd names": ({"metadata": {"shunter.users": "[1]"}}, "shunter.users"),
    "name not listed": (
        {"metadata": {"shunter.users": '["z"]'}},
        "row 3: user must be a name in the file's metadata, got 'ü'",
    ),
    "column missing": ({"gpus": None}, "missing: gpus"),
    "column unknown": ({"colour": pa.array([1, 2, 3])}, "unknown: colour"),
    "wrong type": ({"gpus": pa.array([1.0, 2.0, 3.0])}, "'gpus' must be int64, got double"),
    "no text": ({"user": pa.array([1, 2, 3])}, "'user' must hold text"),
    "empty": ({"gpus": pa.array([1000, None, 1000])}, "row 2: gpus must not be empty"),
    "negative": ({"duration": pa.array([1000, -1, 1000])}, "row 2: duration must be a number from 0"),
    "fraction": ({"gpus": pa.array([1000, 1000, 1500])}, "row 3: gpus must be a whole number"),
    "same id": ({"job_id": pa.array(["y", "y", "z"])}, "row 2: job_id must be unique"),
    "circle": ({"after": pa.array(["z", "x", "y"])}, "circle"),
}


@pytest.mark.parametrize(("change", "part"), BAD.values(), ids=list(BAD))
def test_a_changed_file_is_refused(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    path = changed(tmp_path / "t.parquet", **change)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert part in str(caught.value)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(everything(), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TraceError, match="not a whole Parquet file"):
        read(path)


@pytest.mark.parametrize("word", [b"user01", b"user"])  # a value, a column's name
def test_damaged_text_is_refused(tmp_path: Path, word: bytes) -> None:
    path = tmp_path / "t.parquet"
    write(synthetic(10), path)
    pq.write_table(pq.read_table(path), path, compression="none")
    path.write_bytes(path.read_bytes().replace(word, b"\xff" * len(word)))
    with pytest.raises(TraceError, match=r"t\.parquet"):
        read(path)


def test_a_file_without_jobs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(everything(), path)
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(TraceError, match="no job"):
        read(path)


def test_nothing_is_left_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = everything()
    path = tmp_path / "t.parquet"
    with pytest.raises(TraceError, match=r"written as \.parquet"):
        write(trace, tmp_path / "t.txt")
    with pytest.raises(TraceError, match="can't be written"):
        write(trace, tmp_path / "nowhere" / "t.parquet")
    with pytest.raises(TraceError, match="job_id must be unique"):
        write(dataclasses.replace(trace, job_id=np.array(["x", "x", "y"], object)), path)

    def breaks(table: Any, where: Any, **_: Any) -> None:
        Path(where).write_bytes(b"PAR1 and then the disk was full")
        raise OSError(28, "No space left on device")

    write(trace, path)
    before = path.read_bytes()
    monkeypatch.setattr(pq, "write_table", breaks)
    with pytest.raises(TraceError, match="No space left"):
        write(synthetic(10), path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "column",
    [
        pa.ListArray.from_arrays(pa.array([0] + [3_000_000] * 20, pa.int32()), np.zeros(3_000_000, np.int64)),
        pa.array(["x" * 300_000] * 20, pa.large_string()),
        pa.array([b"x" * 300_000] * 20, pa.large_binary()),
    ],
    ids=["a list", "large text", "bytes"],
)
def test_few_bytes_that_stand_for_many_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: pa.Array
) -> None:
    """A list of zeros takes next to nothing in a file; so does one text that stands in every row."""
    monkeypatch.setattr(safe_files, "PARSED_LEAST", 2**20)
    monkeypatch.setattr(safe_files, "memory_bytes", lambda: 2**20)
    pq.write_table(pa.table({"job_id": [str(row) for row in range(20)], "user": column}), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match=r"t\.parquet: (it holds more|no column says when)"):
        read(tmp_path / "t.parquet")

"""Finding the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.traces import formats, read, write
from shunter.traces.synthetic import synthetic

TABLE = "job_id,submit,duration,gpus\na,0,5,1\n"


def test_content_goes_before_the_ending(tmp_path: Path) -> None:
    trace = synthetic(20)
    write(trace, tmp_path / "t.parquet")
    (tmp_path / "t.parquet").rename(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv").digest == trace.digest
    (tmp_path / "t.txt").write_text(TABLE)
    assert read(tmp_path / "t.txt").job_id.tolist() == ["a"]


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    assert len(read(str(tmp_path / "t.csv"), format="csv")) == 1
    with pytest.raises(TraceError, match="not a whole Parquet file"):
        read(tmp_path / "t.csv", format="parquet")
    with pytest.raises(TraceError, match="did you mean 'parquet'"):
        read(tmp_path / "t.csv", format="parket")


def test_what_is_no_trace_is_reported_with_the_known_formats(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("hello\n")
    (tmp_path / "empty.csv").touch()
    cases = {
        "nowhere.csv": "no such file",
        ".": "folder",
        "empty.csv": "empty",
        "t.txt": "neither",
        "a\0b": "cannot be read",
    }
    for name, part in cases.items():
        with pytest.raises(TraceError, match=part) as caught:
            read(tmp_path / name)
        assert part != "neither" or all(form in str(caught.value) for form in formats())

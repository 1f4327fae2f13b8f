"""The documented CSV."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces import read

HEADER = "job_id,submit,duration,gpus"


def csv(folder: Path, text: str | bytes, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_units_names_order_and_defaults(tmp_path: Path) -> None:
    lines = [
        "job_id,submit,duration,gpus,user,vc,cpus,mem_gib,after,limit,qos,retries",
        "late,100.5,60,8,ann,a,12.5,1.5,early,,0.25,",
        "early,-2,0,0.5,bob,,,,,7200,,2",
        "mid,1e1,1.0005,1,ann,b,,,late,,,",
    ]
    trace = read(csv(tmp_path, "\n".join(lines)))
    assert trace.name == "jobs"
    assert trace.job_id.tolist() == ["early", "mid", "late"]
    assert trace.submit.tolist() == [-2000, 10_000, 100_500]
    assert trace.duration.tolist() == [0, 1000, 60_000]
    assert trace.gpus.tolist() == [500, 1000, 8000]
    assert [trace.users[code] for code in trace.user] == ["bob", "ann", "ann"]
    assert trace.vc.tolist() == [-1, trace.vcs.index("b"), trace.vcs.index("a")]
    assert trace.cpus.tolist() == [0, 0, 12_500]
    assert trace.mem_gib.tolist() == [0, 0, 1536]
    assert trace.after.tolist() == [-1, 2, 0]
    assert trace.limit.tolist() == [7_200_000, 0, 0]
    assert trace.qos.tolist() == [0, 0, 250]
    assert trace.retries.tolist() == [2, 1_000_000, 1_000_000]
    assert trace.gpu_type.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}\na,0,5,1\nb,1,5,2\n",
        f"{HEADER}\r\na,0,5,1\r\nb,1,5,2\r\n",
        f"\ufeff{HEADER}\na,0,5,1\nb,1,5,2",
        f"{HEADER}\n\na,0,5,1\n\n\nb,1,5,2\n\n",
        " job_id , submit,duration ,gpus\n a, 0 ,5, 1 \nb,1,5,2\n",
        f'{HEADER}\n"a",0,5,1\n"b","1",5,2\n',
        "gpus,duration,submit,job_id\n1,5,0,a\n2,5,1,b\n",
        f"\n{HEADER}\nb,1,5,2\na,0,5,1\n",
    ],
)
def test_ways_to_write_the_same_trace(tmp_path: Path, text: str) -> None:
    plain = read(csv(tmp_path, f"{HEADER}\na,0,5,1\nb,1,5,2\n"))
    assert read(csv(tmp_path, text, "other.csv")).digest == plain.digest
    assert read(csv(tmp_path, gzip.compress(text.encode()), "other.csv.gz")).digest == plain.digest


def test_quoted_fields_may_hold_commas_and_line_ends(tmp_path: Path) -> None:
    trace = read(csv(tmp_path, f'{HEADER},user\n"a,1",0,5,1,"x\ny"\n"b ""2""",1,5,1,z\n'))
    assert trace.job_id.tolist() == ["a,1", 'b "2"']
    assert trace.users == ("x\ny", "z")


BAD = {
    "header only": (f"{HEADER}\n", ["no job"]),
    "header only, quoted": ('job_id,submit,duration,"gpus"\n', ["no job"]),
    "only blank lines": ("\n\n \n", ["empty"]),
    "missing columns": ("job_id,submit\na,1\n", ["line 1", "missing: duration, gpus"]),
    "no header": ("1,2,3,4\na,0,1,1\n", ["line 1", "missing: job_id", "the first line must name"]),
    "another table": (",".join("ABCDEFGH") + "\n", ["missing: job_id", "--columns 'job_id=NAME,submit=NAME"]),
    "duplicate column": (f"{HEADER},gpus\na,1,1,1,1\n", ["line 1", "'gpus' must occur once"]),
    "no number": (
        f"{HEADER}\na,0,1,1\nb,abc,1,1\n",
        ["line 3", "submit must be a time: seconds, or YYYY-MM-DD", "'abc'; correct it"],
    ),
    "no number after blank lines": (f"{HEADER}\n\na,0,1,1\n\n\nb,0,x,1\n", ["line 6", "duration", "'x'"]),
    "no number after a quoted line end": (f'{HEADER},user\na,0,1,1,"x\ny"\nb,0,x,1,z\n', ["line 4", "duration", "'x'"]),
    "empty": (f"{HEADER}\na,,1,1\n", ["line 2", "submit must be", "not known; fill it in"]),
    "empty id": (f"{HEADER}\n ,0,1,1\n", ["line 2", "job_id must not be empty"]),
    "NaN": (f"{HEADER}\na,0,NaN,1\n", ["line 2", "duration must be", "'NaN'", "from 0 to 1e+09 (s)"]),
    "infinite": (f"{HEADER}\na,inf,1,1\n", ["line 2", "submit", "'inf'"]),
    "milliseconds": (f"{HEADER}\na,1509494400000,1,1\n", ["line 2", "submit", "not milliseconds"]),
    "negative": (f"{HEADER}\na,0,-1,1\n", ["line 2", "duration", "'-1'"]),
    "absurd": (f"{HEADER}\na,0,1e10,1\n", ["line 2", "duration", "'1e10'"]),
    "fraction above one": (f"{HEADER}\na,0,1,1.5\n", ["line 2", "gpus must be a whole number", "'1.5'"]),
    "no GPU": (f"{HEADER}\na,0,1,0\n", ["line 2", "gpus", "'0'", "without GPUs"]),
    "too many GPUs": (f"{HEADER}\na,0,1,1e7\n", ["line 2", "gpus", "'1e7'"]),
    "half a retry": (f"{HEADER},retries\na,0,1,1,1.5\n", ["line 2", "retries must be a whole number", "'1.5'"]),
    "optional": (f"{HEADER},cpus\na,0,1,1,-4\n", ["line 2", "cpus", "(cores)", "'-4'", "leave it empty"]),
    "qos": (f"{HEADER},qos\na,0,1,1,1.01\n", ["line 2", "qos", "from 0 to 1"]),
    "same id": (f"{HEADER}\na,0,1,1\nb,0,1,1\na,0,1,1\n", ["line 4", "unique", "'a'", "line 2"]),
    "after nobody": (f"{HEADER},after\na,0,1,1,zz\n", ["line 2", "after must name a job_id", "'zz'"]),
    "after itself": (f"{HEADER},after\na,0,1,1,a\n", ["line 2", "another job"]),
    "after in a circle": (
        f"{HEADER},after\na,0,1,1,c\nb,0,1,1,a\nc,0,1,1,b\nd,0,1,1,c\n",
        ["3 problems", "line 2", "line 3", "line 4", "circle"],
    ),
    "not UTF-8": (HEADER.encode() + b"\na,0,1,1\n\xff,0,1,1\n", ["line 3", "UTF-8", "0xff"]),
    "zero byte": (f"{HEADER}\na\0,0,1,1\n", ["line 2", "zero byte"]),
    "short row": (f"{HEADER}\na,0,1,1\nb,0\n", ["line 3", "4 fields", "got 2"]),
    "long row": (f"{HEADER}\na,0,1,1,7\n", ["line 2", "4 fields", "got 5"]),
    "long row, quoted": (f'{HEADER}\n"a",0,1,1,7\n', ["line 2", "4 fields", "got 5"]),
    "open quote": (f'{HEADER}\na,0,1,1\n"b,0,1,1\n', ["line 3", "close every quote"]),
}


@pytest.mark.parametrize(("text", "parts"), BAD.values(), ids=list(BAD))
def test_bad_input_is_reported(tmp_path: Path, text: str | bytes, parts: list[str]) -> None:
    path = csv(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)


def test_the_first_few_problems_are_reported_and_all_are_counted(tmp_path: Path) -> None:
    rows = [f"{row},0,{'x' if row % 2 else 1},{1.5 if row % 3 == 0 else 1}" for row in range(60)]
    with pytest.raises(TraceError) as caught:
        read(csv(tmp_path, "\n".join([HEADER, *rows])))
    message = str(caught.value).splitlines()
    assert "50 problems" in message[0]
    assert [line.split(":")[0].strip() for line in message[1:]] == ["line 2", "line 3", "line 5", "line 5", "line 7"]


def test_cut_off_gzip(tmp_path: Path) -> None:
    whole = gzip.compress((HEADER + "\n" + "\n".join(f"{i},{i * 7919 % 1000},1,1" for i in range(5000))).encode())
    for data in (whole[: len(whole) // 2], whole[:20], b"\x1f\x8b" + b"rubbish" * 9):
        with pytest.raises(TraceError, match="gzip"):
            read(csv(tmp_path, data, "jobs.csv.gz"))


fields = st.one_of(
    st.sampled_from(
        ["", "1", "a", "-1", "1.5", "nan", "inf", "1e400", '"', '"x"', "0x1", "\r", " ", "a,b", "1_0", "\x0b"]
    ),
    st.text(max_size=4),
)
tables = st.builds(
    lambda extra, rows, end: end.join([HEADER + extra, *(",".join(row) for row in rows)]).encode(
        "utf-8", "surrogatepass"
    ),
    st.sampled_from(["", ",after", ",user,limit", ",usr", ",gpus"]),
    st.lists(st.lists(fields, min_size=3, max_size=7), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(), tables, tables.map(gzip.compress), st.binary().map(lambda b: b"PAR1" + b)))
def test_rubbish_gives_a_trace_or_a_trace_error(tmp_path: Path, data: bytes) -> None:
    for name in ("rubbish.csv", "rubbish.parquet", "rubbish"):
        try:
            trace = read(csv(tmp_path, data, name))
        except TraceError:
            continue
        assert isinstance(trace, Trace)
        assert len(trace) > 0
        assert (np.diff(trace.submit) >= 0).all()
        assert (trace.gpus > 0).all()

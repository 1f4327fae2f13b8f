"""Bad input: told with file, line, field and remedy, or skipped and counted; never a traceback, never a hang."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import AAIC, DALLY, HELIOS, OPENB, PHILLY, SACCT, SAMPLES, SEREN, SUPERCLOUD, SWF, sample

from growth import FAR_BELOW_QUADRATIC, growth
from shunter import safe_files
from shunter.energy import series
from shunter.errors import EnergyError, TraceError
from shunter.model import Trace
from shunter.seeding import rng
from shunter.traces import formats, read
from shunter.traces.readers import parquet

UNFINISHED = HELIOS + "15,eve,vcA,long,4,32,1,RUNNING,2020-04-01 00:03:00,2020-04-01 00:03:00,,,0\n"


def file(folder: Path, text: str | bytes, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def small_memory(monkeypatch):
    """A machine on which a megabyte is the most that is read."""
    monkeypatch.setattr(safe_files, "memory_bytes", lambda: 40 * 2**20)
    monkeypatch.setattr(safe_files, "PARSED_LEAST", 0)
    monkeypatch.setattr(safe_files, "PIECE", 2**16)


@pytest.mark.usefixtures("small_memory")
def test_a_small_file_that_unpacks_to_too_much(tmp_path) -> None:
    for packed in (gzip.compress, bz2.compress, lzma.compress):
        bomb = file(tmp_path, packed(HELIOS.encode() + b"7" * 2**22), "bomb.csv.gz")
        with pytest.raises(TraceError, match=r"bomb.csv.gz: it holds more than 1 MiB, the most .* a part of it"):
            read(bomb)
    assert len(read(file(tmp_path, gzip.compress(HELIOS.encode()), "small.csv.gz"))) > 0
    nodes = "time,active,total\n" + "".join(f"{60 * at},1,2\n" for at in range(200_000))
    with pytest.raises(EnergyError, match="it holds more than 1 MiB"):
        series.read(file(tmp_path, gzip.compress(nodes.encode()), "nodes.csv.gz"))
    few = "".join(nodes.splitlines(keepends=True)[:9])
    assert len(series.read(file(tmp_path, gzip.compress(few.encode()), "nodes.csv.gz"))) == 8


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("size", [2**22, 2**40])
def test_a_sparse_file_in_an_archive(tmp_path, size) -> None:
    """A few bytes of an archive stand for holes of any size."""
    member = tarfile.TarInfo("jobs.csv")
    member.size = 512
    member.pax_headers = {"GNU.sparse.map": f"0,512,{size},0", "GNU.sparse.size": str(size)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(HELIOS.encode()[:512].ljust(512, b"\n")))
    with pytest.raises(TraceError, match=r"jobs.tar: it holds more than 1 MiB, .*; unpack it"):
        read(file(tmp_path, packed.getvalue(), "jobs.tar"), "helios")


@pytest.mark.usefixtures("small_memory")
def test_a_small_parquet_file_with_many_rows(tmp_path) -> None:
    one = read(file(tmp_path, "job_id,submit,duration,gpus\na,0,1,1\n"))
    for rows, name in ((1, "one"), (100_000, "many")):
        pq.write_table(parquet._table(one).take(np.zeros(rows, np.int64)), tmp_path / f"{name}.parquet")
    assert (tmp_path / "many.parquet").stat().st_size < 2**16
    assert len(read(tmp_path / "one.parquet")) == 1
    with pytest.raises(TraceError, match=r"many.parquet: it holds more than 1 MiB.*; split the trace"):
        read(tmp_path / "many.parquet")


@pytest.mark.usefixtures("small_memory")
def test_a_small_parquet_file_with_a_long_text_in_many_rows(tmp_path) -> None:
    ids = "".join(f"{row},{row},1,1,{'x' * 10_000}\n" for row in range(300))
    path = tmp_path / "long.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safe_files, "PARSED_LEAST", 2**28)
        parquet.write(read(file(tmp_path, "job_id,submit,duration,gpus,user\n" + ids)), path)
    with pytest.raises(TraceError, match=r"long.parquet: it holds more than 1 MiB"):
        read(path)


def test_a_plain_file_larger_than_memory(tmp_path) -> None:
    path = file(tmp_path, HELIOS)
    os.truncate(path, 2**43)
    with pytest.raises(TraceError, match=r"log.csv: it holds more than .* MiB"):
        read(path)


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_what_is_not_packed_as_its_name_says(tmp_path, ending) -> None:
    kind = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}[ending]
    for content in (rng(0, "bytes").bytes(3000), b"jobs\0" + HELIOS.encode()):
        with pytest.raises(TraceError, match=rf"log.csv\{ending}: ends in \{ending}, but is no {kind} file"):
            read(file(tmp_path, content, f"log.csv{ending}"))
    assert len(read(file(tmp_path, HELIOS, f"log.csv{ending}"))) > 0  # harmless: a table all the same


def test_a_node_series_that_is_not_packed_as_its_name_says(tmp_path) -> None:
    with pytest.raises(EnergyError, match=r"nodes.csv.gz: ends in .gz, but is no gzip file"):
        series.read(file(tmp_path, rng(0, "bytes").bytes(3000), "nodes.csv.gz"))


BAD = {
    "an id again": (HELIOS + HELIOS.splitlines()[1] + "\n", ["job_id must be unique", "rename or remove one of them"]),
    "a name with a separator": (SACCT + "a|" + SACCT.splitlines()[2], ["correct a field that holds a '|'"]),
    "a separator without quotes": (HELIOS + "7" + ",a" * 20 + "\n", ["quote a field that holds a ','"]),
    "too few fields": (HELIOS + "7,a,b,c,d,e\n", ["got 6; add the missing ','"]),
    "unfinished": (UNFINISHED, ["line 6", "end_time must be known", "has not ended", "--on-bad-row skip"]),
    "unfinished sacct": (
        SACCT.replace("TIMEOUT", "RUNNING").replace("|2024-05-01T11:02:00|01:00:00", "|Unknown|01:00:00"),
        ["line 6", "End must be known"],
    ),
    "unfinished openb": (OPENB.replace("1290", ""), ["line 3", "deletion_time must be known"]),
    "unfinished Philly": (
        PHILLY.replace("2017-10-07 02:14:00", "None"),
        ["job 1", "end_time of the last attempt must be known"],
    ),
    "end before start": (
        HELIOS.replace("2020-04-01 01:00:30", "2020-03-31 01:00:30"),
        ["line 2", "end_time must not be before", "correct one"],
    ),
    "attempt ends before it starts": (
        PHILLY.replace("2017-10-07 03:00:10", "2017-10-07 02:00:10"),
        ["job 3", "an attempt must not end before"],
    ),
    "no time": (
        HELIOS.replace("2020-04-01 00:02:05", "yesterday"),
        ["line 5", "end_time must be a time", "'yesterday'"],
    ),
    "no date": (HELIOS.replace("2020-04-01 00:02:05", "2020-02-30 00:00:00"), ["line 5", "end_time must be a time"]),
    "a number among dates": (
        HELIOS.replace("2020-04-01 00:02:05", "17"),
        ["line 5", "end_time must be a time", "'17'"],
    ),
    "zones mixed in a column": (
        HELIOS.replace("2020-04-01 00:02:00,2020-04-01 00:02:00", "2020-04-01 00:02:00+08:00,2020-04-01 00:02:00"),
        ["must have a zone, or none", "without on line 2 (submit_time", "with a zone on line 5 (submit_time"],
    ),
    "zones mixed between columns": (
        SEREN.replace("00:18:54+08:00", "00:18:54"),
        ["must have a zone, or none", "with a zone on line 2 (submit_time", "without on line 2 (start_time"],
    ),
    "milliseconds": (AAIC.replace("1530355560", "1530355560000"), ["line 3", "submit must be", "not milliseconds"]),
    "all in milliseconds": (
        SAMPLES["tiresias"]["60_job.csv"].replace(",164,", ",164000000,").replace(",147,", ",147000000,"),
        ["half of the jobs would run longer", "divide them by 1000"],
    ),
    "half a GPU too many": (
        HELIOS.replace("train,8,", "train,1.5,"),
        ["line 2", "gpu_num must be a whole number", "'1.5'"],
    ),
    "no GPU count": (HELIOS.replace("train,8,", "train,,"), ["line 2", "gpu_num", "empty field"]),
    "a field too few": (HELIOS.replace("eval,16,", "eval "), ["line 5", "13 fields like the header", "got 11"]),
    "a field too many in SWF": (SWF + "9 9\n", ["line 7", "must have 18 fields", "got 2"]),
    "the same id": (HELIOS.replace("\n14,", "\n11,"), ["line 5", "job_id must be unique", "line 2"]),
    "no job": (HELIOS.splitlines()[0], ["a header but no job"]),
    "only CPU jobs": (
        "\n".join(HELIOS.splitlines()[i] for i in (0, 2)),
        ["no job in it that could be simulated", "asked for no GPU"],
    ),
    "no object": (json.dumps([*json.loads(DALLY), 7]), ["job 3", "must be an object", "'7'"]),
    "cut JSON": (PHILLY[:-40], ["is no JSON"]),
    "quotes that never end": (SUPERCLOUD.replace('1002=2"\n', "1002=2\n", 1), ["line 2", "close every quote"]),
    "not UTF-8": (HELIOS.encode().replace(b"cyd", b"\xe9"), ["line 5", "UTF-8", "0xe9"]),
    "zero byte": (HELIOS.replace("cyd", "c\0d"), ["line 5", "zero byte"]),
}


@pytest.mark.parametrize(("text", "parts"), BAD.values(), ids=list(BAD))
def test_bad_input_is_reported(tmp_path: Path, text: str | bytes, parts: list[str]) -> None:
    path = file(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)


def test_different_offsets_are_converted(tmp_path: Path) -> None:
    text = SEREN.replace(
        "2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00", "2023-02-28T16:18:22Z,2023-02-28 11:18:54.5-0500"
    )
    trace = read(file(tmp_path, text))
    assert trace.submit.tolist() == [1_677_601_102_000]
    assert trace.duration.tolist() == [116_500]


def test_times_may_be_written_in_several_ways(tmp_path: Path) -> None:
    text = HELIOS.replace("2020-04-01 00:00:00,", "2020-04-01T00:00:00.250,").replace(
        "2020-04-01 00:02:00", "2020-04-01 00:02"
    )
    assert read(file(tmp_path, text)).submit.tolist() == [1_585_699_200_250, 1_585_699_320_000]


@pytest.mark.parametrize(
    "change", [lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t, lambda t: t.replace("\n", "\n\n")]
)
@pytest.mark.parametrize("form", ["helios", "sacct", "swf", "rltune", "pai", "philly", "jobcomp", "supercloud"])
def test_line_ends_marks_and_blank_lines_do_not_matter(tmp_path: Path, form: str, change) -> None:
    plain = sample(tmp_path, form)
    other = file(tmp_path, change(plain.read_text()), "other.csv")
    assert read(other).digest == read(plain).digest


def test_skipped_rows_are_counted_and_listed(tmp_path: Path) -> None:
    lines = HELIOS.splitlines()
    bad = [
        lines[1].replace("11,", f"{at},").replace(",8,64", f",{gpus},64")
        for at, gpus in enumerate(["x", "1.5", "", "2.5", "-1", "y"], 50)
    ]
    path = file(tmp_path, "\n".join([*lines, *bad, "short,row"]))
    trace = read(path, on_bad_row="skip")
    assert trace.job_id.tolist() == ["11", "14"]
    told = trace.remarks[-1].splitlines()
    assert told[0].startswith("left out 7 bad rows (6: gpu_num must be a whole number")
    assert "1: a line must have 13 fields like the header" in told[0]
    assert [line.split(":")[0].strip() for line in told[1:]] == [f"line {number}" for number in range(6, 11)]
    with pytest.raises(TraceError, match="7 problems, the first 5"):
        read(path)
    with pytest.raises(TraceError, match="on_bad_row must be fail or skip, got 'ignore'"):
        read(path, on_bad_row="ignore")


def test_a_bad_time_among_numbers_is_the_only_bad_one(tmp_path: Path) -> None:
    path = file(tmp_path, AAIC + "2, 8, 2, 0, 1, 1, 259200, 0, noon, 1530355564, 1530395269, 4, 39705\n")
    with pytest.raises(TraceError, match=r"log\.csv line 4: time_submit must be a time.* got 'noon'"):
        read(path)
    assert read(path, on_bad_row="skip").job_id.tolist() == ["0", "1"]


def test_skipping_everything_is_an_error(tmp_path: Path) -> None:
    path = file(tmp_path, UNFINISHED.splitlines()[0] + "\n" + UNFINISHED.splitlines()[-1])
    with pytest.raises(TraceError, match="no job in it that could be simulated: left out 1 bad row"):
        read(path, on_bad_row="skip")


def test_a_skipped_job_is_waited_for_by_none(tmp_path: Path) -> None:
    trace = read(
        file(tmp_path, "job_id,submit,duration,gpus,after\na,0,x,1,\nb,1,1,1,a\nc,2,1,1,b\n"), on_bad_row="skip"
    )
    assert trace.job_id.tolist() == ["b", "c"]
    assert trace.after.tolist() == [-1, 0]


def test_unsorted_times_are_sorted(tmp_path: Path) -> None:
    lines = HELIOS.splitlines()
    turned = read(file(tmp_path, "\n".join([lines[0], *reversed(lines[1:])])))
    assert turned.job_id.tolist() == ["11", "14"]
    assert [turned.users[code] for code in turned.user] == ["ann", "cyd"]


@pytest.mark.parametrize("filler", [" ", "a"])
def test_a_long_line_of_a_completion_log_does_not_hang(tmp_path: Path, filler: str) -> None:
    def refused(length: int) -> None:
        told = read_or_told(file(tmp_path, f"JobId=1 Name=x\n{filler * length}y\n"), "jobcomp", "fail")
        assert "line 2: a line must begin with JobId=" in str(told)

    assert growth(refused, 25_000, 400_000) < FAR_BELOW_QUADRATIC


def test_a_pipe_is_refused_because_it_can_be_read_only_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="pipe: is a pipe or a device"):
        read(tmp_path / "pipe")


# ------------------------------------------------------------------------------------------- garbage

ODD = [
    "",
    "nan",
    "-1",
    "1e400",
    "inf",
    "9" * 400,
    "0",
    "0.5",
    "ü\u200b",
    '"',
    "a|b",
    "2020-01-01 00:00:00",
    "\ud800",
    "[",
    "{}",
    "1,2",
    "\x0b",
    "null",
]
ALL = [text.encode() for files in SAMPLES.values() for text in files.values()]


@st.composite
def mutated(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """A good file with something done to it."""
    data = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["cut", "flip", "field", "line", "pack"]))
        if kind == "cut":
            data = data[: draw(st.integers(0, len(data)))]
        elif kind == "flip" and data:
            at = draw(st.integers(0, len(data) - 1))
            data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
        elif kind == "line":
            lines = data.split(b"\n")
            lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)))
            data = b"\n".join(lines)
        elif kind == "pack":
            data = gzip.compress(data)
        else:
            data = with_odd_field(draw, data)
    return data


def with_odd_field(draw: st.DrawFn, data: bytes) -> bytes:
    """The data with one field, as far as one can tell, replaced."""
    separator = draw(st.sampled_from([b",", b"|", b'"', b" ", b"=", b":"]))
    fields = data.split(separator)
    fields[draw(st.integers(0, len(fields) - 1))] = draw(st.sampled_from(ODD)).encode(errors="surrogatepass")
    return separator.join(fields)


def read_or_told(path: Path, form: str | None, on_bad_row: str) -> Trace | str:
    try:
        return read(path, form, on_bad_row)
    except TraceError as error:
        return str(error)


@pytest.mark.parametrize("form", [*formats(), None])
def test_garbage_gives_a_trace_or_a_trace_error(tmp_path_factory: pytest.TempPathFactory, form: str | None) -> None:
    folder = tmp_path_factory.mktemp("garbage")
    own = [text.encode() for text in SAMPLES.get(form or "", {}).values()] or ALL

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.one_of(st.binary(max_size=200), mutated(own), mutated(ALL)), st.sampled_from(["fail", "skip"]))
    def feed(data: bytes, on_bad_row: str) -> None:
        path = file(folder, data, "garbage.csv")
        trace = read_or_told(path, form, on_bad_row)
        if isinstance(trace, str):
            assert str(path) in trace
            return
        assert isinstance(trace, Trace)
        assert len(trace) > 0
        assert (np.diff(trace.submit) >= 0).all()
        for name, about in Trace.columns().items():
            if about.scale and name != "submit":
                values = getattr(trace, name)
                given_ = values[values != about.default]
                assert ((given_ >= about.low * about.scale) & (given_ <= about.high * about.scale)).all(), name

    feed()

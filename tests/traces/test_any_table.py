"""Tables as they come: separators, names, units and times; what is ambiguous is asked about, and only that."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shunter import safe_files
from shunter.cli.main import app
from shunter.errors import TraceError
from shunter.model import Trace
from shunter.setup import read_trace
from shunter.traces import read

NOON = 1_769_940_000_000  # 1 February 2026, 10:00 UTC (ms)
MINUTE = 60_000


def seen(trace: Trace) -> list[tuple[int, int, int]]:
    """What matters: submission and duration in ms, GPUs in thousandths."""
    return list(zip(trace.submit.tolist(), trace.duration.tolist(), trace.gpus.tolist(), strict=True))


def file(folder: Path, text: str | bytes, name: str = "export.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


TWO = [(0, 5000, 1000), (1500, 5000, 2000)]
PLAIN = {
    "semicolons and decimal commas": "job_id;submit;duration;gpus\na;0;5,0;1\nb;1,5;5,0;2\n",
    "tabs": "job_id\tsubmit\tduration\tgpus\na\t0\t5\t1\nb\t1.5\t5\t2\n",
    "bars": "job_id|submit|duration|gpus\na|0|5|1\nb|1.5|5|2\n",
    "blanks": "job_id  submit duration   gpus\na 0  5 1\nb  1.5 5 2\n",
    "UTF-16": "job_id,submit,duration,gpus\nä,0,5,1\nb,1.5,5,2\n".encode("utf-16"),
    "UTF-16, big end first": b"\xfe\xff" + "job_id,submit,duration,gpus\nä,0,5,1\nb,1.5,5,2\n".encode("utf-16-be"),
    "capitals": "JOB_ID,SUBMIT,Duration,GPUs\na,0,5,1\nb,1.5,5,2\n",
    "usual names": "Job Id,submit_time,runTime,num_gpus\na,0,5,1\nb,1.5,5,2\n",
    "other usual names": "id,arrivalTime,elapsed,gpuCount\na,0,5,1\nb,1.5,5,2\n",
    "units": "id,submit_ms,duration (min),GPUs\na,0,0.0833333,1\nb,1500,0.0833333,2\n",
    "an index and no ids": ",submit,duration,gpus\n0,0,5,1\n1,1.5,5,2\n",
    "more columns": "id,submit,duration,gpus,colour,usr\na,0,5,1,red,x\nb,1.5,5,2,blue,y\n",
    "JSON lines": '{"id":1,"submit":0,"runtime":5,"gpus":1}\n\n{"id":2,"submit":1.5,"runtime":5,"gpus":2,"x":{}}\n',
    "a JSON list": '[{"id":1,"submit":0,"runtime":5,"gpus":1},{"id":2,"submit":1.5,"runtime":"5","gpus":2}]',
    "two columns alike": "id,submit,duration,num_gpus,gpu_count\na,0,5,1,1\nb,1.5,5,2,2\n",
    "words in a column of numbers that may lack": "id,submit,duration,gpus,qos\na,0,5,1,high\nb,1.5,5,2,low\n",
    "jobs without GPUs": "id,submit,duration,num_gpus\na,0,5,1\nb,1.5,5,2\nc,2,5,0\n",
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=list(PLAIN))
def test_ways_to_write_the_same_table(tmp_path, text):
    found = seen(read(file(tmp_path, text)))
    assert np.allclose(found, TWO, atol=1)


TIMES = {
    "days first, by a day beyond 12": ("submit", ["01/02/2026 10:00", "13/02/2026 10:00"], 12 * 86_400_000),
    "months first, by a day beyond 12": ("submit", ["02/01/2026 10:00", "02/13/2026 10:00 AM"], 12 * 86_400_000),
    "dots": ("submit", ["1.2.2026 10:00", "01.02.2026 10:01:00"], MINUTE),
    "am and pm": ("submit", ["02/01/2026 10:00:00 AM", "02/13/2026 10:00:00 PM"], 12 * 86_400_000 + 12 * 60 * MINUTE),
    "year first": ("submit", ["2026/02/01 10:00", "2026/02/01 10:01"], MINUTE),
    "milliseconds since 1970": ("created", ["1769940000000", "1769940060000"], MINUTE),
    "nanoseconds since 1970": ("created", ["1769940000000000000", "1769940060000000000"], MINUTE),
}


@pytest.mark.parametrize(("name", "texts", "later"), TIMES.values(), ids=list(TIMES))
def test_times(tmp_path, name, texts, later):
    trace = read(file(tmp_path, f"{name};duration;gpus\n" + "".join(f"{text};5;1\n" for text in texts)))
    assert trace.submit.tolist() == [NOON, NOON + later]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("01:30:00", 5400),
        ("26:00:00", 93_600),
        ("1-02:03:04", 93_784),
        ("0 days 01:30:00.500000", 5400.5),
        ("2 days, 0:00:01", 172_801),
        ("1h30m", 5400),
        ("2 hours 5 min", 7500),
        ("PT1H30M", 5400),
        ("P1DT2H", 93_600),
    ],
)
def test_spans(tmp_path, text, seconds):
    assert read(file(tmp_path, f"id;submit;runtime;gpus\na;0;{text};1\n")).duration.tolist() == [seconds * 1000]


@pytest.mark.parametrize(
    "row",
    ["٣١/١٢/2026 08:00,60", "٣ Oct 2026 08:00,60", "0,٣h", "0,PT٣H", "0,٣ days", "0,1 days +٠١:00:00", "0,٣:00:00"],
)
def test_digits_of_other_scripts_are_no_numbers(tmp_path, row):
    """Some would be taken for 0 otherwise."""
    with pytest.raises(TraceError, match="line 2"):
        read(file(tmp_path, f"submit,duration,gpus\n{row},1\n"))


def test_start_and_end_instead_of_a_duration(tmp_path):
    lines = [
        "submitted,started_at,finished_at,gpus,status",
        "2026-02-01 10:00:00,2026-02-01 10:01:00,2026-02-01 10:03:00,2,Done",
        "2026-02-01 10:00:00,,,2,cancelled by user",
    ]
    trace = read(file(tmp_path, "\n".join(lines)))
    assert seen(trace) == [(NOON, 2 * MINUTE, 2000)]
    assert trace.recorded_wait.tolist() == [MINUTE]
    assert "left out 1 job that was cancelled before it started" in trace.remarks
    alone = read(file(tmp_path, "start,end,gpus\n0,5,1\n"))
    assert seen(alone) == [(0, 5000, 1000)]
    assert "no column of submissions: jobs are submitted when they started" in alone.remarks


def test_what_is_left_out_or_taken_for_granted_is_said(tmp_path):
    trace = read(file(tmp_path, "submit;duration;gpus;usr;colour\n0;1,5;1;ann;red\n"))
    assert trace.remarks == (
        "a comma in a number begins the decimals",
        "columns that are not read: 'usr' (did you mean 'user'?), 'colour'",
        "no column of ids: jobs are numbered",
    )
    grouped = read(file(tmp_path, 'id,submit,runtime,gpus\na,0,"1,234.5",1\n'))
    assert grouped.duration.tolist() == [1_234_500]
    assert "a comma in a number groups thousands" in grouped.remarks


ASKED = {
    "which is the day": ("submit,duration,gpus\n01/02/2026,5,1\n03/04/2026,5,1\n", "submit=submit:dmy (or :mdy)"),
    "two columns that differ": ("submit,duration,num_gpus,gpu_count\n0,5,1,2\n", "--columns gpus=num_gpus"),
    "no duration": ("submit,walltime,gpus\n0,5,1\n", "no column says how long they ran (duration, or start and end)"),
    "minutes or hours": ("id,submit,duration,gpus\na,0,01:30,1\n", "got '01:30'; write seconds, or HH:MM:SS"),
    "a word for a time": ("id,submit,duration,gpus\na,0,5,1\nb,soon,5,1\n", "line 3: submit must be a time"),
    "a word for a span": ("id,submit,runtime,gpus\na,0,5,1\nb,0,long,1\n", "line 3: runtime must be a number"),
    "a key twice on a line": (
        '{"submit":0,"runtime":5,"gpus":1}\n{"submit":1,"runtime":5,"gpus":1,"submit":2}\n',
        "line 2: is no JSON (key 'submit' is given twice)",
    ),
    "a key twice in a list": ('[{"submit":0,"runtime":5,"gpus":1,"gpus":2}]', "is no JSON (key 'gpus' is given twice)"),
    "a line that is no JSON": ('{"submit":0,"runtime":5,"gpus":1}\n{"submit":\n', "line 2: is no JSON"),
}


@pytest.mark.parametrize(("text", "says"), ASKED.values(), ids=list(ASKED))
def test_only_what_is_ambiguous_is_asked_about(tmp_path, text, says):
    with pytest.raises(TraceError) as caught:
        read(file(tmp_path, text))
    assert says in str(caught.value)
    assert "give seconds" not in str(caught.value)


def test_a_table_of_foreign_names_is_asked_about_with_all_of_them(tmp_path):
    text = "Nr;Eingereicht am;Beginn;Ende;Karten\n1;01.02.2026 10:00;01.02.2026 10:05;01.02.2026 11:05;8\n"
    with pytest.raises(TraceError) as caught:
        read(file(tmp_path, text))
    assert "it has 'Nr', 'Eingereicht am', 'Beginn', 'Ende', 'Karten'" in str(caught.value)
    assert "--columns 'job_id=NAME,submit=NAME,duration=NAME,gpus=NAME'" in str(caught.value)
    columns = {"submit": "Eingereicht am", "start": "Beginn", "end": "Ende", "gpus": "Karten"}
    trace = read(file(tmp_path, text), columns=columns)
    assert (trace.duration.tolist(), trace.recorded_wait.tolist()) == ([60 * MINUTE], [5 * MINUTE])
    with pytest.raises(TraceError, match=r"iconv -f WINDOWS-1252 -t UTF-8 jobs\.csv"):
        read(file(tmp_path, text.replace("Nr", "Größe").encode("cp1252"), "jobs.csv"), columns=columns)


def test_columns_as_the_user_says(tmp_path):
    path = file(tmp_path, "a,b,c,d\n01/02/2026 10:00,2,8,x\n")
    trace = read(path, columns={"submit": "a:dmy", "duration": "b:h", "gpus": "c", "user": "d"})
    assert seen(trace) == [(NOON, 120 * MINUTE, 8000)]
    assert trace.users == ("x",)
    done = CliRunner().invoke(app, ["trace", "describe", str(path), "--columns", "submit=a:dmy,duration=b:h,gpus=c"])
    assert done.exit_code == 0, done.output
    assert read(path, "table:submit=a:mdy,duration=b,gpus=c").submit.tolist() != trace.submit.tolist()
    for wrong, says in (
        ({"submit": "z"}, "names a column 'z', which the table lacks; it has 'a', 'b'"),
        ({"sumbit": "a"}, "a trace has no column 'sumbit'; did you mean 'submit'?"),
        ({"submit": ""}, "columns are written submit=created"),
    ):
        with pytest.raises(TraceError) as caught:
            read(path, columns=wrong)
        assert says in str(caught.value)
    with pytest.raises(TraceError, match="the columns of format 'helios' are known"):
        read(path, "helios", columns={"submit": "a"})


@pytest.mark.parametrize(
    ("header", "given", "seconds"),
    [
        ("Walltime (h)", "Walltime (h)", 3924),
        ("Walltime (h)", "Walltime (h):min", 65.4),
        ("asked_min", "asked_min", 65.4),
        ("asked [days]", "asked [days]", 94_176),
        ("h", "h", 1.09),
        ("Walltime", "Walltime", 1.09),
    ],
)
def test_the_unit_in_the_name_of_a_given_column(tmp_path, header, given, seconds):
    path = file(tmp_path, f"submit;duration;gpus;{header}\n0;5;1;1,09\n")
    assert read(path, columns={"limit": given}).limit.tolist() == [round(seconds * 1000)]


def test_a_unit_in_a_name_is_none_of_dates(tmp_path):
    path = file(tmp_path, "queue day;submit_day;duration;gpus;RAM mb\n2026-02-01 10:00;1;5;1;512\n")
    given = {"submit": "queue day", "mem_gib": "RAM mb"}
    assert read(path, columns=given).submit.tolist() == [NOON]
    assert read(path, columns=given).mem_gib.tolist() == [488]
    assert read(path, columns={"submit": "submit_day"}).submit.tolist() == [86_400_000]


NESTED = '{"submit":0,"runtime":5,"gpus":1,"tags":["a"],"colour":"red"}\n'


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"limit": "tags"}, "job 1: tags must be a number from 0 to 1e+09 (s), got \"['a']\"; write seconds"),
        ({"cpus": "colour"}, "job 1: colour must be a number from 0 to 1e+06 (cores), got 'red'; write a number"),
        ({"gpus": "tags"}, "job 1: tags must be a whole number from 1 to"),
        (
            {"model": "tags"},
            "job 1: tags must be text or a number, got \"['a']\"; write a plain value, or name another",
        ),
        ({"job_id": "tags"}, "job 1: tags must be text or a number"),
    ],
)
def test_a_given_column_that_cannot_be_read_is_refused(tmp_path, given, says):
    with pytest.raises(TraceError) as caught:
        read(file(tmp_path, NESTED, "runs.jsonl"), columns=given)
    assert says in str(caught.value)


def test_lists_and_objects_are_no_names(tmp_path):
    lines = [
        '{"_id":{"$oid":"5f"},"submit":0,"runtime":5,"gpus":1,"model":{"name":"bert"},"user":"ann","state":["DONE"]}',
        '{"_id":{"$oid":"60"},"submit":1,"runtime":5,"gpus":1,"model":{"name":"bert"},"user":["bob"],"vc_name":"x"}',
    ]
    trace = read(file(tmp_path, "\n".join(lines), "runs.jsonl"))
    assert trace.models == ()
    assert trace.users == ("ann",)
    assert trace.user.tolist() == [0, -1]
    assert trace.job_id.tolist() == ["1", "2"]
    for remark in (
        *("model: 2 lists or objects are not read", "user: 1 list or object is not read"),
        *("_id: 2 lists or objects are not read", "state: 1 list or object is not read"),
    ):
        assert remark in trace.remarks
    other = NESTED.replace('"tags"', '"model_name":"bert","model"')
    assert read(file(tmp_path, other, "runs.jsonl")).models == ("bert",)
    with pytest.raises(TraceError, match="job 2: id must be text or a number, got"):
        read(file(tmp_path, NESTED.replace("{", '{"id":1,') + NESTED.replace("{", '{"id":[2],'), "runs.jsonl"))


def test_a_start_before_the_submission_is_counted(tmp_path):
    rows = "0;5;9;1\n5;4;9;1\n6;4;9;1\n8;4;9;0\n"  # the last asked for no GPU
    trace = read(file(tmp_path, "submit;start;end;gpus\n" + rows))
    assert trace.recorded_wait.tolist() == [5000, -1, -1]
    assert "2 jobs started before submission: no wait is recorded there" in trace.remarks
    plain = read(file(tmp_path, "submit;start;end;gpus\n0;0;9;1\n"))
    assert not any("before submission" in remark for remark in plain.remarks)


def test_a_given_name_that_is_missing_is_looked_for_among_all_columns(tmp_path):
    records = '{"submit":0,"runtime":5,"gpus":1,"waited":"0:00:07"}\n'
    jobs = pl.DataFrame({"submit": [0], "runtime": [5], "gpus": [1], "waited": ["0:00:07"]})
    jobs.write_parquet(tmp_path / "jobs.parquet")
    for path in (file(tmp_path, records, "jobs.jsonl"), tmp_path / "jobs.parquet"):
        with pytest.raises(TraceError, match=r"lacks; did you mean 'waited'\? it has .*'gpus', 'waited'"):
            read(path, columns={"recorded_wait": "waite"})
        for name in ("recorded_wait", "wait", "Wait Time"):
            assert read(path, columns={name: "waited"}).recorded_wait.tolist() == [7000]
        with pytest.raises(TraceError, match="wait=runtime: the column 'recorded_wait' is given twice"):
            read(path, columns={"recorded_wait": "waited", "wait": "runtime"})
        with pytest.raises(TraceError, match="no column 'wait_min'"):
            read(path, columns={"wait_min": "waited"})


def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "Job": ["a", "b"],
            "Submit": [datetime(2026, 2, 1, 10), datetime(2026, 2, 1, 10, 1)],
            "Runtime": [timedelta(hours=1.5), timedelta(seconds=30)],
            "GPUs": [1.0, 2.0],
            "Owner": pl.Series(["x", "y"], dtype=pl.Categorical),
            "Tags": [[1], [2, 3]],
        }
    )


def test_parquet_of_others_and_frames(tmp_path):
    wanted = [(NOON, 90 * MINUTE, 1000), (NOON + MINUTE, 30_000, 2000)]
    frame().write_parquet(tmp_path / "theirs.parquet")
    assert seen(read(tmp_path / "theirs.parquet")) == wanted
    zoned = frame().with_columns(pl.col("Submit").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"))
    for given in (frame(), frame().lazy(), zoned):
        assert seen(read_trace(given)) == wanted
    assert read_trace(frame()).users == ("x", "y")
    pandas = pytest.importorskip("pandas")
    columns = {"job_id": ["a", "b"], "num_gpus": [1, 2], "runtime": pandas.to_timedelta(["1h30min", "30s"])}
    theirs = pandas.DataFrame(columns | {"submit": pandas.to_datetime(["2026-02-01 10:00", "2026-02-01 10:01"])})
    for given in (theirs, theirs.set_index("job_id"), theirs.assign(submit=theirs.submit.dt.tz_localize(UTC))):
        assert seen(read_trace(given)) == wanted
        assert read_trace(given).job_id.tolist() == ["a", "b"]
    with pytest.raises(TraceError, match="a trace can't be made of dict; pass a polars or pandas DataFrame"):
        read_trace({"submit": [0]})
    with pytest.raises(TraceError, match=r"frame: there is no job in it"):
        read_trace(frame().clear())


def test_parquet_of_any_types(tmp_path):
    """Columns of types that no table needs are not read; a needed one is missing then."""
    plain = {"submit": [0, 1], "duration": pa.array([5, 6], pa.uint8()), "gpus": pa.array([1, 2], pa.float32())}
    odd = {
        "user": pa.array([b"x", b"y"]),
        "limit": pa.array([[1], [2]]),
        "vc": pa.array(["a", "b"]).dictionary_encode(),
        "model": pa.array(np.array([1.5, 2.5], np.float16)),
        "cpus": pa.array([{"a": 1}, {"a": 2}]),
        "deadline": pa.array([3600, 60], pa.duration("s")),
    }
    pq.write_table(pa.table(plain | odd), tmp_path / "odd.parquet")
    trace = read(tmp_path / "odd.parquet")
    assert seen(trace) == [(0, 5000, 1000), (1000, 6000, 2000)]
    assert trace.vcs == ("a", "b")
    assert trace.deadline.tolist() == [3_600_000, 60_000]
    pq.write_table(pa.table(plain | {"gpus": pa.array([b"x", b"y"])}), tmp_path / "bytes.parquet")
    with pytest.raises(TraceError, match="no column says how many GPUs"):
        read(tmp_path / "bytes.parquet")


def workbook(cells: str, more: bytes = b"", place: str = "worksheets/sheet1.xml", texts: str = "") -> bytes:
    """The least that is a workbook, with these cells."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{office}"><sheets><sheet name="jobs" sheetId="1" r:id="r1"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="{place}"/></Relationships>',
        "xl/sharedStrings.xml": f"<sst {main}>{texts}</sst>",
        f"xl/{place}": f"<worksheet {main}><sheetData>{cells}</sheetData></worksheet>",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        archive.writestr("xl/media/more", more)
    return made.getvalue()


def row(number: int, *values: str | float) -> str:
    cells = ""
    for at, value in enumerate(values):
        name = f"{'ABCDEF'[at]}{number}"
        text = isinstance(value, str)
        cells += (
            f'<c r="{name}" t="inlineStr"><is><t>{value}</t></is></c>' if text else f'<c r="{name}"><v>{value}</v></c>'
        )
    return f'<row r="{number}">{cells}</row>'


def test_a_spreadsheet(tmp_path):
    pytest.importorskip("python_calamine")
    cells = row(1, "Job", "Submitted", "Runtime", "GPUs") + row(2, "a", 0, "01:30:00", 2) + row(3, "b", 1.5, 60.0, 1)
    trace = read(file(tmp_path, workbook(cells), "jobs.xlsx"))
    assert seen(trace) == [(0, 90 * MINUTE, 2000), (1500, MINUTE, 1000)]
    with pytest.raises(TraceError, match=r"jobs.xlsx row 3: GPUs must be"):
        read(file(tmp_path, workbook(cells.replace("<v>1</v>", "<v>1.5</v>")), "jobs.xlsx"))
    for broken in (b"PK\x03\x04 rubbish", workbook("<row")[:300], workbook("")):
        with pytest.raises(TraceError, match=r"jobs.xlsx: (is no workbook|there is no job)"):
            read(file(tmp_path, broken, "jobs.xlsx"))


def test_a_hostile_spreadsheet(tmp_path, monkeypatch):
    """A few bytes may unpack to much, and a single cell far out stands for a table of billions."""
    pytest.importorskip("python_calamine")
    monkeypatch.setattr(safe_files, "memory_bytes", lambda: 40 * 2**20)
    monkeypatch.setattr(safe_files, "PARSED_LEAST", 0)
    head = row(1, "Job", "Submitted", "Runtime", "GPUs")
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    for data in (workbook(head + far), workbook(head, b"0" * 2**22)):
        assert len(data) < 2**15
        with pytest.raises(TraceError, match=r"bomb.xlsx: it holds more than 1 MiB"):
            read(file(tmp_path, data, "bomb.xlsx"))


def test_a_hostile_spreadsheet_in_other_words(tmp_path, monkeypatch):
    """The same cell far out, written so that a search for its usual form does not find it."""
    pytest.importorskip("python_calamine")
    monkeypatch.setattr(safe_files, "memory_bytes", lambda: 40 * 2**20)
    monkeypatch.setattr(safe_files, "PARSED_LEAST", 0)
    head = row(1, "Job", "Submitted", "Runtime", "GPUs")
    cell = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    for data in (
        workbook(head + cell.replace("r=", "r = ")),
        workbook(head + cell.lower()),
        workbook(head + '<row r="1048576"><c><v>1</v></c></row>'),
        workbook(head + cell, place="elsewhere/sheet1.xml"),
        workbook(head + cell, place="elsewhere/sheet1.bin"),
    ):
        with pytest.raises(TraceError, match=r"bomb.xlsx: it holds more than 1 MiB"):
            read(file(tmp_path, data, "bomb.xlsx"))
    for odd, why in (('<row r="1"><c r="A1B2"/></row>', "is called 'A1B2'"), ("<row>", "mismatched tag")):
        with pytest.raises(TraceError, match=f"bomb.xlsx: is no workbook that can be read .*{why}"):
            read(file(tmp_path, workbook(head + odd), "bomb.xlsx"))


def test_a_spreadsheet_of_another_kind_or_with_a_doctype(tmp_path):
    """The library would read tables of other programs too, whose cells say how often they repeat."""
    pytest.importorskip("python_calamine")
    plain = workbook(row(1, "Job", "Submitted", "Runtime", "GPUs") + row(2, "a", 0, 5, 1))
    for name, text, why in (
        ("content.xml", "<a/>", "it holds content.xml, as other kinds"),
        ("xl/workbook.bin", "", "it holds xl/workbook.bin, as other kinds"),
        ("xl/more.xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "it has a DOCTYPE"),
    ):
        made = io.BytesIO(plain)
        with zipfile.ZipFile(made, "a") as archive:
            archive.writestr(name, text)
        with pytest.raises(TraceError, match=f"jobs.xlsx: is no workbook that can be read .{why}"):
            read(file(tmp_path, made.getvalue(), "jobs.xlsx"))


def test_a_spreadsheet_that_repeats_a_text(tmp_path, monkeypatch):
    """A text stands once in the file, and in a table in each of its cells."""
    pytest.importorskip("python_calamine")
    monkeypatch.setattr(safe_files, "memory_bytes", lambda: 40 * 2**20)
    monkeypatch.setattr(safe_files, "PARSED_LEAST", 0)

    def jobs(count: int) -> str:
        shared = (f'<c r="D{at}" t="s"><v>0</v></c></row>' for at in range(2, count + 2))
        rows = (row(at, 0, 5, 1).replace("</row>", cell) for at, cell in enumerate(shared, 2))
        return row(1, "Submitted", "Runtime", "GPUs", "User") + "".join(rows)

    texts = f"<si><t>{'x' * 2**17}</t></si>"
    assert read(file(tmp_path, workbook(jobs(2), texts=texts), "jobs.xlsx")).users == ("x" * 2**17,)
    with pytest.raises(TraceError, match=r"jobs.xlsx: it holds more than 1 MiB"):
        read(file(tmp_path, workbook(jobs(20), texts=texts), "jobs.xlsx"))
    with pytest.raises(TraceError, match=r"a cell names a text that is not there"):
        read(file(tmp_path, workbook(jobs(2)), "jobs.xlsx"))


def test_parquet_with_a_long_text_in_many_rows(tmp_path, monkeypatch):
    """As numbers in a list of texts it is short, and in a table it is not."""
    monkeypatch.setattr(safe_files, "memory_bytes", lambda: 40 * 2**20)
    monkeypatch.setattr(safe_files, "PARSED_LEAST", 0)
    users = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 2**16]))
    pq.write_table(
        pa.table({"submit": [0] * 2000, "duration": [5] * 2000, "gpus": [1] * 2000, "user": users}),
        tmp_path / "long.parquet",
    )
    with pytest.raises(TraceError, match=r"long.parquet: it holds more than 1 MiB"):
        read(tmp_path / "long.parquet")


def test_without_the_library_for_spreadsheets(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    words = r"reading a spreadsheet needs python_calamine .*(shunter\[xlsx\]|scripts/install xlsx)"
    with pytest.raises(Exception, match=words):
        read(file(tmp_path, workbook(row(1, "Job")), "jobs.xlsx"))


def test_many_fields_in_json_are_not_columns(tmp_path):
    """Each line has keys of its own: only those that mean something become columns."""
    lines = "".join(f'{{"submit":{at},"runtime":5,"gpus":1,"k{at}":0}}\n' for at in range(5000))
    trace = read(file(tmp_path, lines, "many.jsonl"))
    assert len(trace) == 5000
    assert "and 4,995 more" in " ".join(trace.remarks)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(TraceError, match="is a folder"):
        read(tmp_path)

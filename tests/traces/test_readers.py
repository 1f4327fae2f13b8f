"""Every format: recognised by exactly one reader, and what becomes of its fields."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from samples import FILES, PAI_JOBS, SACCT, SAMPLES, SWF, sample

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces import formats, place_of, read, reader, write
from shunter.traces.source import Source


def rows(trace: Trace, *columns: str) -> dict[str, tuple[Any, ...]]:
    """Some columns of each job, in the units of the documented CSV, names as text."""
    found: dict[str, list[Any]] = {job: [] for job in trace.job_id}
    for name in columns:
        about, values = Trace.columns()[name], getattr(trace, name)
        for job, value in zip(trace.job_id, values.tolist(), strict=True):
            if about.scale:
                found[job].append(value if value == about.default else value / about.scale)
            elif name == "after":
                found[job].append(trace.job_id[value] if value >= 0 else None)
            else:
                found[job].append(getattr(trace, Trace.names_of(name))[value] if value >= 0 else None)
    return {job: tuple(values) for job, values in found.items()}


def test_there_is_a_sample_of_every_format() -> None:
    assert sorted([*SAMPLES, "parquet"]) == formats()
    assert all(reader(name).doc for name in formats())


@pytest.mark.parametrize(("form", "name"), FILES)
def test_exactly_one_reader_recognises_a_file(tmp_path: Path, form: str, name: str) -> None:
    path = sample(tmp_path, form, name)
    special = [other for other in formats() if other == form or other != "table"]
    assert [other for other in special if reader(other).recognises(Source(path))] == [form]
    trace = read(path)
    assert len(trace) > 0
    assert read(path, format=form).digest == trace.digest
    write(trace, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").digest == trace.digest


@pytest.mark.parametrize(("form", "name"), FILES)
def test_a_wrong_format_is_reported(tmp_path: Path, form: str, name: str) -> None:
    path = sample(tmp_path, form, name)
    alike = {("muri", "tiresias"), ("acme", "helios")}  # the same columns and some more
    for other in set(formats()) - {form, "table"}:  # which takes any
        if (form, other) not in alike:
            with pytest.raises(TraceError) as caught:
                read(path, format=other)
            assert str(path) in str(caught.value)


# ------------------------------------------------------------------------------------------- what becomes of what


def test_helios(tmp_path: Path) -> None:
    trace = read(sample(tmp_path, "helios"))
    assert rows(trace, "submit", "duration", "gpus", "user", "vc", "cpus", "job_name", "recorded_wait", "outcome") == {
        "11": (1585699200, 3600, 8, "ann", "vcA", 64, "train", 30, "completed"),
        "14": (1585699320, 5, 16, "cyd", "vcA", 128, "eval", 0, "failed"),
    }
    assert trace.remarks == (
        "times carry no zone: hours are as written",
        "left out 1 job that asked for no GPU",
        "left out 1 job that was cancelled before it started",
    )
    flat = read(sample(tmp_path, "helios", "flat.csv"))
    assert rows(flat, "duration", "gpus") == {"1": (172800, 32), "2": (20, 1)}
    assert "1 job ran longer" in flat.remarks[1]


def test_philly(tmp_path: Path) -> None:
    trace = read(sample(tmp_path, "philly"))
    assert rows(trace, "submit", "duration", "gpus", "user", "vc", "recorded_wait", "outcome") == {
        "app_1": (1507338699, 3660, 4, "u1", "v1", 30, "completed"),
        "app_3": (1507341600, 10, 1, "u2", "v2", 3600, "cancelled"),
    }
    assert "left out 1 job that never got a GPU" in trace.remarks
    assert any("1 attempts have no recorded" in remark for remark in trace.remarks)
    flat = read(sample(tmp_path, "philly", "flat.csv"))
    assert rows(flat, "submit", "duration", "gpus", "vc") == {
        "2": (1507529583, 2951, 8, "6214e9"),
        "1": (1507532515, 66, 1, "11cb48"),
    }
    assert rows(read(sample(tmp_path, "philly", "sample.csv")), "gpus", "gpu_type") == {
        "ph-1": (1, None),
        "ph-2": (7, None),
    }


def test_pai(tmp_path: Path) -> None:
    columns = ("submit", "duration", "gpus", "gpu_type", "user", "cpus", "mem_gib", "recorded_wait", "outcome")
    path = sample(tmp_path, "pai")
    alone = read(path)
    assert rows(alone, *columns) == {
        "j1/worker": (1000, 3600, 1, "MISC", None, 12, 58.59375, 0, "completed"),
        "j2/tensorflow": (2000, 10, 0.25, "T4", None, 6, 29.296875, 0, "failed"),
        "j3/PyTorchWorker": (3000, 100, 5, "V100", None, 18, 0, 0, "completed"),
    }
    assert "pai_job_table.csv is not beside it" in " ".join(alone.remarks)
    (tmp_path / "pai_job_table.csv").write_text(PAI_JOBS)
    joined = read(tmp_path)
    assert rows(joined, "submit", "user", "recorded_wait") == {
        "j1/worker": (990, "u1", 10),
        "j2/tensorflow": (1990, "u2", 10),
        "j3/PyTorchWorker": (3000, "u1", 0),
    }
    assert any("rounded up" in remark for remark in joined.remarks)
    with pytest.raises(TraceError, match=r"job table, which has no GPUs; name pai_task_table\.csv"):
        read(tmp_path / "pai_job_table.csv")


def test_bad_rows_of_the_pai_job_table_are_reported_or_skipped_too(tmp_path: Path) -> None:
    path = sample(tmp_path, "pai", "pai_task_table.csv")
    (tmp_path / "pai_job_table.csv").write_text(PAI_JOBS + "j9,i9,u9,Terminated,soon,2000\nshort,row\n")
    with pytest.raises(TraceError, match=r"pai_job_table.csv: 2 problems"):
        read(path)
    skipped = read(path, on_bad_row="skip")
    (tmp_path / "pai_job_table.csv").write_text(PAI_JOBS)
    assert skipped.digest == read(path).digest
    assert "pai_job_table.csv: left out 2 bad rows" in " ".join(skipped.remarks)


def test_openb(tmp_path: Path) -> None:
    trace = read(sample(tmp_path, "openb"))
    assert rows(
        trace, "submit", "duration", "gpus", "gpu_type", "cpus", "mem_gib", "qos", "recorded_wait", "outcome"
    ) == {
        "pod-1": (0, 12537, 1, None, 12, 16, 1, 0, "cancelled"),
        "pod-2": (427, 861, 0.46, "V100M16", 6, 12, 0, 2, "failed"),
        "pod-4": (600, 1169, 8, "G3", 88, 320, 0.5, 0, "completed"),
    }
    assert len(trace.remarks) == 3


def test_acme(tmp_path: Path) -> None:
    seren = read(sample(tmp_path, "acme"))
    assert rows(seren, "submit", "duration", "gpus", "model", "recorded_wait", "outcome") == {
        "1": (1677601102, 117, 8, "Other", 32, "failed")
    }
    assert seren.remarks == ("left out 1 job that asked for no GPU",)
    assert rows(
        read(sample(tmp_path, "acme", "trace_kalos.csv")), "submit", "duration", "mem_gib", "recorded_wait"
    ) == {"d1": (1684321258, 8, 8000, 10)}


def test_aaic(tmp_path: Path) -> None:
    assert rows(
        read(sample(tmp_path, "aaic")),
        "submit",
        "duration",
        "gpus",
        "user",
        "account",
        "limit",
        "recorded_wait",
        "outcome",
    ) == {
        "0": (1530244242, 245338, 8, "7", "2", 864000, 5222, "cancelled"),
        "1": (1530355560, 39705, 1, "8", "2", 259200, 4, "completed"),
    }


def test_swf(tmp_path: Path) -> None:
    trace = read(sample(tmp_path, "swf"))
    assert rows(trace, "submit", "duration", "gpus", "user", "vc", "limit", "recorded_wait", "after", "outcome") == {
        "1": (1000, 1451, 128, "1", None, 3600, 5, None, "completed"),
        "2": (2460, 3726, 1, "4", "3", 0, -1, "1", "failed"),
    }
    assert trace.mem_gib.tolist() == [0, 1]
    assert "processors are taken as GPUs, one for one" in trace.remarks


def test_sacct(tmp_path: Path) -> None:
    trace = read(sample(tmp_path, "sacct"))
    assert rows(trace, "duration", "gpus", "gpu_type", "user", "account", "vc", "job_name", "outcome") == {
        "100": (7200, 4, "a100", "ann", "lab1", "gpu", '"train', "completed"),
        "101_4": (30, 1, "v100", "bob", "lab2", "gpu", "sweep", "cancelled"),
        "110+0": (3600, 2, None, "cyd", "lab1", "gpu", "het", "timeout"),
    }
    assert rows(trace, "limit", "cpus", "mem_gib", "recorded_wait", "after") == {
        "100": (93600, 16, 128800 / 1024, 300, None),
        "101_4": (0, 8, 64, 3540, "100"),
        "110+0": (3600, 4, 1024, 0, None),
    }
    left = [remark for remark in trace.remarks if "left out" in remark]
    assert left == [
        "left out 1 job step",
        "left out 1 job that still waited",
        "left out 1 job that was cancelled before it started",
        "left out 1 job that asked for no GPU",
    ]
    assert any("1 job waits for a job that is not among these" in remark for remark in trace.remarks)
    assert rows(read(sample(tmp_path, "sacct", "old.txt")), "duration", "gpus", "gpu_type") == {
        "7": (600, 6, "tesla"),
        "8": (600, 1, None),
    }


def test_submissions_that_slurm_refused_are_no_jobs(tmp_path: Path) -> None:
    """FAILED in the second of their submission, with nothing allocated."""
    header = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|ReqTRES|AllocTRES"
    time = "2026-05-01T10:00:00"
    ran = f"1|ann|main|FAILED|{time}|{time}|{time}|0|cpu=1,gres/gpu=1|cpu=1,gres/gpu=1"  # at once, but it ran
    refused = f"2|ann|main|FAILED|{time}|{time}|{time}|0|cpu=1,gres/gpu=1|"
    late = f"3|ann|main|DEADLINE|{time}|{time}|{time}|0|cpu=1,gres/gpu=1|"
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([header, ran, refused, late]) + "\n")
    trace = read(path)
    assert [str(job) for job in trace.job_id] == ["1"]
    assert any(
        "left out 2 jobs that Slurm ended before they started, such as submissions" in each for each in trace.remarks
    )


def test_sacct_without_gpus_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text(SACCT.replace("gres/gpu", "gres/nic"))
    with pytest.raises(TraceError, match="AccountingStorageTRES=gres/gpu"):
        read(tmp_path / "s.txt")
    (tmp_path / "s.txt").write_text("JobID|Submit|Start\n1|2024-05-01T10:00:00|2024-05-01T10:00:00\n")
    with pytest.raises(TraceError, match=r"missing: End, AllocTRES or ReqTRES .* export with: sacct"):
        read(tmp_path / "s.txt")


def test_jobcomp(tmp_path: Path) -> None:
    trace = read(sample(tmp_path, "jobcomp"))
    assert rows(trace, "duration", "gpus", "gpu_type", "user", "job_name", "limit", "recorded_wait", "outcome") == {
        "1": (60, 2, None, "cc", "a test", 300, 1, "completed"),
        "1#2": (60, 1, "p100", "cc", "b", 0, 3601, "failed"),
    }


def test_supercloud(tmp_path: Path) -> None:
    trace = read(sample(tmp_path, "supercloud"))
    assert rows(trace, "duration", "gpus", "user", "vc", "limit", "cpus", "mem_gib", "recorded_wait", "outcome") == {
        "16": (307, 2, "42", "normal", 86400, 20, 170000 / 1024, 272558, "completed"),
        "16#2": (307, 1, "42", "normal", 0, 20, 170000 / 1024, 272558, "out_of_memory"),
    }


def test_simulators(tmp_path: Path) -> None:
    columns = ("submit", "duration", "gpus", "model", "iterations")
    assert rows(read(sample(tmp_path, "muri")), *columns) == {
        "0": (0, 2868.294, 1, "dqn", 5853),
        "1": (201694, 4472.936, 8, "vgg16", 8787),
    }
    assert rows(read(sample(tmp_path, "tiresias")), *columns)["1"] == (30, 147, 8, "vgg11", 133)
    assert rows(read(sample(tmp_path, "dally")), *columns) == {
        "2": (5, 10, 1, None, 10),
        "1": (84725, 125, 4, "BERT", 1000),
    }
    assert rows(read(sample(tmp_path, "rltune")), *columns[:4], "user", "vc", "limit", "recorded_wait") == {
        "deepspeech2-0_1": (1201, 25, 8, "deepspeech2", "2", "0", 0, 0),
        "bert-2_1": (1432, 41, 1, "bert", "7", "1", 60, 7),
    }


# ------------------------------------------------------------------------------------------- real files


REAL = {
    "helios/venus_gpu_jobs.csv.gz": 112_664,
    "helios/venus_1034_jobs_with_users.csv": 1_034,
    "philly/philly_jobs.csv.gz": 70_783,
    "philly/sample1000_true_mix.csv": 1_000,
    "philly/muri_vc_trace1.csv.gz": 1_494,
    "philly/muri_vc_trace4.csv.gz": 2_638,
    "pai/pai_tasks_sample.csv.gz": 39_191,
    "openb/openb_pod_list_default.csv.gz": 8_152 - 1_088 - 861,
    "aaic/aaicwl-201807-201812.csv.gz": 124_425,
    "supercloud/slurm_log_sample.csv.gz": 9_628 - 7_227,
    "swf/lublin_256.swf.gz": 10_000,
    "swf/NASA-iPSC-1993-3.1-cln.swf.gz": 18_239,
    "rltune/synthetic_trace.csv": 960,
    "rltune/jobcomp.log": 96,
    "tiresias/60_job.csv": 60,
    "dally/sense_500jobs_0start0arrival-withBert.json.gz": 500,
    "dally/sense_500jobs_poisson_1proc-week.json.gz": 411,
    "reference/philly_1000.csv": 1_000,
}


@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_jobs_that_they_should(data: Path, name: str) -> None:
    trace = read(data / name)
    assert len(trace) == REAL[name]
    assert (trace.gpus > 0).all()


def test_real_files_that_are_no_traces_are_refused(data: Path) -> None:
    for name in ("helios/venus_throughput_10min.csv.gz", "philly/vc_nodes.csv", "openb/openb_node_list_gpu_node.csv"):
        with pytest.raises(TraceError, match="missing"):
            read(data / name)


def test_real_figures(data: Path) -> None:
    """What INDEX.md and the papers say of these files."""
    dally = read(data / "dally/sense_500jobs_0start0arrival-withBert.json.gz")
    assert (dally.gpus / 1000 @ dally.duration / 1000) == pytest.approx(47.0e6, rel=0.01)
    supercloud = read(data / "supercloud/slurm_log_sample.csv.gz")
    assert len(supercloud) / 9_628 == pytest.approx(0.25, abs=0.01)
    muri = read(data / "philly/muri_vc_trace1.csv.gz")
    assert muri.duration.max() / 1000 == 4_628_239  # the longest of Philly, in seconds


# ------------------------------------------------------------------------------------------- packed, in folders


def packed_zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def packed_tar(data: bytes, names: tuple[str, ...] = ("folder/jobs.csv",)) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for name in names:
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return sink.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": packed_zstd, "tar.gz": packed_tar,
}  # fmt: skip


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_files_are_read_as_they_are(tmp_path: Path, ending: str) -> None:
    text = SAMPLES["helios"]["cluster_log.csv"].encode()
    (tmp_path / f"log.csv.{ending}").write_bytes(PACKERS[ending](text))
    assert read(tmp_path / f"log.csv.{ending}").digest == read(sample(tmp_path, "helios")).digest
    for size in (30, -12):
        (tmp_path / "cut").write_bytes(PACKERS[ending](text * 50)[:size])
        with pytest.raises(TraceError, match=r"damaged|cut off"):
            read(tmp_path / "cut")


def test_archives_of_several_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(packed_tar(SAMPLES["csv"]["jobs.csv"].encode(), ("a.csv", "b.csv")))
    with pytest.raises(TraceError, match=r"2 files \(a.csv, b.csv\); unpack it"):
        read(tmp_path / "a.tar.gz")


def test_the_folder_of_a_run_is_refused_with_its_jobs(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").touch()
    with pytest.raises(TraceError, match=r"is the folder of a run; its jobs are in .*jobs\.parquet"):
        read(tmp_path)


def test_a_folder_with_one_log_is_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"is a folder; name the trace file in it \(none of cluster_log"):
        read(tmp_path)
    sample(tmp_path, "helios")
    assert len(read(tmp_path)) == 2
    sample(tmp_path, "philly")
    with pytest.raises(TraceError, match=r"cluster_job_log, cluster_log.csv"):
        read(tmp_path)


# ------------------------------------------------------------------------------------------- where, and whose


def test_the_place_of_a_job_can_be_found(tmp_path: Path) -> None:
    assert place_of("14", sample(tmp_path, "helios")) == "line 5"
    assert place_of("2", sample(tmp_path, "swf")) == "line 5"
    assert place_of("app_3", sample(tmp_path, "philly")) == "job 3"
    assert place_of("nobody", sample(tmp_path, "helios")) == ""
    write(read(sample(tmp_path, "csv")), tmp_path / "t.parquet")
    assert place_of("a", tmp_path / "t.parquet") == ""


class Lines:
    """A reader of somebody's own: a job of one GPU and a minute per line."""

    doc = "one job per line"

    @staticmethod
    def recognises(source: Source) -> bool:
        return source.head.startswith(b"#jobs")

    @staticmethod
    def read(source: Source) -> Trace:
        names = source.text().decode().split()[1:]
        times = [60_000 * at for at in range(len(names))]
        return Trace.of(source.name, names, submit=times, duration=[60_000] * len(names), gpus=[1000] * len(names))


def test_readers_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.txt").write_text("#jobs\nx\ny\n")
    assert read(tmp_path / "mine.txt", format=Lines()).job_id.tolist() == ["x", "y"]
    module = types.ModuleType("mylab.lines")
    vars(module).update(doc=Lines.doc, recognises=Lines.recognises, read=Lines.read)
    monkeypatch.setitem(sys.modules, "mylab", types.ModuleType("mylab"))
    monkeypatch.setitem(sys.modules, "mylab.lines", module)
    assert len(read(tmp_path / "mine.txt", format="mylab.lines")) == 2
    with pytest.raises(TraceError, match=r"'mylab.nothing': can't import"):
        read(tmp_path / "mine.txt", format="mylab.nothing")
    with pytest.raises(TraceError, match="needs doc, recognises and read"):
        read(tmp_path / "mine.txt", format="os.path")
    with pytest.raises(TraceError, match="neither"):
        read(tmp_path / "mine.txt")
    package = tmp_path / "lab_lines-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-lines\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[shunter.readers]\nlines = mylab.lines\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "lines" in formats()
    assert len(read(tmp_path / "mine.txt")) == 2


def test_swf_may_be_all_comments(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text(SWF[: SWF.index("    1 ")])
    with pytest.raises(TraceError, match="no job"):
        read(tmp_path / "a.swf")


def test_the_documented_csv_may_have_dates(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit,duration,gpus\na,2020-04-01 12:00:00,60,1\nb,2020-04-01T14:00:00+02:00,60,1\n")
    with pytest.raises(TraceError, match="zone"):
        read(path)
    path.write_text("job_id,submit,duration,gpus\na,2020-04-01 12:00:00,60,1\n")
    assert read(path).submit.tolist() == [1_585_742_400_000]


def test_a_file_with_semicolons_is_read_as_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text("job_id;submit_time;gpu_num;duration\n1;2020-04-01 12:00:00;8;60\n")
    assert read(path).gpus.tolist() == [8000]


def test_requeued_jobs_of_sacct_get_numbers(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    head = "JobID|State|Submit|Start|End|AllocTRES"
    rows = ["7|REQUEUED|2024-05-01T10:00:00|2024-05-01T10:00:00|2024-05-01T11:00:00|gres/gpu=2",
            "7|COMPLETED|2024-05-01T11:00:00|2024-05-01T12:00:00|2024-05-01T14:00:00|gres/gpu=2"]  # fmt: skip
    path.write_text("\n".join([head, *rows]) + "\n")
    trace = read(path)
    assert trace.job_id.tolist() == ["7", "7#2"]
    assert trace.duration.tolist() == [3_600_000, 7_200_000]


def test_a_mistake_in_a_third_partys_reader_is_reported(tmp_path: Path) -> None:
    class Broken:
        doc = "broken"

        @staticmethod
        def recognises(source: Source) -> bool:
            return True

        @staticmethod
        def read(source: Source) -> Trace:
            raise KeyError("gpu")

    (tmp_path / "x.log").write_text("hello\n")
    with pytest.raises(TraceError, match="reader 'Broken' failed \\(KeyError"):
        read(tmp_path / "x.log", Broken())


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str) -> None:
    """Install a package whose entry point offers a module as the reader ``lines``."""
    (folder / f"{module}.py").write_text(source)
    package = folder / f"{module}-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[shunter.readers]\nlines = {module}\n")
    monkeypatch.syspath_prepend(str(folder))


DECLARED = """
from shunter import Trace
from shunter.traces import Reader

def read(source):
    return Trace.of("lab", ["x"], submit=[0], duration=[60_000], gpus=[1000])

READER = Reader("lines", lambda source: False, read, {more})
"""


def test_a_declared_reader_gets_files_by_their_ending_and_out_of_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch, "lab_declared", DECLARED.format(more="endings=('.lab',), files=('jobs*.lab',)"))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "jobs-7.lab").write_text("x\n")
    assert read(tmp_path / "runs").job_id.tolist() == ["x"]
    assert read(tmp_path / "runs" / "jobs-7.lab").job_id.tolist() == ["x"]


def test_a_half_declared_reader_is_refused_with_the_part_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.log").write_text("hello\n")
    offer(tmp_path, monkeypatch, "lab_half", DECLARED.format(more="endings='.lab'"))
    with pytest.raises(TraceError, match=r"a reader's endings must be a tuple of texts .*got '.lab'"):
        read(tmp_path / "x.log", "lines")
    with pytest.raises(TraceError, match="'SimpleNamespace': a reader's read must be a function"):
        read(tmp_path / "x.log", types.SimpleNamespace(doc="", recognises=Lines.recognises, read=None))  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="lacks recognises, read"):
        read(tmp_path / "x.log", types.SimpleNamespace(doc=""))  # type: ignore[arg-type]


def test_names_that_mean_something_else_in_a_module_of_three_parts_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.log").write_text("hello\n")
    plain = (
        DECLARED.partition("READER")[0]
        + "doc = 'lines'\nfiles = endings = 3\n\ndef recognises(source):\n    return True\n"
    )
    offer(tmp_path, monkeypatch, "lab_plain", plain)
    assert read(tmp_path / "x.log").job_id.tolist() == ["x"]


def test_a_reader_that_fails_to_recognise_or_returns_no_trace_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.log").write_text("hello\n")
    with pytest.raises(TraceError, match=r"'Lines' failed \(TypeError: read must return a shunter.Trace, got list"):
        read(tmp_path / "x.log", type("Lines", (Lines,), {"read": staticmethod(lambda source: [])})())
    offer(tmp_path, monkeypatch, "lab_failing", DECLARED.format(more="").replace("False", "source.nothing"))
    with pytest.raises(TraceError, match=r"reader 'lines' failed \(AttributeError"):
        read(tmp_path / "x.log")


def test_sacct_without_its_first_line_gets_a_hint(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("7|ann|COMPLETED|2024-05-01T10:00:00|2024-05-01T11:00:00|gres/gpu=2\n")
    with pytest.raises(TraceError, match="export it without -n"):
        read(tmp_path / "jobs.txt")


def test_rows_in_another_order_are_sorted_and_that_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit,duration,gpus\na,10,60,1\nb,5,60,1\n")
    trace = read(path)
    assert trace.job_id.tolist() == ["b", "a"]
    assert trace.remarks == ("rows are not in order of submission: jobs were put in that order",)

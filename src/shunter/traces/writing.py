"""Writing traces: Parquet and CSV, both exact, or SWF for tools that read that; a file appears whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from shunter.errors import TraceError
from shunter.model import GPU, Column, Trace
from shunter.safe_files import whole
from shunter.traces.checks import RANGED, REQUIRED, Problems, check_ids, check_range, check_stored
from shunter.world import I64

SWF_STATUS = {"completed": 1, "failed": 0, "timeout": 0, "cancelled": 5}
SWF_KEPT = {"submit", "duration", "gpus", "user", "vc", "limit", "mem_gib", "after", "account", "job_name"}
SWF_KEPT |= {"recorded_wait", "outcome"}


def write(trace: Trace, path: Path) -> None:
    """Write ``trace`` in the format that the ending of ``path`` names."""
    import polars as pl

    put = writer_of(path)
    problems = Problems(path, np.arange(len(trace)), "job")
    check_ids(problems, pl.Series(trace.job_id.tolist(), dtype=pl.String))
    for name, about in Trace.columns().items():
        if about.scale:
            check_stored(problems, name, about, getattr(trace, name))
    check_range(problems, {name: getattr(trace, name) for name in ("gpus", *RANGED)})
    problems.raise_if_any()
    put(trace, path)


def writer_of(path: Path) -> Callable[[Trace, Path], None]:
    """The function that writes files with such an ending."""
    for ending, put in WRITERS.items():
        if path.name.lower().endswith(ending):
            return put
    raise TraceError(f"{path}: traces are written as {', '.join(WRITERS)}; give a name that ends in one of these")


def _parquet(trace: Trace, path: Path) -> None:
    from shunter.traces.readers import parquet

    parquet.write(trace, path)


def _csv(trace: Trace, path: Path) -> None:
    _put(path, csv_text(trace, path).encode())


def _swf(trace: Trace, path: Path) -> None:
    _put(path, swf_text(trace).encode())


WRITERS: dict[str, Callable[[Trace, Path], None]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".csv.gz": _csv,
    ".swf": _swf,
    ".swf.gz": _swf,
}


def _put(path: Path, data: bytes) -> None:
    """Write to another name first; packed where the name says so, always to the same bytes."""
    if path.suffix.lower() == ".gz":
        data = gzip.compress(data, 6, mtime=0)
    with whole(path, TraceError) as made:
        made.write_bytes(data)


# ------------------------------------------------------------------------------------------- CSV


def csv_text(trace: Trace, path: Path) -> str:
    """The documented CSV: the required columns and those in which something stands; defaults are empty fields."""
    columns = {"job_id": _names(path, "job_id", trace.job_id.tolist())}
    for name, about in Trace.columns().items():
        values = getattr(trace, name)
        if name not in REQUIRED and (values == about.default).all():
            continue
        if about.scale:
            columns[name] = _numbers(values, about, name in REQUIRED)
        else:
            names = trace.job_id.tolist() if name == "after" else getattr(trace, Trace.names_of(name))
            columns[name] = _taken(_names(path, name, names), values)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _numbers(values: I64, about: Column, required: bool) -> list[str]:
    """Numbers as people write them; as few digits as lead back to the same number inside."""
    whole, rest = np.divmod(values, about.scale)
    written = (whole + rest / about.scale).tolist()  # one division: exact to the last digit that counts
    texts = [repr(number).removesuffix(".0") for number in written]
    if not required:
        for row in np.flatnonzero(values == about.default).tolist():
            texts[row] = ""
    return texts


def _names(path: Path, column: str, names: Sequence[str]) -> list[str]:
    """Names that a CSV file can hold so that they come back the same."""
    for name in names:
        if not name or name != name.strip() or "\r" in name or "\0" in name:
            raise TraceError(
                f"{path}: a CSV can't hold the {column} {name!r}: names must not be empty, nor begin or end with a"
                " blank, nor hold a carriage return; write .parquet instead"
            )
    return list(names)


def _taken(names: list[str], codes: I64) -> list[str]:
    table = np.array([*names, ""], dtype=object)  # -1 reads the last
    taken: list[str] = table[codes].tolist()
    return taken


# ------------------------------------------------------------------------------------------- SWF


def swf_text(trace: Trace) -> str:
    """Standard Workload Format 2.2: GPUs as processors, whole seconds, jobs numbered from 1, names as numbers."""
    start = int(trace.submit[0]) if trace.dated or trace.submit[0] < 0 else 0
    gpus = -(-trace.gpus // GPU)
    unknown = np.full(len(trace), -1, np.int64)
    status = np.array([*(SWF_STATUS.get(name, -1) for name in trace.outcomes), -1], np.int64)
    fields = [
        np.arange(1, len(trace) + 1),
        _seconds(trace.submit - start // 1000 * 1000),
        np.where(trace.recorded_wait >= 0, _seconds(trace.recorded_wait), -1),
        _seconds(trace.duration),
        gpus,
        unknown,  # CPU time used
        unknown,  # memory used
        gpus,
        np.where(trace.limit > 0, _seconds(trace.limit), -1),
        np.where(trace.mem_gib > 0, -(-trace.mem_gib * 1024 // gpus), -1),  # KiB per processor
        status[trace.outcome],
        *(_numbered(codes) for codes in (trace.user, trace.account, trace.job_name)),
        unknown,  # queue
        _numbered(trace.vc),
        _numbered(trace.after),
        unknown,  # think time
    ]
    rows = np.column_stack(fields).tolist()
    lines = [*(f"; {line}" for line in _swf_header(trace, start)), *(" ".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def _swf_header(trace: Trace, start: int) -> list[str]:
    lost = [
        name
        for name, about in Trace.columns().items()
        if name not in SWF_KEPT and (getattr(trace, name) != about.default).any()
    ]
    lines = [
        "Version: 2.2",
        f"Computer: {_one_line(trace.name)}",
        f"MaxJobs: {len(trace)}",
        f"MaxRecords: {len(trace)}",
    ]
    if trace.dated:
        lines += [f"UnixStartTime: {start // 1000}", "TimeZoneString: UTC"]
    lines.append("Note: processors are GPUs; this format has none of its own")
    if (trace.gpus % GPU != 0).any():
        lines.append("Note: shares of a GPU are rounded up to one")
    lines.append("Note: times are whole seconds; users, groups and names are numbers")
    lines += [f"Note: left out, having no field here: {', '.join(lost)}"] if lost else []
    lines += [f"Partition: {code} {_one_line(name)}" for code, name in enumerate(trace.vcs, 1)]
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _seconds(ms: I64) -> I64:
    return (ms + 500) // 1000


def _numbered(codes: I64) -> I64:
    """Codes from 0 as numbers from 1; none is -1."""
    return np.where(codes >= 0, codes + 1, -1)

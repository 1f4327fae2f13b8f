"""The documented CSV: one job per line; ``job_id, submit, duration, gpus`` required, every other trace column optional.

Seconds, GPUs, cores and GiB; an empty field takes the column's default; ``after`` holds the job_id of another job.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.errors import TraceError, did_you_mean
from shunter.model import Column, Trace
from shunter.traces.checks import (
    REMEDIES,
    REQUIRED,
    SHOWN,
    Problems,
    check_ids,
    number_is_wrong,
    requirement,
    rows_of_after,
)
from shunter.world import I64

if TYPE_CHECKING:
    import polars as pl


def read(path: Path) -> Trace:
    """Read a ``.csv`` or ``.csv.gz`` file."""
    text = _text(path)
    table, lines = _quoted_table(path, text) if b'"' in text else _plain_table(path, text)
    if not len(table):
        raise TraceError(f"{path}: there is a header but no job; add a line per job")
    problems = Problems(path, lambda row: int(lines[row]))
    ids = table["job_id"].to_list()
    row_of = check_ids(problems, ids)
    given: dict[str, Any] = {}
    for name, about in Trace.columns().items():
        if name not in table.columns:
            continue
        if name == "after":
            given[name] = rows_of_after(problems, table[name].to_list(), row_of)
        elif about.scale:
            given[name] = _numbers(problems, name, about, table[name])
        else:
            given[name], given[Trace.names_of(name)] = _codes(table[name])
    problems.raise_if_any()
    return Trace.of(path.name.removesuffix(".gz").removesuffix(".csv"), ids, **given)


def _text(path: Path) -> bytes:
    """The whole file, unpacked, with plain line ends, known to be UTF-8."""
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(
            f"{path}: the gzip data is damaged or cut off ({error}); fetch or pack the file again"
        ) from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error}); check the path and its permissions") from None
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    if not data.strip():
        raise TraceError(f"{path}: the file is empty; it needs a header with {', '.join(REQUIRED)} and a line per job")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(
            f"{path} line {line}: text must be UTF-8, got the byte {data[error.start]:#04x}; save the file as UTF-8"
        ) from None
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise TraceError(f"{path} line {line}: a zero byte is no text; is this a CSV file?")
    return data


def _plain_table(path: Path, data: bytes) -> tuple[pl.DataFrame, I64]:
    """The fields of a file without quotes, and the line of each row; the fast way."""
    import polars as pl

    data = data if data.endswith(b"\n") else data + b"\n"
    content = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(content == ord("\n"))
    starts = np.append(0, ends[:-1] + 1)
    lines = np.flatnonzero(ends > starts)  # lines with something on them
    commas = np.searchsorted(np.flatnonzero(content == ord(",")), ends)
    fields = np.diff(commas, prepend=0)[lines] + 1
    header = data[starts[lines[0]] : ends[lines[0]]].decode().split(",")
    names = _columns(path, header, int(lines[0]) + 1)
    rows = lines[1:]
    _check_widths(path, fields[1:], rows + 1, len(names))
    if len(lines) < len(ends):  # polars would make a row of an empty line
        keep = np.repeat(np.isin(np.arange(len(ends)), rows), ends - starts + 1)
        body = content[keep].tobytes()
    else:
        body = data[ends[0] + 1 :]
    if not len(rows):
        return pl.DataFrame({name: [] for name in names}, schema=dict.fromkeys(names, pl.String)), rows
    table = pl.read_csv(body, has_header=False, new_columns=names, infer_schema=False, quote_char=None)
    return _stripped(table), rows + 1


def _quoted_table(path: Path, data: bytes) -> tuple[pl.DataFrame, I64]:
    """The same for a file with quotes, which may hold commas and line ends; slower, by the standard reader."""
    import polars as pl

    rows, lines, line = [], [], 1
    records = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    try:
        for record in records:
            if record:
                rows.append(record)
                lines.append(line)
            line = records.line_num + 1
    except csv.Error as error:
        raise TraceError(f"{path} line {line}: {error}; close every quote, and double a quote inside a field") from None
    names = _columns(path, rows[0], lines[0])
    at = np.array(lines[1:], np.int64)
    _check_widths(path, np.array([len(row) for row in rows[1:]], np.int64), at, len(names))
    table = pl.DataFrame(rows[1:], schema=dict.fromkeys(names, pl.String), orient="row")
    return _stripped(table), at


def _stripped(table: pl.DataFrame) -> pl.DataFrame:
    """Without blanks around the fields; an empty field is null."""
    import polars as pl

    bare = pl.all().str.strip_chars()
    return table.select(pl.when(bare != "").then(bare).name.keep())


def _columns(path: Path, header: list[str], line: int) -> list[str]:
    """The names of the columns, all known, none twice, none missing."""
    names = [name.strip() for name in header]
    known = ["job_id", *Trace.columns()]
    unknown = [name for name in names if name not in known]
    wrong = [f"column '{name}' is not known; {did_you_mean(name, known)}" for name in unknown[:1]]
    wrong += [
        f"column '{name}' is not known; {did_you_mean(name, known).partition('known:')[0]}" for name in unknown[1:SHOWN]
    ]
    wrong += [f"and {len(unknown) - SHOWN} more unknown columns"] if len(unknown) > SHOWN else []
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        wrong.append(
            f"required columns are missing: {', '.join(missing)}; the first line must name the columns, with commas"
        )
    wrong += [f"column '{name}' must occur once; remove one" for name in dict.fromkeys(names) if names.count(name) > 1]
    if wrong:
        raise TraceError("\n  ".join([f"{path} line {line}: " + wrong[0], *wrong[1:]]))
    return names


def _check_widths(path: Path, fields: I64, lines: I64, wanted: int) -> None:
    """Every row must have as many fields as the header."""
    problems = Problems(path, lambda row: int(lines[row]))
    problems.add(
        fields != wanted,
        lambda row: (
            f"must have {wanted} fields like the header, got {fields[row]}; "
            "add the missing commas, or quote a field that holds one"
        ),
    )
    problems.raise_if_any()


def _numbers(problems: Problems, name: str, about: Column, texts: pl.Series) -> I64:
    """A column of numbers in internal units."""
    import polars as pl

    values = texts.cast(pl.Float64, strict=False).to_numpy()  # what is no number becomes NaN
    empty = texts.is_null().to_numpy()
    optional = empty & (name not in REQUIRED)
    wrong = number_is_wrong(name, about, values) & ~optional
    must = requirement(name, about)
    remedy = REMEDIES.get(name, "correct it, or leave it empty")

    def tell(row: int) -> str:
        if empty[row]:
            return f"{name} {must}, got an empty field; fill it in"
        return f"{name} {must}, got {texts[row][:60]!r}; {remedy}"

    problems.add(wrong, tell)
    inside = np.rint(np.where(wrong | optional, 0, values) * about.scale).astype(np.int64)
    return np.where(optional, about.default, inside)


def _codes(texts: pl.Series) -> tuple[I64, tuple[str, ...]]:
    """A column of names as codes in order of first appearance, -1 for none, and the names."""
    encoded = texts.to_arrow().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, tuple(encoded.dictionary.to_pylist())


def line_of(path: Path, job_id: str) -> int | None:
    """The line of a job in a file that was read before, for messages."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        rows = csv.reader(text)
        column = [name.strip() for name in next(rows)].index("job_id")
        return next((rows.line_num for row in rows if len(row) > column and row[column].strip() == job_id), None)

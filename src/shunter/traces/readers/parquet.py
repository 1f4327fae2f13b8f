"""Shunter's own trace file: Parquet, every column typed, exact, with the format's version inside.

Times are int64 milliseconds (UTC where they are absolute), GPUs thousandths, CPUs milli-cores, memory MiB; user, vc,
gpu_type and model are text, ``after`` is a job_id.  The key-value metadata hold ``shunter.version``, ``shunter.name``
and, as JSON, the names behind each column of names, so that codes and with them the digest survive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.errors import TraceError
from shunter.model import Column, Trace
from shunter.safe_files import NotAFileError, TooLargeError, check_parquet, most_parsed, opened, whole, with_texts
from shunter.traces import column_names, frames
from shunter.traces.checks import REQUIRED, Problems, brief, check_ids, check_range, check_stored, rows_of_after
from shunter.traces.readers import Reader
from shunter.traces.source import Source
from shunter.traces.tabular import trace_of
from shunter.world import I64

if TYPE_CHECKING:
    import polars as pl

VERSION = 1
REMEDY = "make it again with shunter, or give the table as CSV"


def write(trace: Trace, path: Path) -> None:
    """Write ``trace`` to ``path``: the whole file, or nothing."""
    import pyarrow.parquet as pq

    table = _table(trace)
    with whole(path, TraceError) as made:
        pq.write_table(table, made, compression="zstd", write_page_checksum=True)


def _table(trace: Trace) -> Any:
    import pyarrow as pa

    columns = {"job_id": pa.array(trace.job_id.tolist(), pa.string())}
    metadata = {"shunter.version": str(VERSION), "shunter.name": trace.name}
    metadata["shunter.remarks"] = json.dumps([brief(remark) for remark in trace.remarks])
    for name, about in Trace.columns().items():
        values = getattr(trace, name)
        if name == "after":
            columns[name] = _text(values, trace.job_id.tolist())
        elif about.scale:
            columns[name] = pa.array(values)
        else:
            names = getattr(trace, Trace.names_of(name))
            columns[name] = _text(values, names)
            metadata[f"shunter.{Trace.names_of(name)}"] = json.dumps(names)
    return pa.table(columns).replace_schema_metadata(metadata)


def _text(codes: I64, names: Any) -> Any:
    """The names behind the codes; -1 is null."""
    import pyarrow as pa

    indices = pa.array(codes, mask=codes < 0)
    return pa.array(list(names), pa.string()).take(indices)


def recognises(source: Source) -> bool:
    """By its first bytes."""
    return source.head.startswith(b"PAR1")


def read(source: Source) -> Trace:
    """Read a trace that ``write`` wrote, or any table."""
    path = source.path
    if not _is_ours(source):
        frame, others = _frame(source)
        table = frames.table_of(source, frame)
        table.unread = others
        return trace_of(table, source.given, line=0)
    table, metadata = _load(path)
    fields = set(table.column_names)
    parts = (("missing", set(REQUIRED) - fields), ("unknown", fields - {"job_id", *Trace.columns()}))
    differs = "; ".join(f"{what}: {', '.join(sorted(names))}" for what, names in parts if names)
    if differs:
        raise TraceError(f"{path}: must have the columns of a trace, but {differs}; {REMEDY}")
    if not table.num_rows:
        raise TraceError(f"{path}: there is no job in it; {REMEDY}")
    problems = Problems(path, np.arange(1, table.num_rows + 1), "row")
    ids = _strings(path, table, "job_id")
    check_ids(problems, ids)
    given: dict[str, Any] = {}
    for name, about in Trace.columns().items():
        if name not in fields:
            continue  # written before there was such a column
        if name == "after":
            given[name] = rows_of_after(problems, _strings(path, table, name), ids)
        elif about.scale:
            given[name] = _integers(problems, name, about, table)
        else:
            names = _names(path, metadata, Trace.names_of(name))
            given[Trace.names_of(name)] = names
            given[name] = _codes(problems, name, _strings(path, table, name), names)
    check_range(problems, given)
    problems.raise_if_any()
    if "shunter.remarks" in metadata:  # else written before there were any
        given["remarks"] = _names(path, metadata, "remarks")
    return Trace.of(metadata["shunter.name"], ids.to_list(), **given)


def _is_ours(source: Source) -> bool:
    """Whether a trace of shunter's is in the file, as far as its metadata say; what is damaged is reported as such."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with opened(source.path) as file:
            found = pq.read_schema(file).metadata or {}
        return not source.given and any(key.startswith(b"shunter.") for key in found)
    except (pa.ArrowException, OSError, UnicodeDecodeError, NotAFileError, TooLargeError):
        return True


def _frame(source: Source) -> tuple[pl.DataFrame, list[str]]:
    """The columns of a user's table that are known, if they fit the size limit; and the names of the others."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = source.path
    try:
        check_parquet(path, most_parsed())
        fields = pq.read_schema(path)
        wanted = set(column_names.wanted(fields.names, source.given, path))
        known = [field for field in fields if field.name in wanted]
        texts = [field.name for field in known if _is_text(field.type)]
        flat = [field.name for field in known if _is_plain(field.type)]
        table = pq.read_table(path, columns=flat, partitioning=None, read_dictionary=texts)
        table = with_texts(table, most_parsed())
        table.validate(full=True)
        found = pl.from_arrow(table)
    except TooLargeError as error:
        raise TraceError(f"{path}: {error}; split the trace into several files") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise TraceError(f"{path}: is not a whole Parquet file ({reason}); fetch or write it again") from None
    assert isinstance(found, pl.DataFrame)
    return found, column_names.without(fields.names, found.columns)


def _is_plain(kind: Any) -> bool:
    """Whether a column holds numbers, texts or times as any table may; polars may panic on other types."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_text(kind)
    tests = [types.is_integer, types.is_float32, types.is_float64, types.is_boolean, types.is_null, types.is_decimal128]
    tests += [types.is_string, types.is_large_string, types.is_timestamp, types.is_duration, types.is_date]
    return any(test(kind) for test in tests)


def _is_text(kind: Any) -> bool:
    """Whether a column holds texts, each by itself or as a number in a list of them."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _load(path: Path) -> tuple[Any, dict[str, str]]:
    """The table and its metadata, if this is a trace of a version that we know."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        check_parquet(path, most_parsed())
        schema = pq.read_schema(path)
        for field in schema:
            if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
                raise TraceError(f"{path}: column '{field.name}' must hold text, got {field.type}; {REMEDY}")
        texts = [each.name for each in schema if pa.types.is_string(each.type) or pa.types.is_large_string(each.type)]
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True, read_dictionary=texts)
        table = with_texts(table, most_parsed())
        table.validate(full=True)  # text must be UTF-8
        table.column_names  # noqa: B018  names too; pyarrow decodes them here
        found = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    except TooLargeError as error:
        raise TraceError(f"{path}: {error}; split the trace into several files") from None
    except NotAFileError as error:
        raise TraceError(f"{path}: {error}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise TraceError(f"{path}: is not a whole Parquet file ({reason}); fetch or write it again") from None
    version = found.get("shunter.version")
    if version is None or "shunter.name" not in found:
        raise TraceError(f"{path}: has no shunter.version in its metadata, so it is no trace of shunter's; {REMEDY}")
    if version not in {str(known) for known in range(1, VERSION + 1)}:
        raise TraceError(
            f"{path}: shunter.version must be 1 to {VERSION}, got '{version[:40]}'; "
            "read it with the shunter that wrote it, or a newer one"
        )
    return table, found


def _strings(path: Path, table: Any, name: str) -> pl.Series:
    import polars as pl
    import pyarrow as pa

    kind = table.schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise TraceError(f"{path}: column '{name}' must hold text, got {kind}; {REMEDY}")
    texts = pl.from_arrow(table[name])
    assert isinstance(texts, pl.Series)
    return texts


def _integers(problems: Problems, name: str, about: Column, table: Any) -> I64:
    import pyarrow as pa

    kind = table.schema.field(name).type
    if kind != pa.int64():
        raise TraceError(f"{problems.path}: column '{name}' must be int64, got {kind}; {REMEDY}")
    problems.add(table[name].is_null().to_numpy(), f"{name} must not be empty", lambda row: f"but is; {REMEDY}")
    problems.raise_if_any()
    values: I64 = table[name].to_numpy()
    check_stored(problems, name, about, values)
    return values


def _names(path: Path, metadata: Mapping[str, str], key: str) -> tuple[str, ...]:
    try:
        names = json.loads(metadata[f"shunter.{key}"])
    except (KeyError, ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TraceError(f"{path}: shunter.{key} in the metadata must be a JSON list of names; {REMEDY}")
    return tuple(names)


def _codes(problems: Problems, column: str, texts: pl.Series, names: tuple[str, ...]) -> I64:
    import polars as pl

    known = pl.DataFrame({"name": names, "code": np.arange(len(names))}, schema={"name": pl.String, "code": pl.Int64})
    known = known.unique("name", keep="last")
    found = pl.DataFrame({"name": texts}).join(known, on="name", how="left", maintain_order="left")["code"]
    codes = np.where(texts.is_null().to_numpy(), -1, found.fill_null(-2).to_numpy())
    must = f"{column} must be a name in the file's metadata"
    problems.add(codes == -2, must, lambda row: f"got '{texts[row]}'; {REMEDY}")
    return codes


READER = Reader("shunter's own, exact and fast; or any table", recognises, read, endings=(".parquet",))

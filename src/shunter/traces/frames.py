"""Frames with typed columns as tables of text, which are checked like any file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.errors import TraceError
from shunter.traces.source import Source
from shunter.traces.table import Table

if TYPE_CHECKING:
    import polars as pl

REMEDY = "pass a polars or pandas DataFrame, a path, or a Trace"


def table_of(source: Source, frame: pl.DataFrame) -> Table:
    """The table of a frame; rows are counted from 1, and nested columns are left out."""
    if not len(frame):
        raise TraceError(f"{source.path}: there is no job in it; add a row per job")
    source.separator = ","  # of nothing: commas in a text of it group thousands
    return Table(source, as_text(frame), np.arange(1, len(frame) + 1), "row")


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with all columns as text: times as dates, spans in seconds, and no number where there is none."""
    import polars as pl

    texts = {name: _text(frame[name]) for name in frame.columns}
    return pl.DataFrame({name: text for name, text in texts.items() if text is not None})


def _text(column: pl.Series) -> pl.Series | None:
    import polars as pl

    kind = column.dtype
    if isinstance(kind, pl.Datetime):
        zone = "Z" if kind.time_zone else ""
        utc = column.dt.convert_time_zone("UTC") if zone else column
        return utc.dt.strftime(f"%Y-%m-%d %H:%M:%S%.3f{zone}")
    if isinstance(kind, pl.Duration):
        return (column.dt.total_milliseconds() / 1000).cast(pl.String)
    if kind.is_float():
        return column.fill_nan(None).cast(pl.String)
    if kind.is_nested() or kind in (pl.Object, pl.Binary):
        return None
    return column.cast(pl.String)


def polars_frame(given: Any) -> pl.DataFrame:
    """A frame of polars, or one of pandas made into one; what pandas keeps as an index counts if it has a name."""
    import polars as pl

    if isinstance(given, pl.DataFrame):
        return given
    if isinstance(given, pl.LazyFrame):
        return given.collect()
    if not hasattr(given, "to_csv"):
        raise TraceError(f"a trace can't be made of {type(given).__name__}; {REMEDY}")
    named = any(name is not None for name in given.index.names)
    return pl.read_csv(io.StringIO(given.to_csv(index=named)), infer_schema=False)


def source_of(name: str) -> Source:
    """A source without a file, for messages."""
    return Source(Path(name), "table")

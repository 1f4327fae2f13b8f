"""Delimited text into a ``Table``: any separator, with or without a header, quoted or not, every row with its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.traces.source import Source
from shunter.traces.table import Table
from shunter.world import I64

if TYPE_CHECKING:
    import polars as pl

Bytes: TypeAlias = NDArray[np.uint8]
HeaderCheck: TypeAlias = Callable[[Source, list[str], int], None]  # names and line; raises if they won't do
QUOTE, LINE_END = ord('"'), ord("\n")


@dataclass(frozen=True)
class Lines:
    """The lines of a file that hold something: their numbers, how many fields each has, and the way to the fields."""

    numbers: I64
    widths: I64
    fields: Callable[[NDArray[np.bool_], list[str]], pl.DataFrame]  # of the chosen lines, which must fit the names


def read_table(
    source: Source,
    required: Sequence[str] | HeaderCheck = (),
    separator: str = "",
    header: Sequence[str] = (),
    text: bytes = b"",
    quotes: bool = True,
) -> Table:
    """The table in a file, with the separator that its first line shows if none is given.

    ``required``: fields that its first line must name (or a function that looks at them), or ``header``: the fields of
    a file without such a line; ``text``: the file's text, if the reader prepared it; ``quotes``: fields may have them.
    """
    separator = separator or ("," if header else source.separator)
    lines = _lines(source, text or source.text(), separator, quotes)
    rows = np.ones(len(lines.numbers), np.bool_)
    names = list(header)
    if not header:
        names = _header(source, lines, required)
        rows[0] = False
        if not rows.any():
            raise TraceError(f"{source.path}: there is a header but no job; add a line per job")
    fits = rows & (lines.widths == len(names))
    table = Table(source, lines.fields(fits, names), lines.numbers[fits])
    wrong = rows & ~fits
    widths = lines.widths[wrong]
    table.problems.add_lines(
        lines.numbers[wrong],
        f"a line must have {len(names)} fields" + ("" if header else " like the header"),
        lambda at: (
            f"got {widths[at]}; "
            + (
                f"add the missing '{separator}'"
                if widths[at] < len(names)
                else f"{'quote' if quotes else 'correct'} a field that holds a '{separator}', or leave out that column"
            )
        ),
    )
    return table


def single_spaced(text: bytes, comment: str) -> bytes:
    """Text with one blank between fields where there were several, and nothing on lines that are comments."""
    content = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    blank = np.isin(content, np.frombuffer(b" \t\r", np.uint8))
    after_edge = np.append(True, blank[:-1] | (content[:-1] == LINE_END))
    content = np.where(blank, np.uint8(ord(" ")), content)[~(blank & after_edge)]
    before_end = np.append(content[1:] == LINE_END, True)
    content = content[~((content == ord(" ")) & before_end)]
    ends = np.flatnonzero(content == LINE_END)
    remark = np.append(content[ends[:-1] + 1] == ord(comment), False)
    kept: Bytes = content[~np.repeat(remark, np.diff(ends, append=len(content))) | (content == LINE_END)]
    return bytes(kept.tobytes()[1:])


def _header(source: Source, lines: Lines, required: Sequence[str] | HeaderCheck) -> list[str]:
    """The names of the fields, none twice, none missing."""
    first = np.arange(len(lines.numbers)) == 0
    written = lines.fields(first, [str(at) for at in range(lines.widths[0])]).row(0)
    names, line = [(name or "").strip() for name in written], int(lines.numbers[0])
    if callable(required):
        required(source, names, line)
    elif missing := [name for name in required if name not in names]:
        raise source.lacks(line, missing)
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise TraceError(f"{source.path} line {line}: column '{twice[0]}' must occur once; remove one")
    return names


def _lines(source: Source, data: bytes, separator: str, quotes: bool) -> Lines:
    data = data if data.endswith(b"\n") else data + b"\n"
    content = np.frombuffer(data, np.uint8)
    if not quotes or b'"' not in data:
        return _plain(content, content == ord(separator), separator, None)
    inside: Bytes = np.cumsum(content == QUOTE, dtype=np.uint8) & np.uint8(1)  # an odd number of quotes before
    if _is_tidy(content, inside, separator):
        return _plain(content, (content == ord(separator)) & (inside == 0), separator, '"')
    return _untidy(source, data, separator)


def _plain(content: Bytes, separates: NDArray[np.bool_], separator: str, quote: str | None) -> Lines:
    """Of a file in which every line is a row; the fast way."""
    ends = np.flatnonzero(content == LINE_END)
    starts = np.append(0, ends[:-1] + 1)
    used = np.flatnonzero(ends > starts)  # lines with something on them
    widths = np.diff(np.searchsorted(np.flatnonzero(separates), ends), prepend=0)[used] + 1

    def fields(chosen: NDArray[np.bool_], names: list[str]) -> pl.DataFrame:
        import polars as pl

        if not chosen.any():
            return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        wanted = np.zeros(len(ends), np.bool_)
        wanted[used[chosen]] = True
        body = content if wanted.all() else content[np.repeat(wanted, ends - starts + 1)]
        options = {"has_header": False, "infer_schema": False, "separator": separator, "quote_char": quote}
        return pl.read_csv(body.tobytes(), new_columns=names, **options)  # type: ignore[arg-type]

    return Lines(used + 1, widths, fields)


def _is_tidy(content: Bytes, inside: Bytes, separator: str) -> bool:
    """Whether quotes stand only around whole fields (and doubled in them), and none of these goes over a line end."""
    if inside[-1] or inside[content == LINE_END].any():
        return False
    at = np.flatnonzero(content == QUOTE)
    edges = np.array([QUOTE, LINE_END, ord(separator)], np.uint8)
    opening, closing = at[0::2], at[1::2]
    before = content[opening - 1]
    before[opening == 0] = LINE_END
    return bool(np.isin(before, edges).all() and np.isin(content[closing + 1], edges).all())


def _untidy(source: Source, data: bytes, separator: str) -> Lines:
    """Of a file whose fields may hold line ends; slower, by the standard reader."""
    rows, numbers, line = [], [], 1
    records = csv.reader(io.StringIO(data.decode(), newline=""), delimiter=separator, strict=True)
    try:
        for record in records:
            if record:
                rows.append(record)
                numbers.append(line)
            line = records.line_num + 1
    except csv.Error as error:
        raise TraceError(
            f"{source.path} line {line}: {error}; close every quote, and double a quote inside a field"
        ) from None

    def fields(chosen: NDArray[np.bool_], names: list[str]) -> pl.DataFrame:
        import polars as pl

        some = [rows[at] for at in np.flatnonzero(chosen)]
        return pl.DataFrame(some, schema=dict.fromkeys(names, pl.String), orient="row")

    return Lines(np.array(numbers, np.int64), np.array([len(row) for row in rows], np.int64), fields)

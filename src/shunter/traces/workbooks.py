"""Spreadsheets (xlsx): the first sheet of a workbook as a table."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import extras
from shunter.errors import TraceError
from shunter.safe_files import TooLargeError, check_size, most_parsed, opened, unpacked
from shunter.traces.table import Table

if TYPE_CHECKING:
    from shunter.traces.source import Source

MAGIC = b"PK\x03\x04"  # of a zip archive, which a workbook is
CELL = re.compile(rb"""\br=["']([A-Z]{1,3})(\d{1,7})["']""")
CELL_BYTES = 64  # of a cell in memory, at least
REMEDY = "save it again, or save the sheet as CSV"


def is_one(head: bytes) -> bool:
    """Whether a file that begins so may be a workbook."""
    return head.startswith(MAGIC)


def table_of(source: Source) -> Table:
    """The first sheet: its first row names the columns."""
    import polars as pl

    rows = _rows(source)
    if len(rows) < 2:
        raise TraceError(f"{source.path}: there is no job in its first sheet; it must have a header and a row per job")
    names = [_text(value) or "" for value in rows[0]]
    kept = [at for at, name in enumerate(names) if name]
    if len({names[at] for at in kept}) < len(kept):
        raise TraceError(f"{source.path} row 1: every column must have another name; rename one")
    columns = {names[at]: [_text(row[at]) for row in rows[1:]] for at in kept}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    filled = np.array([any(value != "" for value in row) for row in rows[1:]], np.bool_)
    return Table(source, frame.filter(filled), np.flatnonzero(filled) + 2, "row")


def _rows(source: Source) -> list[list[Any]]:
    """The cells of the first sheet."""
    calamine = extras.load("python_calamine", "reading a spreadsheet")
    try:
        with opened(source.path) as file:
            data = file.read()
        _check(data)
        return list(calamine.CalamineWorkbook.from_object(io.BytesIO(data)).get_sheet_by_index(0).to_python())
    except TooLargeError as error:
        raise TraceError(f"{source.path}: {error}; save a part of it as CSV") from None
    except (
        zipfile.BadZipFile,
        calamine.CalamineError,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise TraceError(f"{source.path}: is no workbook that can be read ({error}); {REMEDY}") from None
    except (IndexError, ValueError, OSError) as error:
        raise TraceError(f"{source.path}: is no workbook that can be read ({error}); {REMEDY}") from None


def _check(data: bytes) -> None:
    """Refuse a workbook that unpacks to too much, or whose cells are so far apart that a table of them is too large."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        left = most_parsed()
        for name in archive.namelist():
            with archive.open(name) as member:
                content = unpacked(member.read)
            left -= len(content)
            check_size(most_parsed() - left, most_parsed())
            if name.startswith("xl/worksheets/"):
                rows, columns = _extent(content)
                check_size(rows * columns * CELL_BYTES, most_parsed())


def _extent(sheet: bytes) -> tuple[int, int]:
    """The last row and column that a sheet names."""
    rows = columns = 1
    for letters, row in CELL.findall(sheet):
        rows = max(rows, int(row))
        columns = max(columns, _number(letters))
    return rows, columns


def _number(letters: bytes) -> int:
    """A=1, Z=26, AA=27."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _text(value: Any) -> str | None:
    """A cell as text; whole numbers without a point."""
    if value == "" or value is None:
        return None
    if isinstance(value, timedelta):
        return str(value.total_seconds())
    if isinstance(value, time):  # spreadsheets have no spans below a day but these
        return value.isoformat()
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).strip() or None

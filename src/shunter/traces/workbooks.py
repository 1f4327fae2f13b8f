"""Spreadsheets (xlsx): the first sheet of a workbook as a table."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from datetime import date, datetime, time, timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import numpy as np

from shunter import extras
from shunter.errors import TraceError
from shunter.safe_files import TooLargeError, check_size, most_parsed, opened, unpacked
from shunter.traces.table import Table

if TYPE_CHECKING:
    from shunter.traces.source import Source

MAGIC = b"PK\x03\x04"  # of a zip archive, which a workbook is
OTHER_KINDS = ("workbook.bin", "content.xml")  # parts of xlsb and ods, which the library would read too
XML = (".xml", ".rels")
MARKS = (b"sheetData", b"<si")  # of a part with cells or texts, whatever its name
CELL = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")
ROW = re.compile(r"()([0-9]{1,7})")
CELL_BYTES = 64  # of a cell in memory, at least
UNREADABLE = (  # what zipfile and calamine raise for broken files
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, IndexError, ValueError, OSError),
)
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
    except (calamine.CalamineError, *UNREADABLE) as error:
        raise TraceError(f"{source.path}: is no workbook that can be read ({error}); {REMEDY}") from None


def _check(data: bytes) -> None:
    """Refuse a workbook that unpacks to too much, or whose cells stand for more than they are."""
    most, size, measured = most_parsed(), 0, list[Measured]()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            name = member.filename.lower()
            if name.endswith(OTHER_KINDS):
                raise ValueError(f"it holds {member.filename[:80]}, as other kinds of spreadsheets do")
            with archive.open(member) as file:
                content = unpacked(file.read)
            size += len(content)
            check_size(size, most)
            if name.endswith(XML) or any(mark in content for mark in MARKS):
                measured.append(Measured(content, name))
    _check_texts([each.texts for each in measured if each.texts], [each.uses for each in measured])


def _check_texts(lists: list[list[int]], sheets: list[Counter[str]]) -> None:
    """Refuse a sheet that repeats long texts too often: each stands once in the file, however often it is used."""
    longest = [max(sizes) for sizes in zip_longest(*lists, fillvalue=0)]
    for uses in sheets:
        known = {text: int(text) for text in uses if text.isascii() and text.isdigit() and len(text) < 10}
        if len(known) < len(uses) or max(known.values(), default=-1) >= len(longest):
            raise ValueError("a cell names a text that is not there")
        check_size(sum(longest[known[text]] * times for text, times in uses.items()), most_parsed())


class Measured:
    """How far the cells of a part of a workbook reach, and which texts they use; a well-formed part in UTF-8 alone."""

    def __init__(self, content: bytes, name: str) -> None:
        self.rows = self.columns = 0
        self.texts: list[int] = []  # how long the texts are that cells name by a number
        self.uses: Counter[str] = Counter()  # how often cells name each
        self._row = self._column = 0
        self._shared = False  # in a cell that names a text
        self._index: list[str] | None = None  # pieces of its number
        parser = expat.ParserCreate("utf-8")  # whatever the part declares: the library that reads it uses the bytes
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler, parser.EndElementHandler = self._begin, self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise ValueError(f"{name[:80]}: {error}") from None
        check_size(self.rows * self.columns * CELL_BYTES, most_parsed())

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        kind = _local(name)
        if kind == "row":
            self._row, self._column = max(self._row + 1, self._place(attributes, ROW)[1]), 0
            self.rows = max(self.rows, self._row)
        elif kind == "c":
            column, row = self._place(attributes, CELL)
            self._column = max(self._column + 1, column)
            self.rows, self.columns = max(self.rows, row), max(self.columns, self._column)
            self._shared = any(_local(key) == "t" and value == "s" for key, value in attributes.items())
        elif kind == "v" and self._shared:
            self._index = []
        elif kind == "si":
            self.texts.append(0)

    @staticmethod
    def _place(attributes: dict[str, str], looks: re.Pattern[str]) -> tuple[int, int]:
        """The column and the row that a cell or a row names; 0: none."""
        text = next((value for key, value in attributes.items() if _local(key) == "r"), None)
        found = looks.fullmatch(text) if text is not None else None
        if text is not None and found is None:
            raise ValueError(f"a cell is called '{text[:40]}'")
        return (_number(found[1]), int(found[2])) if found else (0, 0)

    def _characters(self, text: str) -> None:
        if self._index is not None:
            self._index.append(text[:20])
        elif self.texts:
            self.texts[-1] += len(text)

    def _end(self, name: str) -> None:
        kind = _local(name)
        if kind == "v" and self._index is not None:
            self.uses["".join(self._index[:20]).strip()] += 1
            self._index = None
        elif kind == "c":
            self._shared = False


def _refuse(*_: object) -> None:
    raise ValueError("it has a DOCTYPE, which no spreadsheet needs")


def _local(name: str) -> str:
    """The name of an element or attribute, without its prefix."""
    return name.rpartition(":")[2].lower()


def _number(letters: str) -> int:
    """A=1, Z=26, AA=27; 0 for none."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
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

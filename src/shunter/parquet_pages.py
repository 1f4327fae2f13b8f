"""The headers of the pages of a Parquet file: what its pages unpack to, whatever its footer says.

A footer is written by whoever made the file, and readers make room for a page by what its own header says.  Headers are
in Thrift's compact protocol, of which this reads as much as they need.
"""

from __future__ import annotations

from typing import Any, BinaryIO

FIRST_READ, LONGEST = 2**10, 2**24  # bytes of a header; readers take no longer one
DEEPEST, MOST_FIELDS = 8, 100  # structs in one another; fields of all
LEAST_OF_PAGE = 256  # bytes that a page counts for at least: many empty ones take long, too
SIZES = {3: 1, 7: 8, 13: 16}  # bytes of a number or a UUID, by its type
WHOLE = (4, 5, 6)
YES, NO, BINARY, STRUCT = 1, 2, 8, 12  # yes and no are in the type of a field
TYPE, UNPACKED, PACKED = 1, 2, 3  # fields of the header of a page
VALUES = {0: 5, 3: 8}  # by the type of a page: the field whose first one says how many values it has
ENCODING = {0: 2, 3: 4}  # ... and which of its fields says how they are written
PREFIXES = 7  # the encoding in which values share the beginning of the one before: a small page may hold any amount

Fields = dict[int, Any]  # whole numbers and structs


def unpacked_bytes(file: BinaryIO, footer: Any, most: int) -> int:
    """What all pages unpack to, as far as they are read; counting ends beyond ``most``."""
    total = 0
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        for column in range(footer.num_columns):
            total += _of_chunk(file, group.column(column), most - total)
            if total > most:
                return total
    return total


def _of_chunk(file: BinaryIO, chunk: Any, most: int) -> int:
    """The pages of one column of one group of rows; those behind its last value are not read by anyone."""
    begin, first = chunk.data_page_offset, chunk.dictionary_page_offset
    at = first if first is not None and 0 < first < begin else begin
    end, total, values = at + chunk.total_compressed_size, 0, 0
    while at < end and values < chunk.num_values and total <= most:
        header, length = _header(file, at)
        kind, unpacked, packed = (_number(header, field) for field in (TYPE, UNPACKED, PACKED))
        count = _number(header.get(VALUES[kind]), 1) if kind in VALUES else 0
        if min(unpacked, packed, count) < 0:
            raise OSError("the header of a page is damaged")
        if kind in VALUES and _number(header[VALUES[kind]], ENCODING[kind]) == PREFIXES:
            raise OSError("a column is written as DELTA_BYTE_ARRAY, which is not read; write it without")
        at, values, total = at + length + packed, values + count, total + max(unpacked, LEAST_OF_PAGE)
    return total


def _number(fields: object, number: int) -> int:
    """A field that must have a whole number; -1: it has none."""
    found = fields.get(number) if isinstance(fields, dict) else None
    return found if isinstance(found, int) else -1


def _header(file: BinaryIO, at: int) -> tuple[Fields, int]:
    """The header that begins here, and its length."""
    size = FIRST_READ
    while True:
        if not 0 <= at < 2**62:
            raise OSError("a page is outside of the file")
        file.seek(at)
        reader = _Reader(file.read(size))
        try:
            return reader.struct(), reader.at
        except IndexError:
            if len(reader.data) < size or size >= LONGEST:
                raise OSError("the header of a page is not whole") from None
            size *= 16


class _Reader:
    """Goes through bytes; an IndexError: there are too few."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.fields = data, 0, 0

    def struct(self, depth: int = 0) -> Fields:
        """The whole numbers and structs of a struct, by their fields."""
        if depth > DEEPEST:
            raise OSError("the header of a page is damaged")
        found: Fields = {}
        number = 0
        while kind := self._byte():
            self.fields += 1
            if self.fields > MOST_FIELDS:
                raise OSError("the header of a page is damaged")
            number = number + (kind >> 4) if kind >> 4 else _signed(self._varint(), 16)
            value = self._value(kind & 15, depth)
            if value is not None:
                found[number] = value
        return found

    def _value(self, kind: int, depth: int) -> int | Fields | None:
        """A whole number or a struct; None of what is passed over. No header has a list."""
        if kind in WHOLE:
            return _signed(self._varint(), 64 if kind == WHOLE[-1] else 32)
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind not in (YES, NO):
            if kind != BINARY and kind not in SIZES:
                raise OSError("the header of a page is damaged")
            self._skip(self._varint() if kind == BINARY else SIZES[kind])
        return None

    def _byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.data):
            raise IndexError

    def _varint(self) -> int:
        found, shift = 0, 0
        while (byte := self._byte()) & 0x80:
            found |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise OSError("the header of a page is damaged")
        return found | byte << shift


def _signed(number: int, bits: int) -> int:
    """Of an unsigned number, as readers cut it to its type: 0, -1, 1, -2..."""
    number &= 2**bits - 1
    return number >> 1 ^ -(number & 1)

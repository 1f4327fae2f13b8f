"""Tables that are wider than the terminal are split by columns, so that no number is cut."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

_ENDLESS = 10_000
_WRAPS_AT = 24  # a column whose texts may be wrapped is never narrower


def fitted(what: RenderableType, width: int) -> RenderableType:
    """The same, with tables split that need more columns than ``width``; each part begins with the first column."""
    if isinstance(what, Group):
        return Group(*(fitted(part, width) for part in what.renderables))
    if isinstance(what, Table) and what.show_header and _needs(what, what.columns) > width:
        return Group(*(_part(what, columns) for columns in _parts(what, width)))
    return what


def _parts(table: Table, width: int) -> Iterator[Sequence[Column]]:
    first, *others = table.columns
    part = [first]
    for column in others:
        if len(part) > 1 and _needs(table, [*part, column]) > width:
            yield part
            part = [first]
        part.append(column)
    yield part


def _part(table: Table, columns: Sequence[Column]) -> Table:
    made = copy.copy(table)
    made.columns = [dataclasses.replace(column, _index=at) for at, column in enumerate(columns)]
    return made


def _needs(table: Table, columns: Sequence[Column]) -> int:
    """How many columns of a terminal these take at least: texts that may be wrapped count as wrapped."""
    whole = Console(width=_ENDLESS, markup=False, emoji=False).measure(_part(table, columns)).maximum
    return whole - sum(max(_width(column) - _WRAPS_AT, 0) for column in columns if not column.no_wrap)


def _width(column: Column) -> int:
    texts = [_plain(cell) for cell in (column.header, *column.cells)]
    return max((cell_len(line) for text in texts for line in text.splitlines()), default=0)


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else cell if isinstance(cell, str) else ""

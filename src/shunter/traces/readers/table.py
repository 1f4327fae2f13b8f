"""Any table with a job per row: text with any separator, JSON lines, a JSON list, Parquet or a spreadsheet.

Columns are taken for those of a trace by their usual names, or as ``--columns`` says.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.texts import unrepeated
from shunter.traces import column_names, workbooks
from shunter.traces.delimited import read_table, single_spaced
from shunter.traces.readers import Reader, parquet
from shunter.traces.source import Source
from shunter.traces.table import Table, of_records
from shunter.traces.tabular import trace_of

ENOUGH = 2  # of when, how long and how many GPUs


def recognises(source: Source) -> bool:
    """By usual names of columns, or because the user said what they mean."""
    if source.given or workbooks.is_one(source.head):
        return True
    names = set(_first_record(source) or _header(source))
    known = {found[0] for name in names if (found := column_names.meaning(name))}
    return sum(bool(known & some) for some in ({"submit", "start"}, {"duration", "end"}, {"gpus"})) >= ENOUGH


def read(source: Source) -> Trace:
    """The trace in the table."""
    if parquet.recognises(source):
        return parquet.read(source)
    if workbooks.is_one(source.head):
        return trace_of(workbooks.table_of(source), source.given)
    if source.head.lstrip()[:1] in (b"{", b"["):
        return trace_of(_records(source), source.given)
    if _is_spaced(source):
        source.separator = " "
        return trace_of(read_table(source, separator=" ", text=single_spaced(source.text(), "#")), source.given)
    return trace_of(read_table(source, separator=source.separator), source.given)


def _header(source: Source) -> list[str]:
    """The names in the first line."""
    return source.first_lines[0].split() if _is_spaced(source) else source.header


def _is_spaced(source: Source) -> bool:
    """Whether only blanks stand between fields."""
    first = source.first_lines[0] if source.first_lines else ""
    return source.separator not in first and len(first.split()) > ENOUGH


def _first_record(source: Source) -> list[str]:
    """The keys of the first record of JSON, as far as its beginning shows; none if it is no JSON."""
    text = source.head.decode(errors="replace").lstrip().removeprefix("[").lstrip()
    if not text.startswith("{"):
        return []
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return []
    return list(found)


def _records(source: Source) -> Table:
    """A JSON list of objects, or an object per line, with the fields that mean something."""
    numbered = _parsed(source)
    fields = dict.fromkeys(key for _, record in numbered if isinstance(record, dict) for key in record)
    known = column_names.wanted(fields, source.given, source.path)
    table = of_records(source, [record for _, record in numbered], known)
    table.problems.lines = np.array([line for line, _ in numbered])
    table.unread = column_names.without(fields, known)
    return table


def _parsed(source: Source) -> list[tuple[int, Any]]:
    """Each record with its number, or its line."""
    if source.head.lstrip().startswith(b"["):
        return list(enumerate(source.json(), 1))
    records = []
    for line, text in enumerate(source.text().splitlines(), 1):
        if text.strip():
            try:
                records.append((line, json.loads(text, object_pairs_hook=unrepeated)))
            except (ValueError, RecursionError) as error:
                raise TraceError(f"{source.path} line {line}: is no JSON ({error}); correct the line") from None
    return records


READER = Reader(
    "any table: text, JSON lines, Parquet or xlsx, with usual names or --columns",
    recognises,
    read,
    endings=(".tsv", ".jsonl", ".ndjson", ".xlsx"),
)

"""``shunter trace convert``, ``slice`` and ``merge``: traces made of traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import (
    ColumnsOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    OutArgument,
    TraceArgument,
    ZoneOption,
    check_trace_file,
    note,
    print_json,
    read,
    with_columns,
)
from shunter.errors import TraceError
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.model import Trace

CONVERT_EXAMPLES = """Examples:

shunter trace convert jobs.csv jobs.parquet   # exact, and read faster from then on

shunter trace convert jobs.parquet jobs.swf   # for tools of the Parallel Workloads Archive
"""

SLICE_EXAMPLES = """Examples:

shunter trace slice jobs.csv april.parquet --since 2020-04-01 --until 2020-05-01

shunter trace slice jobs.csv week.csv --since +7 --until +14   # the second week

shunter trace slice jobs.csv some.parquet --vc vc1,vc2 --users ann --users bob
"""

MERGE_EXAMPLES = """Examples:

shunter trace merge march.csv april.csv --out spring.parquet

shunter trace merge philly.parquet venus.parquet --align --out both.parquet
"""


def convert(
    trace: TraceArgument,
    out: OutArgument,
    force: ForceOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    json: JsonOption = False,
) -> None:
    """Write a trace in another format.

    Parquet and CSV keep everything. SWF has no GPUs: they become processors. Columns without an SWF field are left out,
    and the header lists them.
    """
    format = with_columns(format, columns)  # noqa: A001
    check_trace_file(out, force)

    from shunter import traces

    found = _read(trace, format, on_bad_row)
    traces.write(found, out)
    note(f"{counted(len(found), 'job')} written to {out}")
    if json:
        print_json({"file": str(out), "jobs": len(found)})


def slice_trace(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    out: OutArgument,
    begin: Annotated[
        str | None,
        typer.Option("--since", metavar="T", help="Keep jobs submitted from this time on: date, seconds or +days."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--until", metavar="T", help="Keep jobs submitted before this time.")
    ] = None,
    vc: Annotated[
        list[str] | None,
        typer.Option("--vc", metavar="NAMES", help="Virtual clusters, separated by commas or repeated."),
    ] = None,
    users: Annotated[
        list[str] | None, typer.Option("--users", metavar="NAMES", help="Users, separated by commas or repeated.")
    ] = None,
    timezone: ZoneOption = "UTC",
    force: ForceOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    json: JsonOption = False,
) -> None:
    """Keep a part of a trace: a span of time, some virtual clusters, some users.

    A time is a date (2020-04-01 or 2020-04-01T12:30), seconds as in the trace, or +7, +7d, +12h from its first
    submission. Names of users and others that no job has any more are not written.
    """
    format = with_columns(format, columns)  # noqa: A001
    check_trace_file(out, force)
    if not (begin or end or vc or users):
        raise TraceError("no part is selected; give --since, --until, --vc or --users")

    from shunter import traces
    from shunter.report.calendar import zone_of
    from shunter.traces.slicing import moment, part, remark_on_begin

    zone = zone_of(timezone)
    found = _read(trace, format, on_bad_row)
    first, last = (None if text is None else moment(text, found, zone) for text in (begin, end))
    if remark := remark_on_begin(begin or "", int(found.submit[0]), found.dated):
        note(remark)
    kept = part(found, first, last, _names(vc), _names(users))
    traces.write(kept, out)
    note(f"{len(kept):,} of {len(found):,} jobs written to {out}")
    for remark in kept.remarks[len(found.remarks) :]:
        note(remark, "warning", "bold yellow")
    if json:
        print_json({"file": str(out), "jobs": len(kept), "of": len(found)})


def merge(
    files: Annotated[list[str], typer.Argument(metavar="TRACE...", help="Two or more traces.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="The file to write.")],
    align: Annotated[bool, typer.Option("--align", help="Shift all traces to the start of the first.")] = False,
    force: ForceOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    json: JsonOption = False,
) -> None:
    """Put the jobs of several traces into one.

    A job_id that occurs in several gets the trace's name in front. Users, virtual clusters and others with the same
    name are treated as the same.
    """
    format = with_columns(format, columns)  # noqa: A001
    check_trace_file(out, force)
    if len(files) < 2:
        raise TraceError(f"merging takes two traces or more, got {len(files)}; name the others too")

    from shunter import traces
    from shunter.traces import slicing

    parts = [_read(file, format, on_bad_row) for file in files]
    merged = slicing.merge(parts, align)
    traces.write(merged, out)
    note(f"{counted(len(merged), 'job')} ({' + '.join(f'{len(part):,}' for part in parts)}) written to {out}")
    if json:
        print_json({"file": str(out), "jobs": len(merged), "of": [len(part) for part in parts]})


def _read(trace: str, format: str | None, on_bad_row: str | None) -> Trace:  # noqa: A002
    """The trace, and a note about each thing that its reader left out or assumed."""
    found = read(trace, format, on_bad_row)
    for remark in found.remarks:
        note(remark)
    return found


def _names(given: Sequence[str] | None) -> list[str]:
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]

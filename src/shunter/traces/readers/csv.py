"""The documented CSV: one job per line; ``job_id, submit, duration, gpus`` required, every other trace column optional.

Seconds, GPUs, cores and GiB; ``submit`` may be a date; an empty field takes the column's default; ``after`` holds the
job_id of another job.
"""

from __future__ import annotations

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces.checks import REQUIRED
from shunter.traces.column_names import OPTION, listed
from shunter.traces.readers import Reader, table
from shunter.traces.source import Source


def recognises(source: Source) -> bool:
    """By its required columns."""
    return not source.given and source.separator == "," and source.has(*REQUIRED)


def read(source: Source) -> Trace:
    """Columns as they are written."""
    missing = [name for name in REQUIRED if name not in source.columns]
    if missing and source.first_lines and not source.given:
        raise TraceError(
            f"{source.path} line 1: required columns are missing: {', '.join(missing)}; the first line must name the"
            f" columns, and {listed(source.header)}; say which are which: {OPTION}"
            f" '{','.join(f'{name}=NAME' for name in missing)}' (instead of duration also start=NAME,end=NAME)"
        )
    return table.read(source)


READER = Reader("a table with the columns job_id, submit, duration, gpus", recognises, read, endings=(".csv",))

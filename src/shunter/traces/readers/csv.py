"""The documented CSV: one job per line; ``job_id, submit, duration, gpus`` required, every other trace column optional.

Seconds, GPUs, cores and GiB; ``submit`` may be a date; an empty field takes the column's default; ``after`` holds the
job_id of another job.
"""

from __future__ import annotations

from typing import Any

from shunter.errors import TraceError, did_you_mean
from shunter.model import Trace
from shunter.traces.checks import REQUIRED, SHOWN
from shunter.traces.delimited import read_table
from shunter.traces.source import Source

doc = "a table with the columns job_id, submit, duration, gpus"
endings = (".csv",)
DATE = r"^\d{4}-\d"


def recognises(source: Source) -> bool:
    """By its required columns."""
    return source.separator == "," and source.has(*REQUIRED)


def read(source: Source) -> Trace:
    """Columns as they are written."""
    table = read_table(source, _check_columns, ",")
    given: dict[str, Any] = {}
    for name, about in Trace.columns().items():
        if name == "submit" and table.text(name).str.contains(DATE).any():
            given[name] = table.time(name)
        elif table.has(name):
            given[name] = table.number(name, name) if about.scale else table.text(name)
    return table.trace(table.text("job_id"), **given)


def _check_columns(source: Source, names: list[str], line: int) -> None:
    """All columns must be known, none missing."""
    known = ["job_id", *Trace.columns()]
    unknown = [name for name in names if name not in known]
    wrong = [f"column '{name}' is not known; {did_you_mean(name, known)}" for name in unknown[:1]]
    wrong += [
        f"column '{name}' is not known; {did_you_mean(name, known).partition('known:')[0]}" for name in unknown[1:SHOWN]
    ]
    wrong += [f"and {len(unknown) - SHOWN} more unknown columns"] if len(unknown) > SHOWN else []
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        wrong.append(
            f"required columns are missing: {', '.join(missing)}; the first line must name the columns, with commas"
        )
    if wrong:
        raise TraceError("\n  ".join([f"{source.path} line {line}: {wrong[0]}", *wrong[1:]]))

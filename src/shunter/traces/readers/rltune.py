"""RLTune's CSV: 19 fields like those of SWF, without a header; -1 for unknown."""

from __future__ import annotations

import re

from shunter.model import Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source

FIELDS = (
    "id", "submit", "wait", "run", "gpus", "cpu_time", "memory", "requested_cpus", "requested_time",
    "requested_memory", "status", "user", "group", "executable", "queue", "partition", "preceding_job", "think_time",
    "vc",
)  # fmt: skip
UNKNOWN = ("-1",)


def recognises(source: Source) -> bool:
    """By 19 fields of which all but the first are numbers."""
    rows = [line.split(",") for line in source.first_lines[:5]]
    fits = [
        len(row) == len(FIELDS) and all(re.fullmatch(r"\s*-?[\d.]+\s*", field) for field in row[1:]) for row in rows
    ]
    return bool(fits) and all(fits)


def read(source: Source) -> Trace:
    """The last field is the virtual cluster; the id begins with the model."""
    table = read_table(source, header=FIELDS)
    jobs = table.text("id")
    return table.trace(
        jobs,
        submit=table.number("submit", "submit"),
        duration=table.number("run", "duration"),
        gpus=table.gpus("gpus"),
        user=table.text("user", UNKNOWN),
        account=table.text("group", UNKNOWN),
        vc=table.text("vc", UNKNOWN),
        model=jobs.str.extract(r"^([A-Za-z][\w.]*)-\d+_\d+$"),
        cpus=table.number("requested_cpus", "cpus", none=UNKNOWN),
        limit=table.number("requested_time", "limit", none=UNKNOWN),
        recorded_wait=table.number("wait", "recorded_wait", none=UNKNOWN),
    )


READER = Reader("RLTune's traces: 19 fields without a header", recognises, read)

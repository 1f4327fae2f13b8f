"""The Standard Workload Format 2.2: 18 fields between blanks, ``;`` before comments, -1 for unknown."""

from __future__ import annotations

import re

import numpy as np

from shunter.model import Trace
from shunter.traces.delimited import read_table, single_spaced
from shunter.traces.readers import Reader
from shunter.traces.source import Source

FIELDS = (
    "job", "submit", "wait", "run", "processors", "cpu_time", "memory", "requested_processors", "requested_time",
    "requested_memory", "status", "user", "group", "executable", "queue", "partition", "preceding_job", "think_time",
)  # fmt: skip
OUTCOMES = {"0": "failed", "1": "completed", "5": "cancelled"}
PARTS = ("2", "3", "4")  # lines about a part of a job, which another line has in full
UNKNOWN = ("-1",)


def recognises(source: Source) -> bool:
    """By 18 fields on the first line that is no comment, or by nothing but comments."""
    job = next((line.split() for line in source.first_lines if not line.startswith(";")), None)
    if job is None:
        return bool(source.first_lines)
    return len(job) == len(FIELDS) and all(re.fullmatch(r"-?\d+(\.\d+)?", field) for field in job[:5])


def read(source: Source) -> Trace:
    """Processors (requested, or else used) become GPUs; the preceding job becomes ``after``, without the think time."""
    text = source.text()
    start = re.search(rb"(?m)^;\s*UnixStartTime:\s*(\d{1,11})\s*$", text)
    table = read_table(source, separator=" ", header=FIELDS, text=single_spaced(text, ";"), quotes=False)
    status = table.text("status")
    table.leave_out(status.is_in(PARTS).fill_null(False).to_numpy(), "lines about parts of a job")
    run = table.number("run", "duration", none=UNKNOWN)
    outcome = table.outcome("status", OUTCOMES)
    table.never_started(~(run > 0), outcome)
    requested = table.number("requested_processors", none=UNKNOWN)
    processors = np.where(requested > 0, requested, table.number("processors", none=UNKNOWN))
    table.leave_out(processors == 0, "jobs without processors")
    table.remarks.append("processors are taken as GPUs, one for one")
    jobs = table.text("job")
    return table.trace(
        jobs,
        submit=table.number("submit", "submit") + (float(start[1]) if start else 0),
        duration=run,
        gpus=processors,
        user=table.text("user", UNKNOWN),
        account=table.text("group", UNKNOWN),
        vc=table.text("partition", UNKNOWN),
        job_name=table.text("executable", UNKNOWN),
        limit=table.number("requested_time", "limit", none=UNKNOWN),
        mem_gib=table.number("requested_memory", "mem_gib", 2.0**-20, "KiB", UNKNOWN) * processors,
        recorded_wait=table.number("wait", "recorded_wait", none=UNKNOWN),
        after=table.known(table.text("preceding_job", UNKNOWN), jobs),
        outcome=outcome,
    )


READER = Reader("the Standard Workload Format 2.2; processors are taken as GPUs", recognises, read, endings=(".swf",))

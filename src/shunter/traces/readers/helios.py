"""Helios, SenseTime's clusters of 2020: ``cluster_log.csv`` of the release, and flat files with some of its columns."""

from __future__ import annotations

import numpy as np

from shunter.model import Trace
from shunter.texts import counted
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source

REQUIRED = ("job_id", "submit_time", "gpu_num", "duration")


def recognises(source: Source) -> bool:
    """By its columns; Acme's are the same and some more."""
    return source.has(*REQUIRED) and not source.has("gpu_time")


def read(source: Source) -> Trace:
    """Jobs that asked for GPUs and started."""
    table = read_table(source, REQUIRED)
    gpus = table.gpus("gpu_num")
    submit, start, end = (table.time(field) for field in ("submit_time", "start_time", "end_time"))
    outcome = table.outcome("state")
    if table.has("start_time"):
        table.never_started(np.isnan(start), outcome)
        table.before("submit_time", submit, "start_time", start)
    if table.has("end_time"):
        table.unfinished(np.isnan(end), "end_time")
        table.before("submit_time", submit, "end_time", end)
        table.before("start_time", start, "end_time", end)
    if clamped := int((table.number("censored_48h") == 1).sum()):
        table.remarks.append(f"{counted(clamped, 'job')} ran longer than the duration says: it was clamped at 48 h")
    return table.trace(
        table.text("job_id"),
        submit=submit,
        duration=table.number("duration", "duration"),
        gpus=gpus,
        user=table.text("user"),
        vc=table.text("vc"),
        cpus=table.number("cpu_num", "cpus"),
        job_name=table.text("jobname"),
        recorded_wait=table.number("queue", "recorded_wait"),
        outcome=outcome,
    )


READER = Reader(
    "Helios: cluster_log.csv, or a flat file with job_id, submit_time, gpu_num, duration",
    recognises,
    read,
    files=("cluster_log.csv*",),
)

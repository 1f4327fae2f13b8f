"""Acme, the clusters Seren and Kalos of Shanghai AI Lab, 2023: ``trace_seren.csv`` and ``trace_kalos.csv``."""

from __future__ import annotations

import numpy as np

from shunter.model import Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source

REQUIRED = ("job_id", "gpu_num", "type", "state", "submit_time", "start_time", "end_time", "gpu_time")


def recognises(source: Source) -> bool:
    """By its columns."""
    return source.has(*REQUIRED)


def read(source: Source) -> Trace:
    """The run time is end - start: in Kalos the column ``duration`` includes the time in the queue."""
    table = read_table(source, REQUIRED)
    gpus = table.gpus("gpu_num")
    submit, start, end = (table.time(field) for field in ("submit_time", "start_time", "end_time"))
    outcome = table.outcome("state")
    table.never_started(np.isnan(start), outcome)
    table.unfinished(np.isnan(end), "end_time")
    table.before("start_time", start, "end_time", end)
    nodes = np.nan_to_num(table.number("node_num"), nan=1)
    return table.trace(
        table.text("job_id"),
        submit=submit,
        duration=end - start,
        gpus=gpus,
        user=table.text("user"),
        model=table.text("type"),
        cpus=table.number("cpu_num", "cpus"),
        mem_gib=table.number("mem_per_pod_GB", "mem_gib") * nodes,
        recorded_wait=table.number("queue", "recorded_wait"),
        outcome=outcome,
    )


READER = Reader("Acme: trace_seren.csv or trace_kalos.csv", recognises, read)

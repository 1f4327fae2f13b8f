"""AAIC, the AI cloud of AIST, 2017 to 2018: the workload log with users, requested run times and real waits."""

from __future__ import annotations

from shunter.model import Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source

REQUIRED = ("id", "user", "nodes", "gpus", "walltime_req", "termcode", "time_submit", "waittime", "walltime")
OUTCOMES = {"0": "completed", "1": "failed", "2": "timeout", "3": "cancelled", "4": "cancelled"}


def recognises(source: Source) -> bool:
    """By its columns."""
    return source.has(*REQUIRED)


def read(source: Source) -> Trace:
    """GPUs are nodes x GPUs per node; the queue, a class of jobs on the same nodes, is not kept."""
    table = read_table(source, REQUIRED)
    per_node = table.gpus("gpus")
    return table.trace(
        table.text("id"),
        submit=table.time("time_submit"),
        duration=table.number("walltime", "duration"),
        gpus=per_node * table.number("nodes", "gpus"),
        user=table.text("user"),
        account=table.text("group"),
        limit=table.number("walltime_req", "limit"),
        recorded_wait=table.number("waittime", "recorded_wait"),
        outcome=table.outcome("termcode", OUTCOMES),
    )


READER = Reader("AAIC: the workload log of AIST's AI cloud", recognises, read)

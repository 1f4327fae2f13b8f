"""Philly, Microsoft's clusters of 2017: the JSON of the release, or flat files made from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from shunter.model import Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source
from shunter.traces.table import Table, of_records

FLAT = ("timestamp", "duration", "num_gpus")
SAMPLE = ("job_id", "arrival_time", "duration", "gpu_count")
OUTCOMES = {"pass": "completed", "killed": "cancelled"}


def recognises(source: Source) -> bool:
    """By the keys of its first job, or by the columns of a flat file."""
    log = all(key in source.head for key in (b'"jobid"', b'"attempts"', b'"submitted_time"'))
    return log or source.has(*FLAT) or source.has(*SAMPLE)


def read(source: Source) -> Trace:
    """One of three layouts."""
    if source.head.lstrip().startswith((b"[", b"{")):
        return _log(source)
    return _sample(source) if source.has(*SAMPLE) else _flat(source)


def _flat(source: Source) -> Trace:
    """Jobs without names: they are numbered as they stand."""
    import polars as pl

    table = read_table(source, FLAT)
    return table.trace(
        pl.Series([str(number) for number in range(1, len(table) + 1)], dtype=pl.String),
        submit=table.time("timestamp"),
        duration=table.number("duration", "duration"),
        gpus=table.gpus("num_gpus"),
        vc=table.text("cluster"),
    )


def _sample(source: Source) -> Trace:
    """A sample whose columns gpu_type, preemptible, workload_kind and priority were invented: they are not kept."""
    table = read_table(source, SAMPLE)
    return table.trace(
        table.text("job_id"),
        submit=table.time("arrival_time"),
        duration=table.number("duration", "duration"),
        gpus=table.gpus("gpu_count"),
    )


def _log(source: Source) -> Trace:
    """The run time is that of all attempts together; the GPUs are those of the largest."""
    jobs = source.json()
    table = of_records(source, jobs, ("jobid", "user", "vc", "status", "submitted_time"))
    attempts = [(row, attempt) for row, job in enumerate(jobs) for attempt in _list(job, "attempts")]
    row = np.array([row for row, _ in attempts], np.int64)
    tries = of_records(source, [attempt for _, attempt in attempts], ("start_time", "end_time"))
    start, end = tries.time("start_time"), tries.time("end_time")
    timed = ~np.isnan(start) & ~np.isnan(end)
    duration, gpus = np.zeros(len(jobs)), np.zeros(len(jobs))
    np.add.at(duration, row[timed], (end - start)[timed])
    np.maximum.at(gpus, row, np.array([_gpus(attempt) for _, attempt in attempts], np.float64))
    _check_attempts(table, row, start, end, tries)
    submit = table.time("submitted_time")
    first = np.full(len(jobs), np.inf)
    np.minimum.at(first, row[timed], start[timed])
    wait = np.where(np.isfinite(first), first - submit, np.nan)
    table.leave_out(gpus == 0, "jobs that never got a GPU")
    if lost := int((~timed).sum()):
        table.remarks.append(f"{lost:,} attempts have no recorded start or end: their time is not counted")
    return table.trace(
        table.text("jobid"),
        submit=submit,
        duration=duration,
        gpus=gpus,
        user=table.text("user", none=("None",)),
        vc=table.text("vc", none=("None",)),
        recorded_wait=np.where(wait >= 0, wait, np.nan),
        outcome=table.outcome("status", OUTCOMES),
    )


def _check_attempts(table: Table, row: Any, start: Any, end: Any, tries: Table) -> None:
    """Times must be times, in order, and the last attempt must have ended."""
    wrong = np.unique(row[tries.problems.bad()])
    table.problems.add(wrong, "start_time and end_time of attempts must be times", lambda _: "got others; correct them")
    table.problems.add(
        np.unique(row[end < start]),
        "an attempt must not end before it starts",
        lambda _: "got such times; correct them",
    )
    last = np.zeros(len(table), np.bool_)
    last[row] = np.isnan(end)  # of a job's attempts the last one counts
    table.unfinished(last, "end_time of the last attempt")


def _list(record: Any, key: str) -> list[Any]:
    found = record.get(key) if isinstance(record, dict) else None
    return found if isinstance(found, list) else []


def _gpus(attempt: Any) -> int:
    return sum(len(_list(machine, "gpus")) for machine in _list(attempt, "detail"))


READER = Reader(
    "Philly: cluster_job_log (JSON), or a flat CSV with timestamp, duration, num_gpus, cluster",
    recognises,
    read,
    files=("cluster_job_log*",),
)

"""The JSON workloads of Dally's simulator: jobs of a Helios log with models and iterations assigned to them."""

from __future__ import annotations

from shunter.model import Trace
from shunter.traces.readers import Reader
from shunter.traces.source import Source
from shunter.traces.table import of_records

FIELDS = (
    "job_id", "user", "jobname", "cpu_num", "state", "model", "total_iterations", "time_per_iteration",
    "max_parallelism", "arrival_time",
)  # fmt: skip


def recognises(source: Source) -> bool:
    """By the keys of its first job."""
    return all(f'"{key}"'.encode() in source.head for key in ("total_iterations", "max_parallelism", "arrival_time"))


def read(source: Source) -> Trace:
    """``time_per_iteration`` is that of one GPU: on all its GPUs a job runs iterations x time / GPUs."""
    table = of_records(source, source.json(), FIELDS)
    gpus, iterations = table.gpus("max_parallelism"), table.number("total_iterations", "iterations")
    table.remarks.append("run times are iterations x time per iteration / GPUs; models were assigned, not recorded")
    return table.trace(
        table.text("job_id"),
        submit=table.number("arrival_time", "submit"),
        duration=iterations * table.number("time_per_iteration", "duration") / gpus,
        gpus=gpus,
        user=table.text("user"),
        model=table.text("model"),
        cpus=table.number("cpu_num", "cpus"),
        job_name=table.text("jobname", none=("NA",)),
        iterations=iterations,
        outcome=table.outcome("state"),
    )


READER = Reader("Dally's JSON workloads", recognises, read)

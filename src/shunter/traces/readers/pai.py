"""Alibaba's PAI of 2020: the task table of the release, with the job table beside it if it is there; or a flat file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.texts import counted
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source
from shunter.traces.table import Table
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

FLAT = ("job_id", "arrival_s", "service_sec", "gpu_count")
TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
INSTANCES = 9  # fields of the instance table, whose status is the sixth
STATUS = r"Terminated|Failed|Running|Waiting|Interrupted"
OUTCOMES = {"terminated": "completed", "interrupted": "cancelled"}


def recognises(source: Source) -> bool:
    """By the columns of a flat file, or by the fields of the tables, which have no header."""
    return source.has(*FLAT) or source.has(*TASKS) or _table_of(source) != ""


def _table_of(source: Source) -> str:
    """Which of the tables without a header this is, as far as its first line shows."""
    row = source.first_lines[0].split(",") if source.first_lines else []
    for name, width, status in (("task", len(TASKS), 3), ("job", len(JOBS), 3), ("instance", INSTANCES, 5)):
        if len(row) == width and re.fullmatch(STATUS, row[status].strip()):
            return name
    return ""


def read(source: Source) -> Trace:
    """The flat file, or the tasks."""
    if source.has(*FLAT):
        return _flat(source)
    other = _table_of(source)
    if other in ("job", "instance"):
        raise TraceError(f"{source.path}: is PAI's {other} table, which has no GPUs; name pai_task_table.csv instead")
    return _tasks(source)


def _flat(source: Source) -> Trace:
    table = read_table(source, FLAT)
    table.remarks.append("jobs are submitted when they started: what they waited before is not in it")
    return table.trace(
        table.text("job_id"),
        submit=table.number("arrival_s", "submit"),
        duration=table.number("service_sec", "duration"),
        gpus=table.gpus("gpu_count"),
    )


def _tasks(source: Source) -> Trace:
    """Every task with GPUs is a job, of all its instances; percent become GPUs and cores."""
    table = read_table(source, TASKS) if source.has(*TASKS) else read_table(source, header=TASKS)
    start, end = table.time("start_time"), table.time("end_time")
    state, instances = table.outcome("status", OUTCOMES), table.number("inst_num")
    percent = np.nan_to_num(table.number("plan_gpu"))
    table.leave_out(percent == 0, "tasks that asked for no GPU")
    table.leave_out(
        np.isnan(start) & (state == "failed").fill_null(False).to_numpy(), "tasks that failed before they started"
    )
    table.unfinished(np.isnan(end), "end_time")
    table.before("start_time", start, "end_time", end)
    gpus = percent * instances / 100
    odd = (gpus > 1) & (gpus != np.floor(gpus))
    if odd.any():
        table.remarks.append(
            f"{counted(int((odd & ~table.left_out).sum()), 'task')} of several instances on parts of GPUs: rounded up"
        )
    submit, user = _jobs(source, table, start)
    return table.trace(
        _named(table),
        submit=submit,
        duration=end - start,
        gpus=np.where(odd, np.ceil(gpus), gpus),
        gpu_type=table.text("gpu_type"),
        user=user,
        job_name=table.text("task_name"),
        cpus=np.nan_to_num(table.number("plan_cpu")) * instances / 100,
        mem_gib=np.nan_to_num(table.number("plan_mem")) * instances,
        recorded_wait=start - submit,
        outcome=state,
    )


def _named(table: Table) -> pl.Series:
    import polars as pl

    frame = pl.DataFrame({"job": table.text("job_name"), "task": table.text("task_name")})
    return frame.select(pl.format("{}/{}", "job", "task").alias("id"))["id"]


def _jobs(source: Source, table: Table, start: F64) -> tuple[F64, pl.Series]:
    """Submission times and users of tasks, from the job table; without it, tasks are submitted as they start."""
    import polars as pl

    beside = source.beside("pai_job_table*.csv*")
    if beside is None:
        table.remarks.append("pai_job_table.csv is not beside it: tasks are submitted at their start, without a user")
        return start, table.text("no user")
    submitted = _job_table(beside, table)
    named = pl.DataFrame({"job_name": table.text("job_name")})
    joined = named.join(submitted, on="job_name", how="left", maintain_order="left")
    submit = joined["submit"].to_numpy()
    lost = np.isnan(submit) | (submit > start)
    if count := int((lost & ~table.left_out).sum()):
        table.remarks.append(f"{counted(count, 'task')} without a submission before the start: taken as submitted then")
    return np.where(lost, start, submit), joined["user"]


def _job_table(path: Path, tasks: Table) -> pl.DataFrame:
    import polars as pl

    source = Source(path, "pai")
    table = read_table(source, JOBS) if source.has(*JOBS) else read_table(source, header=JOBS)
    submit = table.time("start_time")
    if tasks.source.skip and (remark := table.problems.remark()):
        tasks.remarks.append(f"{path.name}: {remark}")
    elif not tasks.source.skip:
        table.problems.raise_if_any()
    frame = pl.DataFrame({"job_name": table.text("job_name"), "user": table.text("user"), "submit": submit})
    return frame.filter(~table.problems.bad()).unique("job_name", keep="first")


READER = Reader(
    "Alibaba PAI 2020: pai_task_table.csv with pai_job_table.csv beside it, or a flat file",
    recognises,
    read,
    files=("pai_task_table*.csv*",),
)

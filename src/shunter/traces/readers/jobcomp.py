"""Slurm's job completion log in text (``jobcomp/filetxt``): a job per line, ``JobId=7 UserId=ann(1000) ...``."""

from __future__ import annotations

import numpy as np

from shunter.model import Trace
from shunter.traces.readers import Reader, _slurm
from shunter.traces.source import Source
from shunter.traces.table import NONE, Table

FIELDS = (
    "JobId", "UserId", "Name", "JobState", "Partition", "TimeLimit", "StartTime", "EndTime", "SubmitTime", "ProcCnt",
    "Tres", "Account",
)  # fmt: skip
FIELD = r"(?:^|\s){}=(.*?)(?:\s\w+=|\s*$)"  # up to where the next field begins
UNLIMITED = ("UNLIMITED", "Partition_Limit", "Unlimited", "INVALID")


def recognises(source: Source) -> bool:
    """By how its first line begins."""
    return bool(source.first_lines) and source.first_lines[0].startswith("JobId=")


def read(source: Source) -> Trace:
    """Every line is a job, a requeued one again; if no job records GPUs, processors are taken as GPUs."""
    table = _table(source)
    submit, start, end = (table.time(field) for field in ("SubmitTime", "StartTime", "EndTime"))
    state, tres = table.outcome("JobState"), table.text("Tres")
    table.never_started(np.isnan(start), state)
    table.unfinished(np.isnan(end), "EndTime")
    table.before("SubmitTime", submit, "StartTime", start)
    table.before("StartTime", start, "EndTime", end)
    count, kind = _slurm.gpus(tres)
    if (count > 0).any():
        table.leave_out(count == 0, "jobs that asked for no GPU")
    else:
        count = np.fmax(_slurm.amount(tres, "cpu"), table.number("ProcCnt"))
        table.remarks.append("no job records GPUs: processors are taken as GPUs, one for one")
    return table.trace(
        table.numbered(table.text("JobId")),
        submit=submit,
        duration=end - start,
        gpus=count,
        gpu_type=kind,
        user=table.text("UserId").str.replace(r"\(\d+\)$", ""),
        account=table.text("Account"),
        vc=table.text("Partition"),
        job_name=table.text("Name"),
        limit=table.number("TimeLimit", "limit", 60, "minutes", (*UNLIMITED, *NONE)),
        cpus=_slurm.amount(tres, "cpu"),
        mem_gib=_slurm.memory_gib(tres),
        recorded_wait=start - submit,
        outcome=state,
    )


def _table(source: Source) -> Table:
    """The fields of each line; a name may hold blanks, so a field ends where the next one begins."""
    import polars as pl

    lines = pl.Series("line", source.text().decode().split("\n"))
    used = np.flatnonzero((lines.str.strip_chars() != "").to_numpy())
    kept = lines.gather(used).to_frame()
    frame = kept.select(pl.col("line").str.extract(FIELD.format(field)).alias(field) for field in FIELDS)
    table = Table(source, frame, used + 1)
    odd = frame["JobId"].is_null().to_numpy()
    table.problems.add(odd, "a line must begin with JobId=", lambda row: f"got '{kept['line'][row][:60]}'; remove it")
    return table


READER = Reader("Slurm's job completion log (jobcomp/filetxt): JobId=... on every line", recognises, read)

"""MIT Supercloud's Slurm log: rows of Slurm's database, with resources as numbers of TRES."""

from __future__ import annotations

import numpy as np

from shunter.model import Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader, _slurm
from shunter.traces.source import Source

REQUIRED = ("id_job", "id_user", "state", "time_submit", "time_start", "time_end", "tres_alloc", "tres_req")
GPU_TRES = ("1001", "1002")  # generic resources of this site; 1 to 5 are Slurm's cpu, mem, energy, node, billing
NO_LIMIT = ("4294967295", "4294967294")
STATES = (
    "pending", "running", "suspended", "completed", "cancelled", "failed", "timeout", "node_fail", "preempted",
    "boot_fail", "deadline", "out_of_memory",
)  # fmt: skip


def recognises(source: Source) -> bool:
    """By its columns, which are those of Slurm's job table."""
    return source.has(*REQUIRED)


def read(source: Source) -> Trace:
    """Jobs with GPUs that started; ids that were rounded until they are alike get a number."""
    table = read_table(source, REQUIRED)
    submit, start, end = (table.time(field) for field in ("time_submit", "time_start", "time_end"))
    state = table.outcome("state", {str(code): name for code, name in enumerate(STATES)})
    table.never_started(~(start > 0), state)
    got = table.text("tres_alloc")
    tres = got.zip_with(got.is_not_null(), table.text("tres_req"))
    gpus = np.fmax.reduce([np.nan_to_num(_slurm.amount(tres, number)) for number in GPU_TRES])
    table.leave_out(gpus == 0, "jobs that asked for no GPU")
    table.unfinished(~(end > 0), "time_end")
    table.before("time_submit", submit, "time_start", start)
    table.before("time_start", start, "time_end", end)
    return table.trace(
        table.numbered(table.text("id_job").str.replace(r"\.0$", "")),
        submit=submit,
        duration=end - start,
        gpus=gpus,
        user=table.text("id_user").str.replace(r"\.0$", ""),
        vc=table.text("partition"),
        limit=table.number("timelimit", "limit", 60, "minutes", NO_LIMIT),
        cpus=_slurm.amount(tres, "1"),
        mem_gib=_slurm.amount(tres, "2") / 1024,
        recorded_wait=start - submit,
        outcome=state,
    )


READER = Reader("MIT Supercloud: slurm-log.csv, rows of Slurm's database", recognises, read)

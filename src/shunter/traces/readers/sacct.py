"""Slurm's accounting: ``sacct -a -X -P -o JobID,User,Account,Partition,State,Submit,Start,End,...``, or ``--json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.texts import counted
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader, _sacct_json, _slurm
from shunter.traces.source import Source
from shunter.traces.table import NONE, Table, of_records
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

RESOURCES = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")
LENGTHS = ("ElapsedRaw", "Elapsed", "End")
WAITING = ("pending", "requeued", "requeue_hold", "special_exit", "reservation")
FORMAT = (
    "JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqTRES,AllocTRES,"
    "Constraints"
)
REMEDY = f"export with: sacct -a -X -P -o {FORMAT}"


def recognises(source: Source) -> bool:
    """By its columns, as sacct names them, or its keys."""
    return source.has("JobID", "Submit") or source.has("JobIDRaw", "Submit") or _sacct_json.recognises(source)


def read(source: Source, running: bool = False) -> Trace:
    """Jobs with GPUs that started; steps are left out, tasks of arrays and parts of heterogeneous jobs are jobs.

    Jobs that still ran are a mistake of the file, or with ``running`` end with it.
    """
    table = _table(source)
    ids = table.text("JobID" if table.has("JobID") else "JobIDRaw")
    table.leave_out(ids.str.contains(".", literal=True).fill_null(False).to_numpy(), "job steps")
    submit, start, end = (table.time(field) for field in ("Submit", "Start", "End"))
    state, duration = table.outcome("State"), _length(table, start, end)
    table.leave_out(state.is_in(WAITING).fill_null(False).to_numpy() & np.isnan(end), "jobs that still waited")
    asked, got = (_resources(table, name) for name in ("Req", "Alloc"))
    table.never_started(np.isnan(start) | ((duration == 0) & got.is_null().to_numpy()), state)
    if got.is_not_null().any():  # else the file does not say what jobs got
        refused = (duration == 0) & got.is_null().to_numpy() & ~np.isnan(end)
        table.leave_out(refused, "jobs that Slurm ended before they started, such as submissions that it refused")
    tres = got.zip_with(got.is_not_null(), asked)
    count, kind = _gpus(table, asked, tres)
    if not (count > 0).any():
        raise TraceError(
            f"{source.path}: no job has GPUs (such as gres/gpu=2 in AllocTRES); for jobs to come set"
            f" AccountingStorageTRES=gres/gpu in slurm.conf; {REMEDY}"
        )
    table.leave_out(count == 0, "jobs that asked for no GPU")
    unfinished = np.isnan(end) & ~np.isnan(submit) & ~table.left_out
    if running and unfinished.any():
        table.remarks.append(f"{counted(unfinished.sum(), 'job')} still ran: ended where the record does")
    else:
        table.unfinished(unfinished, "End")
    table.before("Submit", submit, "Start", start)
    table.before("Start", start, "End", end)
    ready = _ready(table, submit, start)
    return table.trace(
        table.numbered(ids),
        submit=ready,
        duration=duration,
        gpus=count,
        gpu_type=kind,
        user=table.text("User"),
        account=table.text("Account"),
        vc=table.text("Partition"),
        job_name=table.text("JobName"),
        limit=_limit(table),
        cpus=_slurm.amount(tres, "cpu"),
        mem_gib=_slurm.memory_gib(tres),
        recorded_wait=start - ready,
        after=table.known(table.text("Dependency").str.extract(r"after\w*:(\d+(?:_\d+)?)"), ids),
        outcome=state,
    )


def _table(source: Source) -> Table:
    if _sacct_json.recognises(source):
        return of_records(source, _sacct_json.records(source), _sacct_json.FIELDS)
    return read_table(source, _check_header, source.separator, quotes=False)


def _gpus(table: Table, asked: pl.Series, tres: pl.Series) -> tuple[F64, pl.Series]:
    """GPUs of each job, and the only type that it may use.

    That is what it got, unless the record shows that it would have taken any: it asked for none, by type or in the
    words of its constraints.
    """
    import polars as pl

    count, kind = _slurm.gpus(tres)
    if not table.has("Constraints"):
        return count, kind
    wanted, named = _slurm.gpus(asked)
    any_type = (wanted > 0) & named.is_null().to_numpy() & table.text("Constraints").is_null().to_numpy()
    return count, pl.DataFrame({"kind": kind, "any": any_type}).select(pl.when(~pl.col("any")).then("kind"))["kind"]


def _ready(table: Table, submit: F64, start: F64) -> F64:
    """When a job could first have run: at its submission, or when --begin, a dependency or an array's limit let it."""
    eligible = table.time("Eligible")
    later = (eligible > submit) & (eligible <= start) & ~table.left_out
    if later.any():
        table.remarks.append(f"{counted(later.sum(), 'job')} could run only later than submitted: waiting from then on")
    return np.where(later, eligible, submit)


def _check_header(source: Source, names: list[str], line: int) -> None:
    wanted = [("JobID", "JobIDRaw"), ("Submit",), ("Start",), ("End",), RESOURCES]
    missing = [" or ".join(group) for group in wanted if not set(group) & set(names)]
    if missing:
        error = source.lacks(line, missing)
        raise TraceError(f"{error}; {REMEDY}")


def _length(table: Table, start: F64, end: F64) -> F64:
    """The run time: what Slurm says, or else end - start."""
    if table.has("ElapsedRaw"):
        return table.number("ElapsedRaw", none=NONE)
    if table.has("Elapsed"):
        return _slurm.seconds(table.text("Elapsed"))
    return end - start


def _limit(table: Table) -> F64:
    if table.has("TimelimitRaw"):
        return table.number("TimelimitRaw", none=("UNLIMITED", "Partition_Limit", *NONE)) * 60
    return _slurm.seconds(table.text("Timelimit"))


def _resources(table: Table, which: str) -> pl.Series:
    """The list of resources requested (``Req``) or allocated (``Alloc``); GRES of old releases written as TRES are.

    Those are per node, so they are multiplied by the nodes.
    """
    import polars as pl

    if table.has(f"{which}TRES") or not table.has(f"{which}GRES"):
        return table.text(f"{which}TRES")
    gres = table.text(f"{which}GRES").str.extract_groups(r"gpu(?::([^:,()]*[^:,()0-9][^:,()]*))?(?::([0-9]+))?")
    kind, each = gres.struct.field("1"), gres.struct.field("2").cast(pl.Int64, strict=False).fill_null(1)
    nodes = table.text("NNodes" if table.has("NNodes") else "AllocNodes").cast(pl.Int64, strict=False).fill_null(1)
    frame = pl.DataFrame({"gres": table.text(f"{which}GRES"), "kind": kind, "count": each * nodes})
    plain, typed = pl.format("gres/gpu={}", "count"), pl.format("gres/gpu:{}={}", "kind", "count")
    written = pl.when(pl.col("kind").is_null()).then(plain).otherwise(typed)
    return frame.select(pl.when(pl.col("gres").str.contains("gpu")).then(written).alias("tres"))["tres"]


READER = Reader(
    "Slurm: sacct -P with a header; JobID, Submit, Start, End and AllocTRES at least; or sacct --json", recognises, read
)

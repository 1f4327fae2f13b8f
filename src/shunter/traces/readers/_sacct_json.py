"""``sacct --json`` as the columns of ``sacct -P``: releases 21.08 to 25.11 write the same jobs in several shapes.

Until 22.05 numbers are plain and states are words; from 23.02 on numbers may be ``{"set", "infinite", "number"}``, and
from 23.11 on states are lists.  What a release does not write is left empty.
"""

from __future__ import annotations

from typing import Any

from shunter.errors import TraceError
from shunter.slurm_json import plain
from shunter.traces.source import Source

FIELDS = (
    *("JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw"),
    *("TimelimitRaw", "ReqTRES", "AllocTRES", "Constraints", "JobName"),
)


def recognises(source: Source) -> bool:
    """By how it begins; squeue's has no time of submission inside ``time``."""
    head = source.head
    return head.lstrip()[:1] == b"{" and b'"jobs"' in head and b'"submission"' in head and b'"allocated"' in head


def records(source: Source) -> list[dict[str, Any]]:
    """The jobs, each with ``FIELDS``."""
    found = source.parsed()
    jobs = found.get("jobs") if isinstance(found, dict) else None
    if not isinstance(jobs, list) or not jobs:
        why = "; ".join(str(_at(error, "error", "description") or error) for error in _list(_at(found, "errors")))
        raise TraceError(
            f"{source.path}: must have a list of jobs under 'jobs', as sacct --json writes it {why}".strip()
        )
    return [_record(job) if isinstance(job, dict) else job for job in jobs]


def _record(job: dict[str, Any]) -> dict[str, Any]:
    times = {
        key: plain(_at(job, "time", key)) for key in ("submission", "eligible", "start", "end", "elapsed", "limit")
    }
    states = _list(_at(job, "state", "current"))
    return {
        "JobID": _identity(job),
        "User": job.get("user") or _at(job, "association", "user"),
        "Account": job.get("account") or _at(job, "association", "account"),
        "Partition": job.get("partition"),
        "QOS": job.get("qos"),
        "State": states[0] if states else None,
        "Submit": times["submission"] or None,
        "Eligible": times["eligible"] or None,
        "Start": times["start"] or None,
        "End": times["end"] or None,
        "ElapsedRaw": times["elapsed"],
        "TimelimitRaw": times["limit"],
        "ReqTRES": _tres(_at(job, "tres", "requested")),
        "AllocTRES": _tres(_at(job, "tres", "allocated")),
        "Constraints": job.get("constraints") or None,
        "JobName": job.get("name"),
    }


def _identity(job: dict[str, Any]) -> str:
    """As sacct writes it: ``12``, ``12_3`` or ``12_[5-9]`` of an array, ``12+1`` of a heterogeneous job."""
    array, task = plain(_at(job, "array", "job_id")), plain(_at(job, "array", "task_id"))
    if array and (task is not None or _at(job, "array", "task")):
        return f"{array}_{task}" if task is not None else f"{array}_[{_at(job, 'array', 'task')}]"
    het, offset = plain(_at(job, "het", "job_id")), plain(_at(job, "het", "job_offset"))
    return f"{het}+{offset or 0}" if het else str(plain(job.get("job_id")))


def _tres(items: Any) -> str | None:
    """``cpu=2,mem=200M,gres/gpu:k80=1``."""
    written = []
    for item in _list(items):
        count = plain(_at(item, "count"))
        if count is not None:
            kind, name = _at(item, "type"), _at(item, "name")
            written.append(f"{kind}/{name}={count}" if name else f"{kind}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(written) or None


def _at(tree: Any, *path: str) -> Any:
    """What is under a path of keys; None where there is no such path."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _list(value: Any) -> list[Any]:
    """A list as it is, nothing as an empty one, anything else as a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]

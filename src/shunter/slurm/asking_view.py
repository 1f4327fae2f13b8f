"""Answers about a live cluster, for people and for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.tables import duration, table
from shunter.slurm.forecast import Forecast, Outlook, rank_of
from shunter.slurm.snapshot import Job

WITHIN_H = (1, 4, 24)


def moment(ms: int) -> str:
    """A time on the clock of whoever asks."""
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def described(job: Job) -> str:
    """What a job asks for."""
    kind = f" {job.gpu_type}" if job.gpu_type else ""
    what = f"{job.gpus}{kind} GPU{'' if job.gpus == 1 else 's'}" if job.gpus else f"{job.shards} shards of a GPU"
    limit = f"limit {duration(job.limit / 1000)}" if job.limit else "no limit"
    return ", ".join(filter(None, [job.user, what, limit, f"partition {job.partition}"]))


# ------------------------------------------------------------------------------------------- when


def when_view(outlook: Outlook, found: Forecast) -> RenderableType:
    """When a job may start."""
    job, (place, length) = found.job, rank_of(outlook, found.job)
    rows = table("it starts", "by", "from now")
    for name, time in _times(found):
        if time is None:
            rows.add_row(name, "not within a year", "")
        else:
            rows.add_row(name, moment(time), duration(max(time - found.now, 0) / 1000))
    chances = ", ".join(f"{hours} h {found.within(hours * 3_600_000):.0%}" for hours in WITHIN_H)
    return Group(
        Text(f"Job {job.id} ({described(job)}): place {place} of {length} in the queue."),
        rows,
        Text(f" within {chances}"),
        *assumed(found.assumptions),
    )


def _times(found: Forecast) -> Iterable[tuple[str, int | None]]:
    yield "with 50 % chance", found.at(0.5)
    yield "with 90 % chance", found.at(0.9)
    if found.job.start > 0:
        yield "by Slurm's own estimate", found.job.start


def assumed(assumptions: Sequence[str]) -> list[Text]:
    """What an answer takes for granted, a line each."""
    return [Text(f" assumed: {text}", style="dim") for text in assumptions]


def when_record(outlook: Outlook, found: Forecast) -> dict[str, Any]:
    """The same for scripts: times in seconds since 1970."""
    job, (place, length) = found.job, rank_of(outlook, found.job)
    times = {name: found.at(level) for name, level in (("p50", 0.5), ("p90", 0.9))}
    return {
        "job_id": job.id,
        "now": found.now / 1000,
        "place": place,
        "queue": length,
        **{name: None if time is None else time / 1000 for name, time in times.items()},
        **{f"{name}_wait_s": None if time is None else (time - found.now) / 1000 for name, time in times.items()},
        "slurm_estimate": job.start / 1000 if job.start > 0 else None,
        "chance_within_h": {str(hours): found.within(hours * 3_600_000) for hours in WITHIN_H},
        "samples": len(found.starts),
        "assumptions": list(found.assumptions),
    }

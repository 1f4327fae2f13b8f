"""Answers about a live cluster, for people and for scripts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shunter.live.forecast import NEW, Forecast, Outlook
from shunter.live.snapshot import LiveJob
from shunter.live.surroundings import Reservation
from shunter.live.wait_causes import Kind
from shunter.live.why import BlockingReservation, Holder, LicenceUse, Why, clock
from shunter.report.terminal.tables import duration, table
from shunter.texts import agreeing, counted

WITHIN_H = (1, 4, 24)


def moment(ms: int) -> str:
    """A time on the clock of the reader."""
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def chance_words(chance: float) -> str:
    """A chance, never shown as certain, and rounded down: 90 % would contradict a P90 that is later."""
    whole = math.floor(100 * chance + 1e-9)  # 0.29 is a little less than 29 %
    return "under 1 %" if chance < 0.01 else "over 99 %" if chance > 0.99 else f"{whole} %"


def described(job: LiveJob) -> str:
    """What a job asks for."""
    kind = f"{job.gpu_type} " if job.gpu_type else ""
    what = _gpus(job, kind)
    limit = f"limit {duration(job.limit / 1000)}" if job.limit else "no limit"
    return ", ".join(filter(None, [job.user, what, limit, f"partition {job.partition}"]))


# ------------------------------------------------------------------------------------------- when


def when_view(outlook: Outlook, found: Forecast) -> RenderableType:
    """When a job may start."""
    job = found.job
    named = "A job" if job.id == NEW else f"Job {job.id}"
    rows = table("it starts", "by", "from now")
    for name, time in _times(found, outlook.snapshot.words.name):
        if time is None:
            rows.add_row(name, "not within a year", "")
        else:
            rows.add_row(name, moment(time), duration(max(time - found.now, 0) / 1000))
    chances = ", ".join(f"{hours} h {chance_words(found.within(hours * 3_600_000) or 0)}" for hours in WITHIN_H)
    return Group(
        Text(f"{named} ({described(job)}): {_place(outlook, job)}."),
        *cannot("when it starts", found.because),
        *([rows] if rows.row_count else []),
        *([] if found.because else [Text(f" within {chances}"), Text(f" by {found.method}")]),
        *assumed(found.assumptions),
    )


def _place(outlook: Outlook, job: LiveJob) -> str:
    if "jobs" in outlook.snapshot.hidden:
        return "its place in the queue is unknown"
    place, length = outlook.line.place(job)
    return f"place {place:,} of {length:,} in the queue"


def cannot(what: str, because: Sequence[str]) -> list[Text]:
    """What is unknown, and why."""
    return [Text(f" Can't tell {what}, because {why}.") for why in because]


def _times(found: Forecast, manager: str) -> Iterable[tuple[str, int | None]]:
    if not found.because:
        yield "with 50 % chance", found.at(0.5)
        yield "with 90 % chance", found.at(0.9)
    if found.job.start > 0:
        yield f"by {manager}'s own estimate", found.job.start


def assumed(assumptions: Sequence[str]) -> list[Text]:
    """The assumptions of an answer, a line each."""
    return [Text(f" assumed: {text}", style="dim") for text in assumptions]


def when_record(outlook: Outlook, found: Forecast) -> dict[str, Any]:
    """The same for scripts: times in seconds since 1970."""
    job, hidden = found.job, "jobs" in outlook.snapshot.hidden
    place, length = (None, None) if hidden else outlook.line.place(job)
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
        "method": found.method,
        "because": list(found.because),
        "assumptions": list(found.assumptions),
    }


# ------------------------------------------------------------------------------------------- why


def why_view(found: Why) -> RenderableType:
    """Why a job waits."""
    sentence, named = why_lines(found)
    lines = Table.grid(padding=(0, 2))
    for name, text in named:
        lines.add_row(Text(f" {name}", style="bold"), Text(text))
    return Group(Text(sentence), lines)


def why_lines(found: Why) -> tuple[str, list[tuple[str, str]]]:
    """Why a job waits: in a sentence, and its circumstances by name."""
    job = found.job
    code = f" ({job.reason})" if job.reason else ""
    return f"Job {job.id} ({described(job)}) waits: {found.meaning.words}{code}.", list(_lines(found))


def _lines(found: Why) -> Iterable[tuple[str, str]]:
    if found.parents:
        yield "after", f"job {', '.join(found.parents)}"
    if found.meaning.kind is Kind.BEGIN and found.job.eligible > 0:
        yield "not before", moment(found.job.eligible)
    if found.place is not None and _stands_in_line(found):
        before = f"; those before it ask for {counted(found.ahead_gpus, 'GPU')}" if found.ahead_gpus else ""
        yield "place", f"{found.place:,} of {found.queue:,} in the queue{before}"
    yield "needs", _needs(found.job)
    if takes_gpus(found.job):
        yield "free", _free(found)
    for licence in found.licences:
        yield "licences", _licence(licence)
    for each in found.reservations:
        yield "reserved", _reservation(each, found)
    if found.holders and takes_gpus(found.job):
        yield "in use by", "\n".join(_holder(holder) for holder in found.holders[:5])
    if found.meaning.kind is Kind.TURN and found.alone_by is not None and found.alone_by > found.now:
        yield "first in line", f"it would start by {moment(found.alone_by)} at the latest, by the limits of what runs"
    if found.meaning.remedy:
        yield "what helps", found.meaning.remedy
    for text in (*found.helps, *(_around(found.kept, found.now) if found.kept else ())):
        yield "what helps", text
    for text in found.because:
        yield "can't tell", f"its start, because {text}"


def _stands_in_line(found: Why) -> bool:
    waits = found.meaning.kind in (Kind.TURN, Kind.CLUSTER) or found.in_turn
    return waits and takes_gpus(found.job)


def takes_gpus(job: LiveJob) -> bool:
    """Whether it takes GPUs or shares of one; an exclusive job takes those of its nodes."""
    return bool(job.gpus + job.shards or job.exclusive == "node")


def _gpus(job: LiveJob, kind: str = "") -> str:
    if not job.gpus + job.shards:
        return "no GPUs"
    return counted(job.gpus, f"{kind}GPU") if job.gpus else counted(job.shards, "shard")


def _licence(of: LicenceUse) -> str:
    there = f"{of.free} of {of.total} free" if of.total is not None else "how many there are is not known"
    return f"{of.wanted} of {of.name}; {there}" + (f", in use by {', '.join(of.users)}" if of.users else "")


def _reservation(each: Reservation, found: Why) -> str:
    begun = "until" if each.start <= found.now else f"from {moment(each.start)} to"
    return f"{counted(len(each.nodes), 'node')} for {each.name}, {begun} {moment(each.end)}"


def _around(kept: BlockingReservation, now: int) -> Iterable[str]:
    """Before or after a reservation."""
    name = kept.by.name
    if kept.limit:
        surely = ", even if what runs takes its whole limit" if kept.later else ""
        yield f"with --time {clock(kept.limit)} or less it ends before {name} begins{surely}"
    elif kept.by.start > now:
        yield f"no shorter limit is sure to help: what runs may go on until {name} begins"
    if kept.earliest is not None:
        yield f"with its present limit it starts no earlier than {moment(kept.earliest)}, after {name}"


def _needs(job: LiveJob) -> str:
    memory = "all memory of its nodes" if job.all_memory else f"{_memory(job.mem_mib)} of memory"
    beside = [counted(job.cpus, "CPU")] * bool(job.cpus) + [memory] * bool(job.mem_mib)
    kind = f" of type {job.gpu_type}" if job.gpu_type else ""
    what = f"{_gpus(job)}{kind}"
    where = [
        (job.exclusive == "node", "on nodes of its own"),
        (job.min_nodes > 1, f"on {job.min_nodes} nodes"),
        (bool(job.features), f"with features {job.features}"),
        (bool(job.excluded), f"not on {job.excluded}"),
        (bool(job.wanted_nodes), f"on {job.wanted_nodes}"),
    ]
    what = " ".join([what, *(text for holds, text in where if holds)])
    return what + (f" with {' and '.join(beside)}" if beside else "")


def _memory(mib: int) -> str:
    return f"{mib / 1024:,.0f} GiB" if mib >= 1024 else f"{mib} MiB"


def _free(found: Why) -> str:
    room = found.room
    text = f"{room.free} of {counted(room.gpus, 'GPU')} where it may run, at most {room.most} on one node"
    if room.fitting < room.most:
        text += f", {room.fitting} with the CPUs and memory that it wants"
    if found.job.exclusive == "node":
        text += f", {counted(room.empty, 'empty node')}"
    text += f"; {_of(room.away, room.nodes)} down or drained" if room.away else ""
    return text + (f"; {_of(room.reserved, room.nodes)} reserved" if room.reserved else "")


def _of(some: int, nodes: int) -> str:
    return f"{some} of {counted(nodes, 'node')} {agreeing('are', some)}"


def _holder(holder: Holder) -> str:
    until = f"until {moment(holder.until)} at the latest" if holder.until else "without a limit"
    return f"{holder.user}: {counted(holder.gpus, 'GPU')} ({counted(holder.jobs, 'job')}), {until}"


def why_record(found: Why) -> dict[str, Any]:
    """The same for scripts: times in seconds since 1970."""
    return {
        "job_id": found.job.id,
        "reason": found.job.reason,
        "kind": found.meaning.kind.name.lower(),
        "words": found.meaning.words,
        "remedy": found.meaning.remedy or None,
        "place": found.place,
        "queue": found.queue,
        "ahead_gpus": found.ahead_gpus,
        "because": list(found.because),
        "room": asdict(found.room),
        "holders": [asdict(holder) | {"until": _seconds(holder.until)} for holder in found.holders],
        "reservations": [
            {"name": each.name, "start": _seconds(each.start), "end": _seconds(each.end), "nodes": list(each.nodes)}
            for each in found.reservations
        ],
        "licences": [asdict(licence) for licence in found.licences],
        "first_in_line_by": _seconds(found.alone_by),
        "after": list(found.parents),
        "helps": list(found.helps),
        "kept_back": _kept(found.kept) if found.kept else None,
    }


def _kept(kept: BlockingReservation) -> dict[str, Any]:
    return {
        "reservation": kept.by.name,
        "start": _seconds(kept.by.start),
        "end": _seconds(kept.by.end),
        "limit_before_s": kept.limit / 1000,
        "earliest": _seconds(kept.earliest),
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000

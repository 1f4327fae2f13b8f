"""Traces made of traces: a part of one, or several in one."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import numpy as np

from shunter.errors import TraceError, did_you_mean
from shunter.model import EARLIEST_DATE_MS, Trace, renamed
from shunter.texts import UNIT_S, counted
from shunter.traces.checks import FARTHEST_SUBMIT_S

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_DATE_MS = 253_402_300_800_000  # the year 10000, which no date has
MOMENT = "a date (2020-04-01, 2020-04-01T12:30), seconds as in the trace, or +DAYS from its beginning (+7, +7d, +12h)"
MOST_DAYS = 36_525  # a larger number is not meant as days
_LATER = re.compile(r"\+(\d{1,9}(?:\.\d{1,9})?)([smhd]?)")
_SECONDS = re.compile(r"-?\d{1,13}(?:\.\d{1,9})?")


def tidy(trace: Trace) -> Trace:
    """The same jobs; of users and all other names only those that a job has, in order of appearance."""
    changes: dict[str, Any] = {}
    for column in _named():
        names = Trace.names_of(column)
        changes[column], changes[names] = renamed(getattr(trace, column), getattr(trace, names))
    return dataclasses.replace(trace, **changes)


def moment(text: str, trace: Trace, zone: tzinfo, option: str = "a time") -> int:
    """The time, in the trace's ms, that people write as a date, as seconds or as ``+DAYS``; dates are in ``zone``."""
    return instant(text, f"trace '{trace.name}'", int(trace.submit[0]), trace.dated, zone, option)


def instant(text: str, what: str, begin: int, dated: bool, zone: tzinfo, option: str = "a time") -> int:
    """The same for anything that begins at some time (ms), with or without dates; messages say ``what`` it is."""
    text = text.strip()
    if later := _LATER.fullmatch(text):
        return begin + round(float(later[1]) * UNIT_S[later[2] or "d"] * 1000)
    if _SECONDS.fullmatch(text) and abs(float(text)) <= FARTHEST_SUBMIT_S:
        return round(float(text) * 1000)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise TraceError(f"{option} must be {MOMENT}; got '{text}'") from None
    if not dated:
        raise TraceError(
            f"{what} has no dates, its times are counted from its own beginning, so '{text}' is nowhere in it; give"
            " seconds, or +DAYS"
        )
    return ((date if date.tzinfo else date.replace(tzinfo=zone)) - EPOCH) // timedelta(milliseconds=1)


def remark_on_begin(text: str, first: int, dated: bool, before: str = "the first job") -> str:
    """That a beginning written as seconds leaves out nothing, because days were meant; "": it does, or is no number.

    ``first``: when the first job comes (ms), or what else comes ``before`` which nothing is.
    """
    if not _SECONDS.fullmatch(text.strip()) or float(text) * 1000 >= first:
        return ""
    when = f"{counted(text.strip(), 'second')} after 1970" if dated else f"second {text.strip()} of the trace"
    days = f"; for day {text.strip()} write +{text.strip()}" if 0 < float(text) <= MOST_DAYS else ""
    return f"--since {text.strip()} is {when}, before {before}{days}"


def date(ms: int) -> str:
    """An instant as people write it; one that is counted from a beginning of its own as seconds."""
    if not EARLIEST_DATE_MS <= ms < LATEST_DATE_MS:
        return f"{ms / 1000:,.0f} s"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def part(
    trace: Trace,
    begin: int | None = None,
    end: int | None = None,
    vcs: Sequence[str] = (),
    users: Sequence[str] = (),
) -> Trace:
    """The jobs submitted from ``begin`` to before ``end`` (ms) in these virtual clusters by these users; () is all."""
    if begin is not None and end is not None and begin >= end:
        raise TraceError("the end of the part must be after its beginning; exchange them")
    keep = np.ones(len(trace), np.bool_)
    if begin is not None:
        keep &= trace.submit >= begin
    if end is not None:
        keep &= trace.submit < end
    for column, wanted in (("vc", vcs), ("user", users)):
        if wanted:
            keep &= np.isin(getattr(trace, column), _codes(trace, column, wanted))
    if not keep.any():
        raise TraceError(
            f"no job of '{trace.name}' is left of {len(trace):,}; choose a wider part"
            " ('shunter trace describe' shows times, users and virtual clusters)"
        )
    kept = tidy(trace.select(keep))
    cut = int((trace.after[keep] >= 0).sum() - (kept.after >= 0).sum())
    remark = (f"{counted(cut, 'job', 'wait')} no more for a job that was left out",) if cut else ()
    return dataclasses.replace(kept, remarks=trace.remarks + remark)


def merge(traces: Sequence[Trace], align: bool = False) -> Trace:
    """All jobs of several traces; equal submissions keep the order of the traces.

    A job_id that occurs in several gets the trace's name in front.  ``align`` lets all begin when the first one does.
    """
    if len({trace.dated for trace in traces}) > 1 and not align:
        raise TraceError(
            "some of these traces have dates and others count from their own beginning, so they don't overlap;"
            " --align shifts all to the same start"
        )
    lengths = [len(trace) for trace in traces]
    before = np.repeat(np.append(0, np.cumsum(lengths)[:-1]), lengths)  # rows of the traces in front
    given: dict[str, Any] = {}
    for column in Trace.columns():
        given[column] = np.concatenate([getattr(trace, column) for trace in traces])
    given["after"] = np.where(given["after"] >= 0, given["after"] + before, -1)
    if align:
        shifts = [int(traces[0].submit[0] - trace.submit[0]) for trace in traces]
        given["submit"] = given["submit"] + np.repeat(shifts, lengths)
    for column in _named():
        given[column], given[Trace.names_of(column)] = _joined_names(traces, column)
    remarks = tuple(dict.fromkeys(remark for trace in traces for remark in trace.remarks))
    name = "+".join(trace.name for trace in traces)
    return tidy(Trace.of(name, _unique_ids(traces), **given, remarks=remarks))


def _named() -> list[str]:
    """The columns that hold codes of names."""
    return [name for name, about in Trace.columns().items() if not about.scale and name != "after"]


def _codes(trace: Trace, column: str, wanted: Sequence[str]) -> list[int]:
    names = getattr(trace, Trace.names_of(column))
    if not names:
        raise TraceError(f"trace '{trace.name}' has no column '{column}', so no job can be chosen by it; leave it out")
    for name in wanted:
        if name not in names:
            raise TraceError(f"no job of '{trace.name}' has the {column} '{name}'; {_near(name, names)}")
    return [names.index(name) for name in wanted]


def _near(name: str, names: Sequence[str]) -> str:
    """The near names; all of them only where they are few."""
    hint = did_you_mean(name, names)
    return hint if len(names) <= 20 else hint.partition("known:")[0] + f"there are {len(names):,}"


def _joined_names(traces: Sequence[Trace], column: str) -> tuple[Any, tuple[str, ...]]:
    """One list of names for all, and the codes in it."""
    code_of: dict[str, int] = {}
    codes = []
    for trace in traces:
        own = [code_of.setdefault(name, len(code_of)) for name in getattr(trace, Trace.names_of(column))]
        codes.append(np.array([*own, -1], np.int64)[getattr(trace, column)])  # -1 reads the last entry, which is -1
    return np.concatenate(codes), tuple(code_of)


def _unique_ids(traces: Sequence[Trace]) -> list[str]:
    """All ids; those that occur in several traces get a prefix."""
    often = Counter(job for trace in traces for job in trace.job_id.tolist())
    if len(often) == sum(map(len, traces)):
        return list(often)
    names = [trace.name for trace in traces]
    prefixes = [name if names.count(name) == 1 else f"{name}-{i}" for i, name in enumerate(names, 1)]
    ids = [
        f"{prefix}/{job}" if often[job] > 1 else job
        for prefix, trace in zip(prefixes, traces, strict=True)
        for job in trace.job_id.tolist()
    ]
    if len(set(ids)) < len(ids):
        again = next(job for job, count in Counter(ids).items() if count > 1)
        raise TraceError(f"the job_id '{again}' would occur twice among the merged jobs; rename it in one of the files")
    return ids

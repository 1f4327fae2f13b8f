"""Checks of what the jobs say about themselves, and of what was not recorded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shunter.model import Trace
from shunter.report.quality.finding import Finding, Subject, jobs
from shunter.report.terminal.tables import share

GRACE_MS = 60_000  # a job may run this much longer than its limit: killing takes a while
OFTEN = 0.05  # more jobs that are there twice are no chance
SHORT_MS = 60_000  # equal jobs that are shorter than this happen by chance

LOST = {
    "user": ("no estimates from a user's past, no fairness between users", "add a column user (made-up names do)"),
    "limit": ("no requested run times: backfilling plans with estimates from the past alone", "add a column limit"),
    "recorded_wait": ("simulated waiting can't be compared with what happened", "add a column recorded_wait"),
    "outcome": (
        "jobs that failed or were cancelled can't be distinguished from those that ran to their end",
        "add a column outcome",
    ),
}


def missing(subject: Subject) -> Iterator[Finding]:
    """Columns in which nothing stands, and what can't be done without them; and those with gaps."""
    trace = subject.trace
    for name, (means, remedy) in LOST.items():
        default = Trace.columns()[name].default
        empty = getattr(trace, name) == default
        if empty.all():
            yield Finding(f"no {name}", "info", len(trace), "no job has one", means, f"if it is known, {remedy}")
        elif empty.any() and name == "user":
            yield Finding(
                "jobs without a user", "warning", int(empty.sum()),
                f"{jobs(empty)} without a user",
                "they have no past, and belong to no user in fairness", "fill it in, or leave these jobs out",
                subject.examples(empty),
            )  # fmt: skip


def duplicates(subject: Subject) -> Iterator[Finding]:
    """Jobs that are equal in all but their id."""
    trace = subject.trace
    rows = np.flatnonzero(trace.duration > SHORT_MS)
    varying = [values[rows] for name in Trace.columns() if len(np.unique(values := getattr(trace, name))) > 1]
    if len(rows) < 2 or not varying:
        return
    order = np.lexsort(varying[::-1])
    same = np.ones(len(rows) - 1, np.bool_)
    for values in varying:
        same &= values[order][1:] == values[order][:-1]
    again = np.sort(rows[order[1:][same]])
    if len(again):
        part = len(again) / len(trace)
        yield Finding(
            "duplicates", "warning" if part >= OFTEN else "info", len(again),
            f"{len(again):,} ({share(part)}) equal an earlier job in everything but the id, to the"
            f" {'second' if not (trace.duration % 1000).any() else 'millisecond'}",
            "rows may have been written twice; but jobs of an array often end alike",
            "look at the examples, and remove what is there twice",
            subject.examples(again),
        )  # fmt: skip


def over_limit(subject: Subject) -> Iterator[Finding]:
    """Jobs that ran longer than they had asked for."""
    trace = subject.trace
    rows = (trace.limit > 0) & (trace.duration > trace.limit + GRACE_MS)
    if rows.any():
        yield Finding(
            "longer than their limit", "warning", int(rows.sum()),
            f"{jobs(rows)} running more than a minute longer than their limit",
            "limits were extended, not enforced, or are in another unit; backfilling that trusts them delays others",
            "check the unit of limit",
            subject.examples(rows),
        )  # fmt: skip


def started_at_submission(subject: Subject) -> Iterator[Finding]:
    """Recorded waits that are all 0."""
    trace = subject.trace
    known = trace.recorded_wait >= 0
    if known.sum() >= 20 and not trace.recorded_wait[known].any():
        yield Finding(
            "no job waited", "warning", int(known.sum()),
            "every recorded waiting time is 0",
            "submissions are really starts: the queue has been smoothed away, and loads look easier than they were",
            "use the real time of submission where it is known; else say so where you report waiting times",
        )  # fmt: skip


def remarks(subject: Subject) -> Iterator[Finding]:
    """What the file's reader left out or assumed."""
    for remark in subject.trace.remarks:
        yield Finding("reading", "info", 1, remark, "the reader did this for you", "check that it fits")

"""Checks of submissions and run times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

import numpy as np

from shunter.report.calendar import DAY_MS, HOUR_MS, text_of
from shunter.report.quality.finding import Finding, Subject, jobs
from shunter.report.terminal.tables import duration

YEAR_MS = 365 * DAY_MS
ENOUGH = 20  # jobs that a statement about all of them needs
LONG_MS, SHORT_MS = 180 * DAY_MS, 10_000
ROUND_HOURS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 36, 48, 72, 96, 120, 144, 168, 240, 336, 720)
NIGHT = 4.5  # the middle of the hours in which people submit least, on their own clock
QUIET_HOURS = 6


def never_ran(subject: Subject) -> Iterator[Finding]:
    """Jobs whose run time is 0."""
    rows = subject.trace.duration == 0
    if rows.any():
        yield Finding(
            "no run time", "warning", int(rows.sum()),
            f"{jobs(rows)} with a run time of 0",
            "they take no GPU time but count as jobs, so that means and medians of waiting and slowdown shift",
            "leave them out, unless jobs that fail at once are part of the question",
            subject.examples(rows),
        )  # fmt: skip


def wrong_unit(subject: Subject) -> Iterator[Finding]:
    """Run times that are so long or so short that another unit is likely."""
    trace = subject.trace
    long = trace.duration > LONG_MS
    if long.any():
        yield Finding(
            "very long run times", "warning", int(long.sum()),
            f"{jobs(long)} longer than {LONG_MS // DAY_MS} days, at most {_length(trace.duration.max())}",
            "hardly any job does: the unit may be milliseconds, or the end of jobs that never ended was filled in",
            "check the unit of duration, and leave out jobs without an end",
            subject.examples(long),
        )  # fmt: skip
    ran = trace.duration[trace.duration > 0]
    if len(ran) >= ENOUGH and np.percentile(ran, 95) < SHORT_MS:
        yield Finding(
            "very short run times", "warning", len(ran),
            f"95 % of the jobs are shorter than {SHORT_MS // 1000} s, all at most {_length(ran.max())}",
            "training takes longer: the unit may be minutes or hours",
            "give seconds",
        )  # fmt: skip


def decades(subject: Subject) -> Iterator[Finding]:
    """A log that would be longer than any cluster lives."""
    span = int(subject.trace.submit[-1] - subject.trace.submit[0])
    if span > 10 * YEAR_MS:
        yield Finding(
            "decades", "warning", len(subject.trace),
            f"the submissions span {span / YEAR_MS:,.0f} years",
            "no cluster lives so long: the unit may be milliseconds, and then load and waits mean nothing",
            "check the unit of submit; divide by 1000 if it is milliseconds",
        )  # fmt: skip


def holes(subject: Subject) -> Iterator[Finding]:
    """Times without any submission: years between two jobs, or days in a log that has jobs every day."""
    trace = subject.trace
    gaps = np.diff(trace.submit)
    if not len(gaps):
        return
    years = np.flatnonzero(gaps > YEAR_MS)
    if len(years):
        yield Finding(
            "years between submissions", "error", len(years),
            f"more than a year passes between two submissions, at most {_length(gaps.max())}",
            "some times are in another unit or have a wrong date; load and span mean nothing",
            "correct these times, or keep one side with 'shunter trace slice'",
            subject.examples(years + 1),
        )  # fmt: skip
        return
    days = np.flatnonzero((gaps > 3 * DAY_MS) & (gaps > 100 * gaps.mean()))
    if len(days):
        gaps_shown = [f"{_length(gaps[row])} after {_when(subject, row)}" for row in days[:3]]
        gaps_shown += [f"and {len(days) - 3} more"] if len(days) > 3 else []
        yield Finding(
            "holes", "warning", len(days),
            f"nothing is submitted for days: {'; '.join(gaps_shown)}",
            "the log stood still, or jobs before or after were left out; arrivals and load around it are not typical",
            "keep the part without holes with 'shunter trace slice'",
            subject.examples(days + 1),
        )  # fmt: skip


def future(subject: Subject) -> Iterator[Finding]:
    """Submissions that are still to come."""
    rows = subject.trace.submit > subject.now_ms
    if subject.trace.dated and rows.any():
        yield Finding(
            "submitted in the future", "error", int(rows.sum()),
            f"{jobs(rows)} submitted after the present, the last on {_when(subject, len(rows) - 1)}",
            "the unit, the date or the time zone of these times is wrong",
            "correct them",
            subject.examples(rows),
        )  # fmt: skip


def clamped(subject: Subject) -> Iterator[Finding]:
    """Many run times that are exactly the longest, or that heap up at a round number of hours."""
    trace = subject.trace
    longest = int(trace.duration.max())
    at_most = trace.duration == longest
    least = max(5, len(trace) // 2000)
    if longest > 0 and at_most.sum() >= least and len(np.unique(trace.duration)) > ENOUGH:
        yield Finding(
            "clamped run times", "warning", int(at_most.sum()),
            f"{jobs(at_most)} of exactly {_length(longest)}, and none longer",
            "longer run times were cut there; the mean run time, the load and the tail are too small",
            "say so where you report numbers; if you know the real tail, put it back",
            subject.examples(at_most),
        )  # fmt: skip
    for hours in ROUND_HOURS:
        edge = hours * HOUR_MS
        near = (trace.duration >= edge) & (trace.duration < edge + 60_000)
        before = (trace.duration >= edge // 2) & (trace.duration < edge)
        if edge < longest and near.sum() >= max(ENOUGH, len(trace) // 500) and near.sum() > before.sum() / 4:
            yield Finding(
                "run times heap up", "info", int(near.sum()),
                f"{jobs(near)} ending within a minute after {hours} h",
                "a time limit ended them, or their run times were cut; how long they wanted to run is not known",
                "nothing, if such a limit stays; else their run times are too short",
                subject.examples(near),
            )  # fmt: skip


def coarse(subject: Subject) -> Iterator[Finding]:
    """Times that were recorded in minutes, hours or days."""
    trace = subject.trace
    for what, values in (("run times", trace.duration), ("submissions", trace.submit)):
        if len(values) < ENOUGH or len(np.unique(values)) < 3:
            continue
        unit = next((unit for unit in (DAY_MS, HOUR_MS, 60_000) if not (values % unit).any()), None)
        if unit is not None:
            yield Finding(
                f"coarse {what}", "warning", len(values),
                f"all {what} are whole multiples of {_length(unit)}",
                "they were recorded in coarser units than seconds, or the unit was taken for another one",
                "check the unit; results can't be finer than it",
            )  # fmt: skip


def shifted_clock(subject: Subject) -> Iterator[Finding]:
    """The quietest hours are not at night: the times are of another time zone than the people."""
    trace = subject.trace
    if not trace.dated or len(trace) < 500 or trace.submit[-1] - trace.submit[0] < 7 * DAY_MS:
        return
    by_hour = np.bincount(trace.submit // HOUR_MS % 24, minlength=24)
    window = np.array([np.take(by_hour, range(hour, hour + QUIET_HOURS), mode="wrap").sum() for hour in range(24)])
    start = int(window.argmin())
    if window[start] > 0.6 * len(trace) * QUIET_HOURS / 24:
        return  # there is no rhythm that would say anything
    middle = (start + QUIET_HOURS / 2) % 24
    offset = round((NIGHT - middle + 12) % 24 - 12)
    if abs(offset) <= 4:
        return
    yield Finding(
        "quiet by day", "info", int(window[start]),
        f"fewest jobs come from {start:02d}:00 to {(start + QUIET_HOURS) % 24:02d}:00 UTC",
        f"people sleep then, so their clocks show about UTC{offset:+d}; or the times are local ones that were taken for"
        " UTC, or shifted",
        f"describe it with --timezone {offset:+03d}:00; where dates matter, check the zone of the file's times",
    )  # fmt: skip


def at_once(subject: Subject) -> Iterator[Finding]:
    """Many jobs in one second."""
    trace = subject.trace
    _, first, together = np.unique(trace.submit // 1000, return_index=True, return_counts=True)
    most = int(together.max())
    if most == len(trace) > 1:
        yield Finding(
            "all at once", "info", most,
            "all jobs are submitted in the same second",
            "a batch: there are no arrivals, and the order of the rows is the order of submission",
            "nothing, if that is meant",
        )  # fmt: skip
    elif most >= max(50, len(trace) // 1000):
        rows = first[together >= 50]
        yield Finding(
            "bursts", "info", most,
            f"up to {most:,} jobs are submitted in the same second ({_when(subject, int(first[together.argmax()]))})",
            "arrays or sweeps; or times that were filled in",
            "look at these jobs; policies that look at users' last jobs see nothing of a burst's own jobs",
            subject.examples(rows),
        )  # fmt: skip


def _length(ms: int) -> str:
    seconds = int(ms) / 1000
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0 and (unit != "day" or seconds > 3 * size or seconds == size):
            count = seconds / size
            return f"{count:,.0f} {unit}" + ("" if count == 1 else "s")
    return duration(seconds)


def _when(subject: Subject, row: int) -> str:
    return text_of(int(subject.trace.submit[row]), UTC, subject.trace.dated)

"""A job as numbers, all of them known when it is submitted, in kernels that simulations and batches share.

Categories have no codes in a model: of a user, a name, a shape ... a row says what ended jobs of that group took, so
that a model knows what to do about users who came after it was fitted.  And what they took is relative to what the
nearest of them took most recently, ``recent``: a model says how much longer a job takes than that, which remains true
when users turn to other work, while absolute times don't.  What is not known is NaN.
"""

from __future__ import annotations

import math

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays
from shunter.compiled import kernel
from shunter.model import GPU, Trace
from shunter.predictors.groups import (
    ACCOUNT,
    ALL,
    BY_GPUS,
    BY_VC,
    NAME,
    USER,
    USER_GPUS,
    USER_NAME,
    USER_NAME_GPUS,
    USER_REQUEST,
    Described,
    described,
    group_ids,
)
from shunter.world import F64, I64

HALF_LIFE_DAYS = 1.0  # after which what an ended job took counts half as much

_WHO = {
    USER: ("user", "the user's jobs"),
    USER_REQUEST: ("request", "the user's, same request"),
    USER_GPUS: ("user_gpus", "the user's, as many GPUs"),
    USER_NAME: ("user_name", "the user's, similar name"),
    NAME: ("name", "similar name"),
    ACCOUNT: ("account", "same account"),
    BY_VC: ("vc", "same virtual cluster"),
    BY_GPUS: ("gpus", "as many GPUs"),
    ALL: ("all", "all jobs"),
}
MEANS = (USER, USER_REQUEST, USER_GPUS, USER_NAME, NAME, ACCOUNT, BY_VC, BY_GPUS, ALL)
LASTS = (USER, USER_REQUEST, USER_NAME, NAME)
COUNTS = (USER, USER_REQUEST, USER_NAME)
ACTIVE = (USER, USER_REQUEST)
CHAIN = (USER_NAME_GPUS, USER_NAME, NAME, USER_GPUS, USER, BY_GPUS, ALL)  # where `history` looks, the nearest first
NEAREST = (USER_NAME_GPUS, USER_REQUEST, USER)  # whose last is `recent`, the nearest first ...
LEVELS = (BY_GPUS, ALL)  # ... else the mean of these
FIRST_GUESS_S = 3600.0  # where nothing has ended yet


def _each(groups: tuple[int, ...], suffix: str, doc: str) -> dict[str, str]:
    return {f"{_WHO[group][0]}_{suffix}": doc.format(_WHO[group][1]) for group in groups}


# "vs recent": the log of a time over that of ``recent``
FEATURES: dict[str, str] = {  # in the order of a row
    "recent": "run time of the nearest ended job, log s",
    "gpus": "GPUs that it asks for, log2",
    "share": "of each GPU, 0 to 1",
    "cpus": "CPU cores per GPU, log2",
    "mem": "GiB of memory per GPU, log2",
    "limit": "run time that its user requested, log s",
    "slack": "run time that its user requested, vs recent",
    "hour": "of its submission, with fractions",
    "weekday": "of its submission, 0 is Monday",
    "day": "of the month of its submission",
    "history": "rolling mean of the nearest, vs recent",
    "user_last_two": "mean of the user's last two, vs recent",
    "user_gap": "since the user's last submission, log s",
    **_each(MEANS, "mean", "{}: decayed mean of logs, vs recent"),
    **_each(LASTS, "last", "{}: the last that ended, vs recent"),
    **_each(LASTS, "previous", "{}: the last but one, vs recent"),
    **_each(COUNTS, "ended", "{}: how many ended, log"),
    **_each(ACTIVE, "open", "{}: how many wait or run, log"),
    **_each(ACTIVE, "open_age", "{}: mean age of those, vs recent"),
    **_each(ACTIVE, "age", "{}: since the last end, vs recent"),
}
NAMES = tuple(FEATURES)
F_RECENT, F_GPUS, F_SHARE, F_CPUS, F_MEM, F_LIMIT, F_SLACK, F_HOUR, F_WEEKDAY, F_DAY = range(10)
F_HISTORY, F_LAST_TWO, F_GAP, F_MEANS = range(10, 14)
F_LASTS = F_MEANS + len(MEANS)
F_PREVIOUS = F_LASTS + len(LASTS)
F_COUNTS = F_PREVIOUS + len(LASTS)
F_OPENS = F_COUNTS + len(COUNTS)
F_OPEN_AGES = F_OPENS + len(ACTIVE)
F_AGES = F_OPEN_AGES + len(ACTIVE)
WIDTH = len(NAMES)

# -- columns of `groups`: decayed weight, log seconds and seconds; the last two in seconds; how many ended, and when the
# last did (ms); how many are open, and the sum of their submissions (ms); when the last was submitted (ms)
WEIGHT, LOGS, SECONDS, LAST, PREVIOUS, ENDED, ENDED_AT, OPEN, OPEN_SUM, SUBMITTED_AT = range(10)
GROUP_COLUMNS = 10
# -- entries of `settings`: half-life in ms, whether submissions have a date
HALF_LIFE, DATED = range(2)
NEW, OVER, GONE = -w.NEVER, w.NEVER, w.NEVER - 1  # in `submitted`


class GroupHistory(Arrays):
    """What has been seen of every group of jobs so far."""

    group_of: I2  # (GROUPINGS, jobs) a row of `groups`, -1: the job is in none
    groups: F2  # (groups, GROUP_COLUMNS)
    submitted: I1  # (jobs,) when each open job was submitted, ms; NEW: not yet, OVER: it has ended, GONE: unlearned
    settings: F1


class EndTimes(Arrays):
    """When jobs end."""

    at: I1  # (jobs,) ms
    took: I1  # (jobs,) ms of run time
    order: I1  # (jobs,) by their end


class EstimateTimes(Arrays):
    """When jobs are asked about."""

    at: I1  # (jobs,) ms
    order: I1  # those asked about, by that time


@kernel
def note_submit(seen: GroupHistory, job: int, now: int) -> None:
    """A job was submitted; to be said after its row has been filled, and harmless if said twice."""
    if seen.submitted[job] != NEW:
        return
    seen.submitted[job] = now
    for grouping in range(seen.group_of.shape[0]):
        group = seen.group_of[grouping, job]
        if group >= 0:
            seen.groups[group, OPEN] += 1
            seen.groups[group, OPEN_SUM] += now
            seen.groups[group, SUBMITTED_AT] = now


@kernel
def note_end(seen: GroupHistory, job: int, took_ms: float, now: int) -> None:
    """A job has ended after this much run time."""
    seconds = max(took_ms / 1000.0, 1.0)
    submitted = seen.submitted[job]
    seen.submitted[job] = OVER
    for grouping in range(seen.group_of.shape[0]):
        group = seen.group_of[grouping, job]
        if group < 0:
            continue
        row = seen.groups[group]
        kept = 0.0
        if row[ENDED] > 0:
            kept = 2.0 ** (-max(now - row[ENDED_AT], 0.0) / seen.settings[HALF_LIFE])
        row[WEIGHT] = row[WEIGHT] * kept + 1.0
        row[LOGS] = row[LOGS] * kept + math.log(seconds)
        row[SECONDS] = row[SECONDS] * kept + seconds
        row[PREVIOUS] = row[LAST]
        row[LAST] = seconds
        row[ENDED] += 1
        row[ENDED_AT] = now
        if submitted not in (NEW, OVER):
            row[OPEN] -= 1
            row[OPEN_SUM] -= submitted


@kernel
def note_gone(seen: GroupHistory, job: int) -> None:
    """A job is no longer open; nothing is learned from what it took."""
    submitted = seen.submitted[job]
    seen.submitted[job] = GONE
    if submitted in (NEW, OVER, GONE):
        return
    for grouping in range(seen.group_of.shape[0]):
        group = seen.group_of[grouping, job]
        if group >= 0:
            seen.groups[group, OPEN] -= 1
            seen.groups[group, OPEN_SUM] -= submitted


@kernel
def rolling(seen: GroupHistory, job: int) -> float:
    """Log of the decayed mean of seconds in the nearest group of ended jobs; NaN: nothing has ended."""
    for grouping in CHAIN:
        group = seen.group_of[grouping, job]
        if group >= 0 and seen.groups[group, ENDED] > 0:
            return math.log(seen.groups[group, SECONDS] / seen.groups[group, WEIGHT])
    return np.nan


@kernel
def recent(seen: GroupHistory, job: int) -> float:
    """Log seconds of the last that ended of the nearest group; else the mean of those with as many GPUs, or of all."""
    for grouping in NEAREST:
        group = seen.group_of[grouping, job]
        if group >= 0 and seen.groups[group, ENDED] > 0:
            return math.log(seen.groups[group, LAST])
    for grouping in LEVELS:
        group = seen.group_of[grouping, job]
        if seen.groups[group, ENDED] > 0:
            return float(seen.groups[group, LOGS] / seen.groups[group, WEIGHT])
    return math.log(FIRST_GUESS_S)


@kernel
def log_or_nan(value: float) -> float:
    """Log2 of what was said; NaN where nothing was."""
    return math.log2(value) if value > 0 else np.nan


@kernel
def log_seconds(since: float) -> float:
    """Log of the seconds in this many ms; at least one."""
    return math.log(max(since / 1000.0, 1.0))


@kernel
def day_of_month(days: int) -> int:
    """Of a day counted from 1970, by the rule that years begin in March, so that a leap day is the last."""
    shifted = days + 719_468
    of_era = shifted % 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    return of_year - (153 * month + 2) // 5 + 1


@kernel
def fill_request(jobs: I64, seen: GroupHistory, job: int, row: F64) -> None:
    """The part of a row that the job itself says."""
    row[F_GPUS] = math.log2(jobs[w.GPUS, job])
    row[F_SHARE] = jobs[w.SHARE, job] / 1000.0
    row[F_CPUS] = log_or_nan(jobs[w.CPU, job] / 1000.0)
    row[F_MEM] = log_or_nan(jobs[w.MEM, job] / 1024.0)
    row[F_LIMIT] = math.log(jobs[w.LIMIT, job] / 1000.0) if jobs[w.LIMIT, job] > 0 else np.nan
    row[F_SLACK] = row[F_LIMIT] - row[F_RECENT]
    row[F_HOUR], row[F_WEEKDAY], row[F_DAY] = np.nan, np.nan, np.nan
    if seen.settings[DATED] > 0:
        days = jobs[w.SUBMIT, job] // 86_400_000
        row[F_HOUR] = (jobs[w.SUBMIT, job] - days * 86_400_000) / 3_600_000.0
        row[F_WEEKDAY] = (days + 3) % 7  # 1970 began on a Thursday
        row[F_DAY] = day_of_month(days)


@kernel
def fill_row(jobs: I64, seen: GroupHistory, job: int, now: int, row: F64) -> None:
    """Describe a job from what has ended by now."""
    groups, near = seen.groups, recent(seen, job)
    row[F_RECENT] = near
    fill_request(jobs, seen, job, row)
    row[F_HISTORY] = rolling(seen, job) - near
    row[F_LAST_TWO], row[F_GAP] = np.nan, np.nan
    user = seen.group_of[USER, job]
    if user >= 0 and groups[user, ENDED] > 0:
        before = groups[user, PREVIOUS] if groups[user, ENDED] > 1 else groups[user, LAST]
        row[F_LAST_TWO] = math.log((groups[user, LAST] + before) / 2) - near
    if user >= 0 and groups[user, SUBMITTED_AT] > -w.NEVER:
        row[F_GAP] = log_seconds(now - groups[user, SUBMITTED_AT])
    for at in range(len(MEANS)):
        group = seen.group_of[MEANS[at], job]
        known = group >= 0 and groups[group, ENDED] > 0
        row[F_MEANS + at] = groups[group, LOGS] / groups[group, WEIGHT] - near if known else np.nan
    for at in range(len(LASTS)):
        group = seen.group_of[LASTS[at], job]
        ended = groups[group, ENDED] if group >= 0 else 0.0
        row[F_LASTS + at] = math.log(groups[group, LAST]) - near if ended > 0 else np.nan
        row[F_PREVIOUS + at] = math.log(groups[group, PREVIOUS]) - near if ended > 1 else np.nan
    for at in range(len(COUNTS)):
        group = seen.group_of[COUNTS[at], job]
        row[F_COUNTS + at] = math.log1p(groups[group, ENDED]) if group >= 0 else np.nan
    fill_active(seen, job, now, row)


@kernel
def fill_active(seen: GroupHistory, job: int, now: int, row: F64) -> None:
    """The part of a row about what waits and runs, and when the last ended."""
    for at in range(len(ACTIVE)):
        group = seen.group_of[ACTIVE[at], job]
        row[F_OPENS + at], row[F_OPEN_AGES + at], row[F_AGES + at] = np.nan, np.nan, np.nan
        if group < 0:
            continue
        of = seen.groups[group]
        row[F_OPENS + at] = math.log1p(of[OPEN])
        if of[OPEN] > 0:
            row[F_OPEN_AGES + at] = log_seconds(now - of[OPEN_SUM] / of[OPEN]) - row[F_RECENT]
        if of[ENDED] > 0:
            row[F_AGES + at] = log_seconds(now - of[ENDED_AT]) - row[F_RECENT]


@kernel
def walk(jobs: I64, seen: GroupHistory, ended: EndTimes, until: int, asked: EstimateTimes, rows: F64) -> None:
    """Submissions, ends and what is asked up to an instant in the order of time; fills a row for each job asked about.

    At one instant ends come first, and a job is asked about before it is submitted.
    """
    done, came, answered, n = 0, 0, 0, jobs.shape[1]
    while True:
        job = int(asked.order[answered]) if answered < len(asked.order) else n
        end = int(ended.at[ended.order[done]]) if done < n else w.NEVER
        submit = int(jobs[w.SUBMIT, came]) if came < n else w.NEVER
        ask = int(asked.at[job]) if job < n else w.NEVER
        next_at = min(end, submit, ask)
        if next_at > until or next_at == w.NEVER:
            break
        if end == next_at:
            note_end(seen, ended.order[done], ended.took[ended.order[done]], end)
            done += 1
        elif ask == next_at and (submit > ask or job <= came):
            fill_row(jobs, seen, job, ask, rows[job])
            answered += 1
        else:
            note_submit(seen, came, submit)
            came += 1


# ------------------------------------------------------------------------------------------- from traces


def request_table(trace: Trace) -> I64:
    """What jobs ask for, in the columns of ``World.jobs``."""
    jobs = np.zeros((w.DECLARED + 1, len(trace)), np.int64)
    jobs[w.SUBMIT] = trace.submit
    jobs[w.GPUS] = np.maximum(trace.gpus // GPU, 1)
    jobs[w.SHARE] = np.minimum(trace.gpus, GPU)
    jobs[w.LIMIT], jobs[w.USER], jobs[w.VC] = trace.limit, trace.user, trace.vc
    jobs[w.CPU] = -(-trace.cpus // jobs[w.GPUS])
    jobs[w.MEM] = -(-trace.mem_gib // jobs[w.GPUS])
    return jobs


def recorded_ends(trace: Trace) -> I64:
    """When jobs ended; a wait that was not recorded counts as 0.

    Always after the submission: a job that took no time must not be known before it came.
    """
    ends: I64 = trace.submit + np.maximum(np.maximum(trace.recorded_wait, 0) + trace.duration, 1)
    return ends


def ended(trace: Trace, ends: I64 | None = None) -> EndTimes:
    """The ends of jobs, as recorded or as given, in their order."""
    at = recorded_ends(trace) if ends is None else np.maximum(ends, trace.submit + 1)
    return EndTimes(at, trace.duration, np.argsort(at, kind="stable"))


def nothing_seen(jobs: Described, dated: bool, half_life_days: float = HALF_LIFE_DAYS) -> GroupHistory:
    """The state before the first job has come."""
    group_of, count = group_ids(jobs)
    groups = np.zeros((count, GROUP_COLUMNS))
    groups[:, SUBMITTED_AT] = -w.NEVER
    settings = np.array([half_life_days * 86_400_000, float(dated)])
    return GroupHistory(group_of, groups, np.full(group_of.shape[1], NEW), settings)


def starts(trace: Trace) -> I64:
    """When jobs started; a wait that was not recorded counts as 0."""
    found: I64 = trace.submit + np.maximum(trace.recorded_wait, 0)
    return found


def stream(trace: Trace, ends: I64 | None = None, half_life_days: float = HALF_LIFE_DAYS, at: I64 | None = None) -> F64:
    """The rows (jobs, features) of a trace, each as of its job's submission or ``at``, from what had ended by then."""
    at = trace.submit if at is None else at
    seen, rows = nothing_seen(described(trace), trace.dated, half_life_days), np.empty((len(trace), WIDTH))
    walk(
        request_table(trace), seen, ended(trace, ends), w.NEVER, EstimateTimes(at, np.argsort(at, kind="stable")), rows
    )
    return rows

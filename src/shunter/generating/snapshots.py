"""What is known of unfinished jobs at an instant, as features: the job itself, recent arrivals, recent completions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.generating.known_jobs import DAY, HOUR, MINUTE, KnownJobs
from shunter.model import GPU
from shunter.seeding import rng
from shunter.world import F64, I64

CUTS_MS = np.array([5 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR])  # between classes of run times
CLASSES = len(CUTS_MS) + 1
RECENT = 5  # arrivals and completions that are features
MOST_ROWS = 8000  # that a model is fitted to
EVERY = 3 * HOUR  # between instants that a model is fitted to
LAST_DAYS = 28  # of history that a model is fitted to
OWN = ("executed", "age", "gpus", "hour", "weekday", "user_mean", "user_jobs")
FEATURES = (
    *OWN,
    *(f"arrival_{k}_{what}" for k in range(RECENT) for what in ("ago", "executed", "gpus")),
    *(f"ended_{k}_{what}" for k in range(RECENT) for what in ("submitted", "ago", "duration", "gpus")),
)


def classes_of(duration: I64) -> I64:
    """The class of each run time: up to 5 and 30 minutes, 1, 2 and 4 hours, and longer."""
    return np.searchsorted(CUTS_MS, duration, side="right")


@dataclass(frozen=True, eq=False)
class Labelled:
    """Unfinished jobs at past instants, and the classes of their run times."""

    features: F64  # (rows, FEATURES)
    executed: I64  # (rows,) ms at that instant
    classes: I64  # (rows,)
    gpus: I64  # thousandths
    jobs: I64  # (rows,) which of the jobs


def features_of(jobs: KnownJobs, rows: I64, now: int) -> F64:
    """Features of some of the jobs, as they are known now; times are logarithms of seconds."""
    own = [
        _log(jobs.executed[rows]),
        _log(now - jobs.submit[rows]),
        np.log2(jobs.gpus[rows] / GPU),
        np.full(len(rows), now // HOUR % 24),
        np.full(len(rows), now // DAY % 7),
        *_by_user(jobs, rows),
    ]
    recent = np.concatenate([_arrivals(jobs, now), _completions(jobs, now)])
    shared = np.broadcast_to(recent[:, None], (len(recent), len(rows)))
    return np.concatenate([np.array(own, np.float64).reshape(len(OWN), len(rows)), shared]).T


def _log(ms: I64) -> F64:
    return np.log1p(np.maximum(ms, 0) / 1000)


def _by_user(jobs: KnownJobs, rows: I64) -> tuple[F64, F64]:
    """The mean logarithm of run times of each job's user, and how many jobs it is of."""
    over = np.flatnonzero(jobs.finished & (jobs.user >= 0))
    codes = int(jobs.user.max(initial=0)) + 1
    count = np.bincount(jobs.user[over], minlength=codes).astype(np.float64)
    total = np.bincount(jobs.user[over], _log(jobs.duration[over]), minlength=codes)
    user = np.maximum(jobs.user[rows], 0)
    known = (jobs.user[rows] >= 0) & (count[user] > 0)
    mean = np.divide(total[user], count[user], out=np.full(len(rows), -1.0), where=known)
    return mean, np.where(known, np.log1p(count[user]), 0.0)


def _arrivals(jobs: KnownJobs, now: int) -> F64:
    last = np.arange(len(jobs))[-RECENT:][::-1]
    found = np.array([_log(now - jobs.submit[last]), _log(jobs.executed[last]), np.log2(jobs.gpus[last] / GPU)])
    return _padded(found.T, 3)


def _completions(jobs: KnownJobs, now: int) -> F64:
    over = np.flatnonzero(jobs.finished)
    last = over[np.argsort(jobs.ended[over], kind="stable")][-RECENT:][::-1]
    sizes = np.log2(jobs.gpus[last] / GPU)
    found = np.array([_log(now - jobs.submit[last]), _log(now - jobs.ended[last]), _log(jobs.duration[last]), sizes])
    return _padded(found.T, 4)


def _padded(values: F64, width: int) -> F64:
    """A row per job, one after the other; -1 where there are fewer jobs."""
    found = np.full((RECENT, width), -1.0)
    found[: len(values)] = values
    return found.ravel()


def labelled(
    jobs: KnownJobs, first: int, last: int, seed: int, with_features: bool = True, most: int = MOST_ROWS
) -> Labelled:
    """Unfinished jobs at instants from ``first`` to ``last``, where the class of their run time is known now.

    That is so where they have ended, and where they have run for so long that only the longest class remains.
    """
    sure = jobs.finished | (jobs.executed >= CUTS_MS[-1])
    total = np.where(jobs.finished, jobs.duration, jobs.executed)
    parts: list[tuple[F64, I64, I64, I64, I64]] = []
    for instant in range(first, last + 1, EVERY):
        then = jobs.at(instant)
        rows = np.flatnonzero(~then.finished & sure[: len(then)])
        features = features_of(then, rows, instant) if with_features else np.zeros((len(rows), 0))
        parts.append((features, then.executed[rows], classes_of(total[rows]), jobs.gpus[rows], rows))
    if not parts:
        parts = [(np.zeros((0, len(FEATURES))), *(np.zeros(0, np.int64),) * 4)]
    features, executed, classes, gpus, which = (np.concatenate(each) for each in zip(*parts, strict=True))
    kept = np.sort(rng(seed, "snapshots").permutation(len(classes))[:most])
    return Labelled(features[kept], executed[kept], classes[kept], gpus[kept], which[kept])


def labelled_arrivals(jobs: KnownJobs, first: int, last: int, seed: int, most: int) -> Labelled:
    """Jobs at the instant of their submission, drawn from those between ``first`` and ``last`` that have ended."""
    begin, end = np.searchsorted(jobs.submit, [first, last])
    ended = begin + np.flatnonzero(jobs.finished[begin:end])
    rows = np.sort(rng(seed, "arrivals").permutation(ended)[:most])
    features = [features_of(jobs.at(int(jobs.submit[row])), np.array([row]), int(jobs.submit[row])) for row in rows]
    found = np.concatenate([np.zeros((0, len(FEATURES))), *features])
    return Labelled(found, np.zeros(len(rows), np.int64), classes_of(jobs.duration[rows]), jobs.gpus[rows], rows)

"""A synthetic trace that behaves like the published ones; needs no file, and equal seeds give equal traces everywhere.

Sizes are between Venus (Helios) and Philly, arrivals follow Venus' published day and week and come in bursts, run times
are log-normal with a heavy tail and longer for larger jobs, and few users submit most jobs.  Users repeat themselves:
a job is mostly a re-run of the user's last one, so that the past says something about the future.
"""

from __future__ import annotations

import numpy as np

from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.traces.made_deadlines import with_deadlines
from shunter.traces.twins import rearranged, twin
from shunter.world import F64, I64

SIZES = np.array([1, 2, 4, 8, 16, 32])
SIZE_SHARE = np.array([0.62, 0.08, 0.10, 0.15, 0.035, 0.015])
MEDIAN_S = 500.0  # of one-GPU jobs
LONGER_PER_DOUBLING = 1.35
SPREAD_BETWEEN_USERS, SPREAD_BETWEEN_WORKS, SPREAD_BETWEEN_RUNS = 0.7, 1.6, 0.3  # standard deviations of ln(run time)
LONGEST_S = 2 * 86400
REPEATS = 0.85  # how often a user's next job is a re-run of the same work
DIES_EARLY = 0.06  # how often a run ends in its first tenth
USERS, USER_SKEW = 100, 1.2
BURSTINESS = 0.25  # shape of the gamma-distributed gaps; 1 is Poisson

MORNING = [0.90, 0.66, 0.60, 0.38, 0.27, 0.21, 0.19, 0.22, 0.37, 0.80, 1.29, 1.47]
AFTERNOON = [1.16, 1.30, 1.56, 1.66, 1.73, 1.73, 1.28, 1.31, 1.34, 1.36, 1.15, 1.04]
HOUR_RATE = np.array(MORNING + AFTERNOON)  # arrivals by hour of the day, relative to the mean
DAY_RATE = np.array([1.03, 1.07, 1.28, 1.21, 0.95, 0.68, 0.78])  # Monday first; the trace begins on one at midnight
HOUR_MS = 3_600_000


def synthetic(
    jobs: int = 5000,
    seed: int = 0,
    gpus: int | None = None,
    load: float | None = None,
    like: str = "",
    arrivals: str = "",
    deadlines: float = 0.0,
    elastic: float = 0.0,
) -> Trace:
    """A made-up trace: a twin of a published one if ``like`` names it, else the generic one of this module.

    Its GPU time is ``load`` times what ``gpus`` GPUs offer between its first and last submission: by default 0.9 of
    128, or as in the published trace. ``arrivals`` may be ``batch`` or ``poisson`` instead of a rhythm with bursts.
    ``deadlines`` and ``elastic`` are the shares of the jobs with a deadline, and of those that can be resized.
    """
    if like:
        made = twin(like, jobs, seed, load, gpus)
    else:
        made = _generic(jobs, seed, 128 if gpus is None else gpus, 0.9 if load is None else load)
    if arrivals:
        made = rearranged(made, arrivals, seed)
    return with_deadlines(made, rng(seed, "synthetic.deadlines"), deadlines, elastic) if deadlines or elastic else made


def _generic(jobs: int, seed: int, gpus: int, load: float) -> Trace:
    for name, value, low, high in (("jobs", jobs, 1, 2e7), ("gpus", gpus, 1, 1e7), ("load", load, 1e-4, 1e4)):
        if not low <= value <= high:
            raise TraceError(f"synthetic trace: {name} must be above 0 ({low:g} to {high:g}), got {value}")
    if not 0 <= seed < 2**31:
        raise TraceError(f"synthetic trace: seed must not be negative, nor above {2**31 - 1}, got {seed}")
    user = _users(jobs, seed)
    size, duration = _works(user, seed, gpus)
    span = round(int((size * duration).sum()) / (gpus * load))
    return Trace.of(
        f"synthetic-{jobs}-seed{seed}",
        [str(number) for number in range(1, jobs + 1)],
        submit=_arrivals(jobs, seed, span),
        duration=duration,
        gpus=size * GPU,
        user=user,
        users=tuple(f"user{number:02d}" for number in range(1, USERS + 1)),
    )


def _users(jobs: int, seed: int) -> I64:
    weight = np.arange(1, USERS + 1) ** -USER_SKEW
    return rng(seed, "synthetic.users").choice(USERS, jobs, p=weight / weight.sum())


def _works(user: I64, seed: int, gpus: int) -> tuple[I64, I64]:
    """GPUs and run time (ms) of each job, jobs in order of submission."""
    draw = rng(seed, "synthetic.works")
    jobs = len(user)
    fits = gpus >= SIZES
    size = draw.choice(SIZES[fits], jobs, p=SIZE_SHARE[fits] / SIZE_SHARE[fits].sum())
    work = draw.normal(0, SPREAD_BETWEEN_WORKS, jobs)
    fresh = draw.random(jobs) >= REPEATS

    by_user = np.argsort(user, kind="stable")
    fresh[by_user[np.flatnonzero(np.diff(user[by_user], prepend=-1))]] = True  # a user's first job repeats nothing
    latest = np.maximum.accumulate(np.where(fresh[by_user], np.arange(jobs), 0))
    source = np.empty(jobs, np.int64)
    source[by_user] = by_user[latest]  # the job that this one re-runs, or itself
    size, work = size[source], work[source]

    log_s = np.log(MEDIAN_S) + np.log2(size) * np.log(LONGER_PER_DOUBLING) + work
    log_s += draw.normal(0, SPREAD_BETWEEN_USERS, USERS)[user] + draw.normal(0, SPREAD_BETWEEN_RUNS, jobs)
    seconds = np.exp(log_s) * np.where(draw.random(jobs) < DIES_EARLY, draw.uniform(0, 0.1, jobs), 1.0)
    return size, np.rint(np.clip(seconds, 1, LONGEST_S) * 1000).astype(np.int64)


def _arrivals(jobs: int, seed: int, span: int) -> I64:
    """Ascending times from 0 to ``span``, ms: bursts, laid on the rhythm of days and weeks."""
    gaps = rng(seed, "synthetic.arrivals").gamma(BURSTINESS, size=jobs)
    gaps[0] = 0
    place: F64 = np.cumsum(gaps)
    place /= place[-1] or 1.0
    hours = np.arange(span // HOUR_MS + 2)
    rate = HOUR_RATE[hours % 24] * DAY_RATE[hours // 24 % 7]
    arrived = np.append(0, np.cumsum(rate))  # expected jobs by the start of each hour
    edges = np.append(hours, len(hours)) * HOUR_MS
    until_end = np.interp(span, edges, arrived)
    times: F64 = np.rint(np.interp(place * until_end, arrived, edges))
    return times.astype(np.int64)

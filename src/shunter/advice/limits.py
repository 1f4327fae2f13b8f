"""A limit on the GPUs that one user may hold, as far as the first days of a record show it.

Under such a limit no user ever holds more, several users sit just at it while their jobs wait, and meanwhile GPUs are
free.  Without a limit, users who wait hold different numbers, and nothing is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shunter.advice.recorded_waits import AT_ONCE_MS, Use, at_least, use_of, waiting_during
from shunter.model import GPU, Trace
from shunter.world import F64

HOUR_MS = 3_600_000
LEAST_MS = 600_000  # that a user waits in all, to be counted
USERS = 2  # that wait at the limit, at least
AT_THE_LIMIT = 0.9  # of their waiting time
ROOM = 0.9  # of the most GPUs ever in use: if fewer are, some are free


def user_cap(trace: Trace, until: int) -> int:
    """The GPUs that one user may hold, as the jobs submitted before ``until`` (ms) show it; 0 if they show none."""
    early = trace.select((trace.recorded_wait >= 0) & (trace.submit < until) & (trace.user >= 0))
    if not len(early):
        return 0
    all_users = use_of(early)
    free = all_users.busy < ROOM * at_least(all_users, HOUR_MS)
    most, at_limit = 0, Counter[int]()
    for jobs, own in _users(early):
        held = -(int(at_least(own, HOUR_MS)) // -GPU)
        most = max(most, held)
        if held and _waits_at_limit(jobs, own, held, all_users, free):
            at_limit[held] += 1
    return most if at_limit[most] >= USERS else 0


def _users(trace: Trace) -> Iterator[tuple[Trace, Use]]:
    for user in np.unique(trace.user):
        jobs = trace.select(trace.user == user)
        yield jobs, use_of(jobs)


def _waits_at_limit(jobs: Trace, own: Use, held: int, all_users: Use, free: NDArray[np.bool_]) -> bool:
    """Whether a user's jobs wait for a while because the user has what one may have, while GPUs are free."""
    rows = jobs.select(jobs.recorded_wait > AT_ONCE_MS)
    if not len(rows):
        return False
    begin, end = rows.submit + AT_ONCE_MS, rows.submit + rows.recorded_wait
    waits = (own.spans * (waiting_during(own, begin, end) > 0)).astype(np.float64)
    full = own.busy + int(rows.gpus.min()) > held * GPU
    if waits.sum() < LEAST_MS or waits[full].sum() < AT_THE_LIMIT * waits.sum():
        return False
    with_room: F64 = all_users.integral(free.astype(np.float64), end) - all_users.integral(
        free.astype(np.float64), begin
    )
    return bool(with_room.sum() > 0.5 * (end - begin).sum())


def kept_back(trace: Trace, cap: int) -> NDArray[np.bool_]:
    """The jobs whose user had all that one may have a minute after they came: they say nothing about what was free."""
    found = np.zeros(len(trace), np.bool_)
    if not cap:
        return found
    for user in np.unique(trace.user[trace.user >= 0]):
        rows = np.flatnonzero((trace.user == user) & (trace.recorded_wait >= 0))
        if len(rows):
            own = use_of(trace.select(rows))
            found[rows] = own.at(trace.submit[rows] + AT_ONCE_MS) + trace.gpus[rows] > cap * GPU
    return found

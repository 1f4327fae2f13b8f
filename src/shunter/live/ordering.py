"""From an order that is wanted to priorities that give it, with as few changes as can be.

The manager computes priorities again all the time, so an order is kept by moving only those jobs that stand
in the wrong place, into the gaps between those that stand right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

import numpy as np

Exact = tuple[int, int]  # a priority, and a number that falls as jobs go at equal priority
STEP = 100  # between jobs moved to an open end, so that there is room for others


def merged(natural: Sequence[str], ranking: Sequence[str]) -> list[str]:
    """The natural order in which only those in the ranking have changed places among themselves.

    Excluded jobs never lose their place in the queue.
    """
    ours = set(ranking)
    following = iter(ranking)
    return [next(following) if job in ours else job for job in natural]


def moves(
    order: Sequence[str],
    priority: Mapping[str, int],
    fixed: Collection[str],
    low: int,
    high: int,
    ties: Sequence[str] = (),
) -> dict[str, int]:
    """New priorities for the jobs that must move so that priorities fall along the order, strictly if there is room.

    ``fixed`` ones keep theirs, and no job moves before them that should not; all new ones are between ``low`` and
    ``high``, or just below a fixed one.  ``ties``: all jobs as they go at equal priority, where that is known.
    """
    last = {job: at for at, job in enumerate(reversed(ties))}
    exact = {job: (value, last.get(job, 0)) for job, value in priority.items()}
    found: dict[str, int] = {}
    segment: list[str] = []
    above = (high + 1, -1)
    for job in (*order, None):
        if job is not None and job not in fixed:
            segment.append(job)
            continue
        floor = (low - 1, len(ties))
        below = floor if job is None else max(exact[job], floor)
        found |= _between(segment, exact, below, above)
        segment = []
        if job is not None:
            above = min(above, exact[job])
    return {job: value for job, value in found.items() if value != priority[job]}


def affordable(
    chosen: Sequence[str],
    wanted: Mapping[str, int],
    order: Sequence[str],
    priority: Mapping[str, int],
    fixed: Collection[str],
    ties: Sequence[str],
    most: int,
) -> list[str]:
    """A limited number of moves, after any of which no fixed job stands further back than it would without us.

    A job of ours that goes behind a fixed one pays for another that goes before it. So lowerings come first. A raise
    that is not paid for waits for a later round; if there are such, more jobs are lowered, also ones not ``chosen``.
    """
    last = {job: at for at, job in enumerate(reversed(ties))}
    now = {job: (value, last[job]) for job, value in priority.items()}
    places = sorted(now[job] for job in fixed)
    ours = sorted(place for job, place in now.items() if job not in fixed)
    before = [len(ours) - bisect_left(ours, place) for place in places]
    slack = np.array(_allowed(order, now, fixed), np.int64) - np.array(before, np.int64)

    def passed(job: str) -> slice:
        ends = sorted((now[job], (wanted[job], last[job])))
        return slice(*(bisect_left(places, end) for end in ends))

    def paid(job: str) -> bool:
        between = passed(job)
        if not (slack[between] > 0).all():
            return False
        slack[between] -= 1
        return True

    downward = [job for job in chosen if wanted[job] < priority[job]]
    first = set(chosen[:most])
    lowered = [job for job in downward if job in first]
    for job in lowered:
        slack[passed(job)] += 1
    upward = (job for job in chosen if wanted[job] > priority[job] and paid(job))
    raised = list(islice(upward, most - len(lowered)))
    waits = len(raised) < sum(wanted[job] > priority[job] for job in chosen)
    others = dict.fromkeys([*downward, *(job for job in wanted if wanted[job] < priority[job])]) if waits else {}
    more = [job for job in others if job not in first]
    return [*lowered, *more[: most - len(lowered) - len(raised)], *raised]


def _allowed(order: Sequence[str], now: Mapping[str, Exact], fixed: Collection[str]) -> list[int]:
    """How many of ours may stand before each of the fixed ones, which are sorted by their places."""
    found, ahead = {}, 0
    for job in order:
        if job in fixed:
            found[now[job]] = ahead
        else:
            ahead += 1
    return [found[place] for place in sorted(found)]


def _between(segment: Sequence[str], exact: Mapping[str, Exact], below: Exact, above: Exact) -> dict[str, int]:
    """New priorities between two bounds, both excluded, that none of these may reach."""
    stays = longest_falling([job for job in segment if below < exact[job] < above], exact)
    found = _into_gaps(segment, exact, set(stays), below[0], above[0])
    if found is not None:
        return found
    if above[0] - below[0] <= 1:
        return _behind(segment, exact, below, above)
    apart = {job: (value, 0) for job, (value, _) in exact.items()}  # equals make no room: of them one stays
    stays = longest_falling([job for job in segment if below[0] < exact[job][0] < above[0]], apart)
    found = _into_gaps(segment, exact, set(stays), below[0], above[0])
    if found is not None:
        return found
    return dict(zip(segment, _spread(len(segment), below[0], above[0]), strict=True))


def _behind(segment: Sequence[str], exact: Mapping[str, Exact], below: Exact, above: Exact) -> dict[str, int]:
    """Priorities where there is no room between the bounds: jobs out of place go just below the upper bound.

    That may let others pass, and may put further jobs out of place: they follow, so that the next round moves nothing.
    """
    lowest = max(above[0] - 1, 1)
    now = {job: exact[job] for job in segment}
    while True:
        stays = set(longest_falling([job for job in segment if below < now[job] < above], now))
        misplaced = [job for job in segment if job not in stays and now[job][0] != lowest]
        if not misplaced:
            return {job: value for job, (value, _) in now.items()}
        now |= {job: (lowest, now[job][1]) for job in misplaced}


def _into_gaps(
    segment: Sequence[str], exact: Mapping[str, Exact], stays: Collection[str], below: int, above: int
) -> dict[str, int] | None:
    """New priorities for all jobs but those that stay, between these; None: there is no room."""
    found: dict[str, int] = {}
    run: list[str] = []
    upper = above
    for job in (*segment, None):
        if job is not None and job not in stays:
            run.append(job)
            continue
        lower = below if job is None else exact[job][0]
        if run and len(run) >= upper - lower:
            return None
        found |= dict(zip(run, _spaced(len(run), lower, upper, job is None, upper == above), strict=True))
        run = []
        upper = lower
    return found


def _spaced(count: int, lower: int, upper: int, last: bool, first: bool) -> list[int]:
    """A number of values between two bounds; at an open end near to the existing neighbours."""
    step = min(max((upper - lower) // (count + 1), 1), STEP)
    if first and not last:
        return [lower + step * (count - at) for at in range(count)]
    if last and not first:
        return [upper - step * (at + 1) for at in range(count)]
    return _spread(count, lower, upper)


def _spread(count: int, below: int, above: int) -> list[int]:
    """A number of falling values, evenly between two bounds; equal ones at the end if there are too few."""
    room = above - below - 1
    if count > room:
        return [max(above - 1 - at, below + 1) for at in range(count)]
    return [above - 1 - (at * room + room // 2) // count for at in range(count)]


def longest_falling(jobs: Sequence[str], priority: Mapping[str, Exact]) -> list[str]:
    """The most of these, in their order, whose priorities fall strictly."""
    ends: list[Exact] = []  # the negated least priority at which a run of each length can end
    at_end: list[int] = []
    before = [-1] * len(jobs)
    for index, job in enumerate(jobs):
        value = (-priority[job][0], -priority[job][1])
        length = bisect_left(ends, value)
        before[index] = at_end[length - 1] if length else -1
        if length == len(ends):
            ends.append(value)
            at_end.append(index)
        else:
            ends[length], at_end[length] = value, index
    found = []
    index = at_end[-1] if at_end else -1
    while index >= 0:
        found.append(jobs[index])
        index = before[index]
    return found[::-1]

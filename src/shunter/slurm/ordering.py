"""From an order that is wanted to priorities that give it, with as few changes as can be.

A priority is a number that Slurm makes anew all the time, so an order is kept by moving only those jobs that stand
in the wrong place, into the gaps between those that stand right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

STEP = 100  # between jobs moved to an open end, so that there is room for others


def merged(natural: Sequence[str], ranking: Sequence[str]) -> list[str]:
    """The natural order in which only those in the ranking have changed places among themselves.

    Nobody who is left alone has more of the others before them than they would have had.
    """
    ours = set(ranking)
    following = iter(ranking)
    return [next(following) if job in ours else job for job in natural]


def moves(
    order: Sequence[str], priority: Mapping[str, int], fixed: Collection[str], low: int, high: int
) -> dict[str, int]:
    """New priorities for those who must move so that priorities fall along the order, strictly where there is room.

    ``fixed`` ones keep theirs, whatever that means for the others; all new ones are between ``low`` and ``high``.
    """
    found: dict[str, int] = {}
    segment: list[str] = []
    above = high + 1
    for job in (*order, None):
        if job is not None and job not in fixed:
            segment.append(job)
            continue
        below = low - 1 if job is None else max(priority[job], low - 1)
        found |= _between(segment, priority, below, above)
        segment = []
        if job is not None:
            above = min(above, priority[job])
    return found


def _between(segment: Sequence[str], priority: Mapping[str, int], below: int, above: int) -> dict[str, int]:
    """New priorities between two bounds, both excluded, that none of these may reach."""
    kept = [job for job in segment if below < priority[job] < above]
    stays = set(longest_falling(kept, priority))
    found: dict[str, int] = {}
    run: list[str] = []
    upper = above
    for job in (*segment, None):
        if job is not None and job not in stays:
            run.append(job)
            continue
        lower = below if job is None else priority[job]
        if len(run) >= upper - lower:  # no room: all of them are spread anew
            return dict(zip(segment, _spread(len(segment), below, above), strict=True))
        found |= dict(zip(run, _spaced(len(run), lower, upper, job is None, upper == above), strict=True))
        run = []
        if job is not None:
            upper = priority[job]
    return found


def _spaced(count: int, lower: int, upper: int, last: bool, first: bool) -> list[int]:
    """So many numbers between two bounds; at an open end near to the neighbours that are there."""
    step = min(max((upper - lower) // (count + 1), 1), STEP)
    if first and not last:
        return [lower + step * (count - at) for at in range(count)]
    if last and not first:
        return [upper - step * (at + 1) for at in range(count)]
    return _spread(count, lower, upper)


def _spread(count: int, below: int, above: int) -> list[int]:
    """So many falling numbers, evenly between two bounds; equal ones at the end where there are too few."""
    room = above - below - 1
    if room < 1:
        return [max(above - 1, below + 1)] * count
    if count > room:
        return [max(above - 1 - at, below + 1) for at in range(count)]
    return [above - 1 - (at * room + room // 2) // count for at in range(count)]


def longest_falling(jobs: Sequence[str], priority: Mapping[str, int]) -> list[str]:
    """The most of these, in their order, whose priorities fall strictly."""
    ends: list[int] = []  # the negated least priority at which a run of each length can end
    at_end: list[int] = []
    before = [-1] * len(jobs)
    for index, job in enumerate(jobs):
        value = -priority[job]
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

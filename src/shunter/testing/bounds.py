"""The slow reference of bounds: each is found in the list of all jobs that have ended.

- ``share`` 0: the estimate; once that has run out, 1 minute is added, then 5, 15, 30, 60, 120, 300, 600, 1200, 3000 and
  6000, the last again and again, until it is ahead.
- Else the last 1,000 jobs count whose estimates are of the same group (below 1, 4, 16, 64, 256 minutes, above), or the
  last 1,000 of all if there are fewer than 20 of these.  What they took over their estimates is rounded to steps, eight
  for each factor of two.  Of those that took at least as many steps as the job has run, ``share`` ended within a bound.
- It is at least a step ahead.  Fewer than 5 such jobs, or in the last step: twice as long as the job has run.  Fewer
  than 20 jobs at all: twice the estimate, or twice as long as it has run.
- Never beyond the limit while the job is within that, and always more than it has run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MINUTE = 60_000
RAISES = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)


def bound(share: float, past: Sequence[tuple[int, float]], estimate: int, limit: int, work: float) -> float:
    """The bound of a job that has run for ``work``; ``past``: estimates and run times of those that have ended."""
    found = raised(estimate, work) if share == 0 else likely(share, past, max(estimate, 1), work)
    if limit > work:
        found = min(found, limit)
    return max(found, work + 1)


def raised(estimate: int, work: float) -> float:
    """An estimate, raised until it is ahead."""
    found = float(max(estimate, 1))
    raises = list(RAISES)
    while found <= work:
        found += MINUTE * (raises.pop(0) if raises else RAISES[-1])
    return found


def likely(share: float, past: Sequence[tuple[int, float]], estimate: int, work: float) -> float:
    """The run time within which ``share`` of the jobs ended that got as old."""
    alike = [job for job in past if group(job[0]) == group(estimate)]
    some = (alike if len(alike) >= 20 else list(past))[-1000:]
    if len(some) < 20:
        return 2 * max(estimate, work)
    age = step(work / estimate)
    if age == 191:  # nothing shows how far beyond it is
        return 2 * work
    older = sorted(step(took / max(expected, 1)) for expected, took in some if step(took / max(expected, 1)) >= age)
    if len(older) < 5:
        return 2 * estimate * end_of(age)
    needed = math.ceil(round(1000 * share) * len(older) / 1000)
    return estimate * end_of(max(older[needed - 1], age + 1))


def group(estimate: int) -> int:
    """Which estimates are alike."""
    return sum(estimate >= minutes * MINUTE for minutes in (1, 4, 16, 64, 256))


def step(ratio: float) -> int:
    """A time over an estimate, in steps above 2^-12; from 2^12 on all are the same."""
    return min(math.floor(8 * (math.log2(max(ratio, 2.0**-12)) + 12)), 191)


def end_of(at: int) -> float:
    """The ratio at which a step ends."""
    return float(2.0 ** ((at + 1) / 8 - 12))

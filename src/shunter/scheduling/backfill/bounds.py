"""How long backfilling plans a job to run: a bound, which few jobs pass, and a later one for those that do.

Orders use estimates.  A reservation is a promise and uses bounds: the run time that a share of such jobs stays
within, by what ended jobs took over their estimates.  For a job that has run for a while only those count that took at
least as long, so that its bound is always ahead of it.  No bound exceeds the job's limit, at which it would be stopped.
"""

from __future__ import annotations

import math

import numpy as np

from shunter.arrays import F1, F2, I1, I2, Arrays
from shunter.compiled import kernel

# -- bins of a time over its estimate, eight for each factor of two, from 2^-12 to 2^12
PER_DOUBLING, LOWEST = 8, -12
BINS = -2 * LOWEST * PER_DOUBLING
GROUPS = 6  # of jobs by estimate: below a minute, then 4, 16, 64 and 256 minutes, above
ALL = GROUPS  # the row of all jobs, for groups of which too few have ended
RECENT = 1000  # ended jobs of a group that count, the last ones
FEWEST = 20  # ended jobs without which a group says nothing ...
FEWEST_LEFT = 5  # ... and without which it says nothing about a job that has run as long
AGAIN = 2.0  # where nothing is known a job takes twice its estimate, or as long again as it has run

# minutes added to an estimate each time that it has run out (Tsafrir et al., TPDS 2007); the last one is repeated
CORRECTIONS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)
MINUTE = 60_000


class Bounds(Arrays):
    """What jobs took over what had been estimated."""

    level: int  # the share of jobs that stay within their bounds, in thousandths; 0: bounds are the estimates
    ended: I1  # (GROUPS + 1,) how many jobs
    recent: I2  # (GROUPS + 1, RECENT) the bins of the last of them, in a ring
    counts: I2  # (GROUPS + 1, BINS) how many of these in each bin
    factor: F2  # (GROUPS + 1, BINS) the bound over the estimate of a job whose age over its estimate is in this bin
    edge: F1  # (BINS + 1,) where each bin ends, and one more would


def bounds_for(share: float) -> Bounds:
    """Nothing has ended yet; ``share`` of the jobs should stay within their bounds, 0: these are the estimates."""
    rows = GROUPS + 1
    recent, counts = np.zeros((rows, RECENT), np.int64), np.zeros((rows, BINS), np.int64)
    edge = np.array([math.exp2(LOWEST + at / PER_DOUBLING) for at in range(1, BINS + 2)])
    return Bounds(round(1000 * share), np.zeros(rows, np.int64), recent, counts, np.zeros((rows, BINS)), edge)


@kernel
def group_of(estimate: int) -> int:
    """The group of a job by its estimate in ms."""
    group, upto = 0, MINUTE
    while group < GROUPS - 1 and estimate >= upto:
        group, upto = group + 1, 4 * upto
    return group


@kernel
def ratio_bin(ratio: float) -> int:
    """The bin of a time over its estimate."""
    if ratio < 2.0**LOWEST:
        return 0
    return min(int(PER_DOUBLING * (math.log2(ratio) - LOWEST)), BINS - 1)


@kernel
def note_run_time(bounds: Bounds, estimate: int, took: float) -> None:
    """A job has ended."""
    if bounds.level == 0:
        return
    at = ratio_bin(took / max(estimate, 1))
    for group in (group_of(estimate), ALL):
        place = bounds.ended[group] % RECENT
        if bounds.ended[group] >= RECENT:
            bounds.counts[group, bounds.recent[group, place]] -= 1
        bounds.recent[group, place] = at
        bounds.counts[group, at] += 1
        bounds.ended[group] += 1
        find_factors(bounds, group)


@kernel
def find_factors(bounds: Bounds, group: int) -> None:
    """For jobs of each age, the run time within which the share of those that got as old has ended, over estimates."""
    counts, left, upto, within = bounds.counts[group], min(bounds.ended[group], RECENT), -1, 0
    for at in range(BINS):  # `within`: how many are in the bins from this one to `upto`
        while within * 1000 < bounds.level * left:
            upto += 1
            within += counts[upto]
        found = bounds.edge[max(upto, at + 1)]
        bounds.factor[group, at] = found if left >= FEWEST_LEFT else AGAIN * bounds.edge[at]
        left -= counts[at]
        within -= counts[at]


@kernel
def corrected(estimate: int, work: float) -> float:
    """An estimate, raised step by step until it is ahead of what was done."""
    total, step = float(estimate), 0
    while total <= work:
        total += CORRECTIONS[min(step, len(CORRECTIONS) - 1)] * MINUTE
        step += 1
    return total


@kernel
def bound_of(bounds: Bounds, estimate: int, limit: int, work: float) -> float:
    """The run time at speed 1 with which a job is planned that has done this much work (ms); always more than that."""
    estimate, group = max(estimate, 1), group_of(estimate)
    if bounds.ended[group] < FEWEST:
        group = ALL
    if bounds.level == 0:
        bound = corrected(estimate, work)
    elif bounds.ended[group] < FEWEST:
        bound = AGAIN * max(float(estimate), work)
    else:
        at = ratio_bin(work / estimate)
        bound = AGAIN * work if at == BINS - 1 else estimate * bounds.factor[group, at]  # the last bin has no upper end
    if limit > work:
        bound = min(bound, float(limit))
    return max(bound, work + 1.0)


# ------------------------------------------------------------------------------------------- leaving out many at once


@kernel
def floor_of(estimate: int, limit: int, work: float) -> int:
    """A number that stays while a job waits, and by which ``floor_within`` says of many jobs that none ends in time."""
    if work > 0:
        return 0  # how much is left of it doesn't follow from its estimate
    return min(estimate, limit) if limit > 0 else estimate


@kernel
def floor_within(bounds: Bounds, longest: int, speed: float) -> float:
    """No waiting job with a higher floor than this has a bound of at most ``longest`` ms at this speed now."""
    within = longest * speed * (1 + 1e-9) + 1  # bounds are rounded down
    if bounds.level == 0:
        return within
    highest, shortest, end = within, 0.0, float(MINUTE)  # a job's limit may be within, whatever its estimate
    for group in range(GROUPS):
        row = group if bounds.ended[group] >= FEWEST else ALL
        factor = bounds.factor[row, 0] if bounds.ended[row] >= FEWEST else AGAIN
        if shortest * factor <= within:
            highest = max(highest, min(within / factor, end if group < GROUPS - 1 else math.inf))
        shortest, end = end, 4 * end
    return highest

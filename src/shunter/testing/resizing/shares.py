"""Shares in plain Python: the GPUs over time with which each job meets its deadline.

Time ahead is cut into slots that grow with their distance. Jobs are taken by deadline. Each gets a level of GPUs that
finishes it in time, where a slot has fewer left than the level, what is left; so the plan of an admitted job takes
nothing that an earlier one needs (ElasticFlow, ASPLOS'23). Of the levels that do, it is the present width, else the
lowest from the one on that needs the least GPU time. A job that finds no room takes that of the one with the most work
left, if that is more than its own, so that fewer are late (Moore and Hodgson).

Where jobs without a deadline wait or run, a job of one width that surely meets its deadline later is served like them
until then: it can't give way in width, so it does in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shunter.world import F64, I64

NOT_ADMITTED, LATER = -1, -3
OWED_IF_BLOCKED = 0.1  # of the GPU time, at most: for jobs served first that no larger ones are before
SLOWEST = 1e-9  # speed; a job may have too few GPUs to train at all
KEPT = 10.0  # a job keeps its width if no other saves this many times the cost of a change


@dataclass
class PlainShares:
    """Slots, what is free in each, and what was planned. Times are ms from now."""

    edges: F64  # ends of slots
    free: I64
    calm: I64  # GPUs of running jobs without a deadline, which they keep if possible
    others: bool = False  # whether jobs without a deadline wait or run
    plans: dict[int, I64] = field(default_factory=dict)  # by job: its GPUs in each slot
    later: set[int] = field(default_factory=set)  # jobs that can wait

    def share(self, job: int) -> int:
        """GPUs of a job at present, 0: its plan begins later; or NOT_ADMITTED, LATER."""
        if job in self.later:
            return LATER
        return int(self.plans[job][0]) if job in self.plans else NOT_ADMITTED


@dataclass(frozen=True, eq=False)
class DatedJob:
    """What a plan for a job depends on."""

    job: int
    due: float
    left: tuple[float, ...]  # work, first cautiously
    surely: float  # work, at most
    least: int
    most: int
    width: int
    cost: float
    speed: F64  # by width
    stays: bool  # it can't be stopped
    widths: tuple[int, int]  # the range that it has where it can be changed

    @property
    def cheapest(self) -> tuple[float, int]:
        """GPU time for a unit of work at the width that needs least, and that width."""
        need, at = np.inf, 0
        for width in range(self.widths[0], self.widths[1] + 1):
            each = width / max(self.speed[width], SLOWEST)
            if at == 0 or each < need * (1.0 - 1e-6):
                need, at = each, width
        return need, at

    @property
    def burden(self) -> float:
        """GPU time that it should still take."""
        return self.left[-1] * self.cheapest[0]


def admit_all(shares: PlainShares, jobs: list[DatedJob]) -> None:
    """Fill in the plans of jobs, which are given by deadline."""
    put_off: list[DatedJob] = []
    for place, job in enumerate(jobs):
        if (shares.others and can_wait(shares, job)) or admit(shares, job):
            continue
        others = [other for other in jobs[:place] if other.job in shares.plans and not other.stays]
        largest = max(others, key=lambda other: other.burden, default=job)
        if largest.burden <= job.burden:
            continue
        plan = shares.plans.pop(largest.job)
        shares.free += plan
        if admit(shares, job):
            put_off.append(largest)
        else:
            shares.plans[largest.job] = plan
            shares.free -= plan
    for job in jobs:
        if job in put_off:
            admit(shares, job)


def can_wait(shares: PlainShares, job: DatedJob) -> bool:
    """Whether a job of one width meets its deadline without a GPU in the first slot; takes the last slots before it."""
    width, edges = job.least, shares.edges
    if width < job.most or job.stays:
        return False
    left, plan = (job.surely / job.speed[width] + job.cost) / (1.0 - OWED_IF_BLOCKED), np.zeros(len(edges), np.int64)
    for slot in range(int(np.searchsorted(edges, job.due)), 0, -1):
        if left > 0 and shares.free[slot] >= width:
            left -= min(edges[slot], job.due) - edges[slot - 1]
            plan[slot] = width
    if left > 0:
        return False
    shares.free -= plan
    shares.later.add(job.job)
    return True


def admit(shares: PlainShares, job: DatedJob) -> bool:
    """Find a plan for a job and take it off what is free: cautiously, or else with hope."""
    for left in dict.fromkeys(job.left):
        for room in (np.maximum(shares.free - shares.calm, 0), shares.free) if shares.calm.any() else (shares.free,):
            plan = find_plan(shares.edges, room, job, left)
            if plan is not None:
                shares.plans[job.job] = plan
                shares.free -= plan
                return True
    return False


def find_plan(edges: F64, room: I64, job: DatedJob, left: float) -> I64 | None:
    """GPUs of a job in each slot; None: it can't be in time."""
    need, frugal = job.cheapest
    levels = [*range(max(frugal, job.least), job.most + 1), *range(job.least, min(frugal, job.most + 1))]
    if job.width > 0 and job.width / max(job.speed[job.width], SLOWEST) * left <= need * (left + KEPT * job.cost):
        levels = [job.width, *levels]
    for level in levels:
        gpus = np.array([taken(level, job.least, int(free)) for free in room], np.int64)
        ends = slots_needed(gpus, edges, job, left)
        if ends > 0:
            gpus[ends:] = 0
            return gpus
    return None


def taken(level: int, least: int, free: int) -> int:
    """GPUs of a slot that a job gets at a level; too few are none."""
    gpus = min(level, free)
    return gpus if gpus >= least else 0


def slots_needed(plan: I64, edges: F64, job: DatedJob, left: float) -> int:
    """After how many slots the work of a job is done; 0: not by its deadline.

    The job pays its cost at every change of width, except for its first start.
    """
    begin, done, before = 0.0, 0.0, job.width
    for slot, gpus in enumerate(plan.tolist()):
        end = min(edges[slot], job.due)
        span = end - begin
        if gpus != before and before > 0 and gpus > 0:
            span -= job.cost
        if gpus > 0:
            before = gpus
            done += max(span, 0.0) * job.speed[gpus]
        if done >= left:
            return slot + 1
        if end >= job.due:
            return 0
        begin = end
    return 0

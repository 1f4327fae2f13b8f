"""EASY backfilling where GPUs are leased, slowly: what is reserved for the first job without room, and what delays it.

- A job should give its GPUs back when its estimated work is done at the speed that it has (an estimate that has run out
  is raised, see ``bounds``), or when its lease ends, if the head is before it in the order then.  A job that begins now
  is taken to run at speed 1 and to keep its place in the order.
- The reservation is for the first of these times at which the head has room at some tier that it takes.
- A job leaves that alone if it gives its GPUs back by then, or if the head has room beside it then.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TypeAlias

from shunter.errors import InvariantError
from shunter.testing import bounds
from shunter.testing.offers import ReferenceLeases, has_room, hold, key, lease_end
from shunter.testing.placement import Places
from shunter.testing.tiers import FREE

Uses: TypeAlias = dict[int, tuple[int, float]]  # job with GPUs -> when it should end, and when its lease does


def expected_end(state: ReferenceLeases, index: int) -> int:
    """When a running job should have done its work."""
    stay = state.running[index]
    work = state.done[index] + max(state.now - stay.counted, 0) * stay.speed
    left = bounds.bound(0, [], state.jobs[index].estimate, 0, work) - state.done[index]
    return max(stay.counted + math.ceil(left / stay.speed), state.now + 1)


def use_of(state: ReferenceLeases, index: int) -> tuple[int, float]:
    """When a waiting job should end that begins now, and when its lease does."""
    whole = int(bounds.bound(0, [], state.jobs[index].estimate, 0, state.done[index]))
    left = max(math.ceil(whole - state.done[index]), 1)
    return state.now + left, lease_end(state, index)


def uses_of(state: ReferenceLeases, without: Collection[int] = ()) -> Uses:
    """The same of those that run, but of these."""
    return {
        index: (expected_end(state, index), stay.lease_end)
        for index, stay in state.running.items()
        if index not in without
    }


def gives_back(state: ReferenceLeases, head: int, index: int, end: int, lease_end: float) -> int:
    """When a job should give its GPUs back."""
    if lease_end < end and (key(state, index, int(lease_end)), index) > (key(state, head), head):
        return int(lease_end)
    return end


def reservation(state: ReferenceLeases, nodes: list[list[int]], uses: Uses, head: int) -> tuple[int, list[list[int]]]:
    """When the head should have room, and which job holds which GPU then."""
    back = {index: gives_back(state, head, index, *use) for index, use in uses.items()}
    for time in sorted(set(back.values())):
        then = [[FREE if back.get(job, math.inf) <= time else job for job in node] for node in nodes]
        if has_room(state, then, head):
            return time, then
    raise InvariantError(f"job {head} has no room even when all others have ended")


def leaves_alone(
    state: ReferenceLeases, nodes: list[list[int]], uses: Uses, head: int, places: Places, end: float
) -> bool:
    """Whether a job that has these places until ``end`` doesn't delay the head."""
    time, then = reservation(state, nodes, uses, head)
    if end <= time:
        return True
    hold(then, len(state.jobs), places)
    return has_room(state, then, head)

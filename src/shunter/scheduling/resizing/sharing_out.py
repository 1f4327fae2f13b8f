"""GPUs given out one by one to whoever gains most, as Optimus and SLAQ do."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from shunter.scheduling.resizing.active import ActiveJobs
from shunter.world import I64


def share_out(active: ActiveJobs, gpus: int, gains: Callable[[int, int], float]) -> I64:
    """Widths: jobs that can't be stopped keep theirs, each gets its fewest in submit order, then by ``gains``.

    ``gains(at, width)`` is what a job gains from one more GPU than ``width``.
    """
    wanted = np.where(active.stays, active.width, 0)
    spare = gpus - int(wanted.sum())
    for at in range(len(active)):
        if not active.stays[at] and active.least[at] <= spare:
            wanted[at] = active.least[at]
            spare -= int(active.least[at])
    heap = [(-gains(at, int(wanted[at])), at) for at in range(len(active)) if 0 < wanted[at] < active.most[at]]
    heapq.heapify(heap)
    while heap and spare > 0:
        gain, at = heapq.heappop(heap)
        if gain >= 0:
            break
        wanted[at] += 1
        spare -= 1
        if wanted[at] < active.most[at]:
            heapq.heappush(heap, (-gains(at, int(wanted[at])), at))
    return wanted

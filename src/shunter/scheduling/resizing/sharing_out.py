"""GPUs given out one by one to whoever gains most, as Optimus and SLAQ do."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from shunter.scheduling.resizing.crew import Crew
from shunter.world import I64


def share_out(crew: Crew, gpus: int, gains: Callable[[int, int], float]) -> I64:
    """Widths: jobs that can't be stopped keep theirs, each gets its fewest in submit order, then by ``gains``.

    ``gains(at, width)`` is what a job gains from one more GPU than ``width``.
    """
    wanted = np.where(crew.stays, crew.width, 0)
    spare = gpus - int(wanted.sum())
    for at in range(len(crew)):
        if not crew.stays[at] and crew.least[at] <= spare:
            wanted[at] = crew.least[at]
            spare -= int(crew.least[at])
    heap = [(-gains(at, int(wanted[at])), at) for at in range(len(crew)) if 0 < wanted[at] < crew.most[at]]
    heapq.heapify(heap)
    while heap and spare > 0:
        gain, at = heapq.heappop(heap)
        if gain >= 0:
            break
        wanted[at] += 1
        spare -= 1
        if wanted[at] < crew.most[at]:
            heapq.heappush(heap, (-gains(at, int(wanted[at])), at))
    return wanted

"""The scheduler's cycle: many start jobs only every few seconds, so that no wait is shorter than some seconds.

The length of the cycle and the shortest wait come from the first days of a history.  When the next cycle begins is
known from the last start before a job was submitted, never from its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.model import Trace
from shunter.world import I64

SECOND_MS = 1000
LONGEST_S = 60
SHARE = 0.8  # of the gaps between starts that are whole cycles
FEWEST = 100  # gaps
SHORT_MS = 600_000  # clocks drift: only gaps up to this count


@dataclass(frozen=True)
class Cycle:
    """Jobs start every ``period`` ms, and ``delay`` ms after their submission at the earliest."""

    period: int
    delay: int

    def waits(self, trace: Trace, simulated: I64) -> I64:
        """Simulated waits (ms, -1: none) with the time until the next cycle."""
        starts = np.sort((trace.submit + trace.recorded_wait)[trace.recorded_wait >= 0])
        last = np.searchsorted(starts, trace.submit, side="left") - 1
        ready = trace.submit + simulated + self.delay
        ahead = np.where(last >= 0, (starts[np.maximum(last, 0)] - ready) % self.period, 0)
        found: I64 = np.where(simulated >= 0, ready + ahead - trace.submit, -1)
        return found


def cycle(trace: Trace, until: int) -> Cycle | None:
    """The cycle that starts before ``until`` (ms) show; None if they show none."""
    early = trace.select((trace.recorded_wait >= 0) & (trace.submit < until))
    gaps = np.diff(np.unique(early.submit + early.recorded_wait))
    gaps = gaps[gaps <= SHORT_MS]
    if len(gaps) < FEWEST:
        return None
    for seconds in range(LONGEST_S, 1, -1):
        if (gaps % (seconds * SECOND_MS) == 0).mean() >= SHARE:
            return Cycle(seconds * SECOND_MS, int(np.percentile(early.recorded_wait, 5)))
    return None

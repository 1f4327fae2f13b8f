"""A site with an autopilot: what it may choose, limits for a few days, and the past that it knows."""

from __future__ import annotations

import numpy as np

from shunter import clusters
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.rule import AutopilotLimits, PastDays, past_days
from shunter.generating.known_jobs import HOUR
from shunter.testing.live import habitual

BASE, BEST = "fifo:backfill=easy", "sjf:backfill=easy"
QUICK = AutopilotLimits.of(
    "days=4,least_days=1,check_days=0.5,least_jobs=50,budget=4,hours=12,worst_p99=10,worst_fairness=0.5"
)


def candidates(*texts: str) -> Candidates:
    return Candidates.of(texts or (BEST,), BASE)


def days_before() -> PastDays:
    """A thousand jobs on two machines, all of which have ended."""
    trace = habitual(1000, 16, 1.1)
    return past_days(trace, clusters.load("2x8"), int(trace.submit[-1]) + HOUR, np.ones(len(trace), np.bool_))

"""Earliest deadline first."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job

NO_DEADLINE = 1e15  # seconds: after all deadlines


@dataclass(frozen=True)
class Edf(Ordering):
    """Earliest deadline first; jobs without one come after, as they came."""

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """When the job is wanted by."""
        return job.due if job.due > 0 else NO_DEADLINE + job.submit

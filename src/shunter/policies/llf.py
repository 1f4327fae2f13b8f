"""Least laxity first."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.model import Trace
from shunter.policies.edf import NO_DEADLINE, no_deadlines
from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Llf(Ordering):
    """Least laxity first: the job that must start soonest to meet its deadline; jobs without one come after."""

    uses_estimate = True
    declared_first = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """The latest time at which the job can start; the laxities of jobs that wait fall together."""
        return job.due - job.remaining if job.due > 0 else NO_DEADLINE + job.submit

    def remarks(self, trace: Trace) -> list[str]:
        """Whether there are deadlines to order by."""
        return super().remarks(trace) + no_deadlines("llf", trace)

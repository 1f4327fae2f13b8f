"""Earliest deadline first, preemptive."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.model import Trace
from shunter.policies.edf import NO_DEADLINE, no_deadlines
from shunter.scheduling.queue.ordering import Preempting
from shunter.world import F64, Job

LATE = 1e12  # seconds: after all that can be in time, before jobs without a deadline
LOOK_S = 120.0


@dataclass(frozen=True)
class Pedf(Preempting):
    """Earliest deadline first, and stops jobs for earlier ones; those that can't be in time any more come after."""

    uses_estimate = True
    declared_first = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """When the job is wanted by; later if its work that is left takes longer."""
        if job.due <= 0:
            return NO_DEADLINE + job.submit
        late = job.submit + job.wait + job.executed + job.remaining > job.due
        return job.due + (LATE if late else 0.0)

    def quantum(self) -> float:
        """Which jobs are late changes as time passes."""
        return LOOK_S

    def remarks(self, trace: Trace) -> list[str]:
        """Whether there are deadlines to order by."""
        return super().remarks(trace) + no_deadlines("pedf", trace)

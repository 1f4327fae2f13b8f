"""Earliest deadline first."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.model import Trace
from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job

NO_DEADLINE = 1e15  # seconds: after all deadlines


def no_deadlines(name: str, trace: Trace) -> list[str]:
    """A remark where a policy that orders jobs by their deadlines has none to order by."""
    return (
        [] if trace.deadline.any() else [f"{name}: no job of the trace has a deadline, so it orders jobs as fifo does"]
    )


@dataclass(frozen=True)
class Edf(Ordering):
    """Earliest deadline first; jobs without one come after, as they came."""

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """When the job is wanted by."""
        return job.due if job.due > 0 else NO_DEADLINE + job.submit

    def remarks(self, trace: Trace) -> list[str]:
        """Whether there are deadlines to order by."""
        return super().remarks(trace) + no_deadlines("edf", trace)

"""Shortest remaining time first, preemptive."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Preempting
from shunter.world import F64, Job


@dataclass(frozen=True)
class Srtf(Preempting):
    """Shortest remaining time first, by estimate: stops running jobs for shorter ones."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Estimated run time that is left."""
        return job.remaining

"""Shortest remaining time first, preemptive."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.params import param
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import MIN_RUN, MIN_RUN_DOC
from shunter.world import F64, Job


@dataclass(frozen=True)
class Srtf(Ordering):
    """Shortest remaining time first, by estimate: stops running jobs for shorter ones."""

    min_run: float = param(MIN_RUN, MIN_RUN_DOC, low=0, high=1000)

    uses_estimate = True
    preemptive = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Estimated run time that is left."""
        return job.remaining

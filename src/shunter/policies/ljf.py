"""Longest job first, by estimated run time."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Ljf(Ordering):
    """Longest job first, by estimated run time."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Estimated run time, longest first."""
        return -job.estimate

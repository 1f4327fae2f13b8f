"""Last in, first out."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Lifo(Ordering):
    """Last in, first out."""

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Time of submission, latest first."""
        return -job.submit

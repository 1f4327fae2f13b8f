"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.policies._ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Fifo(Ordering):
    """First in, first out."""

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Time of submission."""
        return job.submit

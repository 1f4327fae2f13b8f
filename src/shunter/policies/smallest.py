"""Fewest GPUs first."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Smallest(Ordering):
    """Fewest GPUs first."""

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """GPUs."""
        return job.gpus

"""Smallest area first: GPUs times estimated run time (SSF in some papers)."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Saf(Ordering):
    """Smallest area first: GPUs times estimated run time (SSF in some papers)."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """GPUs times estimated run time."""
        return job.gpus * job.estimate

"""Largest area first: GPUs times estimated run time."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Laf(Ordering):
    """Largest area first: GPUs times estimated run time."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """GPUs times estimated run time, largest first."""
        return -job.gpus * job.estimate

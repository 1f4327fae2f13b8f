"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.params import param
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import BOUND_DOC
from shunter.world import F64, Job


@dataclass(frozen=True)
class Fifo(Ordering):
    """First in, first out."""

    bound: float = param(0.0, BOUND_DOC, low=0, high=0.99)  # EASY as published, and as schedulers that run do it

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Time of submission."""
        return job.submit

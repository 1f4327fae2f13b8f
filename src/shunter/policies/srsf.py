"""Smallest remaining service first, preemptive: the area that is left, as far as an estimate can be believed."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.params import Between, param
from shunter.scheduling.queue.ordering import Preempting
from shunter.scheduling.queue.policy import HYSTERESIS_DOC
from shunter.world import F64, Job


@dataclass(frozen=True)
class Srsf(Preempting):
    """Smallest remaining service first: GPUs times the run time that is left, by estimate; stops jobs for smaller ones.

    A job that has run past half of its estimate is expected to run as long again: its key rises with its age.
    """

    hysteresis: float = param(2.0, HYSTERESIS_DOC, low=1, high=1000, scale="log", search=Between(1, 16, log=True))

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """GPUs times what is left of the estimate, or the work done if that is more."""
        return job.gpus * max(job.remaining, job.work)

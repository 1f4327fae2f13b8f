"""QSSF, quasi-shortest-service first: Hu et al. (Helios), SC 2021."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.params import param
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import ESTIMATES, ESTIMATES_DOC
from shunter.world import F64, Job


@dataclass(frozen=True)
class Qssf(Ordering):
    """Least GPU time first, by a run time that is predicted from what ended before."""

    estimate: str = param("blend", ESTIMATES_DOC, choices=ESTIMATES, by_path=True)

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Predicted run time times GPUs."""
        return job.estimate * job.gpus

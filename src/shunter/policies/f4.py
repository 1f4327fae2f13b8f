"""F4: Carastan-Santos and de Camargo, SC 2017; constants as in RLScheduler and RLTune."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class F4(Ordering):
    """F4, learned from simulations by regression: r sqrt(n) + 530000 log10(s), r run time, n GPUs, s submission."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """R sqrt(n) + 530000 log10(s)."""
        return job.estimate * math.sqrt(job.gpus) + 5.3e5 * math.log10(max(job.submit, 0.1))

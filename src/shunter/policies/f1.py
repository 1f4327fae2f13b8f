"""F1: Carastan-Santos and de Camargo, SC 2017; constants as in RLScheduler and RLTune."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class F1(Ordering):
    """F1, learned from simulations by regression: log10(r) n + 870 log10(s), r run time, n GPUs, s submission."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """log10(r) n + 870 log10(s)."""
        return math.log10(max(job.estimate, 1.0)) * job.gpus + 870.0 * math.log10(max(job.submit, 0.1))

"""F3: Carastan-Santos and de Camargo, SC 2017; constants as in RLScheduler and RLTune."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class F3(Ordering):
    """F3, learned from simulations by regression: r n + 6860000 log10(s), r run time, n GPUs, s submission."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """R n + 6860000 log10(s)."""
        return job.estimate * job.gpus + 6.86e6 * math.log10(max(job.submit, 0.1))

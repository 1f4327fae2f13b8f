"""UNICEP: Tang, Lan, Desai, Buettner, CLUSTER 2009; as in RLTune's Table 5."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Unicep(Ordering):
    """UNICEP: waiting time over (log2(GPUs + 1) x run time); the + 1 defines it for one GPU."""

    uses_estimate = True
    varying = True
    ageing = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """-w / (log2(n + 1) r)."""
        return -job.wait / (math.log2(job.gpus + 1.0) * job.estimate)

"""WFP3: Tang, Lan, Desai, Buettner, CLUSTER 2009; as in RLTune's Table 5."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.scheduling.queue.ordering import Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Wfp3(Ordering):
    """WFP3: waiting time over run time, cubed, times GPUs: large jobs that have waited long for their length first."""

    uses_estimate = True
    varying = True
    ageing = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """-(w / r)^3 n."""
        relative = job.wait / job.estimate
        return -(relative * relative * relative) * job.gpus

"""Slurm's multifactor priority plug-in (slurm.schedmd.com/priority_multifactor.html)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.errors import PolicyError
from shunter.model import Trace
from shunter.params import param
from shunter.policies._ordering import Ordering
from shunter.world import F64, Job

DAY = 86_400.0


def _weight(factor: str, default: float) -> float:
    weight: float = param(default, f"weight of {factor}", low=0, high=1e9)
    return weight


@dataclass(frozen=True)
class Multifactor(Ordering):
    """Slurm's priority: age, fair share over decayed GPU time, size, partition and QOS, each with its weight."""

    age: float = _weight("age, which grows to 1 at max_age", 1000.0)
    fairshare: float = _weight("fair share: 2^-(usage / share), 1 for who used nothing", 1000.0)
    size: float = _weight("size: GPUs over the cluster's", 1000.0)
    partition: float = _weight("the virtual cluster's factor (vc_priority in the cluster file)", 0.0)
    qos: float = _weight("the job's own factor (column qos)", 0.0)
    max_age: float = param(7 * DAY, "seconds of waiting at which age counts fully", low=1, high=365 * DAY, scale="log")
    decay: float = param(7 * DAY, "half-life of past usage in seconds", low=60, high=365 * DAY, scale="log")
    favor_small: bool = param(False, "size counts for small jobs instead of large ones")

    varying = True
    ageing = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.age == self.fairshare == self.size == self.partition == self.qos == 0:
            raise PolicyError("multifactor: all weights are 0, so it orders nothing; give at least one, or use fifo")

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Minus Slurm's priority."""
        size = 1.0 - job.size if p[7] > 0 else job.size
        age = min(job.wait / p[5], 1.0)
        fair = 2.0 ** (-job.usage)
        return -float(p[0] * age + p[1] * fair + p[2] * size + p[3] * job.partition + p[4] * job.qos)

    def key_params(self) -> F64:
        """Weights and scales, in the order in which ``key`` reads them."""
        weights = [self.age, self.fairshare, self.size, self.partition, self.qos]
        return np.array([*weights, self.max_age, self.decay, float(self.favor_small)])

    def half_life(self) -> float:
        """Past usage matters if fair share does."""
        return self.decay if self.fairshare > 0 else 0.0

    def remarks(self, trace: Trace) -> list[str]:
        """Weights that do nothing for this trace."""
        useless = [
            (self.fairshare > 0 and len(trace.users) < 2, "fairshare: the trace names fewer than two users"),
            (self.partition > 0 and len(trace.vcs) < 2, "partition: the trace names fewer than two virtual clusters"),
            (self.qos > 0 and not trace.qos.any(), "qos: no job of the trace has a qos factor"),
            (self.favor_small and self.size == 0, "favor_small: the weight of size is 0"),
        ]
        return super().remarks(trace) + [f"multifactor: {why}, so it does nothing" for hit, why in useless if hit]

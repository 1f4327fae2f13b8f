"""A policy of your own in ten lines, and how it compares.

``key`` is compiled, so it runs as fast as the built-in ones; backfilling, blocking and placement come with it.
"""

from dataclasses import dataclass

import numpy as np

import shunter
from shunter import Ordering
from shunter.params import param
from shunter.world import F64, Job


@dataclass(frozen=True)
class Patient(Ordering):
    """Small jobs first, but jobs that wait long enough overtake them."""

    patience: float = param(3600.0, "seconds of waiting that outweigh one GPU", low=1, high=1e6, scale="log")

    varying = True  # the key changes while a job waits ...
    ageing = True  # ... and only falls

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Smaller first."""
        return job.gpus - job.wait / float(p[0])

    def key_params(self) -> F64:
        """What ``key`` gets as ``p``."""
        return np.array([self.patience])


if __name__ == "__main__":
    policies = ["fifo", "smallest", Patient(), Patient(patience=600.0, backfill="easy")]
    comparison = shunter.compare("synthetic:jobs=500,gpus=64,load=1.2", "8x8", policies)
    for row in comparison.policies:
        print(f"{row['policy']:40} mean wait {row['wait_s']['mean']:8,.0f} s, longest {row['wait_s']['max']:8,.0f} s")

"""Gandiva as Dally's authors compare with it: Xiao et al., OSDI 2018; Sharma et al., IEEE Big Data 2025."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.model import View
from shunter.params import param
from shunter.policies._leasing import Leasing
from shunter.policies._queued import Mask, Placing
from shunter.policies._tiers import AFFINE, LIST, SCATTER
from shunter.world import F64, I64, Job


@dataclass(frozen=True)
class Gandiva(Leasing):
    """Keeps jobs of a size on the same machines and takes any GPUs where that fails; knows nothing of the network."""

    draw: str = param(
        "random",
        "which GPUs, where no machine has room: by chance, or in their order (list)",
        choices=("random", "list"),
    )

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Who started last comes first, who never started last."""
        return -job.started

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """One machine by affinity, else any GPUs of the cluster."""
        takes = holds.copy()
        takes[1:-1] = False
        return Placing(AFFINE, SCATTER if self.draw == "random" else LIST, takes)

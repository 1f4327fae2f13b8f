"""Optimus: Peng et al., EuroSys 2018."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.model import View
from shunter.params import param
from shunter.scheduling.resizing.active import ActiveJobs
from shunter.scheduling.resizing.placing import total_gpus
from shunter.scheduling.resizing.policy import Resizing, ResizingMemory, Widths
from shunter.scheduling.resizing.sharing_out import share_out
from shunter.world import F64


@dataclass(frozen=True)
class OptimusPolicy(Resizing):
    """Gives GPUs one by one to the job whose remaining time they shorten most; deadlines mean nothing to it."""

    interval: float = param(600.0, "seconds between two rounds", low=1, high=86_400)

    def widths(self, view: View, active: ActiveJobs, memory: ResizingMemory) -> Widths:
        """Every job its fewest GPUs, as they came; the others by the time that they save."""
        node_gpus = int(view.nodes.total.max())

        def gains(at: int, width: int) -> float:
            speeds: F64 = active.best(at, node_gpus)
            return float(active.left[at] * (1 / speeds[width] - 1 / speeds[width + 1]))

        return Widths(share_out(active, total_gpus(view), gains), list(np.arange(len(active))))

"""SLAQ: Zhang et al., SoCC 2017."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.model import View
from shunter.params import param
from shunter.scheduling.resizing.active import ActiveJobs
from shunter.scheduling.resizing.placing import total_gpus
from shunter.scheduling.resizing.policy import Resizing, ResizingMemory, Widths
from shunter.scheduling.resizing.sharing_out import share_out

FIRST = 0.01  # of its work: what the loss curve of a job begins with


@dataclass(frozen=True)
class Slaq(Resizing):
    """Gives GPUs one by one to the job whose loss they lower most until the next round, if losses fall as 1/k."""

    interval: float = param(300.0, "seconds between two rounds", low=1, high=86_400)

    def widths(self, view: View, active: ActiveJobs, memory: ResizingMemory) -> Widths:
        """Every job its fewest GPUs, as they came; the others by what the loss falls."""
        node_gpus, step = int(view.nodes.total.max()), self.interval * 1000
        done = view.work(active.rows)
        whole = done + active.left

        def loss(at: int, width: int) -> float:
            ahead = done[at] + step * active.best(at, node_gpus)[width]
            return float(1 / (FIRST + ahead / whole[at]))

        def gains(at: int, width: int) -> float:
            return loss(at, width) - loss(at, width + 1)

        return Widths(share_out(active, total_gpus(view), gains), list(np.arange(len(active))))

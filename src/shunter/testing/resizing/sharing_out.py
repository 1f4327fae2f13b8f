"""GPUs given out one by one to whoever gains most, as Optimus and SLAQ do, in plain Python."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shunter.model import View
from shunter.policies.slaq import fall_of
from shunter.predictors.progress.curves import BINS
from shunter.predictors.progress.extrapolating import SMALLEST_LOSS
from shunter.testing.resizing.active import ActiveJobs
from shunter.testing.resizing.placing import Widths, total_gpus
from shunter.testing.resizing.policy import PlainResizing, PlainResizingMemory
from shunter.world import F64, I64

FIRST = 0.01  # of its work: what the loss curve of a job begins with


def share_out(active: ActiveJobs, gpus: int, gains: Callable[[int, int], float]) -> I64:
    """Widths: jobs that can't be stopped keep theirs, each gets its fewest in submit order, then by ``gains``.

    ``gains(at, width)`` is what a job gains from one more GPU than ``width``.
    """
    wanted = np.where(active.stays, active.width, 0)
    spare = gpus - int(wanted.sum())
    for at in range(len(active)):
        if not active.stays[at] and active.least[at] <= spare:
            wanted[at] = active.least[at]
            spare -= int(active.least[at])
    heap = [(-gains(at, int(wanted[at])), at) for at in range(len(active)) if 0 < wanted[at] < active.most[at]]
    heapq.heapify(heap)
    while heap and spare > 0:
        gain, at = heapq.heappop(heap)
        if gain >= 0:
            break
        wanted[at] += 1
        spare -= 1
        if wanted[at] < active.most[at]:
            heapq.heappush(heap, (-gains(at, int(wanted[at])), at))
    return wanted


@dataclass(frozen=True)
class PlainOptimus(PlainResizing):
    """Optimus: by the time that GPUs save."""

    interval: float = 600.0

    def widths(self, view: View, active: ActiveJobs, memory: PlainResizingMemory) -> Widths:
        """Every job its fewest GPUs, as they came; the others by the time that they save."""
        node_gpus = int(view.nodes.total.max())

        def gains(at: int, width: int) -> float:
            speeds: F64 = active.best(at, node_gpus)
            return float(active.left[at] * (1 / speeds[width] - 1 / speeds[width + 1]))

        return Widths(share_out(active, total_gpus(view), gains), list(np.arange(len(active))))


@dataclass(frozen=True)
class PlainSlaq(PlainResizing):
    """SLAQ: by what the loss falls until the next round."""

    interval: float = 300.0

    def reads_losses(self, view: View) -> bool:
        """Where there are any."""
        return view.knows_losses

    def read(self, view: View, memory: PlainResizingMemory, job: int, losses: F64) -> None:
        """The curve of a job."""
        super().read(view, memory, job, losses)
        found = fall_of(losses)
        if found is not None:
            memory.own.setdefault("curves", {})[job] = found

    def widths(self, view: View, active: ActiveJobs, memory: PlainResizingMemory) -> Widths:
        """Every job its fewest GPUs, as they came; the others by what the loss falls."""
        node_gpus, step = int(view.nodes.total.max()), self.interval * 1000
        done, curves = view.work(active.rows), memory.own.get("curves", {})
        whole = done + active.left

        def loss(at: int, width: int) -> float:
            job, ahead = int(active.rows[at]), done[at] + step * active.best(at, node_gpus)[width]
            if job in curves:
                slope, level, scale = curves[job]
                part = 1.0 + BINS * ahead / view.jobs.declared[job]
                return float(scale / max(slope * part + level, SMALLEST_LOSS))
            return float(1 / (FIRST + ahead / whole[at]))

        def gains(at: int, width: int) -> float:
            return loss(at, width) - loss(at, width + 1)

        return Widths(share_out(active, total_gpus(view), gains), list(np.arange(len(active))))

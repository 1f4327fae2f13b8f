"""Where Lucid puts a job that gets GPUs of its own: fewest nodes, best fit, among the nodes that are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shunter.model import View
from shunter.placers import consolidate
from shunter.world import I64


class Places:
    """Room to work in, so that looking for a place allocates little."""

    def __init__(self, gpus: int) -> None:
        self._nodes, self._counts = np.zeros(gpus, np.int64), np.zeros(gpus, np.int64)

    def __deepcopy__(self, memo: object) -> Places:
        return Places(len(self._nodes))

    def find(self, view: View, job: int, among: Sequence[int] | I64) -> tuple[int, ...] | None:
        """Free GPUs for a job on these nodes, None if there are too few or not together."""
        nodes = np.asarray(among, np.int64)
        usable, wanted = self.usable(view, job, nodes), int(view.jobs.gpus[job])
        if usable.sum() < wanted:
            return None
        total = view.nodes.total[nodes]
        order = np.argsort(-total, kind="stable")
        used = consolidate.place(usable, total, order, wanted, 0, self._nodes, self._counts)
        if used == 0:
            return None
        chosen = zip(nodes[self._nodes[:used]], self._counts[:used], strict=True)
        return tuple(int(gpu) for node, count in chosen for gpu in view.free_gpus(int(node))[:count])

    def could_hold(self, view: View, job: int, nodes: I64) -> bool:
        """Whether these nodes would have room for a job if nothing ran there."""
        total = view.nodes.total[nodes].copy()
        if view.jobs.gpu_type[job] >= 0:
            total[view.nodes.gpu_type[nodes] != view.jobs.gpu_type[job]] = 0
        order = np.argsort(-total, kind="stable")
        return consolidate.place(total, total, order, int(view.jobs.gpus[job]), 0, self._nodes, self._counts) > 0

    @staticmethod
    def usable(view: View, job: int, nodes: I64) -> I64:
        """Free GPUs of each node that a job can use, given its type and what CPU and memory it wants beside each."""
        usable = view.nodes.free[nodes].copy()
        if view.jobs.gpu_type[job] >= 0:
            usable[view.nodes.gpu_type[nodes] != view.jobs.gpu_type[job]] = 0
        for free, each in ((view.nodes.cpu_free, view.jobs.cpu), (view.nodes.mem_free, view.jobs.mem)):
            if each[job] > 0:
                usable = np.minimum(usable, free[nodes] // each[job])
        found: I64 = usable
        return found

"""Lucid's indolent packing: a job may join another on the same GPUs if both are light enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shunter import world as w
from shunter.model import View

UNKNOWN = -1  # the score of a job that was never seen running
HEAVIEST = 2


@dataclass
class Packing:
    """Who may share, who does, and with whom."""

    capacity: int  # the sum of the scores on a GPU
    ratio: float  # the newcomer's priority over the resident's, at most
    memory: float  # of a GPU, MiB
    score_of: Callable[[float, float, float], int]  # from GPU utilisation, memory utilisation and memory
    on: bool = True
    score: dict[int, int] = field(default_factory=dict)
    partner: dict[int, int] = field(default_factory=dict)
    alone: dict[tuple[int, int, int], dict[int, float]] = field(default_factory=dict)
    # by virtual cluster, GPUs and score: those that run without a neighbour in the order of their starts, with priority
    joined: list[tuple[int, int, int]] = field(default_factory=list)  # time, newcomer, resident

    def rate(self, view: View, job: int) -> int:
        """The sharing score of a job, from what was seen of it."""
        if job not in self.score:
            use, memory, bandwidth = (float(value) for value in view.world.use[:, job])
            if np.isnan(use):
                return UNKNOWN
            self.score[job] = self.score_of(use, bandwidth, memory)
        return self.score[job]

    def may_share(self, view: View, job: int) -> bool:
        """Whether a job is of a kind that is ever packed: whole GPUs of one node, and seen before."""
        whole, gpus = view.jobs.share[job] == 1000, int(view.jobs.gpus[job])
        return bool(whole) and gpus <= int(view.nodes.total.max()) and self.rate(view, job) != UNKNOWN

    def lives_alone(self, view: View, job: int, priority: float) -> None:
        """A job runs on GPUs of its own: others may join it, if all of them are on one node."""
        if not self.may_share(view, job):
            return
        nodes = {int(view.gpus.node[gpu]) for gpu in view.placement(job)}
        if len(nodes) == 1:
            self.alone.setdefault(self._key(view, job), {})[job] = priority

    def _key(self, view: View, job: int) -> tuple[int, int, int]:
        return int(view.jobs.vc[job]), int(view.jobs.gpus[job]), self.rate(view, job)

    def left(self, view: View, job: int, priority_of: Callable[[int], float]) -> None:
        """A job is off its GPUs: a partner that stays runs alone again."""
        self.alone.get(self._key(view, job), {}).pop(job, None)
        other = self.partner.pop(job, None)
        if other is not None and self.partner.pop(other, None) is not None and view.jobs.state[other] == w.RUNNING:
            self.lives_alone(view, other, priority_of(other))

    def find(self, view: View, job: int, priority: float) -> tuple[int, bool]:
        """The first resident that a job may join, -1 if there is none; and whether only memory was in the way."""
        vc, gpus, score = self._key(view, job)
        short_of_memory = False
        for other_score in range(min(self.capacity - score, HEAVIEST) + 1):
            for other, theirs in self.alone.get((vc, gpus, other_score), {}).items():
                if priority > self.ratio * theirs or not self._suits(view, job, other):
                    continue
                if view.world.use[w.GPU_MEMORY, [job, other]].sum() < self.memory:
                    return other, False
                short_of_memory = True
        return -1, short_of_memory

    @staticmethod
    def _suits(view: View, job: int, other: int) -> bool:
        """Whether the nodes of a running job do for another: type, CPU and memory."""
        node = int(view.gpus.node[view.placement(other)[0]])
        gpus = int(view.jobs.gpus[job])
        kind = view.jobs.gpu_type[job] in (-1, view.nodes.gpu_type[node])
        cpu = view.nodes.cpu_free[node] >= view.jobs.cpu[job] * gpus
        return bool(kind and cpu and view.nodes.mem_free[node] >= view.jobs.mem[job] * gpus)

    def join(self, view: View, job: int, other: int) -> None:
        """A job joins another."""
        self.alone[self._key(view, other)].pop(other)
        self.partner[job], self.partner[other] = other, job
        self.joined.append((view.now, job, other))

"""A policy as a newcomer to shunter writes it: plain Python, nothing compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.cluster import Cluster
from shunter.model import NOTHING, Plan, Start, View


@dataclass(frozen=True)
class PlainFifo:
    """First in, first out, best fit; a job larger than a node takes idle nodes, lowest index first."""

    needs = frozenset[str]()

    def start(self, cluster: Cluster, previous: None = None) -> None:
        """Nothing to remember."""

    def decide(self, view: View, memory: None) -> Plan:
        """Start the first job if it fits."""
        waiting = view.pending
        if not len(waiting):
            return NOTHING
        job = int(waiting[0])
        gpus, free = int(view.jobs.gpus[job]), view.nodes.free
        enough = np.flatnonzero(free >= gpus)
        if len(enough):
            nodes = [enough[free[enough].argmin()]]
        else:
            idle = np.flatnonzero(free == view.nodes.total)
            nodes = list(idle[: np.searchsorted(np.cumsum(free[idle]), gpus) + 1])
        chosen = [gpu for node in nodes for gpu in view.free_gpus(node).tolist()][:gpus]
        return Plan((Start(job, chosen),)) if len(chosen) == gpus else NOTHING

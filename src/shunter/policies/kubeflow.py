"""Kubeflow's default: first in, first out, tasks spread over nodes."""

from __future__ import annotations

from dataclasses import dataclass

from shunter import placers
from shunter.params import param
from shunter.scheduling.queue.ordering import PLACEMENT_DOC, Ordering
from shunter.world import F64, Job


@dataclass(frozen=True)
class Kubeflow(Ordering):
    """First in, first out, on as many GPUs as asked for, spread over nodes: what Kubeflow does by default."""

    placement: str = param("spread", PLACEMENT_DOC, choices=placers.names(), by_path=True)

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Time of submission."""
        return job.submit

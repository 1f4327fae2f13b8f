"""Least attained service (2D-LAS without queues): Gu et al., Tiresias, NSDI 2019."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.params import Between, param
from shunter.scheduling.queue.ordering import Preempting
from shunter.world import F64, Job


@dataclass(frozen=True)
class Las(Preempting):
    """Least attained GPU time first: needs no estimate, stops running jobs for those that had less."""

    look_again: float = param(
        600.0,
        "seconds between two checks of the running jobs",
        low=1,
        high=86_400,
        scale="log",
        search=Between(60, 7200, log=True),
    )

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """GPU time so far."""
        return job.attained

    def quantum(self) -> float:
        """As configured."""
        return self.look_again

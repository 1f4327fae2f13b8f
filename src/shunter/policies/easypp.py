"""EASY++: backfilling by what users' last jobs took (Tsafrir, Etsion and Feitelson, TPDS 2007)."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.params import param
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import (
    BACKFILL_DOC,
    BACKFILLS,
    BOUND_DOC,
    CANDIDATES,
    CANDIDATES_DOC,
    ESTIMATES,
    ESTIMATES_DOC,
)
from shunter.world import F64, Job


@dataclass(frozen=True)
class EasyPlusPlus(Ordering):
    """EASY++: first come, first served; the shortest job backfills, by the mean of the user's last two jobs."""

    estimate: str = param("last-two", ESTIMATES_DOC, choices=ESTIMATES, by_path=True)
    bound: float = param(0.0, BOUND_DOC, low=0, high=0.99)
    backfill: str = param("easy", BACKFILL_DOC, choices=BACKFILLS)
    candidates: str = param("shortest", CANDIDATES_DOC, choices=CANDIDATES)

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Submission."""
        return job.submit

"""What a choice of settings buys and costs: means, tails, sizes of jobs, fairness."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from shunter.sweeps.work import SIZES

MEASURES = {  # by the columns of runs, in words
    "jct_s.mean": "mean JCT",
    "jct_s.p99": "P99 of the JCT",
    "wait_s.mean": "mean wait",
    "wait_s.p99": "P99 of the wait",
    "missed_share": "share of deadlines missed",
    **{f"by_size.{size}.jct_s.mean": f"mean JCT, {size} GPU{'s' * (size != '1')}" for size in SIZES},
    "fairness.jain": "Jain's fairness of users",
    "fairness.worst_bsld": "worst mean slowdown of a user",
    "fairness.rho_at_most_1": "share with rho <= 1",
    "preemptions": "preemptions",
    "lost_gpu_hours": "GPU hours lost to stops",
}
WITHOUT_USERS = {  # where no job names its user, jobs are compared
    "fairness.jain": "Jain's fairness of jobs",
    "fairness.worst_bsld": "worst slowdown of a job",
}


@dataclass(frozen=True)
class Effect:
    """One measure, with the policy as given and with the best one."""

    measure: str  # the column
    label: str
    given: float
    best: float

    def as_dict(self) -> dict[str, float | str | None]:
        """For scripts."""
        ratio = self.best / self.given if self.given else math.nan
        numbers = {"given": self.given, "best": self.best, "ratio": ratio}
        return {
            "measure": self.measure,
            "label": self.label,
            **{key: value if math.isfinite(value) else None for key, value in numbers.items()},
        }


def effects(given: Mapping[str, float], best: Mapping[str, float], users: bool) -> list[Effect]:
    """Every measure that both have; ``users``: jobs name theirs."""
    labels = MEASURES if users else MEASURES | WITHOUT_USERS
    both = [name for name in labels if not math.isnan(given.get(name, math.nan) + best.get(name, math.nan))]
    return [Effect(name, labels[name], given[name], best[name]) for name in both]

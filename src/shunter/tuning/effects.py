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
    **{f"by_size.{size}.jct_s.mean": f"mean JCT, {size} GPU{'s' * (size != '1')}" for size in SIZES},
    "fairness.jain": "Jain's fairness of users",
    "fairness.worst_bsld": "worst mean slowdown of a user",
    "fairness.rho_at_most_1": "share with rho <= 1",
    "preemptions": "preemptions",
    "lost_gpu_hours": "GPU hours lost to stops",
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


def effects(given: Mapping[str, float], best: Mapping[str, float]) -> list[Effect]:
    """Every measure that both have."""
    both = [name for name in MEASURES if not math.isnan(given.get(name, math.nan) + best.get(name, math.nan))]
    return [Effect(name, MEASURES[name], given[name], best[name]) for name in both]

"""What a paper says about two schedulers, how many times as large a measure of one is, and what becomes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from shunter.report.bootstrap import Estimate
from shunter.report.tables import number
from shunter.reproduce.trials import Scheduler
from shunter.reproduce.writing import record

HALF = 0.005  # printed numbers are rounded


@dataclass(frozen=True)
class Claim:
    """A measure of ``base`` is so many times as large as that of ``better``."""

    data: str
    measure: str
    base: Scheduler
    better: Scheduler
    factor: float = math.nan  # NaN: it is not said how many times
    what: str = ""  # of which part of the jobs; empty: of all
    upto: bool = False  # it is the largest of several
    source: str = ""

    @property
    def text(self) -> str:
        """What is compared, in words."""
        measure = {"jct_mean_s": "mean JCT", "wait_mean_s": "mean queueing delay"}[self.measure]
        return f"{measure}{f' in {self.what}' if self.what else ''}, {self.base.label} over {self.better.label}"

    @property
    def printed(self) -> str:
        """The printed factor."""
        if math.isnan(self.factor):
            return "above 1×"
        return f"{'up to ' if self.upto else ''}{number(self.factor)}×"

    @property
    def key(self) -> str:
        """The name of the number in a run."""
        return f"{self.what} {self.measure}".strip()


@dataclass(frozen=True)
class Finding:
    """What became of a claim."""

    claim: Claim
    ours: Estimate

    @property
    def direction(self) -> str:
        """Whether the one is below the other: yes where all of the interval says so."""
        low, high = _ends(self.ours)
        return "yes" if low > 1 else "no" if high < 1 else "not clear"

    @property
    def size(self) -> str:
        """Whether it is as much: the interval has the printed factor in it."""
        low, high = _ends(self.ours)
        if math.isnan(self.claim.factor):
            return "-"
        if low <= self.claim.factor + HALF and high >= self.claim.factor - HALF:
            return "yes"
        return "larger" if low > self.claim.factor else "smaller"

    @property
    def record(self) -> dict[str, Any]:
        """All of it for scripts."""
        claim = self.claim
        factor = None if math.isnan(claim.factor) else claim.factor
        about = {"claim": claim.text, "data": claim.data, "source": claim.source, "printed": factor}
        return {
            **about,
            "up_to": claim.upto,
            "ours": record(self.ours),
            "direction": self.direction,
            "size": self.size,
        }


def _ends(ours: Estimate) -> tuple[float, float]:
    """The interval; of too few repeats it is all that could be."""
    return (ours.low, ours.high) if math.isfinite(ours.low) else (0.0, math.inf)

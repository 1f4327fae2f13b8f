"""Claims of a paper about two schedulers, how many times as large a measure of one is, and our results.

A printed size counts as reproduced by the rule of an equivalence test: all of our 95 % interval must lie within the
printed range, widened by a tolerance.  An interval that merely overlaps the range shows nothing: the more our repeats
differ, the more it overlaps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from shunter.report.bootstrap import Estimate
from shunter.report.terminal.tables import number
from shunter.reproduce.trials import Scheduler
from shunter.reproduce.writing import record

Place: TypeAlias = Literal["below", "inside", "above", "not clear"]

MEASURES = {
    "jct_mean_s": "mean JCT",
    "wait_mean_s": "mean queueing delay",
    "jct": "mean JCT",
    "wait": "mean wait",
    "bsld": "mean bounded slowdown",
    "utilization": "GPUs in use",
}
TOLERANCE = 1.1  # a factor of up to 1.1 away from what is printed counts as the same size
RULE = (
    "Size: yes where the whole 95 % interval lies within the printed range, widened by a factor of"
    f" {TOLERANCE:g} at both ends; not clear where only a part of it does."
)


@dataclass(frozen=True)
class Claim:
    """A measure of ``base`` is this many times as large as that of ``better``."""

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
        measure = MEASURES[self.measure]
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
class ClaimResult:
    """A claim and our result."""

    claim: Claim
    ours: Estimate

    @property
    def direction(self) -> str:
        """Whether the one is below the other: yes where all of the interval says so."""
        low, high = _ends(self.ours)
        return "yes" if low > 1 else "no" if high < 1 else "not clear"

    @property
    def size(self) -> str:
        """Whether it is as much as printed, see ``place``."""
        if math.isnan(self.claim.factor):
            return "-"
        found = place(self.ours, self.claim.factor, self.claim.factor)
        return {"inside": "yes", "below": "smaller", "above": "larger", "not clear": "not clear"}[found]

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


def place(ours: Estimate, low: float, high: float, tolerance: float = TOLERANCE) -> Place:
    """Where all of the interval of a factor lies: within a range, which ``tolerance`` widens, below it, or above."""
    (least, most), (low, high) = _ends(ours), (low / tolerance, high * tolerance)
    if low <= least and most <= high:
        return "inside"
    return "below" if most < low else "above" if least > high else "not clear"


def _ends(ours: Estimate) -> tuple[float, float]:
    """The interval; of too few repeats it is all that could be."""
    return (ours.low, ours.high) if math.isfinite(ours.low) else (0.0, math.inf)

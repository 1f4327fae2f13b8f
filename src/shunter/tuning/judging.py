"""Judges what a search chose on jobs that it did not see: how much of the gain survives there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.report.bootstrap import Draws, Estimate
from shunter.report.intervals import bounds, unsure
from shunter.tuning.evaluating import Evaluated

LABELS = {"jct": "mean JCT", "wait": "mean wait", "tail": "P99 of the wait"}


def change(own: Evaluated, given: Evaluated, objective: str, draws: Draws) -> Estimate:
    """By which part an objective is above (below: negative) that of the policy as given, with its interval."""
    before = given.value(objective)
    if before <= 0:
        return Estimate(math.nan, math.nan, math.nan)
    value = own.value(objective) / before - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = own.drawn(objective, draws) / given.drawn(objective, draws) - 1
    between = bounds(drawn, value, draws.parts) or {"low": math.nan, "high": math.nan}
    return Estimate(value, between["low"], between["high"])


def tied(own: Evaluated, best: Evaluated, objective: str, draws: Draws) -> bool:
    """Whether no difference to the best is shown."""
    return unsure(own.drawn(objective, draws) - best.drawn(objective, draws), draws.parts)


@dataclass(frozen=True)
class Judgement:
    """What becomes of a gain on jobs that the search did not see."""

    objective: str
    policy: str  # the best by this objective on the jobs that the search saw
    chosen: bool  # it is not the policy as given
    seen: Estimate  # the change on the jobs that the search saw
    unseen: Estimate | None  # that on others; None: it was not judged
    where: str = "later jobs"  # what the others are

    @property
    def survives(self) -> float | None:
        """The part of the gain that is there on the others, too; None: there is no gain, or none is shown there."""
        if self.unseen is None or not self.seen.value < 0 or not self.shown:
            return None
        return max(self.unseen.value / self.seen.value, 0.0)

    @property
    def shown(self) -> bool:
        """Whether the interval on the others leaves out that there is no difference."""
        return self.unseen is not None and (self.unseen.low > 0 or self.unseen.high < 0)

    @property
    def words(self) -> str:
        """All of it in a sentence."""
        label = LABELS[self.objective]
        if not self.chosen:
            return f"By {label}, nothing that was tried did better than the policy as given."
        head = f"{self.policy}: on the jobs it was chosen on: {_percent(self.seen.value)} {label}"
        if self.unseen is None:
            return head + "."
        interval = (
            ""
            if math.isnan(self.unseen.low)
            else f" (95 %: {_percent(self.unseen.low)} to {_percent(self.unseen.high)})"
        )
        return f"{head}; on {self.where} that it did not see: {_percent(self.unseen.value)}{interval}: {self._fate}."

    @property
    def _fate(self) -> str:
        assert self.unseen is not None
        if math.isnan(self.unseen.value):
            return f"can't be compared, because the {LABELS[self.objective]} is 0 there"
        if not self.shown:
            return "no difference is shown there, so none of the gain is shown to survive"
        if self.unseen.value > 0:
            return "nothing of the gain survives; it is worse there, so keep the policy as given"
        least, most = self.unseen.high / self.seen.value, self.unseen.low / self.seen.value
        if least >= 1:
            return "all of the gain survives"
        between = [f"{100 * part:.0f}" for part in (least, most)]
        return f"{' to '.join(dict.fromkeys(between))} % of the gain survives"

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "objective": self.objective,
            "policy": self.policy,
            "seen": _record(self.seen),
            "unseen": None if self.unseen is None else _record(self.unseen),
            "survives": self.survives,
            "shown": self.shown,
            "words": self.words,
        }


def _record(found: Estimate) -> dict[str, float | None]:
    named = {"change": found.value, "low": found.low, "high": found.high}
    return {name: None if math.isnan(value) else value for name, value in named.items()}


def _percent(part: float) -> str:
    if math.isnan(part):
        return "unknown"
    digits = 0 if abs(part) >= 0.1 else 1
    text = f"{100 * part:+.{digits}f} %"
    return "0 %" if float(text[:-2]) == 0 else text

"""Judges what a search chose on jobs that it did not see: how much of the gain survives there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.report.bootstrap import Draws, Estimate
from shunter.report.intervals import bounds, unsure
from shunter.texts import between, percent
from shunter.tuning.evaluating import Evaluated
from shunter.world import F64

LABELS = {
    "jct": "mean JCT",
    "wait": "mean wait",
    "tail": "P99 of the wait",
    "deadlines": "share of deadlines missed",
}


@dataclass(frozen=True, eq=False)
class Change:
    """By which part an objective is above (below: negative) that of the policy as given."""

    value: float  # NaN: the policy as given has none of it
    drawn: F64  # the same over all jobs, and after it in every draw of them
    parts: int  # of which jobs are drawn

    @property
    def estimate(self) -> Estimate:
        """With its interval."""
        return _estimate(self.drawn, self.value, self.parts)


def change(own: Evaluated, given: Evaluated, objective: str, draws: Draws) -> Change:
    """The change of an objective, with its draws."""
    before = given.value(objective)
    if before <= 0:
        return Change(math.nan, np.full(len(draws.weights), math.nan), draws.parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = own.drawn(objective, draws) / given.drawn(objective, draws) - 1
    return Change(own.value(objective) / before - 1, drawn, draws.parts)


def surviving(seen: Change, unseen: Change) -> Estimate:
    """The part of a gain that is there on other jobs, too, with both gains uncertain.

    The jobs are not the same, so what is drawn of them is independent: every draw of one goes with every draw of the
    other.  A draw without a gain on the jobs that the search saw has no such part; there are hardly any where that
    gain is shown.
    """
    if not seen.value < 0:
        return Estimate(math.nan, math.nan, math.nan)
    value, before = unseen.value / seen.value, seen.drawn[1:]
    quotients = np.divide.outer(unseen.drawn[1:], before[before < 0]).ravel()
    return _estimate(np.concatenate([[value], quotients]), value, min(seen.parts, unseen.parts))


def _estimate(drawn: F64, value: float, parts: int) -> Estimate:
    ends = None if math.isnan(value) else bounds(drawn, value, parts)
    return Estimate(value, math.nan, math.nan) if ends is None else Estimate(value, ends["low"], ends["high"])


def tied(own: Evaluated, best: Evaluated, objective: str, draws: Draws) -> bool:
    """Whether no difference from the best is shown."""
    return unsure(own.drawn(objective, draws) - best.drawn(objective, draws), draws.parts)


@dataclass(frozen=True)
class Judgement:
    """What becomes of a gain on jobs that the search did not see."""

    objective: str
    policy: str  # the best by this objective on the jobs that the search saw
    given: str  # the policy that it is compared with ...
    against: bool  # ... which is another one than the policy that was searched
    seen: Estimate  # the change on the jobs that the search saw
    unseen: Estimate | None = None  # that on others; None: it was not judged
    part: Estimate | None = None  # of the gain that is there on the others, too
    where: str = "later jobs"  # which jobs those are

    @property
    def survives(self) -> Estimate | None:
        """The part of the gain that is there on the others, too; None: either change is not shown."""
        return self.part if self.shown and self.gain_shown else None

    @property
    def shown(self) -> bool:
        """Whether the interval on the others leaves out that there is no difference."""
        return self.unseen is not None and _leaves_out_0(self.unseen)

    @property
    def gain_shown(self) -> bool:
        """The same on the jobs that the search saw."""
        return _leaves_out_0(self.seen)

    @property
    def words(self) -> str:
        """All of it in a sentence."""
        label = LABELS[self.objective]
        if self.policy == self.given:
            return f"By {label}, nothing that was tried did better than {self._base}."
        if math.isnan(self.seen.value):
            return f"{self.policy}: can't be compared, because the {label} is 0 with {self._base} where it was chosen."
        head = f"{self.policy}: on the jobs it was chosen on: {percent(self.seen.value)} {label}{_interval(self.seen)}"
        head += f" against {self.given}" if self.against else ""
        if self.unseen is None:
            return head + "."
        there = f"on {self.where} that it did not see: {percent(self.unseen.value)}{_interval(self.unseen)}"
        return f"{head}; {there}: {self._fate}."

    @property
    def _base(self) -> str:
        return self.given if self.against else "the policy as given"

    @property
    def _fate(self) -> str:
        assert self.unseen is not None
        if math.isnan(self.unseen.value):
            return f"can't be compared, because the {LABELS[self.objective]} is 0 there"
        if self.unseen.low == self.unseen.high == 0:
            return f"both have the same {LABELS[self.objective]} there, so these jobs can't show what survives"
        if not self.shown:
            again = "a gain was seen again, but" if self.unseen.value < 0 else "no gain was seen again, and"
            return f"{again} chance is not ruled out: the interval includes 0"
        return self._surviving

    @property
    def _surviving(self) -> str:
        """What is left of the gain, where a difference is shown."""
        assert self.unseen is not None
        if self.unseen.value > 0:
            return f"no gain was seen again; it is worse there, so keep {self._base}"
        if self.survives is None:
            return "it is better there, but the gain before is not clear, so no part of it is certain"
        if self.survives.low >= 1:
            return "the gain was seen again, all of it"
        low, high = (f"{100 * part:.0f}" for part in self.survives[1:])
        if self.survives.high >= 1:
            return f"the gain was seen again; at least {low} % of it is certain"
        return f"the gain was seen again, {between(low, high)} % of it"

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "objective": self.objective,
            "policy": self.policy,
            "seen": _record("change", self.seen),
            "unseen": None if self.unseen is None else _record("change", self.unseen),
            "survives": None if self.survives is None else _record("part", self.survives),
            "shown": self.shown,
            "words": self.words,
        }


def _leaves_out_0(found: Estimate) -> bool:
    return found.low > 0 or found.high < 0


def _record(name: str, found: Estimate) -> dict[str, float | None]:
    named = {name: found.value, "low": found.low, "high": found.high}
    return {key: None if math.isnan(value) else value for key, value in named.items()}


def _interval(found: Estimate) -> str:
    return "" if math.isnan(found.low) else f" (95 %: {percent(found.low)} to {percent(found.high)})"

"""What came of a replay of an autopilot: runs side by side, the aims, and a verdict in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.rule import AutopilotLimits
from shunter.adapting.autopilot.shadows import WatchedDay
from shunter.generating.known_jobs import DAY, HOUR
from shunter.report.bootstrap import Estimate
from shunter.report.intervals import quotient_of_means
from shunter.report.so_far import FEWEST_JOBS
from shunter.texts import counted
from shunter.world import F64, I64

BASELINE, FIXED, PILOT, OPTIMAL = "baseline", "fixed", "autopilot", "optimal"
LABELS = {
    BASELINE: "the site's policy",
    FIXED: "Fixed",
    PILOT: "autopilot",
    OPTIMAL: "Optimal (truth)",
}
AIM_FIXED, AIM_SHARE, WORTH = 0.98, 0.5, 0.03  # what an autopilot should reach
NOTABLE = 0.01  # smaller differences are not worth a word


@dataclass(frozen=True)
class ReplayOptions:
    """How an autopilot is replayed."""

    candidates: Candidates
    limits: AutopilotLimits = field(default_factory=AutopilotLimits)
    every: int = DAY  # ms between decisions
    rest: int = DAY  # ms after a hand-back, until an operator lets it act again
    seed: int = 0
    copy: int = 0  # 0: the jobs as they are; else with run times that differ by 1 %, other ones for each number


@dataclass(frozen=True)
class ReplayedDecision:
    """What was decided at an instant."""

    at: int
    answer: str
    before: str
    policy: str
    why: str
    evidence: str
    evaluations: int = 0  # 0: nothing was searched


@dataclass(frozen=True, eq=False)
class PilotedRun:
    """What came of a run."""

    jct: F64  # seconds
    fair: float = math.nan  # the share of jobs with rho of at most 1
    decisions: tuple[ReplayedDecision, ...] = ()
    days: tuple[WatchedDay, ...] = ()
    policy: str = ""  # of one that stays
    stops: int = 0  # of jobs that went on later

    @property
    def mean(self) -> float:
        """Mean JCT in seconds."""
        return float(np.nanmean(self.jct))

    @property
    def p99(self) -> float:
        """Of the JCT in seconds."""
        return float(np.nanpercentile(self.jct, 99))


@dataclass(frozen=True, eq=False)
class PilotStudy:
    """All runs on the same jobs."""

    options: ReplayOptions
    runs: dict[str, PilotedRun]
    submit: I64
    begin: int
    unknown: str = ""  # why Fixed is the site's policy: too little was known before; "": it is a choice

    def over_fixed(self, name: str = PILOT) -> float:
        """How many times as good as the fixed choice."""
        return self.runs[FIXED].mean / self.runs[name].mean

    @property
    def alike(self) -> bool:
        """Whether every job took as long in all runs."""
        base = self.runs[BASELINE].jct
        return all(np.array_equal(run.jct, base, equal_nan=True) for run in self.runs.values())

    @property
    def stopped(self) -> bool:
        """Whether the choices of the rule stopped jobs."""
        return any(self.runs[name].stops for name in (PILOT, FIXED))

    def within_limits(self, name: str) -> bool:
        """Whether a run kept the operator's limits, which are relative to the site's policy."""
        run, base, limits = self.runs[name], self.runs[BASELINE], self.options.limits
        return run.p99 <= limits.worst_p99 * base.p99 and run.fair >= limits.worst_fairness * base.fair

    @property
    def undecided(self) -> str:
        """Why the autopilot never searched, so that it chose nothing; "": it did."""
        decisions = self.runs[PILOT].decisions
        if any(each.evaluations for each in decisions):
            return ""
        return decisions[-1].why if decisions else "all jobs came at once"

    @property
    def bad_days(self) -> list[WatchedDay]:
        """Days on which jobs came and that were in truth too bad."""
        return [day for day in self.runs[PILOT].days if day.worse and day.at - DAY < self.submit[-1]]

    @property
    def missed_days(self) -> int:
        """Bad days without a hand-back at their end or a day later."""
        back = [day.at for day in self.runs[PILOT].days if day.handed_back]
        return sum(not any(day.at <= at <= day.at + DAY for at in back) for day in self.bad_days)

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        pilot = self.runs[PILOT]
        return {
            "jobs": len(self.submit),
            "baseline": self.options.candidates.baseline,
            "candidates": list(self.options.candidates.texts),
            "limits": dataclasses.asdict(self.options.limits),
            "every_h": self.options.every / HOUR,
            "runs": {name: self._record(name) for name in self.runs},
            "decisions": [dataclasses.asdict(each) | {"day": self._day(each.at)} for each in pilot.decisions],
            "days": [each.as_dict() | {"day": self._day(each.at)} for each in pilot.days],
            "bad_days": len(self.bad_days),
            "undecided": self.undecided,
            "fixed_unknown": self.unknown,
            "gain": _gain([self]),
            "aims": aims([self]),
            "verdict": verdict([self]),
        }

    def _day(self, at: int) -> float:
        return (at - self.begin) / DAY

    def _record(self, name: str) -> dict[str, Any]:
        run, base = self.runs[name], self.runs[BASELINE]
        week = (self.submit - self.begin) // (7 * DAY)
        weeks = [float(np.nanmean(run.jct[week == at])) for at in np.unique(week)]
        return {
            "label": LABELS[name],
            "policy": run.policy,
            "jct_s": {"mean": run.mean, "p99": run.p99, "weeks": weeks},
            "over_fixed": self.over_fixed(name),
            "over_baseline": base.mean / run.mean,
            "p99_of_baseline": run.p99 / base.p99,
            "fair": run.fair,
            "fairness_of_baseline": run.fair / base.fair if base.fair else None,
            "within_limits": self.within_limits(name),
            "switches": sum(each.policy != each.before for each in run.decisions),
        }


def aims(studies: Sequence[PilotStudy]) -> dict[str, bool | None]:
    """Whether the autopilot reached what it should, in the mean of copies; None: the aim does not apply.

    No aim applies to an autopilot that never searched, because it is the site's policy.  Those relative to Fixed don't
    apply where Fixed breaks the operator's limits, or is no choice because nothing was known at first; and that of the
    guard does not where no day was bad.
    """
    means = {name: float(np.mean([study.runs[name].mean for study in studies])) for name in LABELS}
    reached, room = means[FIXED] / means[PILOT], means[FIXED] / means[OPTIMAL] - 1
    decided = not any(study.undecided for study in studies)
    allowed = decided and all(study.within_limits(FIXED) and not study.unknown for study in studies)
    tried = decided and any(study.bad_days for study in studies)
    return {
        "0.98 of Fixed": reached >= AIM_FIXED if allowed else None,
        "half of Optimal - Fixed": reached - 1 >= AIM_SHARE * room if allowed and room > WORTH else None,
        "handed back after a bad day": not sum(study.missed_days for study in studies) if tried else None,
    }


def over_baseline(studies: Sequence[PilotStudy], name: str = PILOT) -> Estimate:
    """How many times as good as the site's policy a run is, in the mean of copies, which have the same jobs."""
    base, own = ([study.runs[each].jct for study in studies] for each in (BASELINE, name))
    return quotient_of_means(base, own, studies[0].options.seed)


def _gain(studies: Sequence[PilotStudy]) -> dict[str, float | None]:
    found = over_baseline(studies)
    return {key: value if math.isfinite(value) else None for key, value in found._asdict().items()}


def verdict(studies: Sequence[PilotStudy]) -> str:
    """What an operator should make of it, in words."""
    if why := next((study.undecided for study in studies if study.undecided), ""):
        return f"Can't tell whether the autopilot helps here, because {why}."
    if (jobs := len(studies[0].submit)) < FEWEST_JOBS:
        few = f"{counted(jobs, 'job')} came, and {FEWEST_JOBS} are needed"
        return f"Can't tell whether the autopilot helps here, because {few}."
    return " ".join(filter(None, (_worth(studies), _stops(studies), _unknown(studies))))


def _worth(studies: Sequence[PilotStudy]) -> str:
    """What it gained over the site's policy."""
    if all(study.alike for study in studies):
        return "No policy made a difference to these jobs."
    gain = over_baseline(studies)
    if not all(study.within_limits(PILOT) for study in studies):
        return f"Don't use it with these limits: it broke one, see above. It was {_times(gain)}, by mean JCT."
    if gain.value < 1 - NOTABLE:
        return f"Don't use it here: it was {_times(gain)}, by mean JCT."
    if gain.value <= 1 + NOTABLE:
        worse = f"{100 * (1 - gain.value):.1g} % worse than the site's policy"
        return f"It gains nothing here: it was {worse if gain.value < 1 else _times(gain)}, by mean JCT."
    doubt = ", but no gain is shown" * _chance(gain)
    weak = " One run is weak evidence: try other weeks." * (len(studies) == 1)
    return f"It was {_times(gain)}, by mean JCT{doubt}.{_first_choice(studies)}{weak}"


def _first_choice(studies: Sequence[PilotStudy]) -> str:
    """What the first choice alone gained, and whether it is enough."""
    fixed = studies[0].runs[FIXED].policy
    if not all(study.within_limits(FIXED) for study in studies):
        return f" Its first choice, {fixed}, kept throughout, broke a limit."
    if fixed == studies[0].options.candidates.baseline:
        return ""
    alone, gain = over_baseline(studies, FIXED), over_baseline(studies)
    enough = alone.value * (1 + NOTABLE) >= gain.value and not _chance(alone) and not _chance(gain)
    said = f" Its first choice, {fixed}, kept throughout, was {_times(alone, '')}."
    return said + " Set that policy and leave the autopilot off." * enough


def _chance(gain: Estimate) -> bool:
    """Whether the interval, as it is shown, includes that there is no gain."""
    return not round(gain.low, 2) > 1


def _times(gain: Estimate, than: str = " as the site's policy") -> str:
    interval = f" (95 %: {gain.low:.2f} to {gain.high:.2f})" if math.isfinite(gain.low) else ""
    return f"{gain.value:.2f} times as good{than}{interval}"


def _stops(studies: Sequence[PilotStudy]) -> str:
    """That the choices stop jobs, which a live cluster may not do."""
    if not any(study.stopped for study in studies):
        return ""
    return "This stops jobs, which a live autopilot never assumes: repeat it with --checkpointable none."


def _unknown(studies: Sequence[PilotStudy]) -> str:
    """That there was no first choice."""
    if not studies[0].unknown:
        return ""
    return "Nothing was known at first, so there is no first choice to compare with; begin later."


def repeated(studies: Sequence[PilotStudy]) -> dict[str, Any]:
    """The first study for scripts, and what the copies gave."""
    found = studies[0].as_dict()
    if len(studies) == 1:
        return found
    copies = [study.as_dict() for study in studies]
    means = {name: float(np.mean([copy["runs"][name]["jct_s"]["mean"] for copy in copies])) for name in LABELS}
    summary = {
        name: {
            "label": LABELS[name],
            "jct_s": means[name],
            "over_fixed": means[FIXED] / means[name],
            "over_baseline": means[BASELINE] / means[name],
            **{
                f"{key}_by_copy": [copy["runs"][name][key] for copy in copies]
                for key in ("over_fixed", "over_baseline", "p99_of_baseline", "fairness_of_baseline", "within_limits")
            },
        }
        for name in LABELS
    }
    days = [day | {"copy": at} for at, copy in enumerate(copies) for day in copy["days"]]
    undecided = next((study.undecided for study in studies if study.undecided), "")
    return {
        **found,
        "days": days,
        "bad_days": sum(copy["bad_days"] for copy in copies),
        "copies": len(copies),
        "means": summary,
        "undecided": undecided,
        "gain": _gain(studies),
        "aims": aims(studies),
        "verdict": verdict(studies),
    }

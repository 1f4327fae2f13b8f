"""The decision rule of an autopilot, the same in a replay and on a live cluster.

It replays the last weeks with every candidate.  Settings are compared on the older days of them, and the last days must
confirm the choice.  The limits hold on all days, so the last ones only leave settings out of a search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from shunter import registry
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.objectives import OBJECTIVES, jct_of, rho_of
from shunter.cluster import Cluster
from shunter.errors import AbandonedError, PolicyError, RunError
from shunter.generating.known_jobs import DAY
from shunter.model import Trace
from shunter.params import build, named, param
from shunter.report.finish_fairness import FAIR
from shunter.sim.engine import Simulator
from shunter.tuning.sampling import sampled, search_named
from shunter.world import F64

DECISIONS_PER_JOB, DECISIONS_AT_LEAST = 100, 20_000  # after which a run is abandoned
WORTH_A_SEARCH = 0.01  # share of the time in the system that the baseline's jobs wait; below, nothing is to be gained


@dataclass(frozen=True)
class AutopilotLimits:
    """What an operator allows."""

    objective: str = param("jct", "what is to become better", choices=tuple(OBJECTIVES))
    worst_p99: float = param(1.5, "the most that P99 of the JCT may be, in times of the baseline's", low=0.1, high=100)
    worst_fairness: float = param(
        0.95, "the least that the share of jobs with rho <= 1 may be, in times of the baseline's", low=0, high=10
    )
    hours: float = param(24.0, "hours between two switches, at least", low=0.01, high=8760)
    gain: float = param(1.03, "times as good must another policy be to switch", low=1, high=100)
    days: float = param(14.0, "days of the past on which candidates are tried, at most", low=0.01, high=84)
    least_days: float = param(7.0, "days of the past without which nothing is switched", low=0.01, high=84)
    least_jobs: int = param(200, "ended jobs without which nothing is switched", low=1, high=1_000_000)
    check_days: float = param(4.0, "the last days, which confirm a choice and are not searched on", low=0.005, high=42)
    budget: int = param(48, "runs of one search", low=2, high=10_000)

    @classmethod
    def of(cls, text: str) -> AutopilotLimits:
        """What a text such as ``worst_p99=1.2,hours=48`` says."""
        found = build(cls, "limits", named(f"limits:{text}", "--limits", RunError)[1], "--limits", RunError)
        if not found.check_days < found.least_days <= found.days:
            raise RunError("--limits: must have check_days < least_days <= days")
        return found


class PilotAction(StrEnum):
    """What came of a decision."""

    SWITCH = "switch"
    STAY = "stay"
    UNKNOWN = "can't tell yet"


@dataclass(frozen=True)
class PilotVerdict:
    """Whether to switch, to what, and why."""

    answer: PilotAction
    policy: str  # to be in force from now on
    why: str
    evidence: str = ""
    evaluations: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class PastDays:
    """What a site knows of its last days, as a trace that can be replayed; run times of unfinished jobs are guesses."""

    trace: Trace
    cluster: Cluster
    now: int  # ms

    def last(self, days: float) -> PastDays:
        """The jobs of the last days alone."""
        return PastDays(self.trace.select(self.trace.submit >= self.now - round(days * DAY)), self.cluster, self.now)

    @property
    def days(self) -> float:
        """Since the first job."""
        return (self.now - int(self.trace.submit[0])) / DAY if len(self.trace) else 0.0


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a policy would have done with past days."""

    jct: F64  # seconds, per job
    fair: F64  # 1: rho is at most 1
    waited: float  # share of the time in the system

    @property
    def p99(self) -> float:
        """Of the JCT."""
        return float(np.nanpercentile(self.jct, 99))


@dataclass
class Autopilot:
    """Decides, again and again, which policy is in force; ``replayed`` policies are kept for one decision."""

    candidates: Candidates
    limits: AutopilotLimits = field(default_factory=AutopilotLimits)
    seed: int = 0
    on_evaluation: Callable[[], None] = lambda: None

    def decide(self, past: PastDays, in_force: str, since_switch_h: float = math.inf) -> PilotVerdict:
        """What should be in force now, by what is known of the past."""
        begun, limits = time.perf_counter(), self.limits
        window = past.last(limits.days)
        if why := self._unknown(window):
            return PilotVerdict(PilotAction.UNKNOWN, in_force, why)
        if since_switch_h < limits.hours:
            why = f"the last switch was {since_switch_h:.1f} h ago, and one per {limits.hours:g} h is allowed"
            return PilotVerdict(PilotAction.STAY, in_force, why)
        trial = _Trial(window, self, limits.check_days)
        base = trial.of(self.candidates.baseline)
        if base is None:
            return PilotVerdict(PilotAction.UNKNOWN, in_force, "the baseline could not be replayed")
        if base.waited < WORTH_A_SEARCH and in_force == self.candidates.baseline:
            return PilotVerdict(PilotAction.STAY, in_force, f"jobs hardly wait ({base.waited:.1%} of their time)")
        found = trial.searched(in_force, limits.budget)
        return self._verdict(trial, found, in_force, time.perf_counter() - begun)

    def best_fixed(self, past: PastDays, budget: int) -> str:
        """The best choice on all of the past days, within the limits; the baseline where too little is known."""
        window = past.last(self.limits.days)
        if self._unknown(window):
            return self.candidates.baseline
        return _Trial(window, self, 0.0).searched(self.candidates.baseline, budget)

    def _unknown(self, past: PastDays) -> str:
        limits = self.limits
        if past.days < limits.least_days:
            return f"{past.days:.1f} days are known, and {limits.least_days:g} are needed"
        if len(past.trace) < limits.least_jobs:
            return f"{len(past.trace)} jobs are known, and {limits.least_jobs} are needed"
        if trial_days_empty(past, limits.check_days):
            return f"no job came in the last {limits.check_days:g} days, or none before them"
        return ""

    def _verdict(self, trial: _Trial, best: str, in_force: str, seconds: float) -> PilotVerdict:
        base, limits = self.candidates.baseline, self.limits
        outside = "" if in_force == base else trial.outside(in_force)
        tried, numbers = len(trial.runs), trial.evidence(best, in_force)
        if outside and (best == base or not trial.confirmed(best, base)):
            return PilotVerdict(PilotAction.SWITCH, base, f"back to the baseline: {outside}", numbers, tried, seconds)
        if best == in_force:
            return PilotVerdict(PilotAction.STAY, in_force, trial.nothing_better(in_force), numbers, tried, seconds)
        gain = trial.gain(best, in_force)
        if not outside and gain < limits.gain:
            why = f"{best} would be {gain:.3f} times as good, and {limits.gain:g} is needed"
            return PilotVerdict(PilotAction.STAY, in_force, why, numbers, tried, seconds)
        if not trial.confirmed(best, base if outside else in_force):
            why = f"the last {limits.check_days:g} days don't confirm {best}"
            return PilotVerdict(PilotAction.STAY, in_force, why, numbers, tried, seconds)
        because = f"it would have been {gain:.3f} times as good in the days before" + (
            f", and {outside}" if outside else ""
        )
        return PilotVerdict(PilotAction.SWITCH, best, because, numbers, tried, seconds)


def trial_days_empty(past: PastDays, check_days: float) -> bool:
    """Whether there is nothing to search on, or nothing to confirm a choice with."""
    late = past.trace.submit >= past.now - round(check_days * DAY)
    return not late.any() or bool(late.all())


class _Trial:
    """The candidates on the same past days."""

    def __init__(self, past: PastDays, pilot: Autopilot, check_days: float) -> None:
        self.past, self.pilot, self.limits = past, pilot, pilot.limits
        self.late = past.trace.submit >= past.now - round(check_days * DAY)
        self.runs: dict[str, Replayed | None] = {}
        self._simulator = Simulator(past.trace, past.cluster, seed=pilot.seed)

    def of(self, text: str) -> Replayed | None:
        """What a policy would have done; None: it did not come to an end."""
        if text not in self.runs:
            self.pilot.on_evaluation()
            self.runs[text] = self._replayed(text)
        return self.runs[text]

    def _replayed(self, text: str) -> Replayed | None:
        twin, limit = self._simulator.fork(), DECISIONS_PER_JOB * len(self.past.trace) + DECISIONS_AT_LEAST
        try:
            twin.run(registry.policy(text), budget=limit)
        except (AbandonedError, PolicyError):
            return None
        jct = jct_of(twin)
        if twin.exhausted or np.isnan(jct).all():
            return None
        waited = 1 - float(np.nansum(self.past.trace.duration / 1000)) / max(float(np.nansum(jct)), 1e-9)
        return Replayed(jct, (rho_of(twin) <= FAIR).astype(np.float64), waited)

    def searched(self, in_force: str, budget: int) -> str:
        """The best policy within the limits on the older days; of equals the one in force."""
        spaces = self.pilot.candidates.spaces
        begin = list(dict.fromkeys((in_force, *self.pilot.candidates.first)))
        if not spaces or budget <= len(begin):
            return min(begin, key=self.value)
        search = search_named("random", spaces, budget, self.pilot.seed)
        return sampled(search, begin, lambda texts: [self.value(text) for text in texts])

    def value(self, text: str) -> float:
        """The objective on the older days, smaller is better; infinite outside of the limits."""
        found = self.of(text)
        if found is None or (text != self.pilot.candidates.baseline and self.outside(text)):
            return math.inf
        return self._part(found, ~self.late)

    def _part(self, found: Replayed, rows: NDArray[np.bool_]) -> float:
        if self.limits.objective == "rho":
            return 1 - float(found.fair[rows].mean())
        return float(np.nanmean(found.jct[rows]))

    def outside(self, text: str) -> str:
        """Which limit a policy would not have kept, on all the days; "": none."""
        found, base, limits = self.of(text), self.of(self.pilot.candidates.baseline), self.limits
        if found is None or base is None:
            return f"{text} did not come to an end"
        if found.p99 > limits.worst_p99 * base.p99:
            return f"P99 of {text} would be {found.p99 / base.p99:.2f} times the baseline's"
        fair, base_fair = float(found.fair.mean()), float(base.fair.mean())
        if fair < limits.worst_fairness * base_fair:
            return f"with {text} {fair:.1%} of the jobs would have rho <= 1, and {base_fair:.1%} with the baseline"
        better = self.gain(text, self.pilot.candidates.baseline, late=True) if self.late.any() else 1.0
        if better < 1 / limits.gain:
            return f"{text} would have been {better:.2f} times as good as the baseline in the last days"
        return ""

    def nothing_better(self, in_force: str) -> str:
        """Why the policy in force is the best: nothing is better, or what is better would not keep the limits."""
        better = {
            text: self._part(found, ~self.late)
            for text, found in self.runs.items()
            if found is not None and self.gain(text, in_force) >= self.limits.gain
        }
        if not better:
            return "nothing better was found"
        return f"nothing better was found within the limits: {self.outside(min(better, key=better.__getitem__))}"

    def gain(self, text: str, other: str, late: bool = False) -> float:
        """How many times as good a policy is as another, on the older or on the last days."""
        one, two = self.of(text), self.of(other)
        if one is None or two is None:
            return math.inf if two is None else 0.0
        rows = self.late if late else ~self.late
        value, present = self._part(one, rows), self._part(two, rows)
        return present / value if value > 0 else 1.0 if present <= 0 else math.inf

    def confirmed(self, text: str, other: str) -> bool:
        """Whether the last days, on which settings were not compared, say that a policy is better, too."""
        return self.gain(text, other, late=True) > 1

    def evidence(self, best: str, in_force: str) -> str:
        """Numbers that a person can check."""
        names = dict.fromkeys((best, in_force, self.pilot.candidates.baseline))
        parts = [self._numbers(name) for name in names if self.of(name) is not None]
        return f"{len(self.past.trace)} jobs of {self.past.days:.1f} days, {len(self.runs)} runs: " + "; ".join(parts)

    def _numbers(self, name: str) -> str:
        found = self.of(name)
        assert found is not None
        early, late = (float(np.nanmean(found.jct[rows])) / 3600 for rows in (~self.late, self.late))
        return f"{name}: JCT {early:.3g} h, last days {late:.3g} h, P99 {found.p99 / 3600:.3g} h"


def past_days(trace: Trace, cluster: Cluster, now: int, fits: Sequence[str] = ()) -> PastDays:
    """Jobs that a cluster can run with each of these policies, submitted before now."""
    from shunter.sim.feasibility import unfit

    kept = trace.submit < now
    for text in fits:
        kept &= ~unfit(trace, cluster, registry.policy(text))
    return PastDays(trace.select(np.flatnonzero(kept)), cluster, now)

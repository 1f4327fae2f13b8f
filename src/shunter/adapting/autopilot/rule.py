"""The decision rule of an autopilot, the same in a replay and on a live cluster.

It replays the last weeks with every candidate.  A search tries each once; the best of it are compared on several copies
of the same weeks, because a queue is chaotic and one run says little.  The last days must confirm the choice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from shunter import registry
from shunter.adapting.abandoning import most_decisions
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.objectives import OBJECTIVES, jct_of, rho_of
from shunter.cluster import Cluster
from shunter.errors import AbandonedError, InvariantError, PolicyError, RunError
from shunter.generating.known_jobs import DAY, HOUR
from shunter.model import Trace
from shunter.params import build, param, settings_of
from shunter.report.finish_fairness import FAIR
from shunter.report.so_far import JobsBetween, least_p99, most_fair
from shunter.sim.engine import Simulator
from shunter.sim.feasibility import unfit
from shunter.texts import counted
from shunter.tuning.sampling import sampled, search_named
from shunter.world import F64, I64

FINALISTS = 3  # policies of a search that are compared on all copies
WORTH_A_SEARCH = 1e-4  # share of the time in the system that the baseline's jobs wait; below, nothing is to be gained
WORSE_LATELY = 1.03  # times as good as a policy may the baseline have been in the last days


@dataclass(frozen=True)
class AutopilotLimits:
    """What an operator allows."""

    objective: str = param("jct", "what to minimise", choices=tuple(OBJECTIVES))
    worst_p99: float = param(1.5, "maximum P99 of the JCT, relative to the baseline's", low=1, high=100)
    worst_fairness: float = param(
        0.95, "minimum share of jobs with rho <= 1, relative to the baseline's", low=0, high=1
    )
    worst_day: float = param(
        1.05,
        "in replays: maximum time that jobs spend in the system over a day, relative to the baseline's",
        low=1,
        high=100,
    )
    hours: float = param(24.0, "minimum hours between two switches", low=0.01, high=8760)
    gain: float = param(1.0, "how many times as good another policy must be to leave the baseline", low=1, high=100)
    again: float = param(2.0, "how many times as good another policy must be to leave a choice", low=1, high=100)
    prefer: float = param(
        1.2, "how many times as good as the candidate named first another first choice must be", low=1, high=100
    )
    days: float = param(28.0, "maximum days of the past on which candidates are tried", low=0.01, high=84)
    least_days: float = param(7.0, "days of history required before any switch", low=0.01, high=84)
    least_jobs: int = param(200, "ended jobs required before any switch", low=1, high=1_000_000)
    check_days: float = param(4.0, "recent days on which a new choice must also be better", low=0.005, high=42)
    budget: int = param(48, "runs per search", low=2, high=10_000)
    copies: int = param(3, "replays of the best, with run times changed by 1 %", low=1, high=100)

    @classmethod
    def of(cls, text: str) -> AutopilotLimits:
        """What a text such as ``worst_p99=1.2,hours=48`` says."""
        found = build(cls, text, settings_of(text, f"--limits '{text}'", RunError), "--limits", RunError)
        # The first job of the days in view is hardly ever at their very beginning, so that fewer than all are known.
        if not found.check_days < found.least_days < found.days:
            got = f"{found.check_days:g}, {found.least_days:g} and {found.days:g}"
            raise RunError(
                f"--limits '{text}': check_days, least_days and days must increase in this order, and are {got}; set"
                " all three, such as check_days=4,least_days=7,days=28"
            )
        return found

    def kept(self, jobs: JobsBetween, base: JobsBetween) -> bool:
        """Whether jobs are within P99 and fairness, which are relative to the baseline's."""
        return jobs.p99 <= self.worst_p99 * base.p99 and jobs.fair >= self.worst_fairness * base.fair


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
    shortlist: tuple[str, ...] = ()  # the best of the search; the next search tries them, too


@dataclass(frozen=True)
class PastDays:
    """What a site knows of its last days, as a trace that can be replayed; run times of unfinished jobs are guesses."""

    trace: Trace
    cluster: Cluster
    now: int  # ms
    ended: NDArray[np.bool_]  # (jobs,) whether its run time is known

    def last(self, days: float) -> PastDays:
        """The jobs of the last days alone."""
        rows = self.trace.submit >= self.now - round(days * DAY)
        return PastDays(self.trace.select(rows), self.cluster, self.now, self.ended[rows])

    @property
    def days(self) -> float:
        """Since the first job that has ended: one that still runs says nothing of the days before."""
        ended = self.trace.submit[self.ended]
        return (self.now - int(ended[0])) / DAY if len(ended) else 0.0


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a policy would have done with past days, a row per copy of them."""

    jct: F64  # (copies, jobs) seconds
    fair: F64  # (copies, jobs) 1: rho is at most 1
    waited: float  # share of the time in the system

    @property
    def p99(self) -> float:
        """Of the JCT, mean of the copies."""
        return float(np.nanpercentile(self.jct, 99, axis=1).mean())

    @property
    def least_p99(self) -> float:
        """What the P99 is at least, beyond chance, mean of the copies."""
        return float(np.mean([least_p99(seconds[~np.isnan(seconds)]) for seconds in self.jct]))

    @property
    def most_fair(self) -> float:
        """What the share of jobs with rho <= 1 is at most, beyond chance."""
        return most_fair(float(self.fair.mean()), self.fair.shape[1])


@dataclass
class Autopilot:
    """Decides, again and again, which policy is in force; what was replayed is kept for one decision."""

    candidates: Candidates
    limits: AutopilotLimits = field(default_factory=AutopilotLimits)
    seed: int = 0
    on_evaluation: Callable[[], None] = lambda: None

    def decide(
        self,
        past: PastDays,
        in_force: str,
        since_switch_h: float = math.inf,
        shortlist: Sequence[str] = (),
        budget: int = 0,
    ) -> PilotVerdict:
        """What should be in force now, by what is known of the past; ``shortlist`` is that of the verdict before.

        ``budget``: runs of this search, if not as many as of the others.
        """
        begun, limits, kept = time.perf_counter(), self.limits, tuple(shortlist)
        window = past.last(limits.days)
        if why := self.unknown(past):
            return PilotVerdict(PilotAction.UNKNOWN, in_force, why, shortlist=kept)
        if since_switch_h < limits.hours:
            why = f"the last switch was {since_switch_h:.1f} h ago, and one per {limits.hours:g} h is allowed"
            return PilotVerdict(PilotAction.STAY, in_force, why, shortlist=kept)
        trial = PastTrial(window, self)
        base = trial.of(self.candidates.baseline)
        if base is None:
            return PilotVerdict(PilotAction.UNKNOWN, in_force, "the baseline could not be replayed", shortlist=kept)
        if base.waited < WORTH_A_SEARCH and in_force == self.candidates.baseline:
            why = f"jobs hardly wait ({100 * max(base.waited, 0.0):.1f} % of their time)"
            return PilotVerdict(PilotAction.STAY, in_force, why, shortlist=kept)
        found = trial.searched((in_force, *kept), budget or limits.budget)
        final = PastTrial(window, self, limits.copies)
        verdict = self._verdict(final, found, in_force, trial)
        runs, seconds = len(trial.runs) + limits.copies * len(final.runs), time.perf_counter() - begun
        return replace(verdict, evaluations=runs, seconds=seconds, shortlist=tuple(found))

    def best_fixed(self, past: PastDays, budget: int) -> str:
        """The first choice on the past days, for any gain; the baseline where too little is known."""
        window, base = past.last(self.limits.days), self.candidates.baseline
        if self.unknown(past):
            return base
        found = PastTrial(window, self).searched((base,), budget)
        return PastTrial(window, self, self.limits.copies).first_choice((base, *found), gain=1.0)

    def unknown(self, past: PastDays) -> str:
        """Why nothing can be decided; "": it can. The last days, on which it decides, may begin with a calm week."""
        limits, window = self.limits, past.last(self.limits.days)
        if (ended := int(window.ended.sum())) < limits.least_jobs:
            days = f"the last {limits.days:g} days"
            return f"{counted(ended, 'job', 'have')} ended in {days}, and {limits.least_jobs} are needed (least_jobs)"
        if past.days < limits.least_days:
            return f"{past.days:.1f} days are known, and {limits.least_days:g} are needed (least_days)"
        if trial_days_empty(window, limits.check_days):
            return f"no job came in the last {limits.check_days:g} days, or none before them"
        return ""

    def _verdict(self, final: PastTrial, found: Sequence[str], in_force: str, trial: PastTrial) -> PilotVerdict:
        """What the finalists of a search lead to.

        Whether a choice in force keeps the limits is up to the guard, which sees what happened. What a replay says
        would have happened is weaker evidence.
        """
        base, limits = self.candidates.baseline, self.limits
        left = in_force != base  # the baseline is left for any gain
        best = final.best((in_force, base, *found)) if left else final.first_choice((base, *found), limits.gain)
        gain, numbers = final.gain(best, in_force), final.evidence(best, in_force)
        if best == in_force or (left and gain <= 1):
            why = trial.nothing_better(in_force)
        elif left and (doubt := final.doubt(best, in_force, limits.again, "again")):
            why = doubt
        elif gain < limits.gain and not left:
            why = f"{best} would be {gain:.3f} times as good, and {limits.gain:g} is needed (gain)"
        else:
            why = f"it would have been {gain:.3f} times as good in the days before{final.preference(best)}"
            return PilotVerdict(PilotAction.SWITCH, best, why, numbers)
        return PilotVerdict(PilotAction.STAY, in_force, why, numbers)


def trial_days_empty(past: PastDays, check_days: float) -> bool:
    """Whether all that ended are of the last days, or no job is: the last days would confirm nothing."""
    late = past.trace.submit >= past.now - round(check_days * DAY)
    return not late.any() or bool(late[past.ended].all())


def best_few(
    candidates: Candidates, begin: Sequence[str], budget: int, seed: int, now: int, value: Callable[[str], float]
) -> list[str]:
    """The best of a search, which tries ``begin``, too, the best first; those that do the same count once."""
    begin = list(dict.fromkeys((*begin, *candidates.first)))
    runs = max(budget, len(begin)) if candidates.spaces else len(begin)
    hour = now // HOUR  # other settings at each decision: what searches find adds up
    search = search_named("random", candidates.spaces, runs, seed + hour)
    sampled(search, begin, lambda texts: [value(text) for text in texts])
    different: dict[float, str] = {}
    for text in sorted(search.seen, key=search.seen.__getitem__):
        different.setdefault(search.seen[text], text)
    return [text for found, text in different.items() if math.isfinite(found)][:FINALISTS]


class PastTrial:
    """The candidates on the same past days, and on copies of them with slightly other run times."""

    def __init__(self, past: PastDays, pilot: Autopilot, copies: int = 1) -> None:
        self.past, self.pilot, self.limits = past, pilot, pilot.limits
        self.late = past.trace.submit >= past.now - round(pilot.limits.check_days * DAY)
        self.runs: dict[str, Replayed | None] = {}
        self._copies = [near_times(past.trace.duration, past.trace.limit, at, pilot.seed) for at in range(copies)]
        self._simulator = Simulator(past.trace, past.cluster, seed=pilot.seed)

    def of(self, text: str) -> Replayed | None:
        """What a policy would have done; None: it did not come to an end."""
        if text not in self.runs:
            self.runs[text] = self._replayed(text)
        return self.runs[text]

    def _replayed(self, text: str) -> Replayed | None:
        jct, fair = [], []
        for durations in self._copies:
            self.pilot.on_evaluation()
            twin = self._run(text, durations)
            if twin is None:
                return None
            jct.append(jct_of(twin))
            fair.append((rho_of(twin) <= FAIR).astype(np.float64))
        ran = float(np.sum(self._copies)) / 1000
        return Replayed(np.array(jct), np.array(fair), 1 - ran / max(float(np.nansum(jct)), 1e-9))

    def _run(self, text: str, durations: I64) -> Simulator | None:
        twin = self._simulator.fork_with(durations)
        try:
            twin.run(registry.policy(text), budget=most_decisions(len(self.past.trace)))
        except (AbandonedError, InvariantError, PolicyError):
            return None
        return None if twin.exhausted or np.isnan(jct_of(twin)).all() else twin

    def searched(self, begin: Sequence[str], budget: int) -> list[str]:
        """The best policies within the limits, the best first; those that do the same count once."""
        return best_few(self.pilot.candidates, begin, budget, self.pilot.seed, self.past.now, self.value)

    def best(self, texts: Sequence[str]) -> str:
        """The best of these within the limits; of equals the first."""
        return min(texts, key=self.value)

    def first_choice(self, texts: Sequence[str], gain: float) -> str:
        """What the baseline is left for: the candidate named first, or the best of these if it is clearly better.

        What did best on some weeks was often worse afterwards than a good guess.
        """
        best, preferred = self.best(texts), self.pilot.candidates.preferred
        reached = self.gain(preferred, self.pilot.candidates.baseline)
        good = math.isfinite(self.value(preferred)) and reached > 1 and reached >= gain
        return preferred if good and self.doubt(best, preferred, self.limits.prefer, "prefer") else best

    def preference(self, choice: str) -> str:
        """That a first choice is not the best, and why, to be added to a reason; "": it is."""
        best = self.best(tuple(self.runs))
        if choice != self.pilot.candidates.preferred or best == choice:
            return ""
        return f", and is preferred: {self.doubt(best, choice, self.limits.prefer, 'prefer')}"

    def doubt(self, best: str, choice: str, need: float, limit: str = "") -> str:
        """Why something else is not taken in place of a choice although it was better on the whole; "": it is.

        ``limit`` is the name of what is needed.
        """
        gain = self.gain(best, choice)
        if gain < need:
            return f"{best} would be {gain:.3f} times as good, and {need:g} is needed" + f" ({limit})" * bool(limit)
        if not self._surely(best, choice):
            return f"{best} would be {gain:.3f} times as good, but not if run times differed by 1 %"
        if not self._confirmed(best, choice):
            return f"{best} was not better in the last {self.limits.check_days:g} days"
        return ""

    def value(self, text: str) -> float:
        """The objective, smaller is better; infinite outside of the limits."""
        found = self.of(text)
        if found is None or (text != self.pilot.candidates.baseline and self.outside(text)):
            return math.inf
        return float(self._values(found).mean())

    def _values(self, found: Replayed, late: bool = False) -> F64:
        """The objective of each copy, on all days or on the last ones."""
        rows = self.late if late else np.ones(len(self.late), np.bool_)
        by_rho = self.limits.objective == "rho"
        values: F64 = 1 - found.fair[:, rows].mean(axis=1) if by_rho else np.nanmean(found.jct[:, rows], axis=1)
        return values

    def outside(self, text: str) -> str:
        """Which limit a policy would not have kept; "": none."""
        found, base, limits = self.of(text), self.of(self.pilot.candidates.baseline), self.limits
        if found is None or base is None:
            return f"{text} did not come to an end"
        if (least := found.least_p99) > limits.worst_p99 * base.p99:
            times = f"{found.p99 / base.p99:.2f} times the baseline's (surely above {least / base.p99:.2f})"
            return f"P99 of {text} would be {times}; at most {limits.worst_p99:g} is allowed (worst_p99)"
        fair, base_fair = float(found.fair.mean()), float(base.fair.mean())
        if found.most_fair < limits.worst_fairness * base_fair:
            shares = f"{100 * fair:.1f} % of the jobs would have rho <= 1, and {100 * base_fair:.1f} %"
            return (
                f"with {text} {shares} with the baseline; at least {limits.worst_fairness:g} times as many are required"
            )
        better = self.gain(text, self.pilot.candidates.baseline, late=True)
        if better < 1 / WORSE_LATELY:
            return f"{text} would have been {better:.2f} times as good as the baseline in the last days"
        return ""

    def nothing_better(self, in_force: str) -> str:
        """Why the policy in force is the best: nothing is better, or what is better would not keep the limits."""
        others = self.runs.keys() - {in_force}  # whether that one keeps the limits is up to the guard
        better = {text: gain for text in others if (gain := self.gain(text, in_force)) >= self.limits.gain}
        outside = [words for text in sorted(better, key=better.__getitem__) if (words := self.outside(text))]
        return "nothing better was found" + (f" within the limits: {outside[-1]}" if outside else "")

    def gain(self, text: str, other: str, late: bool = False) -> float:
        """How many times as good a policy is as another, on all days or on the last ones."""
        one, two = self.of(text), self.of(other)
        if one is None or two is None:
            return math.inf if two is None else 0.0
        value, present = float(self._values(one, late).mean()), float(self._values(two, late).mean())
        return present / value if value > 0 else 1.0 if present <= 0 else math.inf

    def _surely(self, text: str, other: str) -> bool:
        """Whether a policy is better than another on every copy."""
        one, two = self.of(text), self.of(other)
        return one is not None and (two is None or bool((self._values(one) < self._values(two)).all()))

    def _confirmed(self, text: str, other: str) -> bool:
        """Whether the last days alone say that a policy is better, too."""
        return self.gain(text, other, late=True) > 1

    def evidence(self, best: str, in_force: str) -> str:
        """Numbers that a person can check."""
        names = dict.fromkeys((best, in_force, self.pilot.candidates.baseline))
        parts = [self._numbers(name, found) for name in names if (found := self.of(name)) is not None]
        return (
            f"{counted(len(self.past.trace), 'job')} of {self.past.days:.1f} days, {len(self._copies)} copies: "
            + "; ".join(parts)
        )

    def _numbers(self, name: str, found: Replayed) -> str:
        jct, late = float(np.nanmean(found.jct)) / 3600, float(np.nanmean(found.jct[:, self.late])) / 3600
        return f"{name}: JCT {jct:.3g} h, last days {late:.3g} h, P99 {found.p99 / 3600:.3g} h"


def past_days(trace: Trace, cluster: Cluster, now: int, ended: NDArray[np.bool_], fits: Sequence[str] = ()) -> PastDays:
    """Jobs that a cluster can run with each of these policies, submitted before now, and which of them have ended."""
    kept = trace.submit < now
    for text in fits:
        kept &= ~unfit(trace, cluster, registry.policy(text))
    return PastDays(trace.select(np.flatnonzero(kept)), cluster, now, ended[kept])

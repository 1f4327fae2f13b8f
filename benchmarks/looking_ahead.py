"""Detours: another policy for the next hours, where it serves the present queue better than the choice does.

No autopilot makes them: ``benchmarks.detours`` measures what they would give, and decision 75 says why.

A choice rests on weeks and is for weeks.  A look ahead begins with the queue as it is: it tries each candidate until
the next look, and the choice from then on, on several futures that the past makes likely.  (This is a rollout: where
futures are drawn as they come, it improves on the choice.)  What looks best on some futures has to be better on others
beyond chance, because the best of several looks better than it is.

Futures are not drawn as they come, so what a look finds is at first only noted.  A day later it is judged by the
jobs that came.  Only while what was found lately would have helped, a detour is made.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from shunter import registry
from shunter.adapting.abandoning import AHEAD, most_decisions
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.shadows import longer_than_run
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import look_ahead_value
from shunter.adapting.outlooks import ReplayedHour
from shunter.errors import AbandonedError, InvariantError, PolicyError
from shunter.generating.arrivals import ArrivalRule, ReplayedJobs
from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import DAY, HOUR, KnownJobs
from shunter.protocols import Memory
from shunter.report.so_far import JobsBetween
from shunter.sim.engine import Simulator
from shunter.world import F64, I64

ARRIVALS = 2  # times the hours to the next look: so long do jobs arrive in a future
DRAINED = 7 * DAY  # after the last arrival, when a future ends
SCOUTS, JUDGES = 4, 20  # futures on which a candidate is picked, and on which it is judged
SURE = 2.0  # standard errors of the mean over the judges by which it must be better
JUDGED_AFTER = DAY  # what a look has found
DRAWS = 3  # of run times that are not known when it is judged
LATELY, FEWEST = 40, 6  # detours found that count, the last ones; fewer say nothing

Future = Callable[[int], Simulator]  # the queue as it is and what may come, by number


@dataclass(frozen=True)
class PresentQueue:
    """Where a look begins."""

    now: int  # ms
    choice: str  # of the rule: the policy to which detours return
    in_force: str
    memory: Memory | None  # of the policy in force
    future: Future
    hours: float  # to the next look


@dataclass(frozen=True)
class Found:
    """What a look has found: the policy until the next one."""

    policy: str
    why: str
    evaluations: int = 0


def look(here: PresentQueue, candidates: Sequence[str]) -> Found:
    """The choice, unless a candidate is better beyond chance; a detour goes on for any gain."""
    trial = _Trial(here)
    others = [text for text in candidates if text != here.choice]
    means = trial.over_choice(others, range(SCOUTS))
    good = sorted((text for text in means if means[text] < 0), key=means.__getitem__)
    if not good:
        return Found(here.choice, "no other policy is better for the present queue", trial.runs)
    for text in dict.fromkeys((good[0], *(each for each in good if each == here.in_force))):
        gains = trial.logs(text, range(SCOUTS, SCOUTS + JUDGES))
        mean, error = float(gains.mean()), float(gains.std(ddof=1)) / math.sqrt(JUDGES)
        if mean + error * (SURE if text != here.in_force else 0) < 0:
            why = f"{100 * (1 - math.exp(mean)):.2g} % less time in the system, in the mean of {JUDGES} futures"
            return Found(text, why, trial.runs)
    return Found(here.choice, f"{good[0]} is not better for the present queue beyond chance", trial.runs)


@dataclass(frozen=True)
class PastDay(ArrivalRule):
    """What came from this time of day on, on a past day: 0 is the last one.

    Beyond the first day that is known it goes round.  No scout has a day of a judge, if that many are known.
    """

    number: int
    span: int = HOUR  # ms, a day at most
    name: str = "past-day"

    def replay(self, jobs: KnownJobs, now: int, seed: int) -> ReplayedJobs:
        """Those jobs."""
        known = max((now - int(jobs.submit[0])) // DAY, 1) if len(jobs) else 1
        first = SCOUTS if self.number >= SCOUTS < known else 0
        day = first + (self.number - first) % (known - first)
        begin = now - (1 + day) * DAY
        rows = np.arange(len(jobs))[jobs.between(begin, begin + self.span)]
        return ReplayedJobs(rows, jobs.submit[rows] + (now - begin))


class _Trial:
    """The runs of a look."""

    def __init__(self, here: PresentQueue) -> None:
        self.here, self.runs = here, 0
        self._next = here.now + round(here.hours * HOUR)
        self._end = here.now + round(ARRIVALS * here.hours * HOUR) + DRAINED
        self._future, self._value = cache(here.future), cache(self._ran)

    def over_choice(self, texts: Sequence[str], futures: range) -> dict[str, float]:
        """By how much candidates are better (below 0) or worse than the choice, in the mean logarithm."""
        if all(self._value(text, futures[0]) == self._value(self.here.choice, futures[0]) for text in texts):
            return {}  # nothing waits, on one future at least: any policy will do
        return {text: float(self.logs(text, futures).mean()) for text in texts}

    def logs(self, text: str, futures: range) -> F64:
        """The logarithm of what a candidate gives over what the choice gives, on each future."""
        return np.array([_log_ratio(self._value(text, at), self._value(self.here.choice, at)) for at in futures])

    def _ran(self, text: str, number: int) -> float:
        """The objective with this policy until the next look and the choice afterwards; infinite: it did not end."""
        here, twin, memory = self.here, self._future(number).fork(), self.here.memory
        self.runs += 1
        left = most_decisions(len(twin.trace), AHEAD)
        try:
            for part, until in ((text, self._next), (here.choice, self._end)):
                policy = registry.policy(part)
                memory = twin.run(policy, memory=policy.start(twin.cluster, memory), until=until, budget=left)
        except (AbandonedError, InvariantError, PolicyError):
            return math.inf
        return math.inf if twin.exhausted else look_ahead_value(twin, "jct", here.now, self._end)


def _log_ratio(value: float, choice: float) -> float:
    """Below 0: better than the choice; from -1 to 1, also where one of them did not end."""
    if value == choice:
        return 0.0
    ratio = math.log(max(value, 1e-12) / max(choice, 1e-12)) if math.isfinite(choice) else -math.inf
    return min(max(ratio, -1.0), 1.0)


@dataclass(frozen=True, eq=False)
class _Noted:
    """What a look has found, and where it stood."""

    now: int
    simulator: Simulator
    memory: Memory | None
    choice: str
    policy: str


@dataclass
class Lookout:
    """Looks ahead again and again in a replay; it knows the past alone."""

    knowledge: SiteKnowledge
    candidates: Candidates
    hours: float  # from one look to the next
    always: bool = False  # makes every detour that it finds
    seed: int = 0
    gains: list[float] = field(default_factory=list)  # of what was found and is judged, as logarithms
    _noted: deque[_Noted] = field(default_factory=deque)

    def look(self, simulator: Simulator, now: int, choice: str, in_force: str, memory: Memory | None) -> Found:
        """The policy until the next look."""
        self._judge(simulator, now)
        here = PresentQueue(now, choice, in_force, memory, self._future(simulator, now), self.hours)
        found = look(here, self.candidates.texts)
        if found.policy == choice:
            return found
        self._noted.append(_Noted(now, simulator.fork(), copy.deepcopy(memory), choice, found.policy))
        return (
            found
            if self.always or self.trusted
            else Found(choice, f"not shown yet to help: {found.policy}", found.evaluations)
        )

    @property
    def trusted(self) -> bool:
        """Whether what was found lately would have helped, in the mean and by more than its standard error."""
        gains = np.array(self.gains[-LATELY:])
        return len(gains) >= FEWEST and bool(gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains)))

    def _future(self, simulator: Simulator, now: int) -> Future:
        """What may come, by number: the arrivals of a past day, and drawn run times of all that has not ended."""
        span, predictor = round(ARRIVALS * self.hours * HOUR), DurationPredictor()

        def drawn(number: int) -> Simulator:
            nonlocal predictor
            predictor = dataclasses.replace(predictor, seed=self.seed + number)  # the same model, other draws
            return ReplayedHour(self.knowledge, PastDay(number, span), predictor).outlook(simulator, now)

        return drawn

    def _judge(self, simulator: Simulator, now: int) -> None:
        """What was found a day ago, by the jobs that came and the run times that are known by now."""
        while self._noted and now - self._noted[0].now >= JUDGED_AFTER:
            noted, known = self._noted.popleft(), self.knowledge.at(simulator, now)
            predictor, gains = DurationPredictor(seed=self.seed), []
            for draw in range(DRAWS):
                predictor = dataclasses.replace(predictor, seed=self.seed + draw)
                durations = np.ones(len(simulator.trace), np.int64)  # of jobs to come, which are not simulated
                own = predictor.of_all(known, now)[self.knowledge.offset :]
                durations[: len(own)] = own
                spent = [self._spent(noted, text, durations, now) for text in (noted.choice, noted.policy)]
                gains.append(-_log_ratio(spent[1], spent[0]))
            self.gains.append(float(np.mean(gains)))

    def _spent(self, noted: _Noted, text: str, durations: I64, now: int) -> float:
        """Seconds in the system of all jobs that came until now, to their ends, if this had been taken then."""
        none = np.zeros_like(durations)  # how often jobs will still fail is not known
        twin = noted.simulator.fork_with(longer_than_run(noted.simulator, durations), none)
        memory, left = copy.deepcopy(noted.memory), most_decisions(len(twin.trace))
        try:
            for part, until in ((text, noted.now + round(self.hours * HOUR)), (noted.choice, now)):
                policy = registry.policy(part)
                memory = twin.run(policy, memory=policy.start(twin.cluster, memory), until=until, budget=left)
            spent, rest = JobsBetween(twin, noted.now, now).seconds, twin.excerpt()
            if len(rest.trace):
                rest.run(policy, memory=policy.start(rest.cluster, memory), until=now + 2 * DRAINED, budget=left)
        except (AbandonedError, InvariantError, PolicyError):
            return math.inf
        exhausted = twin.exhausted or rest.exhausted
        return math.inf if exhausted else spent + JobsBetween(rest, now, now + 2 * DRAINED).seconds

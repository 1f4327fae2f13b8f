"""An autopilot on a recorded trace, week after week: at each decision it knows only the past.

Beside it run the site's policy, the best fixed choice found on the weeks before, and an oracle that chooses as often
by what really comes.  A guard compares each day with a shadow of the baseline, as on a live cluster.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.rule import (
    DECISIONS_AT_LEAST,
    DECISIONS_PER_JOB,
    Autopilot,
    AutopilotLimits,
    PastDays,
    PilotAction,
    past_days,
)
from shunter.adapting.controller import plain_run
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import ended_by, jct_of
from shunter.errors import AbandonedError, PolicyError
from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import DAY, HOUR
from shunter.generating.repository import with_past
from shunter.model import Trace
from shunter.protocols import Memory
from shunter.setup import Setup
from shunter.sim.engine import Simulator
from shunter.simulation import Draw, simulator_for
from shunter.traces.checkpointable import with_checkpointable
from shunter.tuning.sampling import sampled, search_named
from shunter.world import F64

BASELINE, FIXED, PILOT, OPTIMAL = "baseline", "fixed", "autopilot", "optimal"
LABELS = {
    BASELINE: "the site's policy",
    FIXED: "Fixed, found on the weeks before",
    PILOT: "Autopilot",
    OPTIMAL: "Optimal (truth)",
}
TOLERATED = 1.05  # times the shadow's time in the system over a day, after which the jobs are handed back
AIM_FIXED, AIM_SHARE, WORTH = 0.98, 0.5, 0.03  # what an autopilot should reach

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ReplayOptions:
    """How an autopilot is replayed."""

    candidates: Candidates
    limits: AutopilotLimits = field(default_factory=AutopilotLimits)
    every: int = 7 * DAY  # ms between decisions
    rest: int = 7 * DAY  # ms after a hand-back, until an operator lets it act again
    seed: int = 0


@dataclass(frozen=True)
class ReplayedDecision:
    """What was decided at an instant."""

    at: int
    answer: str
    before: str
    policy: str
    why: str
    evidence: str


@dataclass(frozen=True)
class WatchedDay:
    """A day with another policy than the baseline: time in the system over that of the shadow."""

    at: int  # its end
    seen: float  # as the guard saw it, by predicted run times of unfinished jobs
    true: float
    handed_back: bool


@dataclass(frozen=True, eq=False)
class PilotedRun:
    """What came of a run."""

    jct: F64  # seconds
    decisions: tuple[ReplayedDecision, ...] = ()
    days: tuple[WatchedDay, ...] = ()
    policy: str = ""  # of one that stays

    @property
    def mean(self) -> float:
        """Mean JCT in seconds."""
        return float(np.nanmean(self.jct))


@dataclass(frozen=True, eq=False)
class PilotStudy:
    """All runs on the same jobs."""

    options: ReplayOptions
    runs: dict[str, PilotedRun]
    submit: Any
    begin: int

    def over_fixed(self, name: str = PILOT) -> float:
        """How many times as good as the fixed choice."""
        return self.runs[FIXED].mean / self.runs[name].mean

    def aims(self) -> dict[str, bool | None]:
        """Whether the autopilot reached what it should; None: the aim does not apply."""
        room = self.over_fixed(OPTIMAL) - 1
        share = (self.over_fixed() - 1) / room if room > WORTH else None
        bad = [day for day in self.runs[PILOT].days if day.true > TOLERATED and not day.handed_back]
        return {
            "0.98 of Fixed": self.over_fixed() >= AIM_FIXED,
            "half of Optimal - Fixed": None if share is None else share >= AIM_SHARE,
            "handed back after a bad day": not bad,
        }

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
            "days": [dataclasses.asdict(each) | {"day": self._day(each.at)} for each in pilot.days],
            "aims": self.aims(),
        }

    def _day(self, at: int) -> float:
        return (at - self.begin) / DAY

    def _record(self, name: str) -> dict[str, Any]:
        run = self.runs[name]
        week = (self.submit - self.begin) // (7 * DAY)
        weeks = [float(np.nanmean(run.jct[week == at])) for at in np.unique(week)]
        return {
            "label": LABELS[name],
            "policy": run.policy,
            "jct_s": {"mean": run.mean, "p99": float(np.nanpercentile(run.jct, 99)), "weeks": weeks},
            "over_fixed": self.over_fixed(name),
            "over_baseline": self.runs[BASELINE].mean / run.mean,
            "switches": sum(each.policy != each.before for each in run.decisions),
        }


class PilotReplay:
    """Runs the study on a setup."""

    def __init__(self, setup: Setup, options: ReplayOptions) -> None:
        self.setup, self.options = setup, options
        self._draw = Draw(setup, options.seed)
        self.pilot = Autopilot(options.candidates, options.limits, options.seed)
        self.knowledge = SiteKnowledge(self._draw.trace, setup.history)

    @cached_property
    def _all(self) -> Trace:
        """The jobs before the run and those of it, in this order."""
        before = with_checkpointable(self.knowledge.before, self.setup.checkpointable)
        return with_past(before, self._draw.trace)

    def run(self, progress: Progress = lambda done, total: None) -> PilotStudy:
        """All of them."""
        base, decisions = self.options.candidates.baseline, len(self._instants(self.options.every))
        total = 2 * decisions + 3
        # as many runs in total as the autopilot
        fixed = self.pilot.best_fixed(self.past(self._simulator(), self.begin), self.options.limits.budget * decisions)
        progress(1, total)
        runs = {name: self._plain(text) for name, text in ((BASELINE, base), (FIXED, fixed))}
        progress(3, total)
        done = [3]

        def step() -> None:
            done[0] += 1
            progress(min(done[0], total), total)

        runs[PILOT] = self.piloted(step)
        runs[OPTIMAL] = self.optimal(step)
        return PilotStudy(self.options, runs, self._draw.trace.submit, self.begin)

    @property
    def begin(self) -> int:
        """When the first job comes (ms)."""
        return int(self._draw.trace.submit[0])

    def _simulator(self) -> Simulator:
        return simulator_for(self._draw, registry.policy(self.options.candidates.baseline))[0]

    def _plain(self, text: str) -> PilotedRun:
        made = plain_run(self._simulator(), text, registry.policy(text).start(self.setup.cluster))
        return PilotedRun(made.jct, policy=text)

    def _instants(self, step: int) -> list[int]:
        """From the first arrival to the last."""
        return list(range(self.begin, int(self._draw.trace.submit[-1]), step))

    def past(self, simulator: Simulator, now: int) -> PastDays:
        """What the site knows now."""
        known = self.knowledge.at(simulator, now)
        durations = DurationPredictor(seed=self.options.seed).of_all(known, now)
        ended = known.finished  # how often a job will still fail is not known either
        jobs = self._all.select(np.arange(len(known)))
        jobs = dataclasses.replace(jobs, duration=durations, failures=np.where(ended, jobs.failures, 0))
        return past_days(jobs, self.setup.cluster, now, self.options.candidates.first)

    # -- the autopilot

    def piloted(self, step: Callable[[], None] = lambda: None) -> PilotedRun:
        """The autopilot: it begins as the baseline, decides now and then, and is guarded every day."""
        base, simulator = self.options.candidates.baseline, self._simulator()
        flight = _Flight(self, simulator, base)
        for at in self._instants(DAY):
            flight.until(at)
            if not (at - self.begin) % self.options.every:
                flight.decide(at)
                step()
            flight.watch()
        flight.until(None)
        return PilotedRun(jct_of(simulator), tuple(flight.decisions), tuple(flight.days))

    # -- the oracle

    def optimal(self, step: Callable[[], None] = lambda: None) -> PilotedRun:
        """The choice of each period by what really comes in it."""
        simulator, text = self._simulator(), self.options.candidates.baseline
        memory: Memory | None = None
        decisions: list[ReplayedDecision] = []
        for at in self._instants(self.options.every):
            if at > self.begin:
                memory = simulator.run(registry.policy(text), until=at, memory=memory)
            best = self._best_of_truth(simulator, memory, text, at)
            decisions.append(ReplayedDecision(at, PilotAction.SWITCH, text, best, "the truth", ""))
            if best != text:
                text, memory = best, registry.policy(best).start(simulator.cluster, memory)
            step()
        simulator.run(registry.policy(text), memory=memory)
        return PilotedRun(jct_of(simulator), tuple(decisions))

    def _best_of_truth(self, simulator: Simulator, memory: Memory | None, text: str, now: int) -> str:
        horizon, candidates = now + self.options.every, self.options.candidates
        limit = DECISIONS_PER_JOB * len(simulator.trace) + DECISIONS_AT_LEAST

        def value(text: str) -> float:
            policy, twin = registry.policy(text), simulator.fork()
            try:
                twin.run(policy, memory=policy.start(twin.cluster, memory), until=horizon, budget=limit)
            except (AbandonedError, PolicyError):
                return math.inf
            return math.inf if twin.exhausted else time_in_system(twin, now, horizon)

        begin = list(dict.fromkeys((text, *candidates.first)))
        if not candidates.spaces:
            return min(begin, key=value)
        search = search_named("random", candidates.spaces, max(self.options.limits.budget, len(begin)), now % 1000)
        return sampled(search, begin, lambda texts: [value(text) for text in texts])


class _Flight:
    """One run of an autopilot, day by day."""

    def __init__(self, replay: PilotReplay, simulator: Simulator, text: str) -> None:
        self.replay, self.simulator, self.text = replay, simulator, text
        self.memory: Memory | None = None
        self.decisions: list[ReplayedDecision] = []
        self.days: list[WatchedDay] = []
        self._shadow: tuple[int, Simulator, Memory | None] | None = None  # the day's beginning
        self._switched, self._resumes = -math.inf, -math.inf

    def until(self, at: int | None) -> None:
        """Go on; at the end of a day the guard compares."""
        if at is None or at > self.replay.begin:
            self.memory = self.simulator.run(registry.policy(self.text), until=at, memory=self.memory)
        if at is not None and self._shadow is not None:
            self._compare(at, *self._shadow)
        self._shadow = None

    def watch(self) -> None:
        """A day begins: keep what the guard compares with."""
        if self.text != self.replay.options.candidates.baseline:
            self._shadow = (self.simulator.now, self.simulator.fork(), self.memory)

    def decide(self, at: int) -> None:
        """Decide by what is known, unless the jobs are handed back."""
        if at < self._resumes:
            why = "the guard has handed the jobs back"
            self.decisions.append(ReplayedDecision(at, PilotAction.STAY, self.text, self.text, why, ""))
            return
        past = self.replay.past(self.simulator, at)
        found = self.replay.pilot.decide(past, self.text, (at - self._switched) / HOUR)
        self.decisions.append(ReplayedDecision(at, found.answer, self.text, found.policy, found.why, found.evidence))
        if found.answer is PilotAction.SWITCH:
            self._switch(found.policy, at)

    def _switch(self, text: str, at: int) -> None:
        self.memory = registry.policy(text).start(self.simulator.cluster, self.memory)
        self.text, self._switched = text, at

    def _compare(self, at: int, since: int, shadow: Simulator, memory: Memory | None) -> None:
        """Time in the system of this day, real over simulated; too long: the jobs are handed back."""
        base = registry.policy(self.replay.options.candidates.baseline)
        known = self.replay.knowledge.at(self.simulator, at)
        durations = DurationPredictor(seed=self.replay.options.seed).of_all(known, at)[self.replay.knowledge.offset :]
        guessed = self.simulator.durations.copy()
        guessed[: len(durations)] = durations
        ratios, real = [], time_in_system(self.simulator, since, at)
        for twin in (shadow.fork_with(_longer(shadow, guessed)), shadow):
            twin.run(base, memory=base.start(twin.cluster, memory), until=at)
            ratios.append(real / max(time_in_system(twin, since, at), 1e-9))
        back = ratios[0] > TOLERATED
        self.days.append(WatchedDay(at, ratios[0], ratios[1], back))
        if back:
            why = f"the guard: {ratios[0]:.3f} times the shadow's time in the system over a day"
            self.decisions.append(ReplayedDecision(at, PilotAction.SWITCH, self.text, self._base, why, ""))
            self._switch(self._base, at)
            self._resumes = at + self.replay.options.rest

    @property
    def _base(self) -> str:
        return self.replay.options.candidates.baseline


def _longer(simulator: Simulator, durations: Any) -> Any:
    """Run times that no job has passed already."""
    table = simulator.world.jobs
    ran = table[w.EXECUTED] + np.where(table[w.STATE] == w.RUNNING, simulator.now - table[w.BEGUN], 0)
    over = (table[w.STATE] == w.DONE) | (table[w.STATE] == w.FAILED)
    return np.where(over, simulator.durations, np.maximum(durations, ran + 1))


def time_in_system(simulator: Simulator, since: int, until: int) -> float:
    """Mean seconds that jobs spent in the system between two instants, of those that were there."""
    table = simulator.world.jobs
    jobs = ended_by(table[:, table[w.SUBMIT] < until], until)
    spent = np.minimum(jobs[w.ENDED_AT], until) - np.maximum(jobs[w.SUBMIT], since)
    there = spent[spent > 0]
    return float(there.mean()) / 1000 if len(there) else 0.0

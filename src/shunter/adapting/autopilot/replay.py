"""An autopilot on a recorded trace, week after week: at each decision it knows only the past.

Beside it run the site's policy, the rule's first choice on the weeks before, which then stays, and an oracle that
chooses as often by what really comes and keeps the limits to the letter.  A guard compares each day with shadows of the
baseline, which go on from where the autopilot left it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.adapting.abandoning import most_decisions
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.autopilot.outcome import (
    BASELINE,
    FIXED,
    OPTIMAL,
    PILOT,
    PilotedRun,
    PilotStudy,
    ReplayedDecision,
    ReplayOptions,
)
from shunter.adapting.autopilot.rule import (
    Autopilot,
    PastDays,
    PilotAction,
    best_few,
    past_days,
)
from shunter.adapting.autopilot.shadows import SHADOWS, BaselineShadows, WatchedDay
from shunter.adapting.controller import plain_run
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import jct_of, rho_of
from shunter.errors import AbandonedError, PolicyError
from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import DAY, HOUR
from shunter.generating.repository import with_past
from shunter.model import Trace
from shunter.protocols import Memory
from shunter.report.finish_fairness import share_of_fair
from shunter.report.so_far import JobsBetween
from shunter.setup import Setup
from shunter.sim.engine import Simulator
from shunter.simulation import Draw, simulator_for
from shunter.traces.checkpointable import with_checkpointable
from shunter.world import I64

FORESIGHT = 7 * DAY  # ms that Optimal looks ahead, at least

Progress = Callable[[int, int], None]


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
        base, total = self.options.candidates.baseline, 2 * len(self._instants(self.options.every)) + 3
        past = self.past(self._simulator(), self.begin)
        fixed, unknown = self.pilot.best_fixed(past, self.budget), self.pilot.unknown(past)
        progress(1, total)
        runs = {name: self._plain(text) for name, text in ((BASELINE, base), (FIXED, fixed))}
        progress(3, total)
        done = [3]

        def step() -> None:
            done[0] += 1
            progress(min(done[0], total), total)

        runs[PILOT] = self.piloted(step)
        runs[OPTIMAL] = self.optimal(fixed, step)
        return PilotStudy(self.options, runs, self._draw.trace.submit, self.begin, unknown)

    @property
    def begin(self) -> int:
        """When the first job comes (ms)."""
        return int(self._draw.trace.submit[0])

    @property
    def budget(self) -> int:
        """Runs of the search for Fixed: as many as all decisions of the autopilot have; its first search has them, too.

        A live autopilot searches every hour, so that it has had them long before it may switch.
        """
        return self.options.limits.budget * len(self._instants(self.options.every))

    def _simulator(self) -> Simulator:
        made = simulator_for(self._draw, registry.policy(self.options.candidates.baseline))[0]
        options = self.options
        return made.fork_with(near_times(made.durations, made.trace.limit, options.copy, options.seed))

    def _plain(self, text: str) -> PilotedRun:
        made = plain_run(self._simulator(), text, registry.policy(text).start(self.setup.cluster))
        return PilotedRun(made.jct, made.fair, policy=text, stops=made.preemptions)

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
        return past_days(jobs, self.setup.cluster, now, ended, self.options.candidates.first)

    def guesses(self, simulator: Simulator, now: int) -> list[I64]:
        """Run times as the site knows them now, or guesses them, for each shadow; those of jobs to come as they are."""
        known, predictor, found = self.knowledge.at(simulator, now), DurationPredictor(), []
        for copy in range(SHADOWS):
            predictor = dataclasses.replace(predictor, seed=self.options.seed + copy)  # the same model, other draws
            durations = predictor.of_all(known, now)[self.knowledge.offset :]
            found.append(np.append(durations, simulator.durations[len(durations) :]))
        return found

    # -- the autopilot

    def piloted(self, step: Callable[[], None] = lambda: None) -> PilotedRun:
        """The autopilot: it begins as the baseline, decides now and then, and is guarded every day."""
        base, simulator = self.options.candidates.baseline, self._simulator()
        flight = _Flight(self, simulator, base)
        at = self.begin
        for at in self._instants(DAY):
            flight.until(at)
            if not (at - self.begin) % self.options.every:
                flight.decide(at)
                step()
        for later in (DAY, 2 * DAY):  # the last day on which jobs come is judged twice, too
            flight.until(at + later)
        flight.until(None)
        return _ended(simulator, flight.decisions, flight.days)

    # -- the oracle

    def optimal(self, fixed: str, step: Callable[[], None] = lambda: None) -> PilotedRun:
        """The choice of each period by what really comes in it; the one that Fixed made is always tried, too."""
        simulator, text = self._simulator(), self.options.candidates.baseline
        memory: Memory | None = None
        decisions: list[ReplayedDecision] = []
        shortlist: list[str] = []
        for at in self._instants(self.options.every):
            if at > self.begin:
                memory = simulator.run(registry.policy(text), until=at, memory=memory)
            best, *shortlist = self._best_of_truth(simulator, memory, [text, fixed, *shortlist], at)
            decisions.append(ReplayedDecision(at, PilotAction.SWITCH, text, best, "the truth", ""))
            if best != text:
                text, memory = best, registry.policy(best).start(simulator.cluster, memory)
            step()
        simulator.run(registry.policy(text), memory=memory)
        return _ended(simulator, decisions)

    def _best_of_truth(self, simulator: Simulator, memory: Memory | None, first: Sequence[str], now: int) -> list[str]:
        """The best few for what comes until the next decision, and in a week at least, within the limits."""
        horizon, candidates = now + max(self.options.every, FORESIGHT), self.options.candidates
        limit = most_decisions(len(simulator.trace))

        def course(text: str) -> JobsBetween | None:
            policy, twin = registry.policy(text), simulator.fork()
            try:
                twin.run(policy, memory=policy.start(twin.cluster, memory), until=horizon, budget=limit)
            except (AbandonedError, PolicyError):
                return None
            return None if twin.exhausted else JobsBetween(twin, now, horizon)

        base = course(candidates.baseline)

        def value(text: str) -> float:
            found = course(text)
            if found is None or (text != candidates.baseline and base and not self.options.limits.kept(found, base)):
                return math.inf
            return found.seconds

        budget = self.budget if now == self.begin else self.options.limits.budget
        return best_few(candidates, first, budget, self.options.seed, now, value) or [first[0]]


def _ended(simulator: Simulator, decisions: Sequence[ReplayedDecision], days: Sequence[WatchedDay] = ()) -> PilotedRun:
    stops = int(simulator.world.jobs[w.PREEMPTIONS].sum())
    fair = share_of_fair(rho_of(simulator))
    return PilotedRun(jct_of(simulator), fair, tuple(decisions), tuple(days), stops=stops)


class _Flight:
    """One run of an autopilot, day by day."""

    def __init__(self, replay: PilotReplay, simulator: Simulator, text: str) -> None:
        self.replay, self.simulator, self.text = replay, simulator, text
        self.memory: Memory | None = None
        self.decisions: list[ReplayedDecision] = []
        self.days: list[WatchedDay] = []
        self._shadows: BaselineShadows | None = None  # while another policy than the baseline is in force
        self._shortlist: tuple[str, ...] = ()
        self._switched, self._resumes = -math.inf, -math.inf
        self._at = replay.begin  # the simulator's own time is that of its last event

    def until(self, at: int | None) -> None:
        """Go on; at the end of a day the guard compares."""
        since = self._at
        if at is None or at > self.replay.begin:
            self.memory = self.simulator.run(registry.policy(self.text), until=at, memory=self.memory)
        if at is None:
            return
        self._at = at
        if self._shadows is not None:
            self._compare(self._shadows, since, at)

    def decide(self, at: int) -> None:
        """Decide by what is known, unless the jobs are handed back."""
        if at < self._resumes:
            why = "the guard has handed the jobs back, and the operator has not resumed yet (--rest)"
            self.decisions.append(ReplayedDecision(at, PilotAction.STAY, self.text, self.text, why, ""))
            return
        past = self.replay.past(self.simulator, at)
        budget = self.replay.budget if at == self.replay.begin else 0
        found = self.replay.pilot.decide(past, self.text, (at - self._switched) / HOUR, self._shortlist, budget)
        self._shortlist = found.shortlist
        self.decisions.append(
            ReplayedDecision(at, found.answer, self.text, found.policy, found.why, found.evidence, found.evaluations)
        )
        if found.answer is PilotAction.SWITCH:
            self._switch(found.policy, at)

    def _switch(self, text: str, at: int) -> None:
        base = self.replay.options.candidates.baseline
        if text == base:
            self._shadows = None
        elif self._shadows is None:
            self._shadows = BaselineShadows(base, self.simulator.fork(), self.memory, at, self.replay.options.seed)
        self.memory = registry.policy(text).start(self.simulator.cluster, self.memory)
        self.text, self._switched = text, at

    def _compare(self, shadows: BaselineShadows, since: int, at: int) -> None:
        """This day, real and in the shadows; too bad: the jobs are handed back."""
        options = self.replay.options
        day = shadows.compared(self.simulator, self.replay.guesses(self.simulator, at), since, at, options.limits)
        self.days.append(day)
        if day.handed_back:
            base = options.candidates.baseline
            self.decisions.append(
                ReplayedDecision(at, PilotAction.SWITCH, self.text, base, f"the guard: {day.why}", "")
            )
            self._switch(base, at)
            self._resumes = at + options.rest

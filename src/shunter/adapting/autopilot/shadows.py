"""Shadows of the baseline beside a run that left it: what the site's policy would have done since then.

They begin where another policy took over and go on as the baseline, so that each day is compared with the same day of a
site that never switched.  There are several, with run times that differ by 1 %: a queue is chaotic, and even the
baseline differs from such a copy of itself by more than 5 % on many days.  Run times of jobs that have not ended are
drawn anew for each: of a job that another policy put off nothing is known but its size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.autopilot.rule import AutopilotLimits
from shunter.adapting.objectives import ended_by
from shunter.protocols import Memory
from shunter.report.finish_fairness import finish_time_fairness, share_of_fair
from shunter.sim.engine import Simulator
from shunter.world import F64, I64

AIM = 1.05  # times the shadows' time in the system over a day, after which the jobs should be handed back
SHADOWS = 5
FEWEST_JOBS = 100  # that came since the switch, without which nothing is said about P99 and fairness


class JobsBetween:
    """The jobs that were in the system between two instants, as far as they had come by the second one."""

    def __init__(self, simulator: Simulator, since: int, until: int) -> None:
        table = ended_by(simulator.world.jobs, until)
        there = (table[w.SUBMIT] < until) & (table[w.ENDED_AT] > since)
        self.simulator, self.since, self.until = simulator, since, until
        self.rows, self.table = np.flatnonzero(there), table[:, there]

    @property
    def seconds(self) -> float:
        """The time that all of them spent in the system in between."""
        begin, end = np.maximum(self.table[w.SUBMIT], self.since), np.minimum(self.table[w.ENDED_AT], self.until)
        return float((end - begin).sum()) / 1000

    @property
    def jct(self) -> F64:
        """Their times in the system so far, in seconds."""
        found: F64 = (np.minimum(self.table[w.ENDED_AT], self.until) - self.table[w.SUBMIT]) / 1000
        return found

    @cached_property
    def p99(self) -> float:
        """Of the times in the system so far."""
        return float(np.percentile(self.jct, 99)) if len(self.rows) else 0.0

    def rho(self, durations: I64) -> F64:
        """Finish-time fairness so far, if the jobs of the trace have these run times."""
        jobs = dataclasses.replace(self.simulator.trace.select(self.rows), duration=durations[self.rows])
        return finish_time_fairness(jobs, self.table, self.simulator.cluster.gpus)

    @cached_property
    def fair(self) -> float:
        """The share of jobs with rho of at most 1."""
        return share_of_fair(self.rho(self.simulator.durations))

    def keeps(self, limits: AutopilotLimits, base: JobsBetween) -> bool:
        """Whether they are within an operator's limits, which are relative to the baseline."""
        return self.p99 <= limits.worst_p99 * base.p99 and self.fair >= limits.worst_fairness * base.fair


@dataclass(frozen=True)
class WatchedDay:
    """A day with another policy than the baseline: time in the system over that of the shadows."""

    at: int  # its end
    seen: float  # over the mean of the shadows, by predicted run times of unfinished jobs
    seen_least: float  # over the longest of them
    true: float
    true_least: float
    p99: float  # of the JCT since the switch, over that of the shadows, by predicted run times
    fair: float  # share of jobs with rho <= 1 since the switch, over that of the shadows, by predicted run times
    why: str = ""  # the jobs were handed back

    @property
    def handed_back(self) -> bool:
        """Whether the guard has had enough."""
        return bool(self.why)

    @property
    def worse(self) -> bool:
        """Whether the day was in truth more than 5 % worse than in any of the shadows."""
        return self.true_least > AIM

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {**dataclasses.asdict(self), "handed_back": self.handed_back, "worse": self.worse}


class BaselineShadows:
    """The baseline from an instant on, several times."""

    def __init__(self, base: str, begin: Simulator, memory: Memory | None, at: int, seed: int) -> None:
        self.base, self.begin, self.memory, self.since, self.seed = registry.policy(base), begin, memory, at, seed

    def compared(
        self, real: Simulator, guesses: Sequence[I64], since: int, until: int, limits: AutopilotLimits
    ) -> WatchedDay:
        """A day of the real run beside the shadows'; ``guesses`` are run times known or guessed, for each."""
        day = JobsBetween(real, since, until).seconds
        by_guess = [self._until(guessed, copy, until) for copy, guessed in enumerate(guesses)]
        in_truth = [self._until(self.begin.durations, copy, until) for copy in range(SHADOWS)]
        seen, true = (
            np.maximum(day, 1e-9) / np.maximum([JobsBetween(twin, since, until).seconds for twin in twins], 1e-9)
            for twins in (by_guess, in_truth)
        )
        here = np.mean([self._tail(real, until, guessed) for guessed in guesses], axis=0)
        there = np.mean([self._tail(twin, until, twin.durations) for twin in by_guess], axis=0)
        p99, fair = (float(one / other) if other else 1.0 for one, other in zip(here, there, strict=True))
        why = ""
        if seen.min() > limits.worst_day:
            why = f"{seen.min():.3f} times the shadows' time in the system over a day, {limits.worst_day:g} is allowed"
        elif p99 > limits.worst_p99:
            why = f"P99 of the JCT since the switch is {p99:.2f} times the shadows', {limits.worst_p99:g} is allowed"
        elif fair < limits.worst_fairness:
            why = f"{fair:.2f} times as many jobs as in the shadows have rho <= 1, {limits.worst_fairness:g} is allowed"
        mean_seen, mean_true = 1 / float(np.mean(1 / seen)), 1 / float(np.mean(1 / true))
        return WatchedDay(until, mean_seen, float(seen.min()), mean_true, float(true.min()), p99, fair, why)

    def _until(self, durations: I64, copy: int, until: int) -> Simulator:
        twin = self.begin.fork_with(_longer(self.begin, near_times(durations, self.begin.trace.limit, copy, self.seed)))
        twin.run(self.base, memory=self.base.start(twin.cluster, self.memory), until=until)
        return twin

    def _tail(self, simulator: Simulator, until: int, durations: I64) -> tuple[float, float]:
        """Of jobs that came since the switch: P99 of their times in the system so far, and the share with rho <= 1.

        0 and 0: too few have come.
        """
        jobs = JobsBetween(simulator, self.since, until)
        new = jobs.table[w.SUBMIT] >= self.since
        if np.count_nonzero(new) < FEWEST_JOBS:
            return 0.0, 0.0
        return float(np.percentile(jobs.jct[new], 99)), share_of_fair(jobs.rho(durations)[new])


def _longer(simulator: Simulator, durations: I64) -> I64:
    """Run times that no job has passed already."""
    table = simulator.world.jobs
    ran = table[w.EXECUTED] + np.where(table[w.STATE] == w.RUNNING, simulator.now - table[w.BEGUN], 0)
    over = (table[w.STATE] == w.DONE) | (table[w.STATE] == w.FAILED)
    return np.where(over, simulator.durations, np.maximum(durations, ran + 1))

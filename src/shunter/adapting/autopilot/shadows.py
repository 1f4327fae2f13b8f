"""Shadows of the baseline beside a run that left it: what the site's policy would have done since then.

They begin where another policy took over and go on as the baseline, so that each day is compared with the same day of a
site that never switched.  There are several, with run times that differ by 1 %: a queue is chaotic, and even the
baseline differs from such a copy of itself by more than 5 % on many days.  Run times of jobs that have not ended are
drawn anew for each: of a job that another policy put off nothing is known but its size.  So each day is judged twice:
when it ends, and a day later, when most of its jobs have ended.  At its end it must be far too long to count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.autopilot.rule import AutopilotLimits
from shunter.generating.known_jobs import DAY
from shunter.protocols import Memory
from shunter.report.so_far import JobsBetween, Tail, unfair
from shunter.sim.engine import Simulator
from shunter.world import F64, I64

AIM = 1.05  # times the shadows' time in the system over a day, after which the jobs should be handed back
SHADOWS = 5
AT_ONCE = 4  # times the allowed excess over a day, beyond which the guard acts before most run times are known


@dataclass(frozen=True)
class WatchedDay:
    """A day with another policy than the baseline: time in the system over that of the shadows."""

    at: int  # its end
    seen: float  # over the mean of the shadows, by predicted run times of unfinished jobs
    seen_least: float  # over the longest of them
    true: float
    true_least: float
    before: float  # the day before over the longest of them, by what is known now; 0: the baseline was in force then
    p99: float  # of the JCT since the switch, over that of the shadows, by predicted run times
    fair: float  # share of jobs with rho <= 1 since the switch, over that of the shadows, by predicted run times
    why: str = ""  # the jobs were handed back

    @property
    def handed_back(self) -> bool:
        """Whether the guard handed the jobs back after this day."""
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
        """A day of the real run beside the shadows'; ``guesses`` are run times known or guessed, for each.

        The day before is judged again, because more run times are known by now.
        """
        by_guess, in_truth = self.by_guess(real, guesses, until), self.in_truth(until)
        seen, true = over_shadows(real, by_guess, since, until), over_shadows(real, in_truth, since, until)
        known_late = since - DAY >= self.since
        before = float(over_shadows(real, by_guess, since - DAY, since).min()) if known_late else 0.0
        flown = JobsBetween(real, self.since, until)
        here = Tail(*np.mean([flown.tail(guessed) for guessed in guesses], axis=0))
        in_shadows = [JobsBetween(twin, self.since, until).tail(twin.durations) for twin in by_guess]
        there = Tail(*np.mean(in_shadows, axis=0))
        p99, least_p99 = (each / there.p99 if there.p99 else 1.0 for each in (here.p99, here.least_p99))
        why, at_once = "", 1 + AT_ONCE * (limits.worst_day - 1)
        if seen.min() > at_once:
            why = (
                f"{seen.min():.3f} times the shadows' time in the system over a day, {at_once:g} is allowed at its end"
            )
        elif before > limits.worst_day:
            why = (
                f"{before:.3f} times the shadows' time in the system over the day before, by run times that are known"
                f" now, {limits.worst_day:g} is allowed"
            )
        elif least_p99 > limits.worst_p99:
            why = (
                f"P99 of the JCT since the switch is {p99:.2f} times the shadows', and {least_p99:.2f} beyond chance;"
                f" {limits.worst_p99:g} is allowed"
            )
        else:
            why = unfair(here, there, limits.worst_fairness)
        mean_seen, mean_true = 1 / float(np.mean(1 / seen)), 1 / float(np.mean(1 / true))
        fair = here.fair / there.fair if there.fair else 1.0
        return WatchedDay(until, mean_seen, float(seen.min()), mean_true, float(true.min()), before, p99, fair, why)

    def by_guess(self, real: Simulator, guesses: Sequence[I64], until: int) -> list[Simulator]:
        """The shadows as far as a site can know them: a job fails in them as often as it did until now."""
        failed = self.begin.failures - real.failures
        return [self._twin(guessed, failed, copy, until) for copy, guessed in enumerate(guesses)]

    def in_truth(self, until: int) -> list[Simulator]:
        """The shadows with what really comes."""
        return [self._twin(self.begin.durations, self.begin.failures, copy, until) for copy in range(SHADOWS)]

    def _twin(self, durations: I64, failures: I64, copy: int, until: int) -> Simulator:
        """A shadow up to an instant: the baseline with these run times, or those of a copy, and these failures."""
        near = near_times(durations, self.begin.trace.limit, copy, self.seed)
        twin = self.begin.fork_with(longer_than_run(self.begin, near), failures)
        twin.run(self.base, memory=self.base.start(twin.cluster, self.memory), until=until)
        return twin


def over_shadows(real: Simulator, shadows: Sequence[Simulator], since: int, until: int) -> F64:
    """A day's time in the system, in times of each shadow's."""
    spent = [max(JobsBetween(each, since, until).seconds, 1e-9) for each in (real, *shadows)]
    return spent[0] / np.array(spent[1:])


def longer_than_run(simulator: Simulator, durations: I64) -> I64:
    """Run times that no job has passed already."""
    table = simulator.world.jobs
    ran = table[w.EXECUTED] + np.where(table[w.STATE] == w.RUNNING, simulator.now - table[w.BEGUN], 0)
    over = (table[w.STATE] == w.DONE) | (table[w.STATE] == w.FAILED)
    return np.where(over, simulator.durations, np.maximum(durations, ran + 1))

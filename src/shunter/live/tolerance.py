"""What a guard tolerates: how far waits, P99 and fairness may differ from the shadow, and what a comparison found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from shunter.errors import LiveError, did_you_mean
from shunter.live.journal import WaitsEntry
from shunter.params import build, named, param
from shunter.registry import policy
from shunter.report.so_far import Tail, unfair

OFF = "off"


class Duty(StrEnum):
    """What the guard does about longer waits."""

    ON = "on"  # hands the jobs back
    WATCH = "watch"  # only notes that it would


@dataclass(frozen=True)
class Tolerance:
    """When realised waits are worse than the shadow's, for how long they may be, and what happens then."""

    margin: float = param(0.2, "the share of the shadow's mean wait by which the real one may be longer", low=0)
    slack: float = param(
        60.0, "and the seconds: a resource manager looks at its queue now and then, a simulation at once", low=0
    )
    patience: int = param(6, "checks in a row that must be worse", low=1)
    worst_p99: float = param(
        0.0, "the most that P99 of the time in the system may be beyond chance, in times of the shadow's; 0: any", low=0
    )
    worst_fairness: float = param(
        0.0, "the least that the share of jobs with rho <= 1 may be, in times of the shadow's; 0: any", low=0, high=10
    )
    days: float = param(
        1.0, "days after which the shadow begins anew, from the cluster as it is then", low=0.01, high=30
    )
    base: str = param(
        "", "the policy of the shadow; none: the nearest to the resource manager's configuration", policy=True
    )
    duty: Duty = Duty.ON
    every_s: float | None = None  # between two checks; None: a multiple of the controller's interval

    @classmethod
    def of(cls, text: str, defaults: Mapping[str, str] = MappingProxyType({})) -> Tolerance | None:
        """What ``on``, ``watch`` or ``off`` says, with settings behind it, as in ``on:margin=0.3,base=fifo``.

        ``defaults`` are those of settings that it does not name, if not the usual ones.
        """
        duty, values = named(text, "guard", LiveError)
        if duty not in (*Duty, OFF):
            raise LiveError(f"--guard must be on, watch or off, got '{duty}'; {did_you_mean(duty, (*Duty, OFF))}")
        found = build(cls, duty, {**defaults, **values}, "guard", LiveError)
        base = found.base.replace(";", ",")
        if base:
            policy(base)  # a mistake in it is reported at once
        return None if duty == OFF else replace(found, duty=Duty(duty), base=base)

    def longer(self, realised_s: float, shadow_s: float) -> bool:
        """Whether a real mean wait is longer than may be."""
        return realised_s > shadow_s * (1 + self.margin) + self.slack


@dataclass(frozen=True)
class WaitComparison:
    """The waits of the same jobs in both worlds, each counted up to now."""

    jobs: int
    realised_s: float
    shadow_s: float
    realised_p90_s: float
    shadow_p90_s: float
    realised_tail: Tail = Tail()  # of the time in the system since the window began, not of waits
    shadow_tail: Tail = Tail()
    realised_before_s: float = 0.0  # the mean on the day before, by run times that are known now; 0 and 0: too early
    shadow_before_s: float = 0.0

    def broken(self, tolerance: Tolerance) -> str:
        """Which limits the real jobs don't keep; "": none."""
        late = f"{self.realised_before_s:.0f} s on the day before, {self.shadow_before_s:.0f} s in the shadow"
        most = tolerance.worst_p99 * self.shadow_tail.p99
        found = (
            "longer waits than are allowed" if tolerance.longer(self.realised_s, self.shadow_s) else "",
            f"{late}, by run times that are known now"
            if tolerance.longer(self.realised_before_s, self.shadow_before_s)
            else "",
            "a longer P99 than is allowed" if 0 < most < self.realised_tail.least_p99 - tolerance.slack else "",
            unfair(self.realised_tail, self.shadow_tail, tolerance.worst_fairness),
        )
        return "; ".join(filter(None, found))

    def ratio(self, slack_s: float) -> float:
        """Real over simulated, both with the slack, so that seconds don't look like factors."""
        real, other = self.realised_s + slack_s, self.shadow_s + slack_s
        return real / other if other > 0 else 1.0 if real <= 0 else math.inf

    def entry(self, at: float) -> WaitsEntry:
        """The same for the journal."""
        return WaitsEntry(at, self.jobs, self.realised_s, self.shadow_s, self.realised_p90_s, self.shadow_p90_s)

    def __str__(self) -> str:
        here, there = self.realised_tail, self.shadow_tail
        return (
            f"{self.jobs} jobs waited {self.realised_s:.0f} s on average (P90 {self.realised_p90_s:.0f} s),"
            f" {self.shadow_s:.0f} s (P90 {self.shadow_p90_s:.0f} s) in the shadow"
            + (
                f"; P99 in the system {here.p99:.0f} s, {there.p99:.0f} s there;"
                f" rho <= 1 of {100 * here.fair:.0f} % of the jobs, {100 * there.fair:.0f} % there"
            )
            * (there.p99 > 0)
        )

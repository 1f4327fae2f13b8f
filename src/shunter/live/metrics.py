"""What a controller reports to Prometheus: how long jobs wait, what it decides, what is refused, and how far it lags.

The same numbers answer a health check: whether rounds come in time and do what they should.

No label names a job or a user: a partition, a lever, a command and a kind of refusal are few.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter

from shunter.errors import LiveError
from shunter.live.controller import RoundResult
from shunter.live.exposition import Family, Histogram, Page, rendered
from shunter.live.levers import LEVERS
from shunter.live.manager import ResourceManager
from shunter.live.snapshot import LiveJob, Snapshot

WAIT_BOUNDS = (10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 172800.0, 604800.0)
ROUND_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REFUSALS = ("declined", "unreachable", "plan")
MOST_PARTITIONS = 100
OTHER = "other"  # all partitions beyond the maximum number
HEALTHY_INTERVALS = 3  # a good round must not be older than this
LONGEST_REASON = 300  # characters


class Metrics:
    """The numbers: ``seen`` and ``silent`` receive what happens, ``pages`` is what others read."""

    def __init__(self, manager: ResourceManager, interval_s: float = 60.0) -> None:
        self._manager, self._lock, self._looked = manager, threading.Lock(), time.monotonic()
        self._interval_s, self._good_at, self._problem = interval_s, -math.inf, "no round has ended yet"
        self._started: set[tuple[str, int]] | None = None  # runs that were counted, of jobs that are still listed
        self._partitions: set[str] = set()
        self.waits = Histogram(
            "shunter_job_wait_seconds",
            "Wait from eligible to started, of jobs that started since the controller did.",
            WAIT_BOUNDS,
            ("partition",),
        )
        self.rounds = Histogram("shunter_round_seconds", "Time to poll, decide and plan.", ROUND_BOUNDS)
        count, gauge = "counter", "gauge"
        self.decisions = Family(
            "shunter_decisions_total", count, "Changes decided on; mode act tries them.", ("lever",)
        )
        self.refusals = Family("shunter_refusals_total", count, "Changes that were not made.", ("kind",))
        self.lag = Family("shunter_lag_seconds", gauge, "Time since the last complete poll.")
        self.pending = Family("shunter_pending_jobs", gauge, "Waiting jobs.", ("partition",))
        self.running = Family("shunter_running_jobs", gauge, "Running jobs.", ("partition",))
        self.calls = Family(
            "shunter_slurm_calls_total", count, "Calls of the resource manager's commands.", ("command",)
        )
        self.postponed = Family(
            "shunter_postponed_changes", gauge, "Changes that the limits postponed in the last round."
        )
        self.unreachable = Family(
            "shunter_unreachable_total",
            count,
            "Rounds that failed, mostly because the resource manager did not answer.",
        )
        self.paused = Family("shunter_paused", gauge, "1 while it only watches because the jobs were handed back.")
        self.ratio = Family("shunter_guard_ratio", gauge, "Real mean wait over that of the shadow.")
        self.policy = Family("shunter_policy", gauge, "1 for the policy in force.", ("policy",))
        self.switches = Family("shunter_policy_switches_total", count, "Changes of the policy.", ("result",))
        for result in ("made", "refused"):
            self.switches.put(0.0, result)
        for family, labels in ((self.decisions, LEVERS), (self.refusals, REFUSALS)):
            for label in labels:
                family.put(0.0, label)
        for family in (self.postponed, self.unreachable, self.paused):
            family.put(0.0)

    @property
    def families(self) -> list[Family | Histogram]:
        """All of them."""
        return [value for value in vars(self).values() if isinstance(value, Family | Histogram)]

    @property
    def pages(self) -> dict[str, Page]:
        """What is served, by its path."""
        return {"/metrics": lambda: (200, self.text()), "/healthz": self._health_page}

    def _health_page(self) -> tuple[int, str]:
        well, why = self.health()
        return (200, f"ok: {why}\n") if well else (503, f"{why}\n")

    def text(self) -> str:
        """What Prometheus reads."""
        with self._lock:
            self.lag.put(time.monotonic() - self._looked)
            for command, times in dict(self._manager.calls).items():
                self.calls.put(times, command)
            return rendered(self.families)

    def health(self) -> tuple[bool, str]:
        """Whether the controller works as it should, and why not, on one line."""
        with self._lock:
            age_s = time.monotonic() - self._good_at
            if self.paused.values[()]:
                return False, _one_line(self._problem)
            if age_s > HEALTHY_INTERVALS * self._interval_s:
                since = f"the last good round ended {age_s:.0f} s ago: " if math.isfinite(age_s) else ""
                return False, _one_line(f"{since}{self._problem or 'the controller is busy or hangs'}")
            return True, f"the last round ended {age_s:.0f} s ago"

    def silent(self, problem: LiveError) -> None:
        """A round failed: the manager did not answer, or the journal could not be written."""
        with self._lock:
            self.unreachable.add(1)
            self._problem = str(problem)

    def seen(self, result: RoundResult) -> None:
        """A round is over."""
        with self._lock:
            self._looked = time.monotonic()
            self._problem = result.paused or result.silence
            if not self._problem:
                self._good_at = self._looked
            self.rounds.observe(result.round.took_s)
            self._note_jobs(result.round.snapshot)
            for lever, number in Counter(order.lever for order in result.orders).items():
                self.decisions.add(number, lever)
            self.refusals.add(len(result.round.refusals), "plan")
            for _, why in result.failed:
                self.refusals.add(1, "unreachable" if why == result.silence else "declined")
            self.postponed.put(result.postponed)
            self.paused.put(float(bool(result.paused)))
            if result.ratio is not None:
                self.ratio.put(result.ratio)
            self.policy.values = {(result.policy,): 1.0}  # of the policy now alone: over time there may be many
            if result.switch is not None:
                self.switches.add(1, "refused" if result.switch.refused else "made")

    def _note_jobs(self, snapshot: Snapshot) -> None:
        for family in (self.pending, self.running):
            family.values = dict.fromkeys(family.values, 0.0)
        runs = {(job.id, job.start): job for job in snapshot.jobs if job.nodes and job.start >= 0}
        for job in snapshot.jobs:
            if job.runs or job.state == "PENDING":
                (self.running if job.runs else self.pending).add(job.count, self._partition(job))
        for run in runs.keys() - self._started if self._started is not None else ():
            job = runs[run]
            waited = max(job.start - max(job.eligible, job.submit), 0) / 1000
            self.waits.observe(waited, self._partition(job))
        self._started = set(runs)

    def _partition(self, job: LiveJob) -> str:
        """The first that a job names; a job may wait for several, and combinations are many."""
        name = job.partition.partition(",")[0]
        if name not in self._partitions:
            if len(self._partitions) >= MOST_PARTITIONS:
                return OTHER
            self._partitions.add(name)
        return name


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]

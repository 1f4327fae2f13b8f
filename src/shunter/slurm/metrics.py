"""What a controller reports to Prometheus: how long jobs wait, what it decides, what is refused, and how far it lags.

The same numbers answer a health check: whether rounds come in time and do what they should.

No label names a job or a user: a partition, a lever, a command and a kind of refusal are few.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter

from shunter.errors import SlurmError
from shunter.slurm.client import Client
from shunter.slurm.controller import Outcome
from shunter.slurm.exposition import Family, Histogram, Page, rendered
from shunter.slurm.levers import LEVERS
from shunter.slurm.snapshot import Job, Snapshot

WAIT_BOUNDS = (10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 172800.0, 604800.0)
ROUND_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REFUSALS = ("declined", "unreachable", "plan")
MOST_PARTITIONS = 100
OTHER = "other"  # all partitions beyond so many
HEALTHY_INTERVALS = 3  # a good round must not be older than this
LONGEST_REASON = 300  # characters


class Metrics:
    """The numbers: ``seen`` and ``away`` receive what happens, ``pages`` is what others read."""

    def __init__(self, client: Client, interval_s: float = 60.0) -> None:
        self._client, self._lock, self._looked = client, threading.Lock(), time.monotonic()
        self._interval_s, self._good_at, self._problem = interval_s, -math.inf, "no round has ended yet"
        self._started: set[tuple[str, int]] | None = None  # runs that were counted, of jobs that Slurm still tells of
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
        self.lag = Family("shunter_lag_seconds", gauge, "Time since the last complete poll of Slurm.")
        self.pending = Family("shunter_pending_jobs", gauge, "Waiting jobs.", ("partition",))
        self.running = Family("shunter_running_jobs", gauge, "Running jobs.", ("partition",))
        self.calls = Family("shunter_slurm_calls_total", count, "Calls of Slurm's commands.", ("command",))
        self.postponed = Family(
            "shunter_postponed_changes", gauge, "Changes that the limits postponed in the last round."
        )
        self.unreachable = Family(
            "shunter_unreachable_total", count, "Rounds that failed, mostly because Slurm did not answer."
        )
        self.paused = Family("shunter_paused", gauge, "1 while it only watches because the jobs were handed back.")
        self.ratio = Family("shunter_guard_ratio", gauge, "Real mean wait over that of the shadow.")
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
            for command, times in dict(self._client.calls).items():
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

    def away(self, silence: SlurmError) -> None:
        """A round failed: Slurm did not answer, or the journal could not be written."""
        with self._lock:
            self.unreachable.add(1)
            self._problem = str(silence)

    def seen(self, outcome: Outcome) -> None:
        """A round is over."""
        with self._lock:
            self._looked = time.monotonic()
            self._problem = outcome.paused or outcome.silence
            if not self._problem:
                self._good_at = self._looked
            self.rounds.observe(outcome.round.took_s)
            self._note_jobs(outcome.round.snapshot)
            for lever, number in Counter(order.lever for order in outcome.orders).items():
                self.decisions.add(number, lever)
            self.refusals.add(len(outcome.round.refusals), "plan")
            for _, why in outcome.failed:
                self.refusals.add(1, "unreachable" if why == outcome.silence else "declined")
            self.postponed.put(outcome.postponed)
            self.paused.put(float(bool(outcome.paused)))
            if outcome.ratio is not None:
                self.ratio.put(outcome.ratio)

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

    def _partition(self, job: Job) -> str:
        """The first that a job names; a job may wait for several, and combinations are many."""
        name = job.partition.partition(",")[0]
        if name not in self._partitions:
            if len(self._partitions) >= MOST_PARTITIONS:
                return OTHER
            self._partitions.add(name)
        return name


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]

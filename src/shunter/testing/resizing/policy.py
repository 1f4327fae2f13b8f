"""What the plain versions of policies that resize have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster
from shunter.model import NOTHING, Plan, Timer, View
from shunter.scheduling.resizing.policy import work_expected
from shunter.testing.resizing.active import ActiveJobs, active_jobs, expected_work
from shunter.testing.resizing.placing import COMPACT, Widths, plan_for
from shunter.world import F64

MOST_TURNS = 8  # decisions at one instant


@dataclass
class PlainResizingMemory:
    """What such a policy remembers."""

    at: int = -1  # the instant of the last decision ...
    turns: int = 0  # ... and how many were made at it
    wake: int = -1  # the timer that is set
    seen: F64 = field(default_factory=lambda: np.zeros(2))  # work of ended jobs, in all (ms), and how many there were
    due: int = -1  # when losses are read next, ms; -1: not known yet
    ratios: dict[int, list[float]] = field(default_factory=dict)  # by user: work of ended jobs over what was said of it
    expected: dict[int, float] = field(default_factory=dict)  # job -> its work in all, as expected when it came
    own: dict[str, Any] = field(default_factory=dict)  # what only one policy remembers


@dataclass(frozen=True)
class PlainResizing(ABC):
    """A policy in plain Python that gives jobs more or fewer GPUs, the same as a compiled one does."""

    interval: float = 120.0
    remaining: str = "declared"
    quantile: float = 0.5

    style = COMPACT
    squeezes = False

    @abstractmethod
    def widths(self, view: View, active: ActiveJobs, memory: PlainResizingMemory) -> Widths:
        """How wide each job should be now."""

    def may_skip(self, view: View, memory: PlainResizingMemory) -> bool:
        """Whether what happened can wait for the next look."""
        return False

    @property
    def needs(self) -> frozenset[str]:
        """True durations, for an oracle."""
        return frozenset({"duration"}) if self.remaining == "oracle" else frozenset()

    def start(self, cluster: Cluster, previous: Any = None) -> PlainResizingMemory:
        """A fresh memory."""
        return PlainResizingMemory()

    def decide(self, view: View, memory: PlainResizingMemory) -> Plan:
        """Look at all jobs once at an instant, and again where something new happens at it."""
        self._learn(view, memory)
        self._read_losses(view, memory)
        if view.now < memory.wake and self.may_skip(view, memory):
            return NOTHING
        fresh = memory.at != view.now
        memory.turns = 0 if fresh else memory.turns + 1
        new = len(view.ended) or (view.jobs.started[view.arrived] < 0).any()
        releases = int(view.world.clock[w.RELEASES])
        if not fresh and (memory.turns >= MOST_TURNS or not new):
            memory.own["releases"] = releases
            return NOTHING
        memory.at = view.now
        active = active_jobs(view, memory.expected)
        if not len(active):
            return NOTHING
        widths = self.widths(view, active, memory)
        actions = plan_for(view, active, widths, self.style, self.squeezes)
        if not actions:
            memory.own["releases"] = releases
        step = round(self.interval * 1000)
        memory.wake = (view.now // step + 1) * step
        return Plan([*actions, Timer(memory.wake)])

    def _read_losses(self, view: View, memory: PlainResizingMemory) -> None:
        """At every interval, what running jobs should need by their losses until then."""
        step = round(self.interval * 1000)
        if not self.reads_losses(view):
            return
        if memory.due < 0:
            memory.due = (view.now // step + 1) * step
        for at in range(memory.due, view.now + 1, step):
            for job in view.running.tolist():
                losses = view.losses(job, at)
                if len(losses):
                    self.read(view, memory, job, losses)
            memory.due = at + step

    def reads_losses(self, view: View) -> bool:
        """Whether losses are read at every interval."""
        return self.remaining == "losses"

    def read(self, view: View, memory: PlainResizingMemory, job: int, losses: F64) -> None:
        """What a job should need by its losses so far."""
        if self.remaining == "losses":
            memory.expected[job] = work_expected(losses, self.quantile) * float(view.jobs.declared[job])

    @staticmethod
    def _learn(view: View, memory: PlainResizingMemory) -> None:
        done = view.ended[view.jobs.state[view.ended] == w.DONE]
        for job in done.tolist():
            if view.jobs.declared[job] > 0 or view.jobs.limit[job] > 0:
                said = memory.expected.setdefault(job, expected_work(view, job, memory.seen))
                ratios = memory.ratios.setdefault(int(view.jobs.user[job]), [])
                ratios.append(float(view.world.progress[w.WORK, job]) / said)
        memory.seen += (float(view.world.progress[w.WORK, done].sum()), len(done))
        for job in view.arrived.tolist():
            if job not in memory.expected:
                memory.expected[job] = expected_work(view, job, memory.seen)

"""What policies that resize jobs have in common: a subclass says how wide each job should be, and in which order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shunter import world as w
from shunter.capabilities import Describes
from shunter.cluster import Cluster
from shunter.model import NOTHING, Plan, Timer, Trace, View
from shunter.params import param
from shunter.scheduling.resizing.active import ActiveJobs, active_jobs, expected_work
from shunter.scheduling.resizing.placing import COMPACT, plan_for
from shunter.world import F64, I64

MOST_TURNS = 8  # decisions at one instant
REMAINING = ("declared", "oracle")


@dataclass
class ResizingMemory:
    """What such a policy remembers."""

    cluster: Cluster
    at: int = -1  # the instant of the last decision ...
    turns: int = 0  # ... and how many were made at it
    seen: F64 = field(default_factory=lambda: np.zeros(2))  # work of ended jobs, in all (ms), and how many there were
    own: dict[str, Any] = field(default_factory=dict)  # what only one policy remembers


@dataclass(frozen=True)
class Widths:
    """How many GPUs each job of a active should have, 0: none; and whose turn it is first."""

    wanted: I64  # (jobs,)
    order: list[int]


@dataclass(frozen=True)
class Resizing(Describes, ABC):
    """A policy in plain Python that gives jobs more or fewer GPUs."""

    interval: float = param(120.0, "seconds after which it looks again although nothing happened", low=1, high=86_400)
    remaining: str = param(
        "declared",
        "what is taken for the work of a job: what its user declared, else its limit, else the mean of ended jobs; or "
        "the truth (oracle)",
        choices=REMAINING,
    )

    style = COMPACT

    @abstractmethod
    def widths(self, view: View, active: ActiveJobs, memory: ResizingMemory) -> Widths:
        """How wide each job should be now."""

    @property
    def needs(self) -> frozenset[str]:
        """True durations, for an oracle."""
        return frozenset({"duration"}) if self.remaining == "oracle" else frozenset()

    def estimate_source(self, trace: Trace) -> str:
        """Where the expected work comes from."""
        if self.remaining == "oracle":
            return "oracle"
        declared, limited = trace.declarations > 0, (trace.limit > 0) & (trace.declarations == 0)
        sources = {"declared": declared, "limit": limited, "history": ~declared & ~limited}
        return "+".join(name for name, jobs in sources.items() if jobs.any()) or "none"

    def start(self, cluster: Cluster, previous: Any = None) -> ResizingMemory:
        """A fresh memory."""
        seen = previous.seen.copy() if isinstance(previous, ResizingMemory) else np.zeros(2)
        return ResizingMemory(cluster, seen=seen)

    def decide(self, view: View, memory: ResizingMemory) -> Plan:
        """Look at all jobs once at an instant, and again where something new happens at it."""
        fresh = memory.at != view.now
        memory.turns = 0 if fresh else memory.turns + 1
        new = len(view.ended) or (view.jobs.started[view.arrived] < 0).any()
        if not fresh and (memory.turns >= MOST_TURNS or not new):
            return NOTHING
        memory.at = view.now
        self._learn(view, memory)
        active = active_jobs(view, self._expected(view, memory))
        if not len(active):
            return NOTHING
        widths = self.widths(view, active, memory)
        actions = plan_for(view, active, widths.wanted, widths.order, self.style)
        step = round(self.interval * 1000)
        return Plan([*actions, Timer((view.now // step + 1) * step)])

    def _expected(self, view: View, memory: ResizingMemory) -> F64:
        if view.truth is not None:
            return view.truth.astype(np.float64)
        return expected_work(view, memory.seen)

    @staticmethod
    def _learn(view: View, memory: ResizingMemory) -> None:
        done = view.ended[view.jobs.state[view.ended] == w.DONE]
        memory.seen += (float(view.world.progress[w.WORK, done].sum()), len(done))

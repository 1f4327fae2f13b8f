"""What policies that resize jobs have in common: a subclass says how wide each job should be."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from shunter import world as w
from shunter.arrays import Arrays, type_of
from shunter.capabilities import Compilable, Compiled, Describes
from shunter.cluster import Cluster
from shunter.compiled import pointer
from shunter.model import Plan, Trace, View
from shunter.params import param
from shunter.scheduling.queue.policy import ask, decode
from shunter.scheduling.resizing.memory import ResizingState, state_for
from shunter.world import Decision, World

REMAINING = ("declared", "oracle")


@dataclass(eq=False)
class ResizingMemory:
    """What such a policy remembers: its compiled form, made when the first view is there."""

    cluster: Cluster
    previous: ResizingState | None = None  # of another configuration, or of jobs that had other rows
    form: Compiled | None = None
    plan: Decision | None = None
    generation: int = 0  # of the views that the form was made for

    def __deepcopy__(self, memo: dict[int, Any]) -> ResizingMemory:
        """An independent memory; the compiled functions, which never change, are shared."""
        form, plan = copy.deepcopy(self.form, memo), copy.deepcopy(self.plan, memo)
        return ResizingMemory(self.cluster, self.previous, form, plan, self.generation)


@dataclass(frozen=True)
class Resizing(Compilable, Describes):
    """A policy that gives jobs more or fewer GPUs."""

    interval: float = param(120.0, "seconds after which it looks again although nothing happened", low=1, high=86_400)
    remaining: str = param(
        "declared",
        "what is taken for the work of a job: what its user declared, else its limit, else the mean of jobs that had "
        "ended when it came; or the truth (oracle)",
        choices=REMAINING,
    )

    lightest = False  # whether jobs go to the least used nodes

    @abstractmethod
    def own(self, view: View, before: Arrays | None) -> Arrays:
        """What only this policy remembers, for the jobs of this view; ``before`` is what it remembered until now."""

    @property
    @abstractmethod
    def kernel(self) -> Any:
        """The kernel that decides."""

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
        """A fresh memory, or one that knows what another configuration saw of ended jobs."""
        if not isinstance(previous, ResizingMemory):
            return ResizingMemory(cluster)
        return ResizingMemory(cluster, previous.form.memory if previous.form else previous.previous)

    def compiled(self, view: View, memory: ResizingMemory) -> Compiled:
        """The compiled form, made once for all views whose rows stand for the same jobs."""
        if memory.form is None or memory.generation != view.generation:
            before = memory.form.memory if memory.form else memory.previous
            own = self.own(view, before.own if before is not None else None)
            state = state_for(view, round(self.interval * 1000), self.lightest, own)
            if before is not None:
                state.ended_work, state.ended_jobs = before.ended_work, before.ended_jobs
            memory.form = Compiled(pointer_to(self.kernel), state, 0)
            memory.plan = w.new_decision(view.world)
            memory.previous, memory.generation = None, view.generation
        return memory.form

    def decide(self, view: View, memory: ResizingMemory) -> Plan:
        """The same decision as the compiled loop takes, as a plan."""
        form = self.compiled(view, memory)
        assert memory.plan is not None
        ask(form.decide, view.world, form.memory, form.parts, memory.plan)
        return decode(memory.plan)


def pointer_to(kernel: Any) -> Any:
    """A deciding kernel, compiled once."""
    found = _POINTERS.get(kernel)
    if found is None:
        from numba import types

        signature = types.void(type_of(World), type_of(ResizingState), types.int64, type_of(Decision))
        found = _POINTERS[kernel] = pointer(kernel, signature)
    return found


_POINTERS: dict[Any, Any] = {}

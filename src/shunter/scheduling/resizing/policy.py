"""What policies that resize jobs have in common: a subclass says how wide each job should be."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import world as w
from shunter.arrays import Arrays, type_of
from shunter.capabilities import Compilable, Compiled, Describes, Refits
from shunter.cluster import Cluster
from shunter.compiled import pointer
from shunter.model import Plan, Renumbering, Trace, View
from shunter.params import param
from shunter.predictors.progress.curves import BINS
from shunter.predictors.progress.extrapolating import LEVELS, remaining
from shunter.scheduling.queue.policy import ask, decode
from shunter.scheduling.resizing.memory import ResizingState, state_for
from shunter.world import F64, Decision, World

REMAINING = ("declared", "losses", "oracle")


@dataclass(eq=False)
class ResizingMemory:
    """What such a policy remembers: its compiled form, made when the first view is there."""

    cluster: Cluster
    previous: ResizingState | None = None  # of another configuration, or of jobs that had other rows
    form: Compiled | None = None
    plan: Decision | None = None
    generation: int = 0  # of the views that the form was made for
    due: int = w.NEVER  # when losses are read next (ms)

    def __deepcopy__(self, memo: dict[int, Any]) -> ResizingMemory:
        """An independent memory; the compiled functions, which never change, are shared."""
        form, plan = copy.deepcopy(self.form, memo), copy.deepcopy(self.plan, memo)
        return ResizingMemory(self.cluster, self.previous, form, plan, self.generation, self.due)


@dataclass(frozen=True)
class Resizing(Compilable, Refits, Describes):
    """A policy that gives jobs more or fewer GPUs."""

    interval: float = param(120.0, "seconds after which it looks again although nothing happened", low=1, high=86_400)
    remaining: str = param(
        "declared",
        "what is taken for the work of a job: what its user declared, else its limit, else the mean of jobs that had "
        "ended when it came; the share of the declared work that its losses so far suggest (losses); or the truth "
        "(oracle)",
        choices=REMAINING,
    )
    quantile: float = param(
        0.5, "remaining=losses: chance with which a job should need no more work than is expected", low=0.05, high=0.95
    )

    lightest = False  # whether jobs go to the least used nodes
    squeezes = False  # whether a job that finds no room may begin with less CPU for each instance
    careful = False  # whether it avoids needless moves and slow GPUs across machines

    @abstractmethod
    def own(self, view: View, before: Arrays | None, rows: Renumbering | None) -> Arrays:
        """What only this policy remembers, for the jobs of this view; ``before``: until now, with rows as these."""

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
        if self.remaining == "losses" and (trace.loss_curve[declared] >= 0).any():
            return "losses"
        sources = {"declared": declared, "limit": limited, "history": ~declared & ~limited}
        return "+".join(name for name, jobs in sources.items() if jobs.any()) or "none"

    def start(self, cluster: Cluster, previous: Any = None) -> ResizingMemory:
        """A fresh memory, or one that knows what another configuration saw of ended jobs."""
        if not isinstance(previous, ResizingMemory):
            return ResizingMemory(cluster)
        before = previous.form.memory if previous.form else previous.previous
        return ResizingMemory(cluster, before, generation=previous.generation)

    def compiled(self, view: View, memory: ResizingMemory) -> Compiled:
        """The compiled form, made once for all views whose rows stand for the same jobs."""
        if memory.form is None or memory.generation != view.generation:
            before, rows = memory.form.memory if memory.form else memory.previous, None
            if before is not None and (memory.generation, len(before.wanted)) != (
                view.generation,
                view.world.jobs.shape[1],
            ):
                rows = view.renumbering(len(before.wanted), memory.generation)
            own = self.own(view, before.own if before is not None else None, rows)
            state = state_for(view, self._step, self.lightest, self.careful, self.squeezes, own)
            if before is not None:
                state.ended_work, state.ended_jobs = before.ended_work, before.ended_jobs
            memory.form = Compiled(pointer_to(self.kernel), state, 0)
            memory.plan = w.new_decision(view.world)
            memory.previous, memory.generation = None, view.generation
            if self.reads_losses(view):
                memory.due = (view.now // self._step + 1) * self._step
        return memory.form

    @property
    def _step(self) -> int:
        return round(self.interval * 1000)

    # -- what losses suggest

    def reads_losses(self, view: View) -> bool:
        """Whether losses are read at every interval."""
        return self.remaining == "losses"

    @property
    def predictor(self) -> str:
        """No model of run times."""
        return ""

    def start_with(self, cluster: Cluster, lessons: Any) -> ResizingMemory:
        """A fresh memory; there is nothing to learn from."""
        return self.start(cluster)

    def due(self, memory: ResizingMemory) -> int:
        """When losses are read next (ms)."""
        return memory.due

    def refresh(self, view: View, memory: ResizingMemory) -> None:
        """Read the losses that running jobs have reported by then."""
        assert memory.form is not None
        for job in view.running.tolist():
            losses = view.losses(job, memory.due)
            if len(losses):
                self.read(view, memory.form.memory, job, losses)
        memory.due += self._step

    def read(self, view: View, state: ResizingState, job: int, losses: F64) -> None:
        """Estimate the work of a job in all from its losses so far."""
        if self.remaining == "losses":
            state.expected[job] = work_expected(losses, self.quantile) * float(view.jobs.declared[job])

    def decide(self, view: View, memory: ResizingMemory) -> Plan:
        """The same decision as the compiled loop takes, as a plan."""
        form = self.compiled(view, memory)
        while view.now >= memory.due:
            self.refresh(view, memory)
        assert memory.plan is not None
        ask(form.decide, view.world, form.memory, form.parts, memory.plan)
        return decode(memory.plan)


def work_expected(losses: F64, quantile: float) -> float:
    """The work of a job in all, as a share of what is declared, from its losses so far, by the power law."""
    done = float(losses[-1, 0])
    found = remaining(BINS * losses[:, 0], losses[:, 1], BINS)
    left = float(np.interp(quantile, (LEVELS[0], 0.5, LEVELS[1]), (found.low, found.end, found.high)))
    return done + left / BINS


def pointer_to(kernel: Any) -> Any:
    """A deciding kernel, compiled once."""
    found = _POINTERS.get(kernel)
    if found is None:
        from numba import types

        signature = types.void(type_of(World), type_of(ResizingState), types.int64, type_of(Decision))
        found = _POINTERS[kernel] = pointer(kernel, signature)
    return found


_POINTERS: dict[Any, Any] = {}

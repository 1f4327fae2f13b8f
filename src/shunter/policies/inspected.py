"""Another policy's order, in which a learned model may let the first job wait."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shunter import world as w
from shunter.capabilities import Compilable, Compiled, Holds, Refits, RemembersTraining, Wraps
from shunter.cluster import Cluster
from shunter.errors import PolicyError
from shunter.model import Plan, Trace, View
from shunter.params import param
from shunter.policies.scored.features import OF_ESTIMATE
from shunter.policies.scored.inspecting import inspect
from shunter.policies.scored.models import TAKE, ScoreModel, built_in, load
from shunter.policies.scored.provenance import remarks
from shunter.predictors.lessons import Lessons
from shunter.scheduling.queue.decide import decide_pointer, never, tools_for
from shunter.scheduling.queue.memory import pools_seen
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import QueueMemory, decided
from shunter.scheduling.queue.queue import Inspector
from shunter.world import I64, Decision


@dataclass
class InspectedMemory:
    """What it remembers besides the memory of the order."""

    inner: QueueMemory
    skips: I64  # (jobs,) how often each was made to wait; empty before the first view
    made_of: Compiled | None = None  # the order's compiled form ...
    form: Compiled | None = None  # ... and the same with the inspector
    plan: Decision | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> InspectedMemory:
        """An independent memory; its compiled form is made again."""
        return InspectedMemory(copy.deepcopy(self.inner, memo), self.skips.copy())


@dataclass(frozen=True)
class Inspected(Compilable, Refits, Wraps, Holds, RemembersTraining):
    """SchedInspector: a learned model lets the first job of another policy's order wait, or not."""

    policy: Any = param("saf", "the policy that orders, with ; in place of , between its settings", policy=True)
    model: str = param(
        TAKE, "the model: a file that 'shunter learn' wrote; take: no job is made to wait", choices=(TAKE,), file=True
    )

    def __post_init__(self) -> None:
        if self.score_model.asks != "skip":
            raise PolicyError(f"{self.model}: gives an order, so it inspects none; use scored:model={self.model}")
        if isinstance(self.policy, str):
            return
        if not isinstance(self.policy, Ordering) or self.policy.preemptive or self.policy.backfill == "conservative":
            raise PolicyError(
                "policy 'inspected': needs an order that stops no job, with backfill=none or backfill=easy"
            )

        if not self.policy.estimates and self.score_model.features & OF_ESTIMATE:
            raise PolicyError(
                f"{self.model}: reads estimates of run times, and this order makes none; add backfill=easy to it"
            )

    @cached_property
    def score_model(self) -> ScoreModel:
        """The model itself."""
        return built_in(self.model) or load(Path(self.model))

    def training_remarks(self, trace: Trace, cluster: Cluster) -> list[str]:
        """Whether the model meets jobs again that it learned from, or another cluster."""
        return remarks(self.score_model.training, trace, cluster)

    # -- what the order says

    @property
    def inner(self) -> Ordering:
        """The policy that orders."""
        if isinstance(self.policy, str):
            raise PolicyError(
                f"policy 'inspected': '{self.policy}' is the text of a policy; pass the object, or make both of text:"
                f" shunter.policy('inspected:policy={self.policy}')"
            )
        assert isinstance(self.policy, Ordering)
        return self.policy

    @property
    def needs(self) -> frozenset[str]:
        """What the order needs."""
        return self.inner.needs

    @property
    def predictor(self) -> str:
        """The model that makes the order's estimates."""
        return self.inner.predictor

    def inner_memory(self, memory: InspectedMemory) -> QueueMemory:
        """The memory of the order."""
        return memory.inner

    def start(self, cluster: Cluster, previous: Any = None) -> InspectedMemory:
        """A fresh memory, or one that continues from what another configuration knew."""
        before = previous.inner if isinstance(previous, InspectedMemory) else previous
        return self.start_around(cluster, self.inner.start(cluster, before))

    def start_with(self, cluster: Cluster, lessons: Lessons) -> InspectedMemory:
        """A fresh memory whose order begins with lessons from the past."""
        return self.start_around(cluster, self.inner.start_with(cluster, lessons))

    def start_around(self, cluster: Cluster, inner: QueueMemory) -> InspectedMemory:
        """A fresh memory around one of the order."""
        return InspectedMemory(inner, np.zeros(0, np.int64))

    def due(self, memory: InspectedMemory) -> int:
        """When the order's estimates are learned again (ms)."""
        return self.inner.due(memory.inner)

    def refresh(self, view: View, memory: InspectedMemory) -> None:
        """Learn the order's estimates again."""
        self.inner.refresh(view, memory.inner)

    def check_form(self, memory: InspectedMemory) -> None:
        """Refuse a key that was no number."""
        self.inner.check_form(memory.inner)

    # -- deciding

    def compiled(self, view: View, memory: InspectedMemory) -> Compiled:
        """The order's compiled form with the inspector in it; made again when the order's is."""
        before = memory.inner.generation
        made_of = self.inner.compiled(view, memory.inner)
        if memory.form is None or memory.made_of is not made_of:
            memory.skips = _moved(memory.skips, view, len(made_of.memory.estimate), before)
            memory.made_of, memory.form = made_of, self._with_inspector(view, made_of, memory.skips)
            memory.plan = w.new_decision(view.world)
        return memory.form

    def _with_inspector(self, view: View, made_of: Compiled, skips: I64) -> Compiled:
        queue, sees = made_of.memory, made_of.memory.config.sees_pool or self.score_model.sees_pool
        pools = queue.pools if queue.config.sees_pool or not sees else pools_seen(view.world, queue.sample)
        queue = queue.replace(
            config=queue.config.replace(sees_pool=sees),
            pools=pools,
            inspector=Inspector(self.score_model.arrays(), skips),
        )
        parts, inner = made_of.parts.parts, self.inner
        tools = tools_for(parts, False, inner.backfill, view.reasons_wanted, inner.look if sees else never, inspect)
        return Compiled(decide_pointer(tools), queue, tools)

    def decide(self, view: View, memory: InspectedMemory) -> Plan:
        """The order's next start, or time to wait."""
        return decided(self, view, memory)


def _moved(skips: I64, view: View, jobs: int, generation: int) -> I64:
    """How often each job was made to wait, with the numbers that the jobs have now."""
    if generation == view.generation and len(skips) == jobs:
        return skips
    moved = view.moved_since(generation)
    if len(moved) != len(skips):
        return np.zeros(jobs, np.int64)
    found = np.zeros(jobs, np.int64)
    found[moved[moved >= 0]] = skips[moved >= 0]
    return found

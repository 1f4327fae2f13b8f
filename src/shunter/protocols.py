"""The whole contract between policies, backends and those who watch, on one screen."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from shunter.cluster import Cluster
from shunter.model import Plan, Refusal, View
from shunter.world import I64

Memory = Any  # a policy's own: timers, queues, averages, models; `fork` copies it with copy.deepcopy


class Compiled(NamedTuple):
    """A policy's compiled form: ``decide(world, memory, parts, plan)`` as a pointer, and what it is called with."""

    decide: Any
    memory: Any  # arrays
    parts: Any  # pointers to its parts: key, placement

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return self._replace(memory=copy.deepcopy(self.memory, memo))


@runtime_checkable
class Policy(Protocol):
    """A scheduler: frozen, its fields are its configuration; what it remembers is in its memory."""

    @property
    def needs(self) -> frozenset[str]:
        """What it must be told beyond the request of each job; ``duration`` makes it an oracle."""
        ...

    def start(self, cluster: Cluster, previous: Memory | None = None) -> Memory:
        """A fresh memory, or one that takes over from another configuration's."""
        ...

    def decide(self, view: View, memory: Memory) -> Plan:
        """What to do now; asked again at the same instant until the plan is empty."""
        ...


class Backend(Protocol):
    """The world: a simulator, a live cluster, a recording. A policy can't tell which."""

    @property
    def cluster(self) -> Cluster:
        """The machines."""
        ...

    def prepare(self, needs: frozenset[str]) -> None:
        """Refuse what cannot be told, by name, before anything is done."""
        ...

    def __iter__(self) -> Iterator[View]:
        """One view per decision point."""
        ...

    def apply(self, plan: Plan) -> Sequence[Refusal]:
        """Check the whole plan, then do it; if anything is refused, nothing is done. It may hold reasons only."""
        ...


class Observer(Protocol):
    """Somebody who watches the loop."""

    def decided(self, view: View, plan: Plan, refusals: Sequence[Refusal]) -> None:
        """Called after every plan that was not empty."""
        ...


class Placer(Protocol):
    """Chooses nodes for one job."""

    name: str

    def place(self, usable: I64, total: I64, order: I64, gpus: int, draw: int) -> tuple[I64, I64] | None:
        """Nodes and how many GPUs on each, or None: decline."""
        ...

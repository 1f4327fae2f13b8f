"""What a policy can do beyond deciding. It declares a capability by inheriting its class.

``capability`` finds one, through policies that wrap others. A class that declares a capability without its methods is
refused by name when it is resolved.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shunter.cluster import Cluster
from shunter.model import Trace, View
from shunter.protocols import Memory, Policy
from shunter.world import I64

if TYPE_CHECKING:
    from shunter.energy.series import NodeSeries


class Compiled(NamedTuple):
    """A policy's compiled form: ``decide(world, memory, parts, plan)`` as a pointer, and what it is called with."""

    decide: Any
    memory: Any  # arrays
    parts: Any  # pointers to its parts: key, placement

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return self._replace(memory=copy.deepcopy(self.memory, memo))


class Compilable(ABC):
    """Has a compiled form, which the simulator uses unless there are observers."""

    @abstractmethod
    def compiled(self, view: View, memory: Memory) -> Compiled:
        """The compiled form, with arrays for the jobs of this view."""

    def check_form(self, memory: Memory) -> None:  # noqa: B027 most have nothing to check
        """Raise a PolicyError where the compiled form can't go on; the loop calls it every few thousand decisions."""


class Learns(ABC):
    """Its estimates come from a model that is fitted to the jobs before the run."""

    forecasts: ClassVar[bool] = False  # whether it also uses a forecast of submissions

    @property
    @abstractmethod
    def predictor(self) -> str:
        """The model's name in ``shunter.predictors``; "" if this configuration uses none."""

    @abstractmethod
    def start_with(self, cluster: Cluster, lessons: Any) -> Memory:
        """A fresh memory that begins with ``predictors.lessons.Lessons``."""

    def lessons_of(self, history: Trace) -> NDArray[np.bool_] | None:
        """Which of the jobs before the run its model learns run times from; None: all."""
        return None


class Refits(Learns):
    """Fits its model again during a compiled run; a plain policy does so in ``decide``."""

    @abstractmethod
    def due(self, memory: Memory) -> int:
        """When ``refresh`` must be called next (ms); the compiled loop pauses then."""

    @abstractmethod
    def refresh(self, view: View, memory: Memory) -> None:
        """Fit the model again to what has ended by then."""


class Ranks(ABC):
    """Knows the order in which it would serve all waiting jobs."""

    @abstractmethod
    def ranking(self, view: View, memory: Memory) -> I64:
        """The waiting jobs in this order; called after a decision at the same instant."""


class Describes(ABC):
    """Describes itself before a run on a trace."""

    placement: str = "count"  # the placement rule, which determines the jobs that can never run

    @abstractmethod
    def estimate_source(self, trace: Trace) -> str:
        """Where its estimates come from: none, oracle, declared, limit, history or a model."""

    def remarks(self, trace: Trace) -> list[str]:
        """What one must know about it on this trace: settings without effect, assumptions."""
        return []


class RemembersTraining(ABC):
    """Goes by a model that was trained before, perhaps on jobs of the run."""

    @abstractmethod
    def training_remarks(self, trace: Trace, cluster: Cluster) -> list[str]:
        """What one must know of the training before the numbers of a run."""


class Explains:
    """Reports more than its schedule after a run."""

    def groups(self, memory: Memory) -> tuple[I64, I64] | None:
        """The demand class and the pool of each job, where its reasons refer to them."""
        return None

    def predictions(self, memory: Memory) -> I64 | None:
        """The first estimate of each job's run time (ms, 0: none); None if there is nothing to judge."""
        return None

    def timer_changes(self, memory: Memory) -> I64 | None:
        """Rows of time (ms), tier, GPUs, timer (ms), number of waits; None if it tunes no timers."""
        return None


class Shares:
    """Puts several jobs on one GPU."""

    @property
    def shares(self) -> bool:
        """Whether this configuration does."""
        return True

    def pairs(self, memory: Memory) -> Sequence[tuple[int, int, int]] | I64 | None:
        """Rows of time (ms), the job that joined, the job that was there; None if it keeps no record."""
        return None

    def sharing_scores(self, memory: Memory, jobs: int) -> I64:
        """The sharing score of each job; -1 if unknown."""
        return np.full(jobs, -1, np.int64)

    def profiled(self, memory: Memory, jobs: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which jobs ran in a profiler, and which of them ended there."""
        return np.zeros(jobs, bool), np.zeros(jobs, bool)


class Wraps(ABC):
    """Adds something to another policy, which schedules. Capabilities that it lacks are those of that policy."""

    @property
    @abstractmethod
    def inner(self) -> Policy:
        """The policy that schedules."""

    @abstractmethod
    def inner_memory(self, memory: Memory) -> Memory:
        """The part of the memory that belongs to the inner policy."""

    @abstractmethod
    def start_around(self, cluster: Cluster, inner: Memory) -> Memory:
        """A fresh memory around a memory of the inner policy."""


class Holds:
    """May leave GPUs idle that the first job could use. A manager that only takes an order would start that job."""


class FollowsDemand(ABC):
    """Continues a series of the nodes in use from before the run."""

    step: float  # seconds

    @abstractmethod
    def remember(self, memory: Memory, before: NodeSeries) -> None:
        """Take in the demand before the run, in steps of its own length."""


Kind = TypeVar("Kind")


def capability(kind: type[Kind], policy: Any) -> Kind | None:
    """The policy, or the first one that it wraps, that has a capability; None if none has."""
    found = capability_and_memory(kind, policy, None)
    return found[0] if found else None


def capability_and_memory(kind: type[Kind], policy: Any, memory: Memory) -> tuple[Kind, Memory] | None:
    """The same, with the part of the memory that belongs to it."""
    while not isinstance(policy, kind):
        if not isinstance(policy, Wraps):
            return None
        memory = None if memory is None else policy.inner_memory(memory)
        policy = policy.inner
    return policy, memory

"""The whole contract between policies, backends and observers.

Every policy is a ``Policy``. What else it can do, it declares by inheriting from the capabilities below. Nothing is
guessed from names: a policy of your own may have a field ``model`` or ``placement`` that means something else.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shunter.cluster import Cluster
from shunter.model import Plan, Refusal, Trace, View
from shunter.world import I64

if TYPE_CHECKING:
    from shunter.energy.series import NodeSeries

Memory = Any  # what a policy remembers: timers, queues, averages, models; copied with copy.deepcopy


class Compiled(NamedTuple):
    """A policy's compiled form: ``decide(world, memory, parts, plan)`` as a pointer, and what it is called with."""

    decide: Any
    memory: Any  # arrays
    parts: Any  # pointers to its parts: key, placement

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return self._replace(memory=copy.deepcopy(self.memory, memo))


@runtime_checkable
class Policy(Protocol):
    """A scheduler.

    A policy is frozen: its fields are its configuration. Everything that it remembers is in its memory, which ``start``
    makes and ``decide`` receives. Any class with these three members is a policy; it need not inherit from this one.
    What else a policy can do, such as a compiled form, it declares by inheriting capabilities.

    Examples:
        A policy in plain Python that starts the smallest job that fits:

        >>> import shunter
        >>> class SmallestFirst:
        ...     needs = frozenset()  # frozenset({"duration"}) would make it an oracle
        ...
        ...     def start(self, cluster, previous=None):
        ...         return None  # it remembers nothing
        ...
        ...     def decide(self, view, memory):
        ...         free = [gpu for node in range(len(view.nodes.total)) for gpu in view.free_gpus(node)]
        ...         for job in sorted(view.pending, key=lambda job: view.jobs.gpus[job]):
        ...             if view.jobs.gpus[job] <= len(free):
        ...                 return shunter.Plan([shunter.Start(job, free[: view.jobs.gpus[job]])])
        ...         return shunter.Plan()
        >>> jobs = shunter.Trace.of(
        ...     "two", ["wide", "narrow"], submit=[0, 0], duration=[60_000, 60_000], gpus=[2000, 1000]
        ... )
        >>> shunter.simulate(jobs, "1x2", SmallestFirst()).jobs["wait"].to_list()
        [60.0, 0.0]
    """

    @property
    def needs(self) -> frozenset[str]:
        """What it needs to know beyond the request of each job; ``duration`` makes it an oracle."""
        ...

    def start(self, cluster: Cluster, previous: Memory | None = None) -> Memory:
        """A fresh memory, or one that continues from the memory of another configuration."""
        ...

    def decide(self, view: View, memory: Memory) -> Plan:
        """What to do now; called again at the same instant until the plan is empty."""
        ...


class Backend(Protocol):
    """The world that a policy schedules: the simulator, or a live cluster. A policy does not know which.

    A backend yields a view at every decision point. The control loop passes it to the policy and applies the policy's
    plan, until the plan is empty. ``shunter.testing`` has a conformance suite for backends of your own.

    Examples:
        The simulator is a backend. This is the control loop, without its checks:

        >>> import shunter
        >>> from shunter.cluster import NodeGroup
        >>> jobs = shunter.Trace.of("two", ["a", "b"], submit=[0, 0], duration=[60_000, 30_000], gpus=[1000, 1000])
        >>> backend = shunter.Simulator(jobs, shunter.Cluster("small", (NodeGroup(count=1, gpus=1),)))
        >>> policy = shunter.policy("fifo")
        >>> backend.prepare(policy.needs)
        >>> memory = policy.start(backend.cluster)
        >>> for view in backend:
        ...     while (plan := policy.decide(view, memory)).actions:
        ...         print(view.now, plan.actions)
        ...         refusals = backend.apply(plan)
        0 [Start(job=0, gpus=(0,), until=None, shared=False)]
        60000 [Start(job=1, gpus=(0,), until=None, shared=False)]
    """

    @property
    def cluster(self) -> Cluster:
        """The machines."""
        ...

    def prepare(self, needs: frozenset[str]) -> None:
        """Refuse needs that this backend can't meet, by name, before anything is done."""
        ...

    def __iter__(self) -> Iterator[View]:
        """One view per decision point."""
        ...

    def apply(self, plan: Plan) -> Sequence[Refusal]:
        """Check the whole plan, then do it; if anything is refused, nothing is done. It may hold reasons only."""
        ...


class Observer(Protocol):
    """Watches the loop."""

    def decided(self, view: View, plan: Plan, refusals: Sequence[Refusal]) -> None:
        """Called after every plan that was not empty."""
        ...


# -- capabilities: a policy inherits those that it has


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

    tuned: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})  # parameters worth tuning, and values to try
    placement: str = "count"  # the placement rule, which determines the jobs that can never run

    @abstractmethod
    def estimate_source(self, trace: Trace) -> str:
        """Where its estimates come from: none, oracle, declared, limit, history or a model."""

    def remarks(self, trace: Trace) -> list[str]:
        """What one must know about it on this trace: settings without effect, assumptions."""
        return []


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

"""The contract between policies, backends and observers.

Every policy is a ``Policy``. What else it can do, such as learning run times or sharing GPUs, it declares by inheriting
classes of ``shunter.capabilities``. Nothing is guessed from names: a policy of your own may have a field ``model`` or
``placement`` that means something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from shunter.cluster import Cluster
from shunter.model import Plan, Refusal, View

Memory = Any  # what a policy remembers: timers, queues, averages, models; copied with copy.deepcopy


@runtime_checkable
class Policy(Protocol):
    """A scheduler.

    A policy is frozen: its fields are its configuration. Everything that it remembers is in its memory, which ``start``
    makes and ``decide`` receives. Any class with these three members is a policy; it need not inherit from this one.

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
        >>> jobs = shunter.Trace.of("two", ["wide", "narrow"], submit=[0, 0], duration=[60_000] * 2, gpus=[2000, 1000])
        >>> shunter.simulate(jobs, "1x2", SmallestFirst()).jobs["wait"].to_list()
        [60.0, 0.0]
    """

    @property
    def needs(self) -> frozenset[str]:
        """What it needs to know beyond the request of each job; ``duration`` makes it an oracle."""

    def start(self, cluster: Cluster, previous: Memory | None = None) -> Memory:
        """A fresh memory, or one that continues from the memory of another configuration, which stays as it is.

        Several may continue from the same memory: copy what changes. Where jobs have other rows in the first view,
        ``View.moved_since`` says which.
        """

    def decide(self, view: View, memory: Memory) -> Plan:
        """What to do now; called again at the same instant until the plan is empty."""


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
        0 [Start(job=0, gpus=(0,), until=None, shared=False, cpu=None, mem=None, servers=None)]
        60000 [Start(job=1, gpus=(0,), until=None, shared=False, cpu=None, mem=None, servers=None)]
    """

    @property
    def cluster(self) -> Cluster:
        """The machines."""

    def prepare(self, needs: frozenset[str]) -> None:
        """Refuse needs that this backend can't meet, by name, before anything is done."""

    def __iter__(self) -> Iterator[View]:
        """One view per decision point."""

    def apply(self, plan: Plan) -> Sequence[Refusal]:
        """Check the whole plan, then do it; if anything is refused, nothing is done. It may hold reasons only."""


class Observer(Protocol):
    """Watches the loop."""

    def decided(self, view: View, plan: Plan, refusals: Sequence[Refusal]) -> None:
        """Called after every plan that was not empty."""

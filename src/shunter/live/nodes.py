"""Machines, the partitions that they are in, and the racks that they stand in, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

UP = frozenset({"idle", "mixed", "allocated", "completing", "planned", "cloud", "dynamic_norm"})
KEPT = frozenset({"reserved", "maint", "maintenance"})  # by a reservation
MARKS = "-+^@$"  # behind a state: to be rebooted, planned and the like; others mean that the node does not answer


@dataclass(frozen=True)
class Node:
    """One machine; what is in use is known where the manager was asked for it."""

    name: str
    state: str = ""  # words in small letters, joined by +
    partitions: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""  # that of most of them
    shards: int = 0
    used: tuple[int, ...] = ()  # which GPUs are in use
    cpus: int = 0
    cpus_used: int = 0
    mem_mib: int = 0
    mem_used: int = 0
    other_gpus: int = 0  # how many of its GPUs are of other types
    features: tuple[str, ...] = ()  # the active ones

    @property
    def up(self) -> bool:
        """Whether jobs can be started there."""
        return all(word.rstrip(MARKS) in UP for word in self.state.split("+") if word)

    @property
    def reserved(self) -> bool:
        """Whether it is up, and a reservation keeps it for some jobs now."""
        words = [word.rstrip(MARKS) for word in self.state.split("+") if word]
        return not self.up and all(word in UP or word in KEPT for word in words)

    @property
    def there(self) -> bool:
        """Whether it is more than a plan."""
        return "future" not in self.state


@dataclass(frozen=True)
class Partition:
    """A queue, and the nodes that it may use."""

    name: str
    nodes: tuple[str, ...]
    tier: int = 1
    factor: int = 1
    billing: str = ""  # TRESBillingWeights


@dataclass(frozen=True)
class Rack:
    """Nodes under one leaf switch, or of one block."""

    name: str
    nodes: tuple[str, ...]


def partitions_of(nodes: Iterable[Node]) -> list[Partition]:
    """The partitions that nodes say they are in, where nothing else is known of these."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.partitions:
            found.setdefault(name, []).append(node.name)
    return [Partition(name, tuple(members)) for name, members in found.items()]

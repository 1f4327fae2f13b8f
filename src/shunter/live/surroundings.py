"""What else decides where and when jobs run, as data: reservations, licences, preemption, defaults of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

HOUR_MS = 3_600_000
PERIODS = {"HOURLY": HOUR_MS, "DAILY": 24 * HOUR_MS, "WEEKLY": 7 * 24 * HOUR_MS}


@dataclass(frozen=True)
class Reservation:
    """Nodes that are kept for some users from ``start`` to ``end`` (ms since 1970)."""

    name: str
    start: int
    end: int
    nodes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    partial: bool = False  # it keeps some cores of its nodes, or licences only: not whole nodes

    @property
    def every(self) -> int:
        """After how many ms it comes again; 0: it does not."""
        return next((PERIODS[flag] for flag in self.flags if flag in PERIODS), 0)

    def times(self, now: int, until: int) -> Iterator[tuple[int, int]]:
        """From when to when it keeps its nodes, up to a time: some come back every hour, day or week."""
        every = self.every
        over = max(now - self.end, 0) // every * every if every else 0  # the times that are long past
        start, end = self.start + over, self.end + over
        while start < until:
            if end > now:
                yield start, end
            if not every:
                return
            start, end = start + every, end + every


@dataclass(frozen=True)
class Licence:
    """A licence that the manager counts."""

    name: str
    total: int
    free: int


@dataclass(frozen=True)
class Preemption:
    """Which jobs may stop others."""

    kind: str = ""  # "": none, "qos": by QOS, "partition": by the tiers of partitions
    qos: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of a QOS: those whose jobs it may stop

    @property
    def words(self) -> str:
        """As slurm.conf has it."""
        return {"qos": "PreemptType=preempt/qos", "partition": "PreemptType=preempt/partition_prio"}.get(self.kind, "")


@dataclass(frozen=True)
class Defaults:
    """What a job of a partition gets that does not ask for CPUs or memory; 0: no default of this kind."""

    partition: str
    cpus_per_gpu: int = 0
    mem_per_gpu: int = 0  # MiB; goes before the others
    mem_per_cpu: int = 0
    mem_per_node: int = 0
    all_memory: bool = False  # of the node

    def cpus(self, asked: int, gpus: int) -> int:
        """The CPUs of a job; the manager gives one by default."""
        return max(asked, 1, self.cpus_per_gpu * gpus)

    def mem_mib(self, gpus: int, cpus: int, nodes: int) -> int:
        """The memory of a job that asks for none."""
        return self.mem_per_gpu * gpus or self.mem_per_cpu * cpus or self.mem_per_node * nodes

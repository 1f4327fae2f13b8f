"""Links that jobs share: the GPUs of a machine share its ports to the rack, jobs share a rack's ports to the network.

Every link is shared max-min fairly among the GPUs that send over it: none gets more than it wants, and what some leave
is divided among the others.  A job goes as fast as its slowest link lets it.  Links are looked at one by one, with what
jobs would send at full speed: so a job depends only on those that share a link with it, and one that comes never speeds
up another, which a fair share over all links at once would not promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from shunter.cluster import Cluster, Tier
from shunter.errors import NetworkError
from shunter.network.placing import shape_of, top


class Flows(NamedTuple):
    """What one job sends over one link: from this many GPUs, each this many GB/s at full speed."""

    link: int
    senders: int
    wanted: float


@dataclass(frozen=True)
class Uplinks:
    """The links that lead out of the domains of each tier but the last: machines, then racks, and so on.

    A port carries the largest bandwidth per GPU of the tiers above it.
    """

    tiers: tuple[Tier, ...]
    inside: tuple[tuple[int, ...], ...]  # for racks, then outwards: the domain of each machine
    machines: int
    ports: tuple[int, ...]  # of a machine, of a rack, ...

    def __post_init__(self) -> None:
        if len(self.ports) != len(self.tiers) - 1 or len(self.inside) != max(len(self.tiers) - 2, 0):
            raise NetworkError(
                f"a network of {len(self.tiers)} tiers has ports of {len(self.tiers) - 1} kinds of domains, "
                f"got {len(self.ports)}"
            )
        if any(count < 1 for count in self.ports):
            raise NetworkError(f"every domain needs 1 or more ports, got {', '.join(map(str, self.ports))}")

    @classmethod
    def of(cls, cluster: Cluster, ports: Sequence[int] | None = None) -> Uplinks:
        """Those of a cluster, with as many ports as its tiers say."""
        inside = tuple(tuple(domains.tolist()) for domains in cluster.tier_domains)
        given = [tier.uplinks for tier in cluster.tiers[:-1]] if ports is None else ports
        return cls(cluster.tiers, inside, cluster.nodes, tuple(given))

    @cached_property
    def _domains(self) -> tuple[tuple[int, ...], ...]:
        """The link out of each machine, out of its rack, ...; links are numbered through."""
        made, first = [tuple(range(self.machines))], self.machines
        for domain in self.inside:
            made.append(tuple(first + number for number in domain))
            first += max(domain) + 1
        return tuple(made)

    @cached_property
    def capacity(self) -> tuple[float, ...]:
        """GB/s of every link."""
        counts = [self.machines, *(max(domain) + 1 for domain in self.inside)]
        return tuple(self.port(level) for level in range(len(self.ports)) for _ in range(counts[level]))

    def port(self, level: int) -> float:
        """GB/s of all ports of a machine (0), of a rack (1), and so on."""
        return self.ports[level] * max(tier.bandwidth_gbps for tier in self.tiers[level + 1 :])

    def wanted(self, level: int, high: int) -> float:
        """GB/s that a GPU sends out of a machine, a rack, ... at full speed, for a job that reaches so high."""
        return max((tier.bandwidth_gbps for tier in self.tiers[level + 1 : high + 1]), default=0.0)

    def flows(self, machines: Sequence[int], gpus: Sequence[int]) -> list[Flows]:
        """What a job on these machines sends over links that it may share.

        An even placement sends from every GPU; an uneven one is a ring, which leaves each domain once.
        """
        shape = shape_of(gpus, *([domain[m] for m in machines] for domain in self.inside))
        high = top(shape)
        ring = shape[high] == sum(gpus)  # each GPU is a unit of the highest tier
        found: dict[int, Flows] = {}
        for level in range(high):  # the job leaves domains of the tiers below its highest
            wanted = self.wanted(level, high)
            for machine, count in zip(machines, gpus, strict=True):
                link = self._domains[level][machine]
                before = found[link].senders if link in found else 0
                found[link] = Flows(link, 1 if ring else before + count, wanted)
        return list(found.values())


def fair_level(flows: Sequence[Flows], capacity: float) -> float:
    """The most GB/s that one sender over a link gets when the link is shared max-min fairly."""
    left, count = capacity, sum(each.senders for each in flows)
    for each in sorted(flows, key=lambda each: each.wanted):
        if each.wanted * count > left:
            return left / count
        left -= each.wanted * each.senders
        count -= each.senders
    return max((each.wanted for each in flows), default=0.0)  # all get what they want


def fair_shares(jobs: Sequence[Sequence[Flows]], capacity: Sequence[float]) -> list[float]:
    """How much of its bandwidth between machines each job gets, above 0 to 1."""
    over: dict[int, list[Flows]] = {}
    for flows in jobs:
        for each in flows:
            over.setdefault(each.link, []).append(each)
    levels = {link: fair_level(flows, capacity[link]) for link, flows in over.items()}
    return [min((min(1.0, levels[each.link] / each.wanted) for each in flows), default=1.0) for flows in jobs]

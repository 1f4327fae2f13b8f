"""The machines: nodes, GPU types, racks, virtual clusters, network tiers, and what stopping and starting costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shunter.errors import ClusterError
from shunter.world import I64

ANY_TYPE = "gpu"  # the type of GPUs by default
WAKE_S = 300.0  # a sleeping node takes this long by default
SHARING = ("time-slice", "mps")  # how jobs share a GPU: in turns, or at once through NVIDIA's multi-process service
USUAL_SHARING = SHARING[0]
USUAL_TIERS = ("machine", "rack", "network")  # what tiers are called by default


@dataclass(frozen=True)
class NodeGroup:
    """Some equal nodes."""

    count: int
    gpus: int
    gpu_type: str = ANY_TYPE
    cpus: float = 0  # cores per node; 0: not limited
    mem_gib: float = 0  # per node; 0: not limited
    vc: str = ""  # virtual cluster; "": none
    racks: tuple[int, ...] = ()  # nodes per rack, in order; () puts the whole group into one rack


@dataclass(frozen=True)
class Tier:
    """One level of the network, innermost first: what it joins, and how fast."""

    name: str
    bandwidth_gbps: float  # decimal GB/s per GPU
    latency_us: float  # of one link; a message through a switch crosses two
    topology: str = "switch"  # switch | ring | full
    joins: int = 0  # of a tier above racks: how many domains of the tier below are in one of its own; 0: all of them
    uplinks: int = 1  # ports that lead out of each of its domains to the tier above; matters where jobs share links


@dataclass(frozen=True)
class Overheads:
    """What stopping and starting a job costs, in seconds, by its number of GPUs."""

    checkpoint: tuple[tuple[int, float], ...] = ()  # (up to this many GPUs, seconds), ascending; () costs nothing
    restart: tuple[tuple[int, float], ...] = ()
    wake: float = WAKE_S  # a sleeping node takes this long

    @staticmethod
    def of(steps: tuple[tuple[int, float], ...], gpus: I64) -> I64:
        """The cost in ms for jobs of these sizes; a job above the last step pays the last step."""
        if not steps:
            return np.zeros(len(gpus), np.int64)
        bounds = np.array([bound for bound, _ in steps])
        costs = np.array([round(seconds * 1000) for _, seconds in steps], np.int64)
        return costs[np.minimum(np.searchsorted(bounds, gpus), len(steps) - 1)]


@dataclass(frozen=True)
class Cluster:
    """The machines: groups of equal nodes, their GPUs, racks, virtual clusters and network. It is never changed.

    Functions that take a cluster also take its text, such as ``"64x8"``, the path of a TOML file, or the name of a
    built-in cluster.

    Examples:
        Sixteen nodes with eight V100 each, in four racks, and two nodes with four A100 of twice the speed:

        >>> import shunter
        >>> from shunter.cluster import NodeGroup
        >>> groups = (NodeGroup(16, 8, "v100", racks=(4, 4, 4, 4)), NodeGroup(2, 4, "a100"))
        >>> cluster = shunter.Cluster("lab", groups, speeds={"a100": 2.0})
        >>> cluster.nodes, cluster.gpus, cluster.gpu_types
        (18, 136, ('v100', 'a100'))
    """

    name: str
    groups: tuple[NodeGroup, ...]
    speeds: dict[str, float] = field(default_factory=dict)  # of a GPU type; 1 where not given
    tiers: tuple[Tier, ...] = ()
    vc_priority: dict[str, float] = field(default_factory=dict)  # multifactor's partition factor, 0..1
    overheads: Overheads = Overheads()
    sharing: str = USUAL_SHARING

    def __post_init__(self) -> None:
        if not self.groups or self.nodes == 0:
            raise ClusterError(f"cluster '{self.name}' has no nodes; give at least one group with count >= 1")
        for group in self.groups:
            if group.count < 1 or group.gpus < 1:
                raise ClusterError(
                    f"cluster '{self.name}': count and gpus must be >= 1, got {group.count} x {group.gpus}"
                )
            if group.racks and sum(group.racks) != group.count:
                raise ClusterError(
                    f"cluster '{self.name}': racks must add up to {group.count} nodes, got {sum(group.racks)}"
                )
        for kind, speed in self.speeds.items():
            if not speed > 0:
                raise ClusterError(f"cluster '{self.name}': speed of '{kind}' must be above 0, got {speed}")
        if self.sharing not in SHARING:
            raise ClusterError(
                f"cluster '{self.name}': sharing must be one of {', '.join(SHARING)}, got '{self.sharing}'"
            )
        self._check_tiers()

    def _check_tiers(self) -> None:
        """The first joins GPUs, the second machines, the last all that there is; those between say how many."""
        for index, tier in enumerate(self.tiers):
            between, where = 1 < index < len(self.tiers) - 1, f"cluster '{self.name}': tier '{tier.name}'"
            if between and tier.joins < 2:
                raise ClusterError(
                    f"{where}: joins must be 2 or more, because '{self.tiers[-1].name}' is above it, got {tier.joins}; "
                    f"say how many of '{self.tiers[index - 1].name}' it joins"
                )
            if tier.joins and not between:
                why = "the last tier joins all" if index > 1 else "gpus and racks of [[nodes]] say what it joins"
                raise ClusterError(f"{where}: joins must not be given, got {tier.joins}: {why}; remove it")
            if tier.uplinks < 1 or (index == len(self.tiers) - 1 and tier.uplinks != 1):
                what = "be 1 or more" if tier.uplinks < 1 else "not be given, because nothing is above it"
                raise ClusterError(f"{where}: uplinks must {what}, got {tier.uplinks}; correct it")

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(group.count for group in self.groups)

    @cached_property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return int(self.node_gpus.sum())

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types, in order of first appearance; codes refer to this."""
        return tuple(dict.fromkeys(group.gpu_type for group in self.groups))

    @property
    def named_types(self) -> tuple[str, ...]:
        """The same, or none where the file does not say what the GPUs are: then they are whatever a job asks for."""
        return () if self.gpu_types == (ANY_TYPE,) else self.gpu_types

    @cached_property
    def vcs(self) -> tuple[str, ...]:
        """The virtual clusters, in order of first appearance; empty if there are none."""
        return tuple(dict.fromkeys(group.vc for group in self.groups if group.vc))

    def _per_node(self, values: list[float]) -> I64:
        return np.repeat(np.array(values), [group.count for group in self.groups]).astype(np.int64)

    @cached_property
    def node_gpus(self) -> I64:
        """GPUs of each node."""
        return self._per_node([group.gpus for group in self.groups])

    @cached_property
    def node_type(self) -> I64:
        """Code of each node's GPU type."""
        return self._per_node([self.gpu_types.index(group.gpu_type) for group in self.groups])

    @cached_property
    def node_vc(self) -> I64:
        """Code of each node's virtual cluster, -1 for none."""
        return self._per_node([self.vcs.index(group.vc) if group.vc else -1 for group in self.groups])

    @cached_property
    def node_rack(self) -> I64:
        """Rack of each node; racks are numbered through."""
        sizes = [size for group in self.groups for size in (group.racks or (group.count,))]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def domains(self) -> tuple[I64, ...]:
        """The rack of each node, then for each tier above that joins only some of those below, which one it is in."""
        found = [self.node_rack]
        for tier in self.tiers[2:]:
            if tier.joins:
                found.append(found[-1] // tier.joins)
        return tuple(found)

    @cached_property
    def tier_names(self) -> tuple[str, ...]:
        """What a placement can span, innermost first."""
        if len(self.tiers) > 1:
            return tuple(tier.name for tier in self.tiers)
        return USUAL_TIERS[: 3 if self.node_rack[-1] else 2]

    @property
    def tier_domains(self) -> tuple[I64, ...]:
        """For each of these but the first and the last, which one every node is in."""
        return self.domains[: len(self.tier_names) - 2]

    @cached_property
    def node_cpu(self) -> I64:
        """Milli-cores of each node, 0: not limited."""
        return self._per_node([round(group.cpus * 1000) for group in self.groups])

    @cached_property
    def node_mem(self) -> I64:
        """MiB of each node, 0: not limited."""
        return self._per_node([round(group.mem_gib * 1024) for group in self.groups])

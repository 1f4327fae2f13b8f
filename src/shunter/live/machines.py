"""The manager's nodes, partitions and racks as a ``Cluster``, whose nodes belong to one virtual cluster or to none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from shunter.cluster import ANY_TYPE, Cluster, NodeGroup
from shunter.errors import LiveError
from shunter.live.nodes import Node, Partition, Rack, partitions_of
from shunter.live.requests import Request
from shunter.live.snapshot import LiveJob
from shunter.model import GPU
from shunter.texts import agreeing, counted
from shunter.world import I64

Members = dict[str, set[str]]  # the nodes of each partition


@dataclass(frozen=True, eq=False)
class Machines:
    """A cluster, which of its nodes is which real one, and where the jobs of each partition may run."""

    cluster: Cluster
    names: tuple[str, ...]  # of the nodes, by their number in the cluster
    vc: Mapping[str, str]  # of a partition: its virtual cluster; "": there are none
    only_type: Mapping[str, str] = field(default_factory=dict)  # of a partition that only its GPUs' type distinguishes
    shards_per_gpu: int = 1
    remarks: tuple[str, ...] = ()  # what differs from the real one

    def vc_of(self, job: LiveJob) -> str | None:
        """The virtual cluster of a job, "" where there are none; None: it can't run on nodes with GPUs."""
        return next((self.vc[name] for name in job.partition.split(",") if name in self.vc), None)

    def type_of(self, job: LiveJob) -> str:
        """The type of GPU that a job must have, by its own wish or its partitions'; "": any."""
        kinds = {self.only_type.get(name, "") for name in job.partition.split(",")} if self.only_type else {""}
        return job.gpu_type or (kinds.pop() if len(kinds) == 1 else "")

    def admitted(self, job: LiveJob) -> frozenset[str]:
        """The nodes of a job's virtual cluster and GPU type."""
        return self._admitted(self.vc_of(job) or "", self.type_of(job))

    @lru_cache(maxsize=256)  # noqa: B019 a few per cluster, and clusters are few
    def _admitted(self, vc: str, kind: str) -> frozenset[str]:
        cluster = self.cluster
        pools = (*cluster.vcs, "")
        return frozenset(
            name
            for name, pool, of in zip(self.names, cluster.node_vc, cluster.node_type, strict=True)
            if vc in ("", pools[pool]) and (kind not in cluster.named_types or kind == cluster.gpu_types[of])
        )

    def at_a_time(self, job: LiveJob, request: Request) -> int:
        """How many jobs like this one the empty machines could run at a time, at most."""
        room = sum(node.gpus for node in request.nodes) * GPU // self.thousandths(job, request.gpus)
        return max(min(room, job.throttle or room), 1)

    def thousandths(self, job: LiveJob, gpus: int) -> int:
        """The GPUs that a job takes in thousandths; shards are shares of one."""
        if job.gpus or not job.shards:
            return max(gpus, 1) * GPU
        return min(max(GPU * job.shards // self.shards_per_gpu, 1), GPU)

    @cached_property
    def first_gpu(self) -> I64:
        """The number of each node's first GPU."""
        return np.concatenate(([0], np.cumsum(self.cluster.node_gpus)[:-1])).astype(np.int64)

    def node_of(self, gpu: int) -> str:
        """The node of a GPU."""
        return self.names[int(np.searchsorted(self.first_gpu, gpu, side="right")) - 1]

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each node."""
        return {name: number for number, name in enumerate(self.names)}


def machines_of(
    nodes: Sequence[Node],
    partitions: Sequence[Partition] | None = None,
    racks: Sequence[Rack] = (),
    name: str = "slurm",
) -> Machines:
    """The cluster of the nodes with GPUs; without a list of partitions they are those that the nodes name.

    Partitions that share nodes become one virtual cluster, open to the jobs of all of them; if all do, there is none.
    """
    with_gpus = [node for node in nodes if node.gpus]
    if not with_gpus:
        raise LiveError("no node has GPUs (Gres=gpu:TYPE:N); nothing can be scheduled here")
    partitions = partitions_of(nodes) if partitions is None else partitions
    members = {part.name: set(part.nodes) & {node.name for node in with_gpus} for part in partitions}
    members = {part: inside for part, inside in members.items() if inside}
    merged = _merged(members)
    whole = len(set(merged.values())) < 2
    vc_of_node = {node: "" if whole else merged[part] for part, inside in members.items() for node in inside}
    lone = [node.name for node in with_gpus if node.name not in vc_of_node]
    usable = [node for node in with_gpus if node.name in vc_of_node] if members else with_gpus
    groups, names, split = _groups(usable, vc_of_node, racks)
    remarks = [
        *_about_nodes(nodes, with_gpus, lone if members else []),
        *_about_pools(members, merged, whole),
        *([f"{split} racks hold nodes of several kinds: each kind counts as a rack of its own"] if split else []),
    ]
    shards = max((-(-node.shards // node.gpus) for node in usable), default=1)
    return Machines(
        Cluster(name or "slurm", groups, vc_priority={} if whole else _priority(partitions, merged)),
        names,
        {part: "" if whole else merged[part] for part in members},
        _only_types(usable, members, vc_of_node),
        max(shards, 1),
        tuple(remarks),
    )


def _merged(members: Members) -> dict[str, str]:
    """The name of each partition's pool: its own, or the names of all that share nodes, joined by +."""
    pools: list[tuple[list[str], set[str]]] = []
    for part, inside in members.items():
        touching = [pool for pool in pools if pool[1] & inside]
        names, held = [name for pool in touching for name in pool[0]], {n for pool in touching for n in pool[1]}
        pools = [pool for pool in pools if pool not in touching] + [([*names, part], held | inside)]
    return {part: "+".join(names) for names, _ in pools for part in names}


def _priority(partitions: Sequence[Partition], merged: dict[str, str]) -> dict[str, float]:
    """The priority factor over the largest, as the manager takes it; of merged partitions their largest."""
    most = max((part.factor for part in partitions), default=0) or 1
    found: dict[str, float] = {}
    for part in partitions:
        if part.name in merged:
            vc = merged[part.name]
            found[vc] = max(found.get(vc, 0.0), round(part.factor / most, 6))
    return found if len(set(found.values())) > 1 else {}


def _groups(
    nodes: Sequence[Node], vc_of_node: dict[str, str], racks: Sequence[Rack]
) -> tuple[tuple[NodeGroup, ...], tuple[str, ...], int]:
    """Equal nodes side by side, rack by rack; the nodes in that order; and how many racks had to be split."""
    rack_of = {name: at for at, rack in enumerate(racks) for name in rack.nodes}
    kinds: dict[tuple[str, str, int, int, int], list[tuple[int, str]]] = {}
    for node in nodes:
        key = (vc_of_node.get(node.name, ""), _type(node), node.gpus, node.cpus, node.mem_mib)
        kinds.setdefault(key, []).append((rack_of.get(node.name, len(racks)), node.name))
    groups, names = [], []
    for (vc, kind, gpus, cpus, mem_mib), found in kinds.items():
        inside = sorted(found, key=lambda each: each[0])
        sizes = tuple(Counter(rack for rack, _ in inside).values()) if racks else ()
        groups.append(NodeGroup(len(inside), gpus, kind, float(cpus), round(mem_mib / 1024, 3), vc, sizes))
        names += [name for _, name in inside]
    pieces = Counter(rack for found in kinds.values() for rack in {rack for rack, _ in found} if rack < len(racks))
    return tuple(groups), tuple(names), sum(count > 1 for count in pieces.values())


def _type(node: Node) -> str:
    return node.gpu_type or ANY_TYPE


def _only_types(nodes: Sequence[Node], members: Members, vc_of_node: dict[str, str]) -> dict[str, str]:
    """Partitions whose nodes are all of the GPU type that they have, and all of that type in their pool."""
    found = {}
    for part, inside in members.items():
        pool = {vc_of_node[name] for name in inside}
        around = [node for node in nodes if vc_of_node.get(node.name, "") in pool]
        mine = {_type(node) for node in around if node.name in inside}
        others = {_type(node) for node in around if node.name not in inside}
        if len(mine) == 1 and others and not mine & others:
            found[part] = next(iter(mine))
    return found


def _about_nodes(nodes: Sequence[Node], with_gpus: Sequence[Node], lone: Sequence[str]) -> list[str]:
    bare, away = len(nodes) - len(with_gpus), sum(not node.up for node in with_gpus)
    mixed = sum(node.other_gpus > 0 for node in with_gpus)
    found = {
        f"{counted(bare, 'node')} without GPUs {agreeing('are', bare)} left out": bare,
        f"{counted(len(lone), 'node', 'are')} in no partition and left out": len(lone),
        f"{counted(away, 'node', 'are')} down or drained now and {agreeing('count', away)} as usable": away,
        f"{counted(mixed, 'node', 'have')} GPUs of several types, which count as the one that most of them are": mixed,
    }
    return [remark for remark, count in found.items() if count]


def _about_pools(members: Members, merged: dict[str, str], whole: bool) -> list[str]:
    """What differs from the real cluster where partitions share some of their nodes."""
    together: dict[str, list[str]] = {}
    for part, pool in merged.items():
        together.setdefault(pool, []).append(part)
    found = []
    for parts in together.values():
        nodes = set().union(*(members[part] for part in parts))
        fewer = [part for part in parts if len(members[part]) < len(nodes)]
        if len(parts) > 1:
            what = "the cluster is not divided" if whole else f"one virtual cluster, '{'+'.join(parts)}'"
            found.append(f"partitions {', '.join(parts)} share nodes: {what}")
        if fewer:
            found.append(
                f"of these {len(nodes):,} nodes, {', '.join(f'{part} has {len(members[part]):,}' for part in fewer)}: "
                "here its jobs may use all, unless a GPU type keeps them apart"
            )
    return found

"""Slurm's nodes, partitions and racks as a ``Cluster``, whose nodes belong to one virtual cluster or to none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shunter.cluster import ANY_TYPE, Cluster, NodeGroup
from shunter.errors import SlurmError
from shunter.slurm.nodes import Node, Partition
from shunter.slurm.topology import Rack


@dataclass(frozen=True)
class Pools:
    """A cluster, and where the jobs of each partition may run."""

    cluster: Cluster
    vc: dict[str, str]  # of a partition: its virtual cluster; "": there are none
    only_type: dict[str, str]  # of a partition whose nodes are told from others of its pool by their GPU type alone
    remarks: tuple[str, ...]


def pools(name: str, nodes: Sequence[Node], partitions: Sequence[Partition], racks: Sequence[Rack]) -> Pools:
    """The cluster of the nodes with GPUs.

    Partitions that share nodes become one virtual cluster, open to the jobs of all of them; if all do, there is none.
    """
    with_gpus = [node for node in nodes if node.gpus]
    if not with_gpus:
        raise SlurmError("no node has GPUs (Gres=gpu:TYPE:N); name another listing of nodes")
    members = {part.name: set(part.nodes) & {node.name for node in with_gpus} for part in partitions}
    members = {part: inside for part, inside in members.items() if inside}
    merged = _merged(members)
    whole = len(set(merged.values())) < 2
    vc_of_node = {node: "" if whole else merged[part] for part, inside in members.items() for node in inside}
    lone = [node.name for node in with_gpus if node.name not in vc_of_node]
    usable = with_gpus if whole else [node for node in with_gpus if node.name in vc_of_node]
    remarks = [
        *_about_nodes(nodes, with_gpus, [] if whole else lone),
        *_about_pools(members, merged, whole),
    ]
    groups, split = _groups(usable, vc_of_node, racks)
    if split:
        remarks.append(f"{split} racks hold nodes of several kinds: each kind counts as a rack of its own")
    vcs = {part: "" if whole else merged[part] for part in members}
    priority = {} if whole else _priority(partitions, merged)
    cluster = Cluster(name or "slurm", groups, vc_priority=priority)
    return Pools(cluster, vcs, _only_types(usable, members, vc_of_node), tuple(remarks))


def _merged(members: dict[str, set[str]]) -> dict[str, str]:
    """The name of each partition's pool: its own, or the names of all that share nodes, joined by +."""
    pools: list[tuple[list[str], set[str]]] = []
    for part, inside in members.items():
        touching = [pool for pool in pools if pool[1] & inside]
        names, held = [name for pool in touching for name in pool[0]], {n for pool in touching for n in pool[1]}
        pools = [pool for pool in pools if pool not in touching] + [([*names, part], held | inside)]
    return {part: "+".join(names) for names, _ in pools for part in names}


def _priority(partitions: Sequence[Partition], merged: dict[str, str]) -> dict[str, float]:
    """PriorityJobFactor over the largest, as Slurm takes it; of partitions that were merged the largest of theirs."""
    most = max((part.factor for part in partitions), default=0) or 1
    found: dict[str, float] = {}
    for part in partitions:
        if part.name in merged:
            vc = merged[part.name]
            found[vc] = max(found.get(vc, 0.0), round(part.factor / most, 6))
    return found if len(set(found.values())) > 1 else {}


def _groups(
    nodes: Sequence[Node], vc_of_node: dict[str, str], racks: Sequence[Rack]
) -> tuple[tuple[NodeGroup, ...], int]:
    """Equal nodes side by side, rack by rack; and how many racks had to be split."""
    rack_of = {name: at for at, rack in enumerate(racks) for name in rack.nodes}
    kinds: dict[tuple[str, str, int, int, int], list[int]] = {}
    for node in nodes:
        key = (vc_of_node.get(node.name, ""), _type(node), sum(node.gpus.values()), node.cpus, node.mem_mib)
        kinds.setdefault(key, []).append(rack_of.get(node.name, len(racks)))
    groups = []
    for (vc, kind, gpus, cpus, mem_mib), where in kinds.items():
        sizes = tuple(count for _, count in sorted(Counter(where).items())) if racks else ()
        groups.append(NodeGroup(len(where), gpus, kind, float(cpus), round(mem_mib / 1024, 3), vc, sizes))
    pieces = Counter(at for where in kinds.values() for at in set(where) if at < len(racks))
    return tuple(groups), sum(count > 1 for count in pieces.values())


def _type(node: Node) -> str:
    """The type of a node's GPUs; of several, that of most of them."""
    return max(node.gpus, key=lambda kind: (node.gpus[kind], kind)) or ANY_TYPE


def _only_types(nodes: Sequence[Node], members: dict[str, set[str]], vc_of_node: dict[str, str]) -> dict[str, str]:
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
    away = sum(node.away for node in with_gpus)
    mixed = sum(len(node.gpus) > 1 for node in with_gpus)
    found = [
        (len(nodes) - len(with_gpus), "nodes without GPUs are left out"),
        (len(lone), "nodes are in no partition and left out"),
        (away, "nodes are down or drained now; they count as usable"),
        (mixed, "nodes have GPUs of several types; they count as the one that most of them are"),
    ]
    return [f"{count:,} {what}" for count, what in found if count]


def _about_pools(members: dict[str, set[str]], merged: dict[str, str], whole: bool) -> list[str]:
    """What is not as in Slurm where partitions share nodes but not all of them."""
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

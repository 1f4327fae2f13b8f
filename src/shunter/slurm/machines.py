"""The nodes that Slurm tells of as a cluster of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shunter.cluster import ANY_TYPE, Cluster, NodeGroup
from shunter.errors import SlurmError
from shunter.model import GPU
from shunter.slurm.snapshot import Job, Node
from shunter.world import I64


@dataclass(frozen=True, eq=False)
class Machines:
    """A cluster, and which of its nodes is which of Slurm's."""

    cluster: Cluster
    names: tuple[str, ...]  # of the nodes, by their number in the cluster
    shards_per_gpu: int = 1

    def vc_of(self, job: Job) -> str | None:
        """The virtual cluster of a job, "" where there are none; None: it can't run on nodes with GPUs."""
        if not self.cluster.vcs:
            return ""
        return next((name for name in job.partition.split(",") if name in self.cluster.vcs), None)

    def thousandths(self, job: Job) -> int:
        """The GPUs of a job in thousandths; shards are shares of one."""
        if job.gpus or not job.shards:
            return max(job.gpus, 1) * GPU
        return min(max(GPU * job.shards // self.shards_per_gpu, 1), GPU)

    @property
    def first_gpu(self) -> I64:
        """The number of each node's first GPU."""
        return np.concatenate(([0], np.cumsum(self.cluster.node_gpus)[:-1])).astype(np.int64)

    def node_of(self, gpu: int) -> str:
        """The node of a GPU."""
        return self.names[int(np.searchsorted(self.first_gpu, gpu, side="right")) - 1]

    @property
    def place(self) -> dict[str, int]:
        """The number of each node."""
        return {name: number for number, name in enumerate(self.names)}


def machines_of(nodes: Sequence[Node], name: str = "slurm", speeds: dict[str, float] | None = None) -> Machines:
    """Equal nodes become groups.  Partitions become virtual clusters if no node with GPUs is in two of them."""
    if not nodes:
        raise SlurmError("no node has GPUs (gres/gpu) according to sinfo; nothing can be scheduled here")
    divided = all(len(node.partitions) == 1 for node in nodes)
    alike: dict[tuple[int, str, int, int, str], list[str]] = {}
    for node in nodes:
        vc = node.partitions[0] if divided else ""
        kind = (node.gpus, node.gpu_type or ANY_TYPE, node.cpus, node.mem_mib, vc)
        alike.setdefault(kind, []).append(node.name)
    groups = [
        NodeGroup(len(names), gpus, kind, cpus, mem_mib / 1024, vc)
        for (gpus, kind, cpus, mem_mib, vc), names in alike.items()
    ]
    cluster = Cluster(name, tuple(groups), speeds or {})
    shards = max((-(-node.shards // node.gpus) for node in nodes), default=1)
    return Machines(cluster, tuple(name for names in alike.values() for name in names), max(shards, 1))

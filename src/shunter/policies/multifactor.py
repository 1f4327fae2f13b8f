"""Slurm's multifactor priority plug-in (slurm.schedmd.com/priority_multifactor.html)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster
from shunter.errors import PolicyError
from shunter.model import Trace, View
from shunter.params import param
from shunter.scheduling.queue import queue as q
from shunter.scheduling.queue.memory import spans
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import BOUND_DOC
from shunter.world import F64, I64, Job

DAY = 86_400.0


def _weight(factor: str, default: float) -> float:
    weight: float = param(default, f"weight of {factor}", low=0, high=1e9)
    return weight


@dataclass(frozen=True)
class Multifactor(Ordering):
    """Slurm's priority: age, fair share over decayed usage, size, GPUs, partition and QOS, each with its weight."""

    bound: float = param(0.0, BOUND_DOC, low=0, high=0.99)  # Slurm's own backfilling uses limits
    age: float = _weight("age, which grows to 1 at max_age", 1000.0)
    fairshare: float = _weight("fair share: 2^-(usage / share), 1 for users with no usage", 1000.0)
    size: float = _weight("size (see size_by)", 1000.0)
    gpu: float = _weight("GPUs over the cluster's, which favor_small leaves alone", 0.0)
    partition: float = _weight("the virtual cluster's factor (vc_priority in the cluster file)", 0.0)
    qos: float = _weight("the job's own factor (column qos)", 0.0)
    max_age: float = param(7 * DAY, "seconds of waiting at which age counts fully", low=1, high=365 * DAY, scale="log")
    decay: float = param(7 * DAY, "half-life of past usage in seconds", low=60, high=365 * DAY, scale="log")
    favor_small: bool = param(False, "size counts for small jobs instead of large ones")
    size_by: str = param(
        "gpus", "size is GPUs over the cluster's, or, as in Slurm, the mean of that of CPUs and nodes",
        choices=("gpus", "cpus"),
    )  # fmt: skip
    bill_gpu: float = param(1.0, "what a second of a GPU counts as usage", low=0, high=1e6)
    bill_cpu: float = param(0.0, "what a second of a CPU core counts as usage", low=0, high=1e6)
    bill_mem: float = param(0.0, "what a second of a GiB of memory counts as usage", low=0, high=1e6)
    period: float = param(0.0, "seconds after which age and usage are computed again; 0: always", low=0, high=DAY)
    fair_tree: bool = param(False, "fair share is the user's rank by usage, as in Slurm's Fair Tree; needs a period")

    varying = True
    ageing = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any((self.age, self.fairshare, self.size, self.gpu, self.partition, self.qos)):
            raise PolicyError("multifactor: all weights are 0, so it orders nothing; give at least one, or use fifo")
        if self.fairshare and not any((self.bill_gpu, self.bill_cpu, self.bill_mem)):
            raise PolicyError("multifactor: nothing counts as usage; give bill_gpu, bill_cpu or bill_mem")
        if self.fair_tree and not self.period:
            raise PolicyError("multifactor: fair_tree ranks users once in a period; give one, such as period=300")

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Minus Slurm's priority."""
        age = min(job.wait / p[5], 1.0)
        fair = 2.0 ** (-job.usage)
        return -float(p[0] * age + p[1] * fair + p[2] * job.size + p[3] * job.partition + p[4] * job.qos)

    def key_params(self) -> F64:
        """Weights and scales, in the order in which ``key`` reads them."""
        return np.array([self.age, self.fairshare, self.size + self.gpu, self.partition, self.qos, self.max_age])

    def configured(self, queue: q.Queue, view: View, cluster: Cluster) -> q.Queue:
        """What jobs are billed and how large they count; Slurm looks at age and usage once in PriorityCalcPeriod."""
        queue = super().configured(queue, view, cluster)
        has_users = (view.world.jobs[w.USER] >= 0).any()
        config = queue.config.replace(
            half_life=round(self.decay * 1000) if self.fairshare and has_users else 0,
            period=round(self.period * 1000),
            ranks=self.fair_tree,
            varying=not self.period,
            ageing=not self.period,
        )
        reach = 0 if self.period else queue.state.reach
        standing = np.arange(len(queue.users.usage) if self.fair_tree else 0)
        return queue.replace(
            config=config,
            state=queue.state.replace(reach=reach),
            part=self._sizes(queue, view, cluster),
            cost=self._costs(queue, view),
            standing=standing,
        )

    def _sizes(self, queue: q.Queue, view: View, cluster: Cluster) -> F64:
        """What ``size`` and ``gpu`` weigh, as one factor, of each demand class."""
        size = gpus = queue.part
        if self.size_by == "cpus":
            size = (_cpus(view, cluster, queue.sample, gpus) + _nodes(view, cluster, queue.sample)) / 2
        size = 1.0 - size if self.favor_small else size
        return (self.size * size + self.gpu * gpus) / (self.size + self.gpu) if self.gpu else size

    def _costs(self, queue: q.Queue, view: View) -> F64:
        """What jobs of each demand class are billed."""
        jobs = view.world.jobs[:, queue.sample]
        cores, gib = jobs[w.CPU] * jobs[w.GPUS] / 1000, jobs[w.MEM] * jobs[w.GPUS] / 1024
        billed: F64 = self.bill_gpu * queue.cost + self.bill_cpu * cores + self.bill_mem * gib
        return billed

    def remarks(self, trace: Trace) -> list[str]:
        """Weights that do nothing for this trace."""
        useless = [
            (self.fairshare > 0 and len(trace.users) < 2, "fairshare: the trace names fewer than two users"),
            (self.partition > 0 and len(trace.vcs) < 2, "partition: the trace names fewer than two virtual clusters"),
            (self.qos > 0 and not trace.qos.any(), "qos: no job of the trace has a qos factor"),
            (self.favor_small and self.size == 0, "favor_small: the weight of size is 0"),
            (self.size_by == "cpus" and not trace.cpus.any(), "size_by: no job states its CPUs, GPUs stand for them"),
            (self.fairshare > 0 and self.bill_cpu > 0 and not trace.cpus.any(), "bill_cpu: no job states its CPUs"),
            (self.fairshare > 0 and self.bill_mem > 0 and not trace.mem_gib.any(), "bill_mem: no job states memory"),
        ]
        return super().remarks(trace) + [f"multifactor: {why}, so it does nothing" for hit, why in useless if hit]


def _cpus(view: View, cluster: Cluster, sample: I64, gpus: F64) -> F64:
    """The part of the cluster's CPUs that jobs ask for; where no job states CPUs, that of its GPUs."""
    wanted = view.world.jobs[w.CPU, sample] * view.world.jobs[w.GPUS, sample]
    return np.where(wanted > 0, wanted / max(int(cluster.node_cpu.sum()), 1), gpus) if cluster.node_cpu.any() else gpus


def _nodes(view: View, cluster: Cluster, sample: I64) -> F64:
    """The part of the cluster's nodes that jobs need at the least."""
    most = np.maximum(spans(view.world, cluster, sample)[0], 1)
    needed: F64 = np.ceil(view.world.jobs[w.GPUS, sample] / most) / view.world.nodes.shape[1]
    return needed

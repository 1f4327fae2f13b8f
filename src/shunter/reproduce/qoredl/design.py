"""What is run: three testbeds, three loads, the workload of the authors' generator, and the policies.

What is not printed is assumed: loads, run times, by how much users overstate iterations. See ``ASSUMED``.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from shunter import clusters
from shunter.cluster import Cluster, Overheads
from shunter.model import GPU, Trace
from shunter.scaling.curves import Scaling, ScalingCurve
from shunter.seeding import rng

RESTART_S = 25.0  # of a change of width, as published
MOST_WORKERS = 9
SLACK = (0.66, 2.44)  # a deadline is this many times the declared run time ...
GRACE_S = 750.0  # ... and this much later
DECLARED_S = (600.0, 7200.0)  # run times as declared, log-uniform
NEEDED = (0.5, 1.0)  # of the declared iterations: where training really ends
LOADS = (0.8, 1.2, 1.6)  # work that comes over what the cluster can do
QUICK_LOADS = (1.2,)
JOBS = 120
SEEDS, QUICK_SEEDS = 10, 2
ASSUMED = (
    "Run times as declared are log-uniform from 10 minutes to 2 hours; training really ends after 50 to 100 % of the"
    " declared iterations, uniformly. Neither is printed.",
    "Arrivals are random (Poisson); a load of 1 is as much work as all instances do. The paper's rate is not printed.",
    "On the CPU testbeds speed is in proportion to workers, as the paper assumes, with a parameter server for every"
    " four of them, which does no work. On GPUs it is what our network model says of 10 Gb/s Ethernet.",
    "CPU and memory per instance are fixed: vertical adjustments are not simulated.",
)


@dataclass(frozen=True)
class Testbed:
    """Machines, the models that train there, and the widths that jobs ask for."""

    title: str
    cluster_name: str
    models: tuple[str, ...]
    asked: tuple[int, ...]
    least: int
    most: int
    servers: bool  # parameter servers beside workers

    @property
    def cluster(self) -> Cluster:
        """The machines; a change of width costs what the paper says."""
        return dataclasses.replace(clusters.load(self.cluster_name), overheads=Overheads(restart=((1, RESTART_S),)))

    def scaling(self, cluster: Cluster) -> Scaling:
        """Speeds by width."""
        if not self.servers:
            return Scaling.usual(cluster)
        return Scaling(tuple(ScalingCurve(model, with_servers(self.most)) for model in self.models))


def instances(workers: int) -> int:
    """Instances of a job: its workers, and a parameter server for every four of them."""
    return workers + math.ceil(workers / 4)


def with_servers(most: int) -> tuple[tuple[int, float], ...]:
    """The efficiency of so many instances: their workers over all; instances beyond the next server do nothing."""
    workers = [max(count for count in range(1, width) if instances(count) <= width) for width in range(2, most + 1)]
    return tuple((width, count / width) for width, count in zip(range(2, most + 1), workers, strict=True))


CPU_MODELS = ("vgg", "resnet", "xception", "densenet")
CPU_ASKED = tuple(instances(workers) for workers in (1, 2, 3, 4, 5))
TESTBEDS = {
    "7": Testbed("7 CPU hosts", "qoredl-7", CPU_MODELS, CPU_ASKED, 2, instances(MOST_WORKERS), True),
    "24": Testbed("24 CPU hosts", "qoredl-24", CPU_MODELS, CPU_ASKED, 2, instances(MOST_WORKERS), True),
    "gpu": Testbed("5 GPU hosts", "qoredl-5gpu", ("vgg16", "resnet50", "resnet101"), (1, 1, 2, 4), 1, 8, False),
}
POLICIES = {
    "Kubeflow": "kubeflow",
    "EDF": "edf:blocking=skip",
    "LLF": "llf:blocking=skip",
    "Optimus": "optimus",
    "SLAQ": "slaq",
    "Qore-DL": "qoredl",
    "Elastic": "elastic",
}
OURS, THEIRS = "Elastic", "Qore-DL"
ABLATIONS = {
    "Qore-DL without flip": "qoredl:flip=false",
    "Qore-DL without adjuster": "qoredl:adjust=false",
    "Qore-DL, genetic search": "qoredl:search=genetic",
    "Qore-DL, true remaining work": "qoredl:remaining=oracle",
    "Elastic, true remaining work": "elastic:remaining=oracle",
}


def workload(testbed: Testbed, load: float, seed: int, jobs: int = JOBS) -> Trace:
    """The jobs of one run; another seed draws others."""
    draw = rng(seed, f"qoredl.{testbed.cluster_name}")
    asked = draw.choice(np.array(testbed.asked), jobs)
    low, high = np.log(DECLARED_S)
    declared = np.exp(draw.uniform(low, high, jobs))
    duration = declared * draw.uniform(*NEEDED, jobs)
    deadline = declared * draw.uniform(*SLACK, jobs) + GRACE_S
    model = draw.integers(0, len(testbed.models), jobs)
    span = float((asked * duration).sum()) / (load * clusters.load(testbed.cluster_name).gpus)
    gaps = draw.exponential(1.0, jobs)
    submit = np.cumsum(gaps) / gaps.sum() * span
    return Trace.of(
        f"qoredl-{testbed.cluster_name}-{load:g}-{seed}", [f"j{number}" for number in range(jobs)],
        submit=np.rint(submit * 1000), duration=np.rint(duration * 1000), gpus=asked * GPU,
        declared=np.rint(declared * 1000), deadline=np.rint(deadline * 1000), model=model, models=testbed.models,
        min_gpus=np.full(jobs, testbed.least), max_gpus=np.full(jobs, testbed.most),
    )  # fmt: skip

"""What is run: three testbeds, three loads, the workload of the authors' generator, and the policies.

What is not printed is assumed: loads, run times, by how much users overstate iterations. See ``ASSUMED``. Settings were
chosen by ``python -m benchmarks.qoredl_search`` on seeds that are not judged.
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
from shunter.traces.made_deadlines import GRACE_S, SLACK

RESTART_S = 25.0  # of a change of width, as published
MOST_WORKERS = 9
SLOT_CPUS = 4  # of an instance on the CPU testbeds
CPU_RANGE = (0.475, 2.01)  # of these, that an instance may have
DECLARED_S = (600.0, 7200.0)  # run times as declared, log-uniform
NEEDED = (0.5, 1.0)  # of the declared iterations: where training really ends
LOADS = (0.8, 1.2, 1.6)  # work that comes over what the cluster can do
QUICK_LOADS = (1.2,)
JOBS = 120
SEEDS, QUICK_SEEDS = 10, 2
FIRST_SEED = 300  # of those that are judged
NONE, NOISY, TRUE = "none", "noisy", "true"  # what is predicted of the work: see ``predicted``
NOISE = 0.19  # mean error of a noisy prediction, as a share of the declared run: that of the best method in predict.md
LEAST_PREDICTED = 0.05  # of the declared run
ASSUMED = (
    "Run times as declared are log-uniform from 10 minutes to 2 hours; training really ends after 50 to 100 % of the"
    " declared iterations, uniformly. Neither is printed.",
    "Arrivals are random (Poisson); a load of 1 is as much work as all instances do. The paper's rate is not printed.",
    "On the CPU testbeds speed is in proportion to workers, as the paper assumes, with a parameter server for every"
    " four of them, which does no work. On GPUs it is what our network model says of 10 Gb/s Ethernet.",
    "CPU and memory per instance are fixed, but for one variant on the CPU testbeds: there each instance asks for the"
    " 4 vCPUs of its slot and may have 1.9 to 8 of them (0.475 to 2.01 times, as the authors' code allows), its speed"
    " is as measured (vCPUs to the power 0.4), and a job says how many of its instances serve. Slots stay as they are,"
    " so CPU that is given up makes no room for more instances.",
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

    def scaling(self, cluster: Cluster, equipped: bool = False) -> Scaling:
        """Speeds by width; where jobs say how many of their instances serve, in proportion to the others."""
        if not self.servers:
            return Scaling.usual(cluster)
        if equipped:
            return Scaling()
        return Scaling(tuple(ScalingCurve(model, with_servers(self.most)) for model in self.models))


def instances(workers: int) -> int:
    """Instances of a job: its workers, and a parameter server for every four of them."""
    return workers + math.ceil(workers / 4)


def with_servers(most: int) -> tuple[tuple[int, float], ...]:
    """The efficiency of this many instances: their workers over all; instances beyond the next server do nothing."""
    workers = [max(count for count in range(1, width) if instances(count) <= width) for width in range(2, most + 1)]
    return tuple((width, count / width) for width, count in zip(range(2, most + 1), workers, strict=True))


CPU_MODELS = ("vgg", "resnet", "xception", "densenet")
CPU_ASKED = tuple(instances(workers) for workers in (1, 2, 3, 4, 5))
TESTBEDS = {
    "7": Testbed("7 CPU hosts", "qoredl-7", CPU_MODELS, CPU_ASKED, 2, instances(MOST_WORKERS), True),
    "24": Testbed("24 CPU hosts", "qoredl-24", CPU_MODELS, CPU_ASKED, 2, instances(MOST_WORKERS), True),
    "gpu": Testbed("5 GPU hosts", "qoredl-5gpu", ("vgg16", "resnet50", "resnet101"), (1, 1, 2, 4), 1, 8, False),
}


@dataclass(frozen=True)
class Variant:
    """A policy, and what differs from the usual workload."""

    policy: str
    prediction: str = NONE
    ranged: bool = True  # else jobs run only on what they ask for
    equipped: bool = False  # jobs with servers say so, and give a range of CPU for each instance
    base: str = ""  # the label that it is compared with; "": none


POLICIES = {
    "Kubeflow": Variant("kubeflow"),
    "Kubeflow, chosen": Variant("kubeflow:blocking=skip,placement=consolidate"),
    "EDF": Variant("edf:blocking=skip"),
    "EDF, stops jobs": Variant("pedf:blocking=skip,placement=tight,min_run=1"),
    "LLF": Variant("llf:blocking=skip"),
    "Optimus": Variant("optimus:interval=1200"),
    "SLAQ": Variant("slaq:interval=300"),
    "Qore-DL": Variant("qoredl"),
    "Elastic": Variant("elastic"),
}
OURS, THEIRS, STOPPING = "Elastic", "Qore-DL", "EDF, stops jobs"
ABLATIONS = {
    "Qore-DL without flip": Variant("qoredl:flip=false", base=THEIRS),
    "Qore-DL without adjuster": Variant("qoredl:adjust=false", base=THEIRS),
    "Qore-DL, genetic search": Variant("qoredl:search=genetic", base=THEIRS),
    "Qore-DL, CPU and servers chosen": Variant("qoredl", equipped=True, base=THEIRS),
    "Qore-DL, noisy prediction": Variant("qoredl", NOISY, base=THEIRS),
    "Qore-DL, true prediction": Variant("qoredl", TRUE, base=THEIRS),
    "EDF, stops jobs, noisy prediction": Variant(POLICIES[STOPPING].policy, NOISY, base=STOPPING),
    "EDF, stops jobs, true prediction": Variant(POLICIES[STOPPING].policy, TRUE, base=STOPPING),
    "LLF, noisy prediction": Variant(POLICIES["LLF"].policy, NOISY, base="LLF"),
    "LLF, true prediction": Variant(POLICIES["LLF"].policy, TRUE, base="LLF"),
    "Elastic, noisy prediction": Variant(POLICIES[OURS].policy, NOISY, base=OURS),
    "Elastic, true prediction": Variant(POLICIES[OURS].policy, TRUE, base=OURS),
    "Elastic, widths as asked for": Variant(POLICIES[OURS].policy, ranged=False, base=OURS),
}


SEARCH_SEEDS = range(100, 105)  # on which settings are chosen; those that are judged begin at FIRST_SEED
CHOSEN_BY = (
    "Settings of Kubeflow, EDF, LLF, Optimus and SLAQ were chosen by 'python -m benchmarks.qoredl_search', eight of"
    " each, and 18 of the EDF that stops jobs, on the same kind of jobs with seeds"
    f" {SEARCH_SEEDS[0]} to {SEARCH_SEEDS[-1]}, by deadlines met. Qore-DL is as published; its variants show what its"
    " switches do. Elastic has its defaults, which were chosen on the same seeds.",
    "All policies see the same: deadlines, ranges of widths, the declared work, the work done so far, and the speed at"
    " every width. Kubeflow, EDF and LLF run jobs on what they ask for and don't stop any. The EDF that does also puts"
    " off jobs that can't be in time any more, by their declared work.",
)
SEARCHED = {
    "Kubeflow, chosen": tuple(
        f"kubeflow:{order}placement={placement}"
        for order in ("", "blocking=skip,", "backfill=easy,", "backfill=conservative,")
        for placement in ("spread", "consolidate")
    ),
    **{
        name.upper(): tuple(
            f"{name}:{order},placement={placement}"
            for order in ("blocking=strict", "blocking=skip", "backfill=easy", "backfill=conservative")
            for placement in ("consolidate", "tight")
        )
        for name in ("edf", "llf")
    },
    "EDF, stops jobs": tuple(
        f"pedf:{order},placement={placement},min_run={least}"
        for order in ("blocking=strict", "blocking=skip", "backfill=easy")
        for placement in ("consolidate", "tight", "weighed")
        for least in (0, 0.5, 1, 2, 5, 10, 30, 60, 120)
    ),
    "Optimus": tuple(f"optimus:interval={seconds}" for seconds in (30, 60, 120, 300, 600, 1200, 2400, 4800)),
    "SLAQ": tuple(f"slaq:interval={seconds}" for seconds in (30, 60, 120, 300, 600, 1200, 2400, 4800)),
}


def workload(testbed: Testbed, load: float, seed: int, jobs: int = JOBS) -> Trace:
    """The jobs of one run; another seed draws others. Users declare an upper bound of the work."""
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


def equipped(trace: Trace) -> Trace:
    """The same jobs with what they say of their instances; on GPUs they say nothing."""
    if set(trace.models) != set(CPU_MODELS):
        return trace
    least, most = (np.full(len(trace), round(SLOT_CPUS * share * 1000)) for share in CPU_RANGE)
    asked = trace.gpus // GPU
    servers = -(-asked // 5)
    return dataclasses.replace(trace, cpus=asked * SLOT_CPUS * 1000, min_cpus=least, max_cpus=most, servers=servers)


def varied(trace: Trace, variant: Variant, seed: int) -> Trace:
    """The same jobs as a variant has them: with what was predicted in place of what users declared, or without ranges.

    Policies see the prediction as the declared work, and nothing else of the truth. A noisy one is off by a normal
    error, whose mean size is ``NOISE`` of the declared run, drawn by the seed; it never exceeds what was declared.
    """
    if not variant.ranged:
        none = np.zeros(len(trace), np.int64)
        trace = dataclasses.replace(trace, min_gpus=none, max_gpus=none)
    if variant.equipped:
        trace = equipped(trace)
    if variant.prediction == NONE:
        return trace
    if variant.prediction == TRUE:
        return dataclasses.replace(trace, declared=trace.duration)
    declared = trace.declared.astype(np.float64)
    error = rng(seed, "qoredl.prediction").normal(0.0, NOISE * math.sqrt(math.pi / 2), len(trace)) * declared
    said = np.clip(trace.duration + error, LEAST_PREDICTED * declared, declared)
    return dataclasses.replace(trace, declared=np.rint(said).astype(np.int64))

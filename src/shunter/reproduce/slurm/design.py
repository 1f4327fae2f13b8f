"""The cluster of section 5.6 as virtual nodes, a mix of jobs for it, and both as the simulator knows them.

A second here stands for minutes there, but Slurm counts limits in minutes: a user who expects a run of 7 s gives
it 7 minutes. Every limit is sixty times too long, for Slurm's backfill, for our policies, and in the simulator alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shunter.cluster import Cluster, NodeGroup
from shunter.errors import RunError
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.slurm.lab import LabNodes
from shunter.world import F64

NODES = (LabNodes("p100", 2, 4), LabNodes("k80", 2, 2), LabNodes("m40", 1, 1))
GPUS = sum(group.count * group.gpus for group in NODES)
USERS = ("nobody", "daemon", "games", "mail")  # every Debian has them
ACCOUNTS = {f"lab{number}": (user,) for number, user in enumerate(USERS, 1)}
CPUS_PER_GPU = 4  # Slurm counts a job's size by its CPUs and nodes
WEIGHT, MAX_AGE_S, PERIOD_MIN = 1000, 600, 1
FACTORS = ("Age", "FairShare", "JobSize", "Partition", "QOS")
SETTINGS = {f"PriorityWeight{factor}": str(WEIGHT) for factor in FACTORS} | {
    "PriorityMaxAge": "0-00:10:00",
    "PriorityFlags": "NO_FAIR_TREE",  # with four users their ranks would say little
    "PriorityCalcPeriod": str(PERIOD_MIN),
    "AccountingStorageEnforce": "associations,limits",  # else what a job used since the last period never counts
}
BASE = (
    f"multifactor:age={WEIGHT},fairshare={WEIGHT},size={WEIGHT},max_age={MAX_AGE_S},size_by=cpus,"
    f"period={60 * PERIOD_MIN},estimate=limit"
)

JOBS, QUICK_JOBS, LONGEST_S = 256, 64, 20.0
MEDIAN_S, SPREAD = 4.0, 0.8  # of log-normal run times
HURRY = 0.6  # all are submitted in so much of the time that the GPUs need at the least
ROUND_MIN = np.array([1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120])  # limits that people write
CAUTION = (1.0, 3.0)  # people expect a job to run between once and three times as long as it does
USER_SHARE = (0.4, 0.3, 0.2, 0.1)
# (kind, nodes, GPUs on each): how often. Each kind gets GPU time in proportion to its GPUs.
SHAPES = {
    ("p100", 1, 1): 0.222, ("p100", 1, 2): 0.123, ("p100", 1, 4): 0.099, ("p100", 2, 4): 0.049,
    ("k80", 1, 1): 0.175, ("k80", 1, 2): 0.122, ("k80", 2, 2): 0.052,
    ("m40", 1, 1): 0.158,
}  # fmt: skip


@dataclass(frozen=True)
class SubmittedJob:
    """What a user submits, and when."""

    name: str
    user: str
    submit_s: float
    run_s: float
    limit_min: int
    kind: str
    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        """In all."""
        return self.nodes * self.gpus_per_node

    @property
    def options(self) -> tuple[str, ...]:
        """For sbatch."""
        return (
            f"--job-name={self.name}",
            f"--time={self.limit_min}",
            f"--nodes={self.nodes}",
            "--ntasks-per-node=1",
            f"--cpus-per-task={CPUS_PER_GPU * self.gpus_per_node}",
            f"--gres=gpu:{self.kind}:{self.gpus_per_node}",
        )


def mix(jobs: int, seed: int, longest_s: float = LONGEST_S) -> list[SubmittedJob]:
    """A synthetic mix: most jobs small and short, some over two nodes, limits as people write them."""
    if not 1 <= jobs <= 10_000:
        raise RunError(f"--jobs must be from 1 to 10000, got {jobs}")
    draw = rng(seed, "slurm.mix")
    weights = np.array(list(SHAPES.values()))
    shapes = [list(SHAPES)[at] for at in draw.choice(len(SHAPES), jobs, p=weights / weights.sum())]
    run = np.clip(MEDIAN_S * np.exp(SPREAD * draw.standard_normal(jobs)), 1.0, longest_s).round(2)
    expected = run * draw.uniform(*CAUTION, jobs)
    limit = ROUND_MIN[np.searchsorted(ROUND_MIN, expected)]
    user = draw.choice(len(USERS), jobs, p=USER_SHARE)
    submit = np.sort(draw.uniform(0, HURRY * _least(run, shapes), jobs)).round(2)
    return [
        SubmittedJob(
            f"job{at + 1}", USERS[user[at]], float(submit[at] - submit[0]), float(run[at]), int(limit[at]), *shapes[at]
        )
        for at in range(jobs)
    ]


def _least(run: F64, shapes: Sequence[tuple[str, int, int]]) -> float:
    """Seconds in which the GPUs could do all, were none ever idle."""
    return float(run @ np.array([nodes * gpus for _, nodes, gpus in shapes])) / GPUS


def cluster() -> Cluster:
    """The nodes as the simulator knows them."""
    groups = tuple(NodeGroup(nodes.count, nodes.gpus, nodes.kind, nodes.cpus) for nodes in NODES)
    return Cluster("lab", groups)


def trace(jobs: Sequence[SubmittedJob]) -> Trace:
    """The jobs as the simulator knows them."""
    kinds = [nodes.kind for nodes in NODES]
    return Trace.of(
        "mix",
        [job.name for job in jobs],
        submit=[round(1000 * job.submit_s) for job in jobs],
        duration=[round(1000 * job.run_s) for job in jobs],
        gpus=[GPU * job.gpus for job in jobs],
        limit=[60_000 * job.limit_min for job in jobs],
        cpus=[1000 * CPUS_PER_GPU * job.gpus for job in jobs],
        user=[USERS.index(job.user) for job in jobs],
        gpu_type=[kinds.index(job.kind) for job in jobs],
        users=USERS,
        gpu_types=tuple(kinds),
    )

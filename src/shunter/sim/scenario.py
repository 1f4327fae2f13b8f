"""What happens to a cluster in addition to its jobs: failures, outages, warm starts, and speeds by placement."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shunter.cluster import Cluster
from shunter.errors import ClusterError, NetworkError
from shunter.network.placing import Costs
from shunter.scaling.curves import Scaling
from shunter.seeding import rng
from shunter.world import F64, I64


@dataclass(frozen=True)
class Fault:
    """A node that goes down at ``time`` and is back at ``end`` (ms)."""

    time: int
    node: int
    end: int
    known: bool = False  # an outage that was announced
    drains: bool = False  # no job starts there any more, but those that run end in peace; else they are killed


@dataclass(frozen=True)
class Warm:
    """A job that already runs when the simulation begins: where, and how much of its work is done (ms)."""

    job: int
    gpus: tuple[int, ...]
    done: int = 0


@dataclass(frozen=True, eq=False)
class Workloads:
    """What jobs do to their GPUs, and to each other on one; the last entry of each table stands for what is unknown."""

    of_job: I64  # (jobs,) the workload of each, -1: not known
    uses: (
        F64  # (3, workloads + 1) GPU utilisation, memory and memory utilisation as in `World.use`; or (3, 0): not given
    )
    speed: F64  # (workloads + 1, workloads + 1) of the first beside the second; 0: by time slices


@dataclass(frozen=True)
class Scenario:
    """Everything about a simulated world that is neither trace nor cluster; the default adds nothing.

    It describes faults, jobs that already run at the beginning, limits per user, and speeds that depend on placement.

    Examples:
        The only node fails after ten seconds and is back after another ten; the job starts again from the beginning:

        >>> import shunter
        >>> from shunter.cluster import NodeGroup
        >>> from shunter.sim import Fault
        >>> jobs = shunter.Trace.of("one", ["a"], submit=[0], duration=[60_000], gpus=[1000])
        >>> cluster = shunter.Cluster("small", (NodeGroup(count=1, gpus=1),))
        >>> scenario = shunter.Scenario(faults=(Fault(time=10_000, node=0, end=20_000),))
        >>> simulator = shunter.Simulator(jobs, cluster, scenario=scenario)
        >>> memory = simulator.run(shunter.policy("fifo"))
        >>> simulator.now
        80000
    """

    faults: tuple[Fault, ...] = ()
    warm: tuple[Warm, ...] = ()
    user_cap: int = 0  # thousandths of GPUs that one user's jobs may hold together; 0: any number
    begin: int | None = None  # ms; the first submission if not given
    sharing: int = 2  # jobs that a GPU can hold at most (more where the trace has small shares)
    tier_speed: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    # of a model: its speed on one node, in one rack, across racks; 1 where not given
    scaling: Scaling | None = None  # speeds by width of jobs that give a range; None: what is known of the cluster
    network: Costs | None = None  # what placements cost the models of the trace; None: nothing
    contention: bool = False  # jobs share the links that lead out of machines, racks and so on; else each has its own
    pair_speed: dict[tuple[str, str], float] = field(default_factory=dict)
    # of two models on one GPU: the first one's speed beside the second; time slices where not given
    workloads: Workloads | None = None  # what jobs do to GPUs, job by job; instead of pair_speed
    node_sets: tuple[tuple[int, ...], ...] = ()  # whose numbers follow those of the GPU types: jobs may be bound to one
    losses: dict[str, tuple[float, ...]] = field(default_factory=dict)
    # of a loss curve by its name in the trace: the losses in equal steps of the work that a job's user declared
    drains: bool = False  # no job is started on a node whose next known outage comes before the job's limit ends

    def __post_init__(self) -> None:
        if self.user_cap < 0 or (self.user_cap and self.warm):
            raise ClusterError(f"user_cap must be 0 or more, and 0 with jobs that already run, got {self.user_cap}")
        for name, losses in self.losses.items():
            if not losses or not np.isfinite(losses).all() or min(losses) < 0:
                raise ClusterError(f"loss curve '{name}': losses must be finite numbers of 0 or more, at least one")
        if self.contention and self.network is None:
            raise NetworkError("contention needs a network, and there is none; set network too")

    def fault_table(self, nodes: int, begin: int) -> I64:
        """The faults that are not over by ``begin`` as rows (time, node, end, known, drains), in order of time."""
        for fault in self.faults:
            if not 0 <= fault.node < nodes or fault.end <= fault.time:
                raise ClusterError(f"{fault}: node must be 0..{nodes - 1} and end must come after time")
        rows = sorted((f.time, f.node, f.end, int(f.known), int(f.drains)) for f in self.faults if f.end > begin)
        return np.array(rows, np.int64).reshape(-1, 5)

    def speed_tables(self, models: tuple[str, ...]) -> tuple[F64, F64]:
        """Both speed tables as arrays over the trace's model codes; the last row stands for an unknown model.

        Without measured pairs there is nothing but that row.
        """
        code = {name: index for index, name in enumerate(models)}
        rows = len(models) + 1
        tier = np.ones((rows if self.tier_speed else 0, 3))
        pair = np.zeros((rows, rows) if self.pair_speed else (1, 1))  # anyone may name thousands of models
        for name, speeds in self.tier_speed.items():
            if name in code:
                tier[code[name]] = speeds
        for (first, second), speed in self.pair_speed.items():
            if first in code and second in code:
                pair[code[first], code[second]] = speed
        if not ((tier > 0).all() and (pair >= 0).all()):
            raise ClusterError("speeds in tier_speed and pair_speed must be above 0")
        return tier, pair


def random_faults(
    cluster: Cluster, mtbf: float, mttr: float, until: int, seed: int, begin: int = 0
) -> tuple[Fault, ...]:
    """Independent failures of every node from ``begin`` up to ``until`` (ms), exponential with these means in hours."""
    draws, hour, faults = rng(seed, "faults"), 3_600_000, []
    for node in range(cluster.nodes):
        time = begin
        while True:
            time += 1 + int(draws.exponential(mtbf) * hour)
            if time >= until:
                break
            end = time + 1 + int(draws.exponential(mttr) * hour)
            faults.append(Fault(time, node, end))
            time = end
    return tuple(faults)

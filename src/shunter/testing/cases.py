"""Small crowded clusters: one for each situation that a scheduler meets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.sim.engine import Simulator
from shunter.sim.scenario import Fault, Scenario, Workloads

SECOND = 1000
JOBS = 40


@dataclass(frozen=True)
class Case:
    """Jobs, machines, and what happens to them."""

    name: str
    trace: Trace
    cluster: Cluster
    scenario: Scenario = Scenario()

    def simulator(self, seed: int = 0) -> Simulator:
        """A fresh simulation of it."""
        scenario = dataclasses.replace(self.scenario, workloads=_workloads(len(self.trace)))
        return Simulator(self.trace, self.cluster, seed=seed, scenario=scenario)

    def __str__(self) -> str:
        return self.name


def _trace(name: str, sizes: list[float], **more: Any) -> Trace:
    """Jobs of these sizes that come faster than they can run, many of them at once; half of them with a time limit."""
    draw = rng(0, name)
    duration = draw.integers(1, 60, JOBS) * SECOND
    given: dict[str, Any] = {
        "submit": np.sort(draw.integers(0, 30, JOBS)) * 5 * SECOND,
        "duration": duration,
        "gpus": (draw.choice(np.array(sizes), JOBS) * GPU).astype(np.int64),
        "user": draw.integers(0, 4, JOBS),
        "users": ("ann", "bob", "cy", "di"),
        "limit": np.where(draw.random(JOBS) < 0.5, duration + draw.integers(0, 60, JOBS) * SECOND, 0),
        "qos": draw.integers(0, 3, JOBS) * 500,
    }
    return Trace.of(name, [f"j{i}" for i in range(JOBS)], **(given | more))


def _workloads(jobs: int) -> Workloads:
    """Light, middling, heavy and unknown jobs in turn, for policies that let them share GPUs."""
    uses = np.array([[10.0, 40.0, 95.0, np.nan], [1000.0, 4000.0, 30000.0, np.nan], [2.0, 10.0, 50.0, np.nan]])
    return Workloads(np.arange(jobs) % 4 - 1, uses, np.zeros((4, 4)))  # together they get time slices


def _cluster(*groups: NodeGroup, **more: Any) -> Cluster:
    return Cluster("little", groups, **more)


def _plain() -> Case:
    return Case("plain", _trace("plain", [1, 1, 2, 3, 4, 6, 8]), _cluster(NodeGroup(3, 4)))


def _uneven() -> Case:
    sizes = _cluster(NodeGroup(1, 2), NodeGroup(1, 8), NodeGroup(1, 4))
    return Case("uneven nodes", _trace("uneven nodes", [1, 2, 3, 5, 8, 10]), sizes)


def _vcs() -> Case:
    cluster = _cluster(NodeGroup(2, 4, vc="a"), NodeGroup(3, 2, vc="b"), vc_priority={"a": 0.2, "b": 0.9})
    vc = rng(0, "vc").integers(0, 2, JOBS)
    return Case("virtual clusters", _trace("virtual clusters", [1, 2, 4], vc=vc, vcs=("b", "a")), cluster)


def _types() -> Case:
    cluster = _cluster(NodeGroup(2, 4, "fast"), NodeGroup(2, 4, "slow"), speeds={"slow": 0.3})
    kind = rng(0, "type").integers(-1, 2, JOBS)
    return Case("GPU types", _trace("GPU types", [1, 2, 4, 8], gpu_type=kind, gpu_types=("slow", "fast")), cluster)


def _shares() -> Case:
    return Case("shares of a GPU", _trace("shares of a GPU", [0.1, 0.25, 0.5, 0.7, 1, 2]), _cluster(NodeGroup(2, 2)))


def _cpus() -> Case:
    draw = rng(0, "cpus")
    more = {"cpus": draw.integers(0, 5, JOBS) * 1000, "mem_gib": draw.integers(0, 17, JOBS) * 1024}
    return Case(
        "CPU and memory", _trace("CPU and memory", [1, 1, 2], **more), _cluster(NodeGroup(3, 4, cpus=6, mem_gib=20))
    )


def _after() -> Case:
    before = np.where(np.arange(JOBS) % 3 == 2, np.arange(JOBS) - 2, -1)
    return Case("dependencies", _trace("dependencies", [1, 2, 4], after=before), _cluster(NodeGroup(2, 4)))


def _failures() -> Case:
    draw = rng(0, "failures")
    more = {
        "failures": draw.integers(0, 3, JOBS),
        "fail_after": draw.integers(0, 20, JOBS) * SECOND,
        "retries": draw.integers(0, 3, JOBS),
        "checkpoint": draw.integers(0, 3, JOBS) * 4 * SECOND,
    }
    return Case("failing jobs", _trace("failing jobs", [1, 2, 4], **more), _cluster(NodeGroup(2, 4)))


def _faults() -> Case:
    faults = (Fault(20_000, 0, 60_000), Fault(90_500, 1, 200_000, known=True), Fault(150_000, 0, 151_000))
    trace = _trace("failing nodes", [1, 2, 4, 6], checkpoint=np.full(JOBS, 7 * SECOND))
    return Case("failing nodes", trace, _cluster(NodeGroup(3, 4)), Scenario(faults))


def _costs() -> Case:
    costs = Overheads(checkpoint=((2, 1.0), (8, 3.0)), restart=((8, 2.0),))
    return Case("costly stops", _trace("costly stops", [1, 2, 4, 6]), _cluster(NodeGroup(3, 4), overheads=costs))


def _declarations() -> Case:
    """Users declare iterations and the time of one, and are wrong in both directions."""
    draw = rng(0, "declarations")
    declared = np.where(draw.random(JOBS) < 0.7, draw.integers(1, 90, JOBS) * SECOND, 0)
    more = {"declared": declared, "iterations": (declared > 0) * 100}
    return Case("wrong declarations", _trace("wrong declarations", [1, 2, 4, 6], **more), _cluster(NodeGroup(3, 4)))


def _keepers() -> Case:
    """Some jobs can't be stopped, some have costs of their own, and some lose what they did since a checkpoint."""
    draw = rng(0, "keepers")
    more = {
        "checkpointable": draw.random(JOBS) < 0.6,
        "stop_cost": draw.integers(-1, 3, JOBS) * SECOND,
        "start_cost": draw.integers(-1, 3, JOBS) * SECOND,
        "saves_on_stop": draw.random(JOBS) < 0.7,
        "checkpoint": draw.integers(0, 3, JOBS) * 4 * SECOND,
    }
    more |= {name: np.maximum(more[name], -1) for name in ("stop_cost", "start_cost")}
    costs = Overheads(restart=((8, 1.0),))
    return Case("keepers", _trace("keepers", [1, 2, 4, 6], **more), _cluster(NodeGroup(3, 4), overheads=costs))


CASES = tuple(
    make()
    for make in (
        *(_plain, _uneven, _vcs, _types, _shares, _cpus),
        *(_after, _failures, _faults, _costs, _declarations, _keepers),
    )
)

"""A sample of the check that the engine's schedules are those of the slow, separately written reference."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.sim import Simulator
from shunter.testing.reference import RefJob, RefNode, RefRun, runs_of, simulate

BACKFILLS: tuple[Literal["easy", "conservative"], ...] = ("easy", "conservative")


def _submitted(index: int, job: RefJob, now: int, executed: int) -> float:
    return index


def _length(index: int, job: RefJob, now: int, executed: int) -> float:
    return job.duration


def _left(index: int, job: RefJob, now: int, executed: int) -> float:
    return job.duration - executed


RULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "fifo": (_submitted, {}),
    "fifo:blocking=skip": (_submitted, {"blocking": "skip"}),
    "sjf:estimate=oracle": (_length, {}),
    "srtf:estimate=oracle": (_left, {"preemptive": True}),
    **{f"fifo:estimate=oracle,backfill={b}": (_submitted, {"backfill": b}) for b in BACKFILLS},
    **{f"sjf:estimate=oracle,backfill={b}": (_length, {"backfill": b}) for b in BACKFILLS},
}


def equal(cases: int, seed: int = 0) -> tuple[int, int]:
    """How many schedules were compared, and how many of them were equal, run by run and node by node."""
    same = 0
    for case in range(cases):
        jobs, nodes = _draw(seed + case)
        for text, (key, rules) in RULES.items():
            same += _runs(jobs, nodes, text) == simulate(jobs, nodes, key, **rules)
    return cases * len(RULES), same


def _draw(seed: int) -> tuple[list[RefJob], list[RefNode]]:
    """A few crowded nodes, and jobs with many ties."""
    draw = rng(seed, "benchmarks.equality")
    nodes = [RefNode(int(gpus)) for gpus in draw.choice([1, 2, 4, 8], draw.integers(1, 5))]
    room = min(sum(node.gpus for node in nodes), 12)
    count = int(draw.integers(2, 30))
    submits, sizes = np.sort(draw.integers(0, 16, count)), draw.integers(1, room + 1, count)
    columns = zip(submits.tolist(), draw.integers(1, 21, count).tolist(), sizes.tolist(), strict=True)
    return [RefJob(submit, duration, gpus, duration) for submit, duration, gpus in columns], nodes


def _runs(jobs: list[RefJob], nodes: list[RefNode], text: str) -> list[list[RefRun]]:
    """The engine's schedule as the reference writes it; a tick is a millisecond."""
    trace = Trace.of(
        "sample",
        [str(index) for index in range(len(jobs))],
        submit=[job.submit for job in jobs],
        duration=[job.duration for job in jobs],
        gpus=[job.gpus * GPU for job in jobs],
    )
    simulator = Simulator(trace, Cluster("sample", tuple(NodeGroup(1, node.gpus) for node in nodes)))
    simulator.run(registry.policy(text))
    return runs_of(simulator.events, len(jobs))

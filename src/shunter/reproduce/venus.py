"""Venus, a cluster of Helios: its public jobs, put into its virtual clusters by a rule, because the file names none.

A job goes to one of the virtual clusters that can hold it, by chance, each on its own: there is neither user nor name
that would keep jobs together. The rule says how likely each is. The draw depends on the seed alone.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import traces
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.setup import Setup
from shunter.world import F64, I64

JOBS = "helios/venus_gpu_jobs.csv.gz"
NODES = "helios/venus_vc_config.csv"
SINCE, UNTIL = "2020-09-01", "2020-09-15"
NODE_GPUS = 8
# how likely each virtual cluster that can hold a job is: by its nodes; the same, but jobs with more than 8 GPUs only in
# the largest virtual clusters and the others only in the rest; by the jobs that Lucid's artifact counts in September
RULES = ANY, APART, COUNTED = "any", "apart", "counted"
PUBLISHED_JOBS = {"vcEwI": 7603, "vcWoR": 2826, "vcHvQ": 2654, "vcvGl": 1452, "vc8Gr": 710}
ALL_JOBS = 23_859  # in all virtual clusters
Mask: TypeAlias = NDArray[np.bool_]


def venus(folder: Path, seed: int) -> Trace:
    """All jobs of the public file, from March on, each in a virtual cluster."""
    return assigned(traces.read(folder / JOBS, "helios"), nodes_in(folder / NODES), seed)


def nodes_in(path: Path) -> dict[str, int]:
    """The nodes of each virtual cluster, from a table with names and numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        return {name: int(nodes) for name, nodes in list(csv.reader(file))[1:]}


def assigned(trace: Trace, nodes: Mapping[str, int], seed: int, rule: str = ANY) -> Trace:
    """The same jobs, each in one of the virtual clusters that can hold it, drawn by a rule (see ``RULES``)."""
    sizes = np.array(list(nodes.values()))
    able = trace.gpus[:, None] <= sizes * NODE_GPUS * GPU
    if rule == APART:
        large = trace.gpus > NODE_GPUS * GPU
        able &= large[:, None] == _for_large(trace, large, sizes)
    if not able.any(axis=1).all():
        most = int(trace.gpus.max()) / GPU
        raise TraceError(f"trace '{trace.name}': no virtual cluster holds a job of {most:g} GPUs; leave such jobs out")
    upto = np.cumsum(able * (_counts(nodes) if rule == COUNTED else sizes), axis=1)
    drawn = rng(seed, "virtual clusters").random(len(trace)) * upto[:, -1]
    return dataclasses.replace(trace, vc=(upto <= drawn[:, None]).sum(axis=1), vcs=tuple(nodes))


def _counts(nodes: Mapping[str, int]) -> F64:
    """How many jobs each virtual cluster had: as published, the others the rest in proportion to their nodes."""
    others = {vc: count for vc, count in nodes.items() if vc not in PUBLISHED_JOBS}
    known = [PUBLISHED_JOBS[vc] for vc in nodes if vc in PUBLISHED_JOBS]
    each = (ALL_JOBS - sum(known)) / max(sum(others.values()), 1)
    return np.array([PUBLISHED_JOBS.get(vc, each * count) for vc, count in nodes.items()], np.float64)


@dataclass(frozen=True, eq=False)
class Drawn(Setup):
    """A setup whose repeats differ by the draw of virtual clusters, instead of by seconds."""

    rule: str = ANY
    nodes: Mapping[str, int] = field(default_factory=dict)

    @property
    def drawn_by(self) -> str:
        """The rule, and the virtual clusters that it draws from."""
        return f"{self.rule} {dict(self.nodes)}"

    def repeat(self, seed: int, repeat: int) -> Trace:
        """The jobs of the window, drawn again."""
        return self.trace if repeat == 0 else assigned(self.trace, self.nodes, seed + repeat, self.rule)


def drawn(found: Setup, rule: str, nodes: Mapping[str, int]) -> Drawn:
    """The same setup, whose repeats are draws by a rule."""
    same = {each.name: getattr(found, each.name) for each in dataclasses.fields(Setup)}
    return Drawn(**same, rule=rule, nodes=nodes)


def _for_large(trace: Trace, large: Mask, sizes: I64) -> Mask:
    """The largest virtual clusters, as many as have the large jobs' part of the GPU time in nodes."""
    work = trace.duration * (trace.gpus / GPU)
    wanted = work[large].sum() / work.sum() * sizes.sum()
    order = np.argsort(-sizes, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order]
    found = np.zeros(len(sizes), np.bool_)
    found[order] = before < wanted
    return found


def divided(name: str, nodes: Mapping[str, int], restart: tuple[tuple[int, float], ...] = ()) -> Cluster:
    """A cluster of nodes with 8 GPUs in virtual clusters; a job that was stopped needs ``restart`` to go on."""
    groups = tuple(NodeGroup(count, NODE_GPUS, vc=vc) for vc, count in nodes.items())
    return Cluster(name, groups, overheads=Overheads(restart=restart))

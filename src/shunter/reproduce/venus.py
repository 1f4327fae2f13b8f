"""Venus, a cluster of Helios: its public jobs, put into its virtual clusters by a rule, because the file names none.

A job goes to one of the virtual clusters that can hold it, by chance, in proportion to their nodes, each on its own:
there is neither user nor name that would keep jobs together. The draw depends on the seed alone.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import traces
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.world import I64

JOBS = "helios/venus_gpu_jobs.csv.gz"
NODES = "helios/venus_vc_config.csv"
SINCE, UNTIL = "2020-09-01", "2020-09-15"
NODE_GPUS = 8
Mask: TypeAlias = NDArray[np.bool_]


def venus(folder: Path, seed: int) -> Trace:
    """All jobs of the public file, from March on, each in a virtual cluster."""
    return assigned(traces.read(folder / JOBS, "helios"), nodes_in(folder / NODES), seed)


def nodes_in(path: Path) -> dict[str, int]:
    """The nodes of each virtual cluster, from a table with names and numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        return {name: int(nodes) for name, nodes in list(csv.reader(file))[1:]}


def assigned(trace: Trace, nodes: Mapping[str, int], seed: int, apart: bool = False) -> Trace:
    """The same jobs, each in one of the virtual clusters that can hold it, drawn in proportion to their nodes.

    ``apart``: jobs larger than a node are only in the largest virtual clusters, the others only in the rest.
    """
    sizes = np.array(list(nodes.values()))
    able = trace.gpus[:, None] <= sizes * NODE_GPUS * GPU
    if apart:
        large = trace.gpus > NODE_GPUS * GPU
        able &= large[:, None] == _for_large(trace, large, sizes)
    if not able.any(axis=1).all():
        most = int(trace.gpus.max()) / GPU
        raise TraceError(f"trace '{trace.name}': no virtual cluster holds a job of {most:g} GPUs; leave such jobs out")
    upto = np.cumsum(able * sizes, axis=1)
    drawn = rng(seed, "virtual clusters").random(len(trace)) * upto[:, -1]
    return dataclasses.replace(trace, vc=(upto <= drawn[:, None]).sum(axis=1), vcs=tuple(nodes))


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

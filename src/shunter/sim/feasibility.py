"""Jobs that can never run on a cluster, however empty it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter import placers
from shunter.capabilities import Describes, capability
from shunter.cluster import Cluster
from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.sim.state import codes, known_to
from shunter.world import I64


def unfit(trace: Trace, cluster: Cluster, policy: Any) -> NDArray[np.bool_]:
    """Which jobs can never run: the policy's placement is asked for each kind of job, on the empty cluster."""
    gpus = np.maximum(trace.gpus // GPU, 1)
    vc, kind = codes(trace.vc, trace.vcs, cluster.vcs), codes(trace.gpu_type, trace.gpu_types, cluster.named_types)
    if cluster.vcs:
        vc = np.where(vc == -1, -2, vc)  # in a cluster that is divided, a job must name its part
    demand = np.column_stack((gpus, vc, kind, -(-trace.cpus // gpus), -(-trace.mem_gib // gpus)))
    first, member = _classes(demand)
    placement = placement_of(policy)
    bad = np.array([not _fits(cluster, placement, *map(int, row)) for row in demand[first]], np.bool_)
    return bad[member]


def placement_of(policy: Any) -> str:
    """The placement of a policy, on which alone it depends whether a job can ever run."""
    describing = capability(Describes, policy)
    return describing.placement if describing else Describes.placement


def _classes(demand: I64) -> tuple[I64, I64]:
    """One row of each kind, and the kind of each row; column by column, much faster than sorting whole rows."""
    member = np.zeros(len(demand), np.int64)
    for column in demand.T:
        if len(column) and (column != column[0]).any():
            values, code = np.unique(column, return_inverse=True)
            member = np.unique(member * len(values) + code, return_inverse=True)[1]
    return np.unique(member, return_index=True)[1], member


def check_fit(trace: Trace, cluster: Cluster, policy: Any) -> None:
    """Refuse a trace in which some job can never run."""
    known_to(cluster, trace)
    misfits = np.flatnonzero(unfit(trace, cluster, policy))
    if len(misfits):
        job = misfits[0]
        wants = [f"{trace.gpus[job] / GPU:g} GPUs"]
        for names, code, what in (
            (trace.vcs, trace.vc[job], "in VC"),
            (trace.gpu_types, trace.gpu_type[job], "of type"),
        ):
            wants += [f"{what} '{names[code]}'"] if code >= 0 else []
        wants += [f"{trace.cpus[job] / 1000:g} cores"] if trace.cpus[job] else []
        wants += [f"{trace.mem_gib[job] / 1024:g} GiB"] if trace.mem_gib[job] else []
        error = TraceError(
            f"job '{trace.job_id[job]}' ({', '.join(wants)}) can never run on cluster '{cluster.name}' of"
            f" {cluster.gpus:,} GPUs ({len(misfits):,} of {len(trace):,} jobs can't); choose another cluster or leave"
            " them out with --drop-unfit"
        )
        error.job_id = trace.job_id[job]
        raise error


def _fits(cluster: Cluster, placement: str, gpus: int, vc: int, kind: int, cpu: int, mem: int) -> bool:
    mine = ((cluster.node_vc == vc) | (vc == -1)) & ((cluster.node_type == kind) | (kind == -1))
    total = np.where(mine, cluster.node_gpus, 0)
    usable = total.copy()
    for limit, each in ((cluster.node_cpu, cpu), (cluster.node_mem, mem)):
        if each > 0:
            usable = np.where(limit > 0, np.minimum(usable, limit // each), usable)
    if usable.max() >= gpus or usable.sum() < gpus:
        return bool(usable.max() >= gpus)
    place = placers.rule(placement)
    order = np.lexsort((np.arange(cluster.nodes), -cluster.node_gpus))
    nodes, counts = np.zeros(cluster.nodes, np.int64), np.zeros(cluster.nodes, np.int64)
    return bool(place(usable, total, order, gpus, 0, nodes, counts))

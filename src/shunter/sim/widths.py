"""The speeds of jobs that give a range of GPUs, as tables by width, and what jobs say of their instances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.cluster import Cluster
from shunter.errors import TraceError
from shunter.model import GPU, Trace, amounts_are_wrong, servers_are_wrong, widths_are_wrong
from shunter.scaling.curves import Scaling, ScalingCurve
from shunter.sim.scenario import Scenario
from shunter.world import F64, I64

MOST_SPEEDS = 20_000_000  # by kind of job and width; policies keep several such tables


def curves_of(trace: Trace, cluster: Cluster, scenario: Scenario) -> tuple[I64, F64]:
    """The curve of each job, -1: its speed is in proportion to its GPUs; and the curves, two rows each.

    Where a network is simulated, it says what width and placement cost the models that it knows, unless a site has
    measured them.
    """
    _check(trace)
    _check_widest(trace, cluster)
    row, concerned = np.full(len(trace), -1, np.int64), trace.elastic & (trace.model >= 0)
    if not concerned.any():
        return row, np.zeros((0, 1))
    scaling = scenario.scaling or Scaling.usual(cluster)
    most = int(max(trace.widths[1].max(), np.max(trace.gpus // GPU)))
    kinds = np.where(trace.gpu_type >= 0, trace.gpu_type, -1)
    found: dict[tuple[str, str], int] = {}
    curves: list[ScalingCurve] = []
    for model, kind in np.unique(np.stack((trace.model, kinds), axis=1)[concerned], axis=0).tolist():
        name, gpu_type = trace.models[model], trace.gpu_types[kind] if kind >= 0 else _only_type(cluster)
        if scenario.network is not None and scenario.network.knows(name) and not scaling.has_measured(name):
            continue
        curve = scaling.curve(name, gpu_type.lower())
        if curve is not None:
            found[model, kind] = len(curves)
            curves.append(curve)
    for (model, kind), index in found.items():
        row[concerned & (trace.model == model) & (kinds == kind)] = index
    tables = [curve.speeds(most) for curve in curves]
    return row, np.concatenate(tables) if tables else np.zeros((0, 1))


def instances_of(trace: Trace) -> I64:
    """What jobs say of their instances, of no size if none says anything; each begins with what its job asks for."""
    if not trace.equipped.any():
        return np.zeros((w.INSTANCE_COLUMNS, 0), np.int64)
    found = np.zeros((w.INSTANCE_COLUMNS, len(trace)), np.int64)
    (found[w.CPU_NOW], found[w.MEM_NOW]), found[w.SERVERS] = trace.each, trace.servers
    found[w.SERVERS_NOW] = trace.servers
    for least, most, each, low, high, what in (
        (trace.min_cpus, trace.max_cpus, w.CPU_NOW, w.MIN_CPU, w.MAX_CPU, "cpus"),
        (trace.min_mem_gib, trace.max_mem_gib, w.MEM_NOW, w.MIN_MEM, w.MAX_MEM, "mem_gib"),
    ):
        _refuse(
            trace,
            amounts_are_wrong(found[each], least, most),
            f"min_{what} and max_{what} must be a range that {what} over gpus is in",
        )
        given = (least > 0) | (most > 0)
        found[low] = np.where(given & (least == 0), found[each], least)
        found[high] = np.where(given & (most == 0), found[each], most)
    wrong = servers_are_wrong(trace.gpus, trace.min_gpus, trace.servers)
    _refuse(trace, wrong, "servers must leave a worker of gpus, and min_gpus must be 2 or more")
    return found


def _refuse(trace: Trace, wrong: NDArray[np.bool_], must: str) -> None:
    if wrong.any():
        raise TraceError(f"job '{trace.job_id[int(np.argmax(wrong))]}': {must}; correct one of them")


def _check(trace: Trace) -> None:
    wrong = widths_are_wrong(trace.gpus, trace.min_gpus, trace.max_gpus)
    if wrong.any():
        job = int(np.argmax(wrong))
        raise TraceError(
            f"job '{trace.job_id[job]}': min_gpus and max_gpus must be a range of whole GPUs that gpus is in, got "
            f"{trace.min_gpus[job]} .. {trace.max_gpus[job]} for {trace.gpus[job] / GPU:g} GPUs; correct one of them"
        )


def _check_widest(trace: Trace, cluster: Cluster) -> None:
    """Refuse widths far beyond the cluster that would fill the memory with speeds that no job ever has."""
    widest = int(trace.widths[1].max(initial=0))
    if widest <= cluster.gpus or widest * len(trace) <= MOST_SPEEDS:
        return
    kinds = np.unique(np.stack((trace.model, trace.gpu_type, trace.gpus, trace.servers)), axis=1).shape[1]
    if widest * kinds > MOST_SPEEDS:
        raise TraceError(
            f"job '{trace.job_id[int(np.argmax(trace.widths[1]))]}': max_gpus {widest:,} is too large a range for"
            f" {kinds:,} kinds of jobs; the cluster has {cluster.gpus:,} GPUs, so give at most as many"
        )


def _only_type(cluster: Cluster) -> str:
    """The type of all GPUs of a cluster; "": there are several, or none is named."""
    return cluster.named_types[0] if len(cluster.named_types) == 1 else ""

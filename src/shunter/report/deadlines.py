"""Deadlines: how many were met, of those that could be met alone, how late jobs were, and how often they moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.cluster import Cluster
from shunter.instances import CPU_POWER, training_by_width
from shunter.model import GPU, Trace
from shunter.report.metrics import SIZES, spread
from shunter.world import F64, I64

if TYPE_CHECKING:
    import polars as pl

Groups = dict[str, NDArray[np.bool_]]  # jobs by name


def alone_ms(trace: Trace, jobs: I64, scaling: F64, cluster: Cluster) -> F64:
    """How long each job takes alone on the cluster at its best width; a lower bound where communication costs time.

    ``jobs`` and ``scaling`` are those of the run's ``World``.
    """
    fastest = max(cluster.speeds.get(kind, 1.0) for kind in cluster.gpu_types)
    speed = np.array([_best(jobs[:, row], int(trace.servers[row]), scaling, cluster) for row in range(len(trace))])
    most, each = np.maximum(trace.max_cpus, trace.each[0]), np.maximum(trace.each[0], 1)
    speed *= np.where(trace.max_cpus > 0, (most / each) ** CPU_POWER, 1.0)
    return trace.duration / (fastest * speed)


def _best(job: I64, servers: int, scaling: F64, cluster: Cluster) -> float:
    """The speed of a job on the number of GPUs on which it is fastest."""
    if job[w.MAX_GPUS] == 0:
        return 1.0
    asked, most = int(job[w.GPUS]), min(int(job[w.MAX_GPUS]), cluster.gpus)
    widths, work = np.arange(job[w.MIN_GPUS], most + 1), training_by_width(asked, servers, max(most, asked))
    if job[w.CURVE] < 0:
        return float(work[widths].max() / work[asked])
    curves = scaling[2 * job[w.CURVE] : 2 * job[w.CURVE] + 2, work]
    speeds = np.where(widths <= cluster.node_gpus.max(), curves[0, widths], curves[1, widths])
    return float(speeds.max() / curves[0, asked])


def deadlines(trace: Trace, jobs: I64, events: I64, alone: F64) -> dict[str, Any]:
    """The part ``deadlines`` of a summary; only for traces in which a job has one."""
    with_one = trace.deadline > 0
    could = with_one & (alone <= trace.deadline)
    ended = jobs[w.STATE] == w.DONE
    late = np.where(ended, jobs[w.ENDED_AT] - jobs[w.SUBMIT] - trace.deadline, np.iinfo(np.int64).max)
    met = with_one & (late <= 0)
    bins = np.searchsorted([GPU * top for _, top in SIZES], trace.gpus)
    sizes = {name: bins == index for index, (name, _) in enumerate(SIZES)}
    users = {name: trace.user == code for code, name in enumerate(trace.users)}
    moves = int((events[:, 1] == w.MOVE).sum()) + int(jobs[w.PREEMPTIONS].sum())
    return {
        "jobs": int(with_one.sum()),
        "feasible": int(could.sum()),
        "met": int(met.sum()),
        "met_share": _share(met, could),
        "lateness_s": spread(np.maximum(late[with_one & ended], 0), 1000),
        "moves_per_job": moves / max(len(trace), 1),
        "by_size": _shares(met, could, sizes),
        "by_user": _shares(met, could, users),
        "lateness_by_size": _means(late, with_one & ended, sizes),
        "lateness_by_user": _means(late, with_one & ended, users),
    }


def _share(met: NDArray[np.bool_], could: NDArray[np.bool_]) -> float:
    """Deadlines met over those that could be met; 1 if none could."""
    return int((met & could).sum()) / int(could.sum()) if could.any() else 1.0


def _shares(met: NDArray[np.bool_], could: NDArray[np.bool_], groups: Groups) -> dict[str, float]:
    return {name: _share(met, could & group) for name, group in groups.items() if (could & group).any()}


def _means(late: I64, some: NDArray[np.bool_], groups: Groups) -> dict[str, float]:
    """How late the jobs of each group were in the mean, s; those in time count as 0."""
    return {
        name: float(np.maximum(late[some & group], 0).mean()) / 1000
        for name, group in groups.items()
        if (some & group).any()
    }


def why_columns(trace: Trace, alone: F64) -> dict[str, pl.Series]:
    """For the table of jobs, in seconds: work on the GPUs asked for, as declared, and alone at its best."""
    import polars as pl

    declared = pl.Series(trace.declarations / 1000).replace(0.0, None)
    return {"work": pl.Series(trace.duration / 1000), "declared": declared, "alone": pl.Series(alone / 1000)}

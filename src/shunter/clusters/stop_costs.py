"""The default costs of stopping and restarting a job."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from shunter.cluster import Cluster
from shunter.errors import ClusterError

OverheadLike: TypeAlias = "str | float | tuple[float, float]"

USUAL = "usual"  # as the cluster says, else as Tiresias' authors measured it
RESTART_S = 62.0  # mean cost of a stop and a restart; Gu et al., Tiresias, NSDI 2019
MOST_S = 86_400.0
FORM = "must be CHECKPOINT,RESTART in seconds, such as 60,120, or 0 (stops are free), or usual"


def text_of(overhead: OverheadLike) -> str:
    """The text of a choice, as ``--overhead`` takes it."""
    if isinstance(overhead, tuple):
        return ",".join(f"{seconds:g}" for seconds in overhead)
    return overhead if isinstance(overhead, str) else f"{overhead:g}"


def with_costs(cluster: Cluster, overhead: str) -> Cluster:
    """The cluster with these costs; ``usual`` leaves costs that the cluster has as they are, and "" any."""
    found = cluster.overheads
    if not overhead or (overhead == USUAL and (found.checkpoint or found.restart)):
        return cluster
    checkpoint, restart = (0.0, RESTART_S) if overhead == USUAL else _seconds(overhead)
    costs = dataclasses.replace(found, checkpoint=((1, checkpoint),), restart=((1, restart),))
    return dataclasses.replace(cluster, overheads=costs)


def costs_text(cluster: Cluster) -> str:
    """What a stop costs here, in words."""
    most = [max((seconds for _, seconds in steps), default=0.0) for steps in _both(cluster)]
    stepped = any(len(steps) > 1 for steps in _both(cluster))
    if not any(most):
        return "nothing"
    return f"{most[0]:g} + {most[1]:g} s{' at most' if stepped else ''}"


def free(cluster: Cluster) -> bool:
    """Whether stops cost nothing."""
    return costs_text(cluster) == "nothing"


def _both(cluster: Cluster) -> tuple[tuple[tuple[int, float], ...], ...]:
    return cluster.overheads.checkpoint, cluster.overheads.restart


def _seconds(overhead: str) -> tuple[float, float]:
    parts = ["0", "0"] if overhead.strip() == "0" else overhead.split(",")
    try:
        checkpoint, restart = (float(part) for part in parts)
    except ValueError:
        raise ClusterError(f"--overhead {overhead}: {FORM}") from None
    if not (0 <= checkpoint <= MOST_S and 0 <= restart <= MOST_S):
        raise ClusterError(f"--overhead {overhead}: {FORM}; at most a day each")
    return checkpoint, restart

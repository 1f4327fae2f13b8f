"""``auto``: a cluster of the size that a trace needs."""

from __future__ import annotations

import math

import numpy as np

from shunter.cluster import ANY_TYPE, Cluster, NodeGroup
from shunter.errors import ClusterError, did_you_mean
from shunter.model import GPU, Trace

DEFAULTS = {"load": 0.85, "gpus_per_node": 8.0}
RANGES = {"load": (0.01, 100.0), "gpus_per_node": (1.0, 1000.0)}


def sized_for(trace: Trace | None, settings: str = "") -> Cluster:
    """A cluster that the trace loads as asked and that every job fits; its name says what was chosen.

    The load is the trace's GPU time over what the cluster offers from the first to the last submission, or while the
    longest job runs where that is longer.  Virtual clusters are left out: it is one pool, or one for each GPU type
    that jobs ask for.
    """
    if trace is None or not len(trace):
        raise ClusterError("cluster 'auto' is sized for a trace, and there is none; give a size as in 64x8")
    wanted = _settings(settings)
    gpus_per_node = int(wanted["gpus_per_node"])
    span = max(int(trace.submit[-1] - trace.submit[0]), int(trace.duration.max()), 1)
    groups = []
    for gpu_type, gpu_time, largest in _pools(trace):
        for_load = round(gpu_time / (span * wanted["load"] * gpus_per_node))
        groups.append(NodeGroup(max(1, for_load, math.ceil(largest / gpus_per_node)), gpus_per_node, gpu_type))
    parts = (f"{g.count}x{g.gpus}" + (f":{g.gpu_type}" if g.gpu_type != ANY_TYPE else "") for g in groups)
    return Cluster("auto-" + "+".join(parts), tuple(groups))


def _pools(trace: Trace) -> list[tuple[str, float, float]]:
    """GPU type, GPU time (ms) and largest job of each pool; jobs that take any type are shared out by GPU time."""
    gpus = trace.gpus / GPU
    gpu_time = gpus * trace.duration
    free = trace.gpu_type < 0
    anywhere, largest_anywhere = float(gpu_time[free].sum()), float(gpus[free].max(initial=0))
    asked = [code for code in range(len(trace.gpu_types)) if (trace.gpu_type == code).any()]
    if not asked:
        return [(ANY_TYPE, anywhere, largest_anywhere)]
    own = np.array([gpu_time[trace.gpu_type == code].sum() for code in asked])
    share = own / own.sum() if own.sum() else np.full(len(asked), 1 / len(asked))
    largest = [float(gpus[trace.gpu_type == code].max()) for code in asked]
    most = int(np.argmax(own))
    largest[most] = max(largest[most], largest_anywhere)
    return [(trace.gpu_types[code], float(own[i] + anywhere * share[i]), largest[i]) for i, code in enumerate(asked)]


def _settings(text: str) -> dict[str, float]:
    """``load=0.85,gpus_per_node=8`` as numbers, checked."""
    found: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in DEFAULTS:
            raise ClusterError(f"cluster 'auto' has no setting '{key}'; {did_you_mean(key, DEFAULTS)}")
        if key in found:
            raise ClusterError(f"cluster 'auto': {key} must be given once; remove one")
        low, high = RANGES[key]
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        whole = key == "gpus_per_node"
        if not low <= number <= high or (whole and not number.is_integer()):
            kind = "a whole number" if whole else "a number"
            raise ClusterError(f"cluster 'auto': {key} must be {kind} from {low:g} to {high:g}, got '{value}'")
        found[key] = number
    return DEFAULTS | found

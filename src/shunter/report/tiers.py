"""How far jobs were spread: shares of jobs and of GPU time by tier, from the event log alone."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster
from shunter.world import I64

_RELEASES = (w.FINISH, w.FAIL, w.PREEMPT, w.MOVE)


def by_tier(events: I64, cluster: Cluster) -> dict[str, dict[str, float]]:
    """Per tier the share of jobs for which it was the widest of all their runs, and the share of GPU time in it."""
    job, tier, gpu_time = _runs(events, (np.arange(cluster.nodes), *cluster.tier_domains))
    count = len(cluster.tier_names)
    first = np.flatnonzero(np.diff(job, prepend=-1))  # runs are in order of their jobs
    widest = np.maximum.reduceat(tier, first) if len(job) else tier
    shares = [
        np.bincount(of, weights, minlength=count) / max(float(weights.sum()), 1.0)
        for of, weights in ((widest, np.ones(len(widest))), (tier, gpu_time.astype(np.float64)))
    ]
    return {
        name: {"jobs": float(shares[0][index]), "gpu_time": float(shares[1][index])}
        for index, name in enumerate(cluster.tier_names)
    }


def _runs(events: I64, domains: tuple[I64, ...]) -> tuple[I64, I64, I64]:
    """Of every run its job, the widest tier that it spans, and its GPU time in thousandths of a GPU-ms; by job."""
    rows = np.flatnonzero(np.isin(events[:, 1], (w.START, *_RELEASES)))
    rows = rows[np.argsort(events[rows, 2], kind="stable")]
    time, kind, job, node, amount = np.ascontiguousarray(events[rows].T)
    starts = np.flatnonzero(kind == w.START)
    if not len(starts):
        return starts, starts, starts
    fresh = np.ones(len(starts), np.bool_)  # START rows of one run stand side by side; after a release comes another
    fresh[1:] = (np.diff(starts) > 1) | (np.diff(job[starts]) > 0)
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(starts)) - 1
    tier = np.zeros(len(first), np.int64)
    for domain in domains:  # a run that leaves a domain leaves those within
        of = domain[np.maximum(node[starts], 0)]  # a placement that only counts GPUs names no node: -1
        tier += np.minimum.reduceat(of, first) != np.maximum.reduceat(of, first)
    after = np.minimum(starts[last] + 1, len(rows) - 1)
    over = (job[after] == job[starts[last]]) & (kind[after] != w.START)
    until = np.where(over, time[after], events[-1, 0])
    return job[starts[first]], tier, np.add.reduceat(amount[starts], first) * (until - time[starts[first]])

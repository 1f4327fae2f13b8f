"""How many GPUs there were, day by day, as far as the record shows it.

While small jobs wait and every GPU that becomes free is taken again, the GPUs in use are about those that there are;
and GPUs in use are there in any case.  The capacity of a day follows from the days before it alone, so that a replay
with it can be compared with the waits of that day.  Only the first days, which are not judged, are seen as a whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from shunter.advice.limits import kept_back
from shunter.advice.recorded_waits import (
    AT_ONCE_MS,
    DAY_MS,
    Capacity,
    Use,
    at_least,
    pools,
    use_of,
    waiting_during,
    weighted,
)
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace
from shunter.sim import Fault
from shunter.world import F64, I64

HOUR_MS = 3_600_000
FOR_EVER_MS = 3650 * DAY_MS
MEMORY = 3  # days that show a full cluster, the highest of which counts
FLAT = 0.05  # a full cluster has about the same number in use all the time: its P90 is at most this much above
TURNOVER = 5  # jobs that start on such a day while others wait
COMMON = 0.1  # of the waiting jobs ask for this few GPUs or fewer: they would start if hardly anything was free
LEARNING_DAYS = 30.0  # at most; of a short history a third


def learned_until(trace: Trace) -> int:
    """The end (ms) of the first days, which are not judged."""
    first, last = int(trace.submit[0]), int(trace.submit[-1])
    return first + round(min(LEARNING_DAYS * DAY_MS, (last - first) / 3))


def capacities(trace: Trace, cluster: Cluster, simulated: I64, cap: int = 0) -> list[Capacity]:
    """The capacity of each pool over time; ``cap`` are the GPUs that one user may hold, 0: any number.

    ``simulated`` are the waits (ms, -1: none) of a replay with the stated capacity.  There, too, jobs wait while GPUs
    are kept free for others, and as far as they do that is no sign of missing GPUs.
    """
    replay = dataclasses.replace(trace, recorded_wait=simulated)
    spare = {name: _spare(pool, size, trace, cap) for name, pool, size in pools(replay, cluster)}
    found = []
    for name, pool, size in pools(trace, cluster):
        since = _days(trace)
        use = use_of(pool).cut(since)
        full, taken = _full_levels(pool, use, since, cap), _taken_levels(use, since)
        kept_free = full + spare.get(name, 0.0)
        full = np.where(full <= size, np.minimum(kept_free, size), kept_free)  # only GPUs in use show more than stated
        least, learned = int(pool.gpus.max()) / GPU, int(np.searchsorted(since, learned_until(trace)))
        gpus = np.maximum(_by_day(full, taken, size, learned), least)  # the largest job had room
        found.append(Capacity(name, size, since, np.round(gpus).astype(np.int64)))
    return found


def _days(whole: Trace) -> I64:
    first, last = int(whole.submit[0]), int((whole.submit + np.maximum(whole.recorded_wait, 0)).max())
    found: I64 = first + DAY_MS * np.arange((last - first) // DAY_MS + 1)
    return found


def _spare(pool: Trace, size: int, whole: Trace, cap: int) -> float:
    """The GPUs that are free in a replay although small jobs wait, in the median of its days."""
    since = _days(whole)
    full = _full_levels(pool, use_of(pool).cut(since), since, cap)
    return max(0.0, size - float(np.nanmedian(full))) if np.isfinite(full).any() else 0.0


def _by_day(full: F64, taken: F64, size: int, learned: int) -> F64:
    """The GPUs of each day: what the last days show on which the cluster was full, or what was in use since then."""
    found = np.empty(len(full))
    for day in range(len(full)):
        upto = max(day, learned)
        shown = np.flatnonzero(np.isfinite(full[:upto]))[-MEMORY if day >= learned else 0 :]
        back = shown[0] if day >= learned and len(shown) else 0
        twice = np.sort(taken[back:upto])[-2:-1]  # on two days at least: a single peak may be an error of the record
        found[day] = max(max(full[shown], default=size), *twice, 0)
    return found


def _full_levels(pool: Trace, use: Use, since: I64, cap: int) -> F64:
    """The GPUs in use while the cluster was full, per day; NaN where nothing shows that it was."""
    found = np.full(len(since), np.nan)
    rows = pool.select((pool.recorded_wait > AT_ONCE_MS) & ~kept_back(pool, cap))
    if not len(rows):
        return found
    rows = rows.select(rows.gpus <= np.quantile(rows.gpus, COMMON, method="higher"))
    waiting = waiting_during(use, rows.submit + AT_ONCE_MS, rows.submit + rows.recorded_wait)
    spans = (use.spans * (waiting > 0)).astype(np.float64)
    starts = np.sort((pool.submit + pool.recorded_wait)[pool.recorded_wait >= 0])
    begun = np.diff(np.searchsorted(starts, np.append(use.time, use.time[-1]))) * (waiting > 0)
    bounds = np.searchsorted(use.time, np.append(since, since[-1] + DAY_MS))
    for day, (a, b) in enumerate(pairwise(bounds.tolist())):
        if spans[a:b].sum() >= HOUR_MS and begun[a:b].sum() >= TURNOVER:
            half, high = weighted(use.busy[a:b] / GPU, spans[a:b], (50, 90))
            found[day] = half if high <= (1 + FLAT) * half else np.nan
    return found


def _taken_levels(use: Use, since: I64) -> F64:
    """The GPUs that were in use for at least an hour, per day."""
    bounds, found = np.searchsorted(use.time, np.append(since, since[-1] + DAY_MS)), np.zeros(len(since))
    for day, (a, b) in enumerate(pairwise(bounds.tolist())):
        if a == b:  # nothing runs any more
            continue
        found[day] = at_least(Use(np.append(use.time[a:b], use.time[b : b + 1]), use.busy[a : b + 1]), HOUR_MS) / GPU
    return found


# ------------------------------------------------------------------------------------------- as nodes


def modelled(cluster: Cluster, found: Sequence[Capacity]) -> tuple[Cluster, tuple[Fault, ...]]:
    """A cluster with as many nodes as there ever were, and when some of them were away: they drain, none is killed."""
    larger = _grown(cluster, {one.vc: int(one.gpus.max()) for one in found})
    return larger, tuple(fault for one in found for fault in _away(larger, one))


def with_room_for_all(cluster: Cluster, trace: Trace) -> Cluster:
    """The cluster, with more nodes where the record has a job that ran on more GPUs than there are."""
    return _grown(cluster, {name: -(int(pool.gpus.max()) // -GPU) for name, pool, _ in pools(trace, cluster)})


def _grown(cluster: Cluster, gpus: Mapping[str, int]) -> Cluster:
    """A cluster with at least this many GPUs in each pool: nodes are added that are like most of its own."""
    groups = [*cluster.groups]
    for vc, wanted in gpus.items():
        own = [group for group in cluster.groups if group.vc == vc or not vc]
        usual = max(own, key=lambda group: group.count)
        missing = wanted - sum(group.count * group.gpus for group in own)
        if missing > 0:
            more = -(missing // -usual.gpus)
            groups.append(NodeGroup(more, usual.gpus, usual.gpu_type, usual.cpus, usual.mem_gib, usual.vc))
    return dataclasses.replace(cluster, groups=tuple(groups))


def _away(cluster: Cluster, one: Capacity) -> list[Fault]:
    nodes = np.arange(cluster.nodes)
    if one.vc:
        nodes = nodes[cluster.node_vc == cluster.vcs.index(one.vc)]
    place = np.concatenate([np.arange(group.count) / group.count for group in cluster.groups])
    nodes = nodes[np.argsort(place[nodes], kind="stable")]  # some of every group stay
    upto = np.cumsum(cluster.node_gpus[nodes])
    kept = np.abs(upto[None, :] - one.gpus[:, None]).argmin(axis=1) + 1
    faults = []
    for at, node in enumerate(nodes.tolist()):
        away = np.concatenate(([False], kept <= at, [False]))
        edges = np.flatnonzero(away[1:] != away[:-1])
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            back = int(one.since[end]) if end < len(one.since) else int(one.since[-1]) + FOR_EVER_MS
            faults.append(Fault(int(one.since[begin]), node, back, drains=True))
    return faults

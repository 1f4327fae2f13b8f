"""Jobs that waited for reasons of their own: a dependency, a begin time, a hold.

The record shows it: jobs that came later and asked for as much or more began at once, and GPUs for the first were
still free after that.  Until the last of these moments it was not the queue that the job waited for.  Jobs without a
limit are left out: one that was expected to be shorter may pass by backfilling, and the record does not show that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shunter.advice.recorded_waits import AT_ONCE_MS, Capacity, pools, use_of
from shunter.cluster import Cluster
from shunter.model import GPU, Trace
from shunter.world import I64

LONG_MS = 600_000  # shorter waits are not looked at
ROOM = 0.9  # of the capacity, which is known only roughly


def held_until(trace: Trace, cluster: Cluster, capacity: Sequence[Capacity], limited: NDArray[np.bool_]) -> I64:
    """The time (ms) up to which each job waited for reasons of its own; its submission where none show.

    ``limited`` are the jobs that a limit on their user kept back.
    """
    found = trace.submit.copy()
    by_day = {one.vc: one for one in capacity}
    for name, pool, _ in pools(trace, cluster):
        use, start = use_of(pool), pool.submit + pool.recorded_wait
        room = (ROOM * GPU * by_day[name].at(start)).astype(np.int64) - use.at(start)
        passers = np.flatnonzero((pool.recorded_wait < AT_ONCE_MS) & (room >= pool.gpus.min()))
        long = np.flatnonzero((pool.recorded_wait >= LONG_MS) & (pool.limit > 0))
        rows = np.flatnonzero(trace.recorded_wait >= 0)
        rows = rows if not name else rows[trace.vc[rows] == trace.vcs.index(name)]
        first = np.searchsorted(pool.submit[passers], pool.submit[long] + AT_ONCE_MS, side="right")
        last = np.searchsorted(pool.submit[passers], start[long])
        for job, a, b in zip(long.tolist(), first.tolist(), last.tolist(), strict=True):
            if a < b and not limited[rows[job]]:
                found[rows[job]] = _last_pass(pool, start, room, job, passers[a:b])
    return found


def _last_pass(pool: Trace, start: I64, room: I64, job: int, passers: I64) -> int:
    """When a job that asked for as much as ``job`` or more last began before it with room for both."""
    more = (pool.gpus[passers] >= pool.gpus[job]) & (pool.limit[passers] >= pool.limit[job])
    same = pool.gpu_type[passers] == pool.gpu_type[job]
    mine = passers[more & same & (room[passers] >= pool.gpus[job]) & (start[passers] < start[job])]
    return int(start[mine].max()) if len(mine) else int(pool.submit[job])

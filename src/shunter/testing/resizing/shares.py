"""Minimal shares in plain Python: the fewest GPUs over time with which each job meets its deadline.

Time ahead is cut into slots that grow with their distance. Jobs are taken by deadline. Each gets the lowest level of
GPUs that finishes it in time, where a slot has fewer left than the level, what is left; so the plan of an admitted job
never takes what an earlier one needs (ElasticFlow, ASPLOS'23).
"""

from __future__ import annotations

from shunter.world import F64, I64

NOT_ADMITTED = -1


def admit_all(  # noqa: PLR0913, PLR0917 one array per thing known of jobs
    order: I64,
    edges: F64,
    free: I64,
    due: F64,
    left: F64,
    least: I64,
    most: I64,
    width: I64,
    cost: F64,
    speed: F64,
    share: I64,
) -> None:
    """Fill in the ``share`` of each job in ``order`` at present: GPUs, 0: its plan begins later; or NOT_ADMITTED.

    ``edges`` are the ends of the slots, ms from now; ``free`` GPUs of each, which admitted jobs take from; ``due`` is
    counted from now too.
    """
    for place in range(len(order)):
        job = order[place]
        share[job] = NOT_ADMITTED
        level = least[job]
        while level <= most[job]:
            ends = slots_needed(level, job, edges, free, due[job], left, least, width, cost, speed)
            if ends > 0:
                share[job] = taken(level, least[job], free[0])
                for slot in range(ends):
                    free[slot] -= taken(level, least[job], free[slot])
                break
            level += 1


def taken(level: int, least: int, free: int) -> int:
    """GPUs of a slot that a job gets at a level; too few are none."""
    gpus = min(level, free)
    return gpus if gpus >= least else 0


def slots_needed(  # noqa: PLR0913, PLR0917
    level: int,
    job: int,
    edges: F64,
    free: I64,
    due: float,
    left: F64,
    least: I64,
    width: I64,
    cost: F64,
    speed: F64,
) -> int:
    """After how many slots the work of a job is done at a level; 0: not by its deadline.

    The job pays its cost at every change of width, except for its first start.
    """
    begin, done, before = 0.0, 0.0, width[job]
    for slot in range(len(edges)):
        end = min(edges[slot], due)
        gpus = taken(level, least[job], free[slot])
        span = end - begin
        if gpus != before and before > 0 and gpus > 0:
            span -= cost[job]
        if gpus > 0:
            before = gpus
            done += max(span, 0.0) * speed[job, gpus]
        if done >= left[job]:
            return slot + 1
        if end >= due:
            return 0
        begin = end
    return 0

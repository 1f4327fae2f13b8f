"""The numbers of a run, as ``summary.json`` has them: pure functions of the final job table and the event log.

JCT is end - submit; run is the time on GPUs; wait is the time in the queue and that on GPUs which did nothing for the
job in the end.  The bounded slowdown is max(1, (time in the queue + run) / max(run, 10 s)).  Only finished jobs enter
these three.  Means are exact: integer sums, divided once.  Percentiles interpolate linearly between the two nearest
jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shunter import world as w
from shunter.model import GPU, Trace
from shunter.report.finish_fairness import finish_time_fairness, share_of_fair
from shunter.report.replay import Replay
from shunter.world import F64, I64

BOUND_MS = 10_000  # runs shorter than this count as this long in the bounded slowdown
HOUR_MS = 3_600_000
SIZES = (("1", 1), ("2-4", 4), ("5-8", 8), ("9-16", 16), ("17-32", 32), ("33+", 10**9))  # name, up to this many GPUs
_PERCENTILES = (50, 90, 95, 99)


def summary(trace: Trace, jobs: I64, replay: Replay, gpus: int, communication: F64 | None = None) -> dict[str, Any]:
    """The numbers of one run that follow from its final job table and its replay, on a cluster of this many GPUs.

    ``communication`` is the exposed communication of each job (ms), where there is a network that costs time.
    """
    finished = np.flatnonzero(jobs[w.STATE] == w.DONE)
    ended = (jobs[w.STATE] == w.DONE) | (jobs[w.STATE] == w.FAILED)
    makespan = int(jobs[w.ENDED_AT, ended].max() - jobs[w.SUBMIT].min()) if ended.any() else 0
    busy = replay.busy_gpu_ms()
    jct, wait = jct_ms(jobs)[finished], wait_ms(jobs)[finished]
    bsld = bounded_slowdown(jobs)[finished]
    rho = finish_time_fairness(trace, jobs, gpus)[finished]
    recorded = trace.recorded_wait[trace.recorded_wait >= 0]
    return {
        "jobs": len(trace),
        "finished": len(finished),
        "jct_s": spread(jct, 1000),
        "wait_s": spread(wait, 1000),
        "recorded_wait_s": spread(recorded, 1000) if len(recorded) else None,
        "bsld": spread(bsld),
        "rho": spread(rho),
        "communication_s": None if communication is None else spread(communication[finished], 1000),
        "makespan_s": makespan / 1000,
        "utilization": busy / (GPU * gpus * makespan) if makespan else 0.0,
        "fragmentation": replay.mean_fragmentation(),
        "preemptions": int(jobs[w.PREEMPTIONS].sum()),
        "lost_gpu_hours": int(jobs[w.LOST].sum()) / HOUR_MS,
        "gpu_hours": busy / (GPU * HOUR_MS),
        "by_size": _by_size(trace.gpus[finished], jct, wait, bsld),
        "by_vc": _by_name(trace.vcs, trace.vc[finished], jct, wait, bsld),
        "fairness": {**fairness(bsld, trace.user[finished], trace.users), "rho_at_most_1": share_of_fair(rho)},
    }


def jct_ms(jobs: I64) -> I64:
    """Completion time of each job, submission to end; meaningless for a job that has not ended."""
    jct: I64 = jobs[w.ENDED_AT] - jobs[w.SUBMIT]
    return jct


def lost_ms(jobs: I64) -> I64:
    """Time on GPUs that did nothing for each job: checkpoints, restarts, work done again; on the GPUs it asked for."""
    lost: I64 = jobs[w.LOST] * GPU // np.maximum(jobs[w.GPUS] * jobs[w.SHARE], 1)
    return lost


def wait_ms(jobs: I64) -> I64:
    """How much later each job ended than if it had run at once and never been stopped."""
    wait: I64 = jobs[w.WAITED] + lost_ms(jobs)
    return wait


def bounded_slowdown(jobs: I64) -> F64:
    """Bounded slowdown of each job."""
    run = jobs[w.EXECUTED]
    slowdown: F64 = np.maximum(1.0, (jobs[w.WAITED] + run) / np.maximum(run, BOUND_MS))
    return slowdown


def spread(values: I64 | F64, unit: int = 1) -> dict[str, float]:
    """Mean, percentiles and maximum in units of ``unit``; all 0 if there is nothing to look at."""
    if not len(values):
        return dict.fromkeys(("mean", *(f"p{p}" for p in _PERCENTILES), "max"), 0.0)
    ordered: Any = np.sort(values)
    found = {"mean": _mean(values) / unit}
    for percent in _PERCENTILES:
        found[f"p{percent}"] = percentile(ordered, percent) / unit
    return found | {"max": float(ordered[-1]) / unit}


def percentile(ordered: I64 | F64, percent: int) -> float:
    """Exactly what ``np.percentile`` gives for values that are in order and numbers, in a tenth of its time."""
    place = (len(ordered) - 1) * (percent / 100)
    below = int(place)
    low, high, share = ordered.item(below), ordered.item(min(below + 1, len(ordered) - 1)), place - below
    return float(low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share))


def fairness(bsld: F64, user: I64, users: Sequence[str]) -> dict[str, Any]:
    """Jain's index over the users' mean bounded slowdowns (over the jobs' where no user is named); 1: all equal."""
    named = user >= 0
    if named.any():
        sums = np.bincount(user[named], bsld[named], minlength=len(users))
        counts = np.bincount(user[named], minlength=len(users))
        shares, over = sums[counts > 0] / counts[counts > 0], "users"
    else:
        shares, over = bsld, "jobs"
    if not len(shares):
        return {"jain": 1.0, "over": over, "count": 0, "worst_bsld": 0.0}
    jain = float(shares.sum() ** 2 / (len(shares) * (shares**2).sum()))
    return {"jain": jain, "over": over, "count": len(shares), "worst_bsld": float(shares.max())}


def _mean(values: I64 | F64) -> float:
    return (int(values.sum()) if values.dtype == np.int64 else float(values.sum())) / len(values)


def _group(jct: I64, wait: I64, bsld: F64) -> dict[str, Any]:
    return {"jobs": len(jct), "jct_s": spread(jct, 1000), "wait_s": spread(wait, 1000), "bsld": spread(bsld)}


def _by_size(milli_gpus: I64, jct: I64, wait: I64, bsld: F64) -> dict[str, Any]:
    bins = np.searchsorted([GPU * top for _, top in SIZES], milli_gpus)
    return {name: _group(jct[bins == i], wait[bins == i], bsld[bins == i]) for i, (name, _) in enumerate(SIZES)}


def _by_name(names: Sequence[str], code: I64, jct: I64, wait: I64, bsld: F64) -> dict[str, Any]:
    """One group per virtual cluster that has finished jobs, from one sort: there may be hundreds."""
    order = np.argsort(code, kind="stable")
    edges = np.searchsorted(code[order], np.arange(len(names) + 1))
    rows = {name: order[edges[i] : edges[i + 1]] for i, name in enumerate(names)}
    return {name: _group(jct[at], wait[at], bsld[at]) for name, at in rows.items() if len(at)}

"""Gains and costs of a policy against the present one, job by job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter.advice.paired import paired, slowdown
from shunter.model import GPU, Trace
from shunter.report.metrics import SIZES, spread
from shunter.world import F64

MOST_ACCOUNTS = 6
LONGER_S = 600.0  # a job that waits this much longer has lost something


def effects(trace: Trace, before: F64, after: F64, goal: str = "wait", seed: int = 0) -> dict[str, Any]:
    """Waits (s) of all jobs under the present policy and another: in all, by size, by user; and which groups lose."""
    return {
        "wait_s": spread(after),
        "slowdown": float(slowdown(trace, after).mean()),
        "user_wait_s": float(_by_user(trace, after).mean()),
        "mean_change": change(before.mean(), after.mean()),
        "goal": paired(trace, before, after, goal, seed),
        "by_size": [_group(name, before, after, mine) for name, mine in sizes(trace)],
        "by_group": [_group(name, before, after, mine) for name, mine in groups(trace)],
        "losers": losers(trace, before, after),
    }


def change(before: float, after: float) -> float | None:
    """The relative change; None where there was nothing."""
    return float(after / before - 1) if before > 0 else None


def _by_user(trace: Trace, wait: F64) -> F64:
    """The mean wait of each user with jobs; jobs without a user count as one user's."""
    counts = np.bincount(trace.user + 1)
    found: F64 = (np.bincount(trace.user + 1, wait) / np.maximum(counts, 1))[counts > 0]
    return found


def _group(name: str, before: F64, after: F64, mine: NDArray[np.bool_]) -> dict[str, Any]:
    return {
        "name": name,
        "jobs": int(mine.sum()),
        "before": spread(before[mine]),
        "after": spread(after[mine]),
        "change": change(float(before[mine].mean()), float(after[mine].mean())),
    }


def sizes(trace: Trace) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    """The jobs of each size, by GPUs."""
    group = np.searchsorted([GPU * top for _, top in SIZES], trace.gpus)
    return [(name, group == at) for at, (name, _) in enumerate(SIZES) if (group == at).any()]


def groups(trace: Trace) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    """The jobs of the accounts that used most and of all others; of heavy and light users where none are named."""
    service = trace.gpus * trace.duration.astype(np.float64)
    if len(np.unique(trace.account[trace.account >= 0])) > 1:
        used = np.bincount(trace.account + 1, service, minlength=len(trace.accounts) + 1)[1:]
        top = np.argsort(-used, kind="stable")[:MOST_ACCOUNTS].tolist()
        found = [(f"account {trace.accounts[code]}", trace.account == code) for code in top]
        found.append(("other accounts", ~np.isin(trace.account, top)))
    else:
        used = np.bincount(trace.user + 1, service, minlength=len(trace.users) + 1)
        order = np.argsort(-used, kind="stable")
        upto = int(np.searchsorted(np.cumsum(used[order]), 0.5 * used.sum())) + 1
        heavy = np.isin(trace.user + 1, order[:upto])
        found = [(f"the {upto} heaviest users (half of GPU time)", heavy), ("all other users", ~heavy)]
    return [(name, mine) for name, mine in found if mine.any()]


def losers(trace: Trace, before: F64, after: F64) -> dict[str, Any]:
    """The groups that wait longer than now, and by how much."""
    longer = after - before > LONGER_S
    counts = np.bincount(trace.user + 1)
    more = _by_user(trace, after) - _by_user(trace, before)
    worst = int(np.argmax(more))
    code = int(np.flatnonzero(counts)[worst])
    name = ("no user named", *trace.users)[code]
    return {
        "jobs": float(longer.mean()),
        "users": float((more > 0).mean()),
        "worst_user": {"name": name, "jobs": int(counts[code]), "mean_s": float(more[worst])},
        "longest_s": float((after - before).max()),
    }

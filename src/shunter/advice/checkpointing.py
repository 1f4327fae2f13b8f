"""The value of checkpoints: how much shorter waits get if more jobs can be stopped, and whose jobs should be first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from shunter.advice.advising import HistoryWindow
from shunter.advice.candidates import LEARNED
from shunter.advice.effects import change, sizes
from shunter.advice.paired import paired
from shunter.model import Trace
from shunter.report.metrics import spread, wait_ms
from shunter.setup import Setup
from shunter.simulation import run
from shunter.traces.checkpointable import BY_USER, with_checkpointable
from shunter.world import F64

BEFORE = f"saf:estimate={LEARNED},backfill=easy"  # the same order without stops
POLICY = f"srsf:estimate={LEARNED},backfill=easy"
SHARES = ("10%", "25%", "50%", "100%")
COSTS = ("30,30", "120,120")
SHOWN = "25%"  # the share for which waits are shown by group
LARGE = 0.05  # the largest jobs, by GPU time
MOST_USERS = 5  # that are tried alone

Progress: TypeAlias = Callable[[int, int], None]


def value(found: HistoryWindow, goal: str, seed: int, progress: Progress | None = None) -> dict[str, Any]:
    """What stopping jobs would change on some days, at several shares and costs, by group, and user by user."""
    users = heaviest(found.counted)
    plans = [(share, costs) for costs in COSTS for share in SHARES]
    plans += [(f"{BY_USER}{name}", COSTS[0]) for name in users]
    before, waits = _waits(found, BEFORE, "none", COSTS[0], seed), dict[tuple[str, str], F64]()
    for done, plan in enumerate(plans, 1):
        waits[plan] = _waits(found, POLICY, *plan, seed)
        if progress is not None:
            progress(done, len(plans))
    trace = found.counted
    rows = [
        {"share": share, "costs": costs, "wait_s": spread(waits[share, costs])}
        | {"goal": paired(trace, before, waits[share, costs], goal, seed)}
        for costs in COSTS
        for share in SHARES
    ]
    alone = [_user(trace, name, before, waits[f"{BY_USER}{name}", COSTS[0]]) for name in users]
    return {
        "policy": POLICY,
        "before": {"policy": BEFORE, "wait_s": spread(before)},
        "shares": rows,
        "groups": _groups(found, before, waits[SHOWN, COSTS[0]]),
        "users": sorted(alone, key=lambda row: row["mean_s"]),
    }


def heaviest(trace: Trace) -> list[str]:
    """The users with the most GPU time in large jobs; none where no users are named."""
    area = trace.gpus * trace.duration.astype(np.float64)
    large = (area >= np.quantile(area, 1 - LARGE)) & (trace.user >= 0)
    used = np.bincount(trace.user[large], area[large], minlength=len(trace.users))
    order = np.argsort(-used, kind="stable")[:MOST_USERS].tolist()
    return [trace.users[code] for code in order if used[code] > 0 and "," not in trace.users[code]]


def _waits(found: HistoryWindow, policy: str, which: str, costs: str, seed: int) -> F64:
    """The waits (s) of the jobs that count, if these may be stopped at these costs."""
    table = run(_stoppable(found.setup, which, costs), policy, seed).table
    waits: F64 = wait_ms(table)[found.rows] / 1000
    return waits


def _stoppable(setup: Setup, which: str, costs: str) -> Setup:
    return dataclasses.replace(
        setup.with_overhead(costs), trace=with_checkpointable(setup.trace, which), checkpointable=which
    )


def _groups(found: HistoryWindow, before: F64, after: F64) -> list[dict[str, Any]]:
    """Mean waits of the jobs that may be stopped, of the others, and by size."""
    trace = found.counted
    may = with_checkpointable(found.setup.trace, SHOWN).checkpointable[found.rows] > 0
    parts = [("jobs that may be stopped", may), ("all other jobs", ~may)]
    parts += [(f"{name} GPU{'' if name == '1' else 's'}", mine) for name, mine in sizes(trace)]
    return [
        {
            "name": name,
            "jobs": int(mine.sum()),
            "before_s": float(before[mine].mean()),
            "after_s": float(after[mine].mean()),
            "change": change(float(before[mine].mean()), float(after[mine].mean())),
        }
        for name, mine in parts
        if mine.any()
    ]


def _user(trace: Trace, name: str, before: F64, after: F64) -> dict[str, Any]:
    """What it changes for all, and for the user, if only this user's jobs may be stopped."""
    mine = trace.user == trace.users.index(name)
    own = {"before_s": float(before[mine].mean()), "after_s": float(after[mine].mean())}
    mean = float(after.mean())
    return {"name": name, "jobs": int(mine.sum()), "mean_s": mean, "change": change(float(before.mean()), mean)} | own


def sentences(record: Mapping[str, Any]) -> Sequence[str]:
    """What it comes to, in words."""
    cheap = {row["share"]: row["goal"]["change"] for row in record["shares"] if row["costs"] == COSTS[0]}
    said = [f"{share} of the jobs: {100 * gain:+.0f} %" for share, gain in cheap.items() if gain is not None]
    found = [f"The goal changes, at 30 + 30 s a stop, with {', '.join(said)}."] if said else []
    gains = [row for row in record["users"] if row["change"] is not None and row["change"] < 0]
    if gains:
        first = gains[0]
        found.append(
            f"Checkpoints are worth most in the jobs of {first['name']}: if only these may be stopped, the mean wait of"
            f" all jobs changes by {100 * first['change']:+.0f} %."
        )
    return found

"""Which jobs of a trace may be stopped: as the trace says, or as chosen for all, none, some users, or a share."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError, did_you_mean
from shunter.model import Trace
from shunter.seeding import rng
from shunter.world import I64

FORM = "must be all, none, a share such as 25% (25%,seed=3 draws others), or user:NAME,NAME"
BY_USER = "user:"
SEED = "seed="


def with_checkpointable(trace: Trace, choice: str, repeat: int = 0) -> Trace:
    """The trace in which the chosen jobs are checkpointable; "": as it is. Each ``repeat`` draws others of a share."""
    if not choice:
        return trace
    return dataclasses.replace(trace, checkpointable=_chosen(trace, choice, repeat).astype(np.int64))


def remark_on(trace: Trace, choice: str) -> str:
    """How many jobs the choice makes checkpointable, in words; "": there is none."""
    if not choice or not len(trace):
        return ""
    jobs, gpu_time = trace.checkpointable > 0, trace.gpus * trace.duration
    share = float(gpu_time[jobs].sum() / max(int(gpu_time.sum()), 1))
    if not jobs.any():
        return f"no job may be stopped (--checkpointable {choice})"
    return f"checkpointable ({choice}): {100 * jobs.mean():.1f} % of the jobs with {100 * share:.1f} % of the GPU time"


def _chosen(trace: Trace, choice: str, repeat: int) -> NDArray[np.bool_]:
    if choice in ("all", "none"):
        return np.full(len(trace), choice == "all")
    if choice.startswith(BY_USER):
        return _of_users(trace, choice)
    share, seed = _share(choice)
    return _drawn(trace, share, seed + repeat)


def _of_users(trace: Trace, choice: str) -> NDArray[np.bool_]:
    names = [name.strip() for name in choice.removeprefix(BY_USER).split(",")]
    for name in names:
        if name not in trace.users:
            raise TraceError(
                f"checkpointable '{choice}': trace '{trace.name}' has no user '{name}'; "
                f"{did_you_mean(name, trace.users[:1000])}"
            )
    return np.isin(trace.user, [trace.users.index(name) for name in names])


def _share(choice: str) -> tuple[float, int]:
    """The share and the seed in a text like ``25%`` or ``25%,seed=3``."""
    text, _, more = choice.partition(",")
    try:
        seed = int(more.removeprefix(SEED)) if more else 0
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else -1.0
    except ValueError:
        share, seed = -1.0, 0
    if not 0 <= share <= 1 or seed < 0 or (more and not more.startswith(SEED)):
        raise TraceError(f"checkpointable '{choice}': {FORM}")
    return share, seed


def _drawn(trace: Trace, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw users, in an order by chance, each if that brings the share of jobs closer to the wanted one.

    The order depends on names and seed alone, so that parts of a trace have the same users. Jobs without a user are
    drawn one by one.
    """
    wanted, chosen = share * len(trace), np.zeros(len(trace), np.bool_)
    named = trace.user >= 0
    counts = np.bincount(trace.user[named], minlength=len(trace.users))
    taken = 0
    for user in sorted(np.flatnonzero(counts).tolist(), key=lambda user: _place(trace.users[user], seed)):
        if abs(taken + counts[user] - share * named.sum()) < abs(taken - share * named.sum()):
            chosen |= trace.user == user
            taken += int(counts[user])
    alone: I64 = np.flatnonzero(~named)
    more = min(max(round(wanted - taken), 0), len(alone))
    chosen[rng(seed, "checkpointable").permutation(alone)[:more]] = True
    return chosen


def _place(user: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{user}".encode(), digest_size=8).digest()

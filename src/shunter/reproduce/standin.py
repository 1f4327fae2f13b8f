"""A made-up trace in virtual clusters, where public ones are missing; what is read off it is not to be compared."""

from __future__ import annotations

import dataclasses

import numpy as np

from shunter.model import Trace
from shunter.reproduce.venus import NODE_GPUS, assigned
from shunter.seeding import rng
from shunter.traces.synthetic import synthetic

NODES = {"a": 6, "b": 3, "c": 1}
JOBS, LOAD, PAST = 3000, 0.8, 0.5


def stand_in(seed: int, users: bool = False) -> Trace:
    """Jobs for ten nodes with 8 GPUs; those with users have requested times and waits, too."""
    made = assigned(synthetic(JOBS, seed, NODE_GPUS * sum(NODES.values()), LOAD), NODES, seed)
    if not users:
        return dataclasses.replace(made, user=np.full(len(made), -1), users=())
    return dataclasses.replace(with_loose_limits(made, seed), recorded_wait=made.duration // 2)


def with_loose_limits(trace: Trace, seed: int) -> Trace:
    """The same jobs with requested times up to twenty times their run times."""
    loose = np.rint(trace.duration * rng(seed, "requested").uniform(1, 20, len(trace))).astype(np.int64)
    return dataclasses.replace(trace, limit=loose)


def begin_of(trace: Trace) -> str:
    """When the window begins: half of the jobs are before it."""
    return f"{trace.submit[int(PAST * len(trace))] / 1000:.0f}"

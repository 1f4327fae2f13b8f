"""Runs to make reports of."""

from __future__ import annotations

import numpy as np
import pytest

import shunter
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.experiment import Experiment
from shunter.model import GPU, Trace
from shunter.simulation import Result

POLICIES = ("fifo", "las", "sjf:estimate=oracle")


@pytest.fixture(scope="session")
def kept():
    """Three policies on the same jobs, with the reasons why jobs waited."""
    trace = "synthetic:jobs=300,seed=1,gpus=16,load=1.3"
    return [shunter.simulate(trace, "4x4", policy, decisions=True).kept for policy in POLICIES]


@pytest.fixture(scope="session")
def large():
    """1,000 nodes and 100,000 jobs: each node runs its jobs one after the other, with short breaks."""
    nodes, jobs = 1000, 100_000
    draw = np.random.default_rng(0)
    node, gpus = np.arange(jobs) % nodes, draw.choice([1, 2, 4, 8], jobs)
    run = (draw.lognormal(6.5, 1.0, jobs) * 1000).astype(np.int64) + 1000
    breaks = draw.integers(0, 60_000, jobs)
    end = np.cumsum((run + breaks).reshape(-1, nodes), axis=0).ravel()
    start = end - run
    submit = np.maximum(start - draw.integers(0, 3_600_000, jobs), 0)
    order = np.argsort(submit, kind="stable")
    submit, start, end, run, gpus, node = (column[order] for column in (submit, start, end, run, gpus, node))
    job, none = np.arange(jobs), np.zeros(jobs, np.int64)
    rows = [(submit, w.ARRIVE, none, none), (start, w.START, node, gpus * GPU), (end, w.FINISH, none, none)]
    events = np.concatenate([np.stack([t, np.full(jobs, kind), job, a, b], axis=1) for t, kind, a, b in rows])
    events = events[np.argsort(events[:, 0], kind="stable")]
    table = np.zeros((w.JOB_COLUMNS, jobs), np.int64)
    table[w.STATE], table[w.SUBMIT], table[w.STARTED], table[w.ENDED_AT] = w.DONE, submit, start, end
    table[w.WAITED], table[w.EXECUTED] = start - submit, run
    user = draw.integers(0, 500, jobs)
    trace = Trace.of(
        "large", [f"application_1506638472019_{number + 14199}" for number in range(jobs)], submit=submit, duration=run,
        gpus=gpus * GPU, user=user, users=tuple(f"user{number}" for number in range(500)),
    )  # fmt: skip
    about = {"policy": "made-up", "oracle": False, "estimate": "none", "seed": 0}
    cluster = Cluster("1000x8", (NodeGroup(nodes, 8),))
    return Result(Experiment("made-up"), about, trace, cluster, table, events, "0" * 16, 1.0).kept

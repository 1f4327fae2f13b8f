"""Jobs that can never run are found before anything runs."""

from __future__ import annotations

import numpy as np
import pytest

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.sim.feasibility import _classes, check_fit, unfit

PLAIN = Cluster("plain", (NodeGroup(2, 8), NodeGroup(1, 4)))
PARTED = Cluster("parted", (NodeGroup(1, 8, "v100", vc="a"), NodeGroup(1, 4, "p100", vc="b")))
BOUND = Cluster("bound", (NodeGroup(2, 8, cpus=32, mem_gib=64),))


def one_job(gpus, **about):
    columns = {key: [value] for key, value in about.items() if not isinstance(value, str)}
    names = {key + "s": (value,) for key, value in about.items() if isinstance(value, str)}
    codes = {key: [0] for key, value in about.items() if isinstance(value, str)}
    gpus = np.array([round(gpus * GPU)])
    return Trace.of("t", ["j"], submit=[0], duration=[1], gpus=gpus, **columns, **codes, **names)


@pytest.mark.parametrize(
    ("cluster", "job", "placement", "fits"),
    [
        (PLAIN, {"gpus": 20}, "consolidate", True),
        (PLAIN, {"gpus": 21}, "count", False),
        (PLAIN, {"gpus": 0.5}, "consolidate", True),
        (PARTED, {"gpus": 8, "vc": "a"}, "count", True),
        (PARTED, {"gpus": 5, "vc": "b"}, "count", False),
        (PARTED, {"gpus": 1, "vc": "c"}, "count", False),
        (PARTED, {"gpus": 1}, "count", False),
        (PARTED, {"gpus": 4, "vc": "b", "gpu_type": "v100"}, "count", False),
        (PLAIN, {"gpus": 1, "gpu_type": "v100"}, "count", True),
        (PLAIN, {"gpus": 1, "vc": "a"}, "count", True),
        (BOUND, {"gpus": 4, "cpus": 32_000}, "consolidate", True),
        (BOUND, {"gpus": 1, "cpus": 33_000}, "consolidate", False),
        (BOUND, {"gpus": 8, "mem_gib": 128 * 1024}, "spread", True),
        (BOUND, {"gpus": 8, "mem_gib": 128 * 1024}, "consolidate", False),
        (BOUND, {"gpus": 8, "mem_gib": 129 * 1024}, "spread", False),
    ],
)
def test_what_fits(cluster, job, placement, fits):
    policy = registry.policy(f"fifo:placement={placement}")
    assert unfit(one_job(**job), cluster, policy).tolist() == [not fits]


def test_the_refusal_names_job_cluster_and_remedy():
    with pytest.raises(TraceError, match=r"job 'j' \(21 GPUs\).*'plain' of 20 GPUs \(1 of 1 jobs.*--drop-unfit"):
        check_fit(one_job(21), PLAIN, registry.policy("fifo"))


def test_kinds_of_demand_are_those_of_whole_rows():
    rows = np.random.default_rng(0).integers(-2, 2, (500, 5)) * 10**9
    first, member = _classes(rows)
    assert (rows[first][member] == rows).all()
    assert len(first) == len(np.unique(rows, axis=0))
    assert [len(part) for part in _classes(rows[:0])] == [0, 0]

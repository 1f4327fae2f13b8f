"""How far jobs were spread, on logs small enough to work out by hand, and against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

import shunter
from shunter import clusters
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Tier
from shunter.report.tiers import by_tier

RACKS = Cluster("racks", (NodeGroup(6, 4, racks=(2, 3, 1)),))
PODS = Cluster(
    "pods", (NodeGroup(8, 2, racks=(1,) * 8),),
    tiers=(Tier("box", 9, 1), Tier("rack", 9, 1), Tier("pod", 9, 1, joins=2), Tier("site", 9, 1)),
)  # fmt: skip


def shares(cluster, *events):
    rows = [(time, kind, job, node, gpus * 1000) for time, kind, job, node, gpus in events]
    found = by_tier(np.array(rows, np.int64).reshape(-1, 5), cluster)
    return {name: pytest.approx((tier["jobs"], tier["gpu_time"])) for name, tier in found.items()}


def test_jobs_count_once_by_their_widest_run_and_gpu_time_by_each_run():
    found = shares(
        RACKS,
        (0, w.START, 0, 0, 4), (0, w.START, 0, 1, 4),  # a rack, 10 ms of 8 GPUs
        (0, w.START, 1, 2, 1),  # a machine to the end, 40 ms of 1 GPU
        (10, w.MOVE, 0, 8, 8), (10, w.START, 0, 1, 4), (10, w.START, 0, 2, 4),  # two racks, 10 ms
        (20, w.PREEMPT, 0, 0, 0), (30, w.START, 0, 5, 4), (40, w.FINISH, 0, 0, 0),  # a machine, 10 ms of 4 GPUs
    )  # fmt: skip
    assert found == {"machine": (0.5, 80 / 240), "rack": (0, 80 / 240), "network": (0.5, 80 / 240)}


def test_two_runs_in_one_instant_are_two():
    log = [(5, w.START, 0, 0, 2), (5, w.PREEMPT, 0, 0, 0), (5, w.START, 0, 5, 2), (9, w.FINISH, 0, 0, 0)]
    assert shares(RACKS, *log)["machine"] == (1, 1)


def test_tiers_have_the_names_of_the_cluster():
    log = [(0, w.START, job, node, 1) for job, nodes in enumerate([(0,), (0, 1), (1, 2)]) for node in nodes]
    assert shares(PODS, *log, (1, w.FINISH, 0, 0, 0)) == {
        "box": (1 / 3, 0.2), "rack": (0, 0), "pod": (1 / 3, 0.4), "site": (1 / 3, 0.4),
    }  # fmt: skip


def test_without_racks_or_without_runs():
    assert list(by_tier(np.zeros((0, 5), np.int64), Cluster("flat", (NodeGroup(3, 8),)))) == ["machine", "rack"]
    assert shares(RACKS, (0, w.ARRIVE, 0, 0, 0)) == {"machine": (0, 0), "rack": (0, 0), "network": (0, 0)}


@pytest.mark.parametrize("policy", ["fifo:placement=spread", "las", "fifo:placement=count"])
def test_a_whole_run_against_a_plain_loop(policy):
    cluster = clusters.load("dally-2rack")
    result = shunter.simulate("synthetic:jobs=150,gpus=128,load=1.3", cluster, policy)
    held: dict[int, list[tuple[int, int, int]]] = {}
    jobs, gpu_time = {}, [0, 0, 0]
    for time, kind, job, node, amount in result.events.tolist():
        if kind == w.START:
            held.setdefault(job, []).append((time, node, amount))
        elif kind in (w.FINISH, w.PREEMPT):
            run = held.pop(job)
            nodes = {node for _, node, _ in run if node >= 0}
            tier = 0 if len(nodes) < 2 else 1 if len({cluster.node_rack[node] for node in nodes}) == 1 else 2
            jobs[job] = max(jobs.get(job, 0), tier)
            gpu_time[tier] += sum(amount * (time - begun) for begun, _, amount in run)
    for index, tier in enumerate(result.summary["tiers"].values()):
        assert tier["jobs"] == list(jobs.values()).count(index) / len(jobs)
        assert tier["gpu_time"] == pytest.approx(gpu_time[index] / sum(gpu_time))

"""Jobs that span GPU types, and GPUs that are slower than the trace's: times in seconds, worked out by hand."""

import numpy as np
import pytest

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.model import GPU, Trace
from shunter.sim import Fault, Scenario, Simulator


def starts(policy, cluster, rows, scenario=None, **columns):
    """Run jobs (submit, duration, GPUs, type or -1); the seconds at which each first started."""
    submit, duration, gpus, kind = (np.array(column) for column in zip(*rows, strict=True))
    names = cluster.gpu_types
    trace = Trace.of(
        "mixed", [str(i) for i in range(len(rows))], submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU,
        gpu_type=kind, gpu_types=names, **columns,
    )  # fmt: skip
    simulator = Simulator(trace, cluster, scenario=scenario)
    simulator.run(registry.policy(policy))
    return (simulator.world.jobs[w.STARTED] / 1000).tolist(), simulator


def test_easy_counts_all_gpus_of_a_job_that_spans_types():
    """The second job runs on a v100 node and the p100 node; the third, the head, waits for the former until 200."""
    cluster = Cluster("two types", (NodeGroup(2, 8, "v100"), NodeGroup(1, 8, "p100")))
    rows = [(0, 100, 1, 0), (0, 200, 16, -1), (1, 10, 16, 0), (2, 5000, 1, 0)]
    found, _ = starts("fifo:backfill=easy,estimate=oracle", cluster, rows)
    assert found[2] == 200


@pytest.mark.parametrize("kind", [0, 1])
def test_a_job_that_spans_types_is_preempted_for_either(kind):
    cluster = Cluster("two types", (NodeGroup(1, 8, "v100"), NodeGroup(1, 8, "p100")))
    found, _ = starts("srtf:estimate=oracle", cluster, [(0, 1000, 16, -1), (1, 10, 8, kind)])
    assert found[1] == 1


def test_remaining_time_is_work_not_wall_time():
    """At half speed a job of 100 s has 50 s of work left after 100 s, so one of 40 s goes first."""
    cluster = Cluster("slow", (NodeGroup(1, 1, "p100"),), speeds={"p100": 0.5})
    found, _ = starts("srtf:estimate=oracle", cluster, [(0, 100, 1, -1), (100, 40, 1, -1)])
    assert found[1] == 100


def test_history_is_not_stretched_twice_on_slow_gpus():
    """Jobs of 100 s take 200 s here; the next is expected to end after 200 s, so nobody slips in before the head."""
    cluster = Cluster("slow", (NodeGroup(1, 2, "p100"),), speeds={"p100": 0.5})
    rows = [(0, 100, 1, -1), (300, 100, 1, -1), (1000, 100, 1, -1), (1001, 10, 2, -1), (1002, 150, 1, -1)]
    columns = {"user": [0, 0, 0, 0, 1], "users": ("ann", "bob"), "limit": [0, 0, 0, 0, 150_000]}
    found, _ = starts("fifo:backfill=easy", cluster, rows, **columns)
    assert found[3] == 1200


def test_backfilling_counts_the_restart():
    """The last job was thrown out at 5 and would need 50 s more and 30 s to restart: too long to go before the head."""
    overheads = Overheads(restart=((1, 30.0),))
    cluster = Cluster("restarts", (NodeGroup(2, 1),), overheads=overheads)
    rows = [(0, 50, 1, -1), (0, 70, 1, -1), (1, 10, 2, -1)]
    scenario = Scenario(faults=(Fault(5_000, 0, 20_000),))
    found, simulator = starts("fifo:backfill=easy,estimate=oracle", cluster, rows, scenario)
    ended = (simulator.world.jobs[w.ENDED_AT] / 1000).tolist()
    assert found[:2] == [0, 0]
    assert ended[0] == 20 + 30 + 50  # first in the order, it starts again as soon as its node is back
    assert found[2] == 100

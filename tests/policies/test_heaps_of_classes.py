"""The heaps that a queue keeps its waiting jobs in: their order, and the lowest floors that EASY leaves jobs out by."""

import numpy as np

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace
from shunter.scheduling.queue import queue as q
from shunter.scheduling.queue.heaps import insert, precedes, remove
from shunter.scheduling.queue.policy import queue_of
from shunter.seeding import rng
from shunter.sim.engine import Simulator

JOBS = 60
CLUSTER = Cluster("small", (NodeGroup(2, 4),))


def empty_queue() -> q.Queue:
    """The queue of a policy with EASY, for jobs of two classes that are still to come."""
    names, times = [str(job) for job in range(JOBS)], np.arange(JOBS) * 1000
    trace = Trace.of("jobs", names, submit=times, duration=times + 1000, gpus=(1 + np.arange(JOBS) % 2) * GPU)
    simulator, policy = Simulator(trace, CLUSTER), registry.policy("fifo:backfill=easy")
    return queue_of(policy.compiled(simulator.present(), policy.start(CLUSTER)))


def check(queue: q.Queue, waiting: set[int]) -> None:
    """Hold the heaps against what they say of themselves."""
    found = set()
    for cls, (first, size) in enumerate(zip(queue.first, queue.size, strict=True)):
        members = queue.members[first : first + size].tolist()
        found |= set(members)
        for at, job in enumerate(members):
            assert queue.class_of[job] == cls
            assert queue.at[job] == at
            below = [i for i in range(size) if at in ancestors(i)]
            assert all(not precedes(queue, members[i], job) for i in below)
            assert queue.lowest[first + at] == min(queue.floor[members[i]] for i in [at, *below])
    assert found == waiting


def ancestors(at: int) -> list[int]:
    """The positions above one in a heap."""
    above = []
    while at > 0:
        at = (at - 1) // 2
        above.append(at)
    return above


def test_lowest_floors_stay_right_while_jobs_come_go_and_change_places():
    queue, draw, waiting = empty_queue(), rng(0, "heaps"), set()
    for _ in range(600):
        job = int(draw.integers(JOBS))
        if job in waiting and draw.random() < 0.6:
            remove(queue, job)
            waiting.remove(job)
        else:
            queue.key[job] = draw.integers(10)
            if job not in waiting:
                queue.floor[job] = draw.integers(1000)
            insert(queue, job)
            waiting.add(job)
        check(queue, waiting)

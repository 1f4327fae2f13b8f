"""The heaps that a queue keeps its waiting jobs in: their order, and the lowest floors that EASY leaves jobs out by."""

from itertools import pairwise

import numpy as np
import pytest

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


def empty_queue(policy: str = "fifo:backfill=easy") -> q.Queue:
    """The queue of a policy, for jobs of two classes that are still to come."""
    names, times = [str(job) for job in range(JOBS)], np.arange(JOBS) * 1000
    trace = Trace.of("jobs", names, submit=times, duration=times + 1000, gpus=(1 + np.arange(JOBS) % 2) * GPU)
    simulator, chosen = Simulator(trace, CLUSTER), registry.policy(policy)
    return queue_of(chosen.compiled(simulator.present(), chosen.start(CLUSTER)))


def check(queue: q.Queue, waiting: set[int]) -> None:
    """Hold the heaps against what they say of themselves."""
    found = set()
    for cls, (first, size) in enumerate(zip(queue.first, queue.size, strict=True)):
        members = queue.members[first : first + size].tolist()
        found |= set(members)
        for at, job in enumerate(members):
            assert queue.class_of[job] == cls
            assert queue.at[job] == first + at
            below = [i for i in range(size) if at in ancestors(i)]
            assert all(not precedes(queue, members[i], job) for i in below)
            if len(queue.lowest):
                assert queue.lowest[first + at] == min(queue.floor[members[i]] for i in [at, *below])
        assert queue.begins[cls] <= first <= first + size <= queue.begins[cls + 1]
        if queue.in_line[cls]:
            assert all(precedes(queue, *pair) for pair in pairwise(members))
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


@pytest.mark.parametrize("spread", [0, 3, 1000])
def test_heaps_stay_right_whether_or_not_jobs_come_in_their_order(spread):
    queue, draw, waiting = empty_queue("fifo"), rng(0, "in line"), set()
    for step in range(1200):
        job = int(draw.integers(JOBS))
        if job in waiting and draw.random() < 0.5:
            heads = [int(queue.members[queue.first[cls]]) for cls in range(2) if queue.size[cls] > 0]
            job = heads[step % len(heads)] if draw.random() < 0.9 else job
            remove(queue, job)
            waiting.remove(job)
        else:
            queue.key[job] = step // 8 + draw.integers(spread + 1)
            insert(queue, job)
            waiting.add(job)
        check(queue, waiting)


def test_jobs_that_come_in_their_order_stay_in_line():
    queue, waiting = empty_queue("fifo"), []
    for step in range(40 * JOBS):
        if len(waiting) < JOBS // 2:
            job = next(job for job in range(JOBS - 1, -1, -1) if job not in waiting)
            queue.key[job] = step // 5  # jobs of one instant come in the wrong order
            insert(queue, job)
            waiting.append(job)
        else:
            heads = [int(queue.members[queue.first[cls]]) for cls in range(2) if queue.size[cls] > 0]
            remove(queue, heads[0])
            waiting.remove(heads[0])
        assert queue.in_line[queue.size > 0].all()
    check(queue, set(waiting))


def test_a_job_that_goes_far_forward_ends_the_line():
    queue = empty_queue("fifo")
    for job in range(40, JOBS):
        queue.key[job] = job
        insert(queue, job)
    assert queue.in_line.tolist() == [1, 1]
    for job in (2, 3):
        queue.key[job] = job
        insert(queue, job)
    assert queue.in_line.tolist() == [1, 1]  # 10 others of each class
    for job in range(4, 40):
        queue.key[job] = 100 - job
        insert(queue, job)
    assert queue.in_line.tolist() == [0, 0]
    check(queue, set(range(2, JOBS)))

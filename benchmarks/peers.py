"""What people write when they need a simulator by tonight: plain Python loops, for comparison.

Both take jobs as (submit, duration, gpus) in whole seconds, sorted by submission, and return each job's end.  They
follow shunter's rules: ends before arrivals, first in first out, best fit; a job larger than a node takes idle nodes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

Job: TypeAlias = tuple[int, int, int]
Places: TypeAlias = list[tuple[int, int]]  # node, GPUs there


def place(free: list[int], size: int, gpus: int) -> Places | None:
    """The nodes for a job, or None if it doesn't fit now; ``size`` is that of every node."""
    if gpus <= size:
        best = min(((have, node) for node, have in enumerate(free) if have >= gpus), default=None)
        return None if best is None else [(best[1], gpus)]
    whole, rest = divmod(gpus, size)
    idle = [node for node, have in enumerate(free) if have == size][:whole]
    if len(idle) < whole:
        return None
    chosen = [(node, size) for node in idle]
    if rest:
        most, node = min(((-have, node) for node, have in enumerate(free) if node not in idle), default=(0, -1))
        if -most < rest:
            return None
        chosen.append((node, rest))
    return chosen


def event_loop(jobs: Sequence[Job], nodes: int, size: int, skip: bool) -> list[int]:
    """Jump from event to event with a heap of ends; ``skip`` passes over jobs that don't fit."""
    free, ends = [size] * nodes, [0] * len(jobs)
    running: list[tuple[int, int, Places]] = []
    queue: deque[int] = deque()
    arrived = 0
    while arrived < len(jobs) or running:
        now = running[0][0] if running else jobs[arrived][0]
        if arrived < len(jobs):
            now = min(now, jobs[arrived][0])
        while running and running[0][0] == now:
            for node, count in heapq.heappop(running)[2]:
                free[node] += count
        while arrived < len(jobs) and jobs[arrived][0] == now:
            queue.append(arrived)
            arrived += 1
        passed: deque[int] = deque()
        while queue:
            job = queue[0]
            places = place(free, size, jobs[job][2])
            if places is None and not skip:
                break
            queue.popleft()
            if places is None:
                passed.append(job)
                continue
            for node, count in places:
                free[node] -= count
            ends[job] = now + jobs[job][1]
            heapq.heappush(running, (ends[job], job, places))
        queue = passed if skip else queue
    return ends


def tick_loop(jobs: Sequence[Job], nodes: int, size: int) -> list[int]:
    """Go through time second by second, first in first out, strict."""
    free, ends = [size] * nodes, [0] * len(jobs)
    left: dict[int, int] = {}
    held: dict[int, Places] = {}
    queue: deque[int] = deque()
    arrived, now = 0, jobs[0][0]
    while arrived < len(jobs) or queue or left:
        for job in [job for job, seconds in left.items() if seconds == 0]:
            del left[job]
            ends[job] = now
            for node, count in held.pop(job):
                free[node] += count
        while arrived < len(jobs) and jobs[arrived][0] == now:
            queue.append(arrived)
            arrived += 1
        while queue and (places := place(free, size, jobs[queue[0]][2])) is not None:
            job = queue.popleft()
            left[job], held[job] = jobs[job][1], places
            for node, count in places:
                free[node] -= count
        for job in left:
            left[job] -= 1
        now += 1
    return ends

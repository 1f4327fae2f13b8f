"""Lucid's profiler: a few nodes on which jobs run for a short time first, so that it is seen what they do to a GPU."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from shunter import world as w
from shunter.model import Action, Assign, Preempt, Start, View
from shunter.policies._lucid_places import Places

LARGEST_PART = 4  # at most one node in so many is set apart
LONG_QUEUE, SHORT_QUEUE = 10, 5  # jobs to be profiled: above the one a node is added, below the other it is given back


@dataclass
class Partition:
    """The nodes set apart for profiling, and who is to be profiled, the least GPUs first."""

    time: int  # that a job gets at most, ms
    most_gpus: int  # a job with more is not profiled
    base: int  # nodes, while nothing is scaled
    scaled: bool
    nodes: list[int] = field(default_factory=list)
    home: dict[int, int] = field(default_factory=dict)  # the virtual cluster of a node set apart
    queue: list[tuple[int, int]] = field(default_factory=list)  # a heap of (GPUs, job)
    running: dict[int, None] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)  # nodes that go back once they are idle
    changed: bool = False  # nodes were set apart or given back
    shrunk: bool = False  # nodes profile nobody any more, for whom some may have waited

    def takes(self, view: View, job: int) -> bool:
        """Whether a job is to be profiled at all: it has a whole GPU or more, not too many, and a node can hold it."""
        gpus, kind = int(view.jobs.gpus[job]), int(view.jobs.gpu_type[job])
        if not self.nodes or gpus > self.most_gpus or view.jobs.share[job] < 1000:
            return False
        fits = (kind in (-1, int(view.nodes.gpu_type[node])) for node in self.nodes if view.nodes.total[node] >= gpus)
        return any(fits)

    def join(self, view: View, job: int) -> None:
        """A job waits to be profiled."""
        heapq.heappush(self.queue, (int(view.jobs.gpus[job]), job))

    def turned_away(self, view: View) -> list[int]:
        """Those that waited for nodes that are no longer set apart: they are not profiled."""
        if not self.shrunk:
            return []
        self.shrunk = False
        kept = [entry for entry in self.queue if self.takes(view, entry[1])]
        away = sorted({job for _, job in self.queue} - {job for _, job in kept})
        heapq.heapify(kept)
        self.queue = kept
        return [job for job in away if view.jobs.state[job] == w.PENDING]

    # -- nodes

    def set_up(self, view: View) -> list[Action]:
        """Set the base nodes apart, one from each of the largest virtual clusters in turn."""
        nodes = view.nodes
        left = {int(vc): [int(n) for n in np.flatnonzero(nodes.vc == vc)] for vc in np.unique(nodes.vc)}
        actions: list[Action] = []
        for _ in range(min(self.base, len(nodes.vc) // LARGEST_PART)):
            vc = max(left, key=lambda vc: (len(left[vc]), -vc))
            actions += self.take(left[vc].pop(), vc)
        self.base = len(self.nodes)
        return actions

    def take(self, node: int, vc: int) -> list[Action]:
        """Set a node apart; jobs of every virtual cluster are profiled there."""
        self.nodes.append(node)
        self.home[node] = vc
        self.changed = True
        return [Assign(node, w.OPEN)] if vc != w.OPEN else []

    def give_back(self, view: View) -> list[Action]:
        """Let go of nodes that are no longer wanted and idle."""
        actions: list[Action] = []
        for node in [n for n in self.leaving if view.nodes.free[n] == view.nodes.total[n]]:
            self.leaving.discard(node)
            self.changed = True
            vc = self.home.pop(node)
            actions += [Assign(node, vc)] if vc != w.OPEN else []
        return actions

    def release(self, node: int) -> None:
        """Profile nobody on a node any more."""
        self.nodes.remove(node)
        self.leaving.add(node)
        self.shrunk = True

    def yield_to(self, vc: int) -> None:
        """A job came that its virtual cluster can't hold without the nodes that were taken from it."""
        for node in [n for n in self.nodes if vc in (w.OPEN, self.home[n])]:
            self.release(node)
        self.base = min(self.base, len(self.nodes))

    def apart(self, node: int) -> bool:
        """Whether a node is not for the main queue."""
        return node in self.home

    def rescale(self, view: View, coming_gpus: float) -> list[Action]:
        """One node more while the queue is long; back to the base once it is short and few GPUs are asked for soon."""
        if not self.scaled or not self.base:
            return []
        if len(self.queue) > LONG_QUEUE and len(self.nodes) == self.base and not self.leaving:
            idle = np.flatnonzero((view.nodes.free == view.nodes.total) & (view.nodes.total > 0))
            free = [int(node) for node in idle if not self.apart(int(node))]
            if free:
                sizes = np.bincount(view.nodes.vc + 1)
                node = max(free, key=lambda n: (sizes[view.nodes.vc[n] + 1], n))
                return self.take(node, int(view.nodes.vc[node]))
        if len(self.queue) < SHORT_QUEUE and len(self.nodes) > self.base and coming_gpus <= 5 * self.most_gpus:
            self.release(self.nodes[-1])
        return []

    # -- jobs

    def stop(self, view: View) -> list[Action]:
        """Those whose time is up leave; what they did is lost, as the profiler runs jobs as they are."""
        over = [job for job in self.running if view.jobs.until[job] <= view.now and view.jobs.state[job] == w.RUNNING]
        return [Preempt(job, keep=False) for job in over]

    def start(self, view: View, places: Places) -> Start | None:
        """Start the next job in the queue; None if it finds no room: nobody passes it."""
        while self.queue and view.jobs.state[self.queue[0][1]] != w.PENDING:
            heapq.heappop(self.queue)
        if not self.queue:
            return None
        job = self.queue[0][1]
        gpus = places.find(view, job, self.nodes)
        if gpus is None:
            return None
        heapq.heappop(self.queue)
        self.running[job] = None
        return Start(job, gpus, until=view.now + self.time)

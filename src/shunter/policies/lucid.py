"""Lucid: Hu et al., ASPLOS 2023."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shunter.cluster import Cluster
from shunter.model import Action, Plan, Start, Timer, Trace, View
from shunter.params import param
from shunter.policies._lucid import PROFILING, RUNS, LucidMemory, Mask, find_way, take_in
from shunter.policies._lucid_outlook import Outlook
from shunter.policies._lucid_packing import UNKNOWN, Packing
from shunter.policies._lucid_places import Places
from shunter.policies._lucid_profiler import Partition
from shunter.policies._queued import LEARNED
from shunter.predictors import learned as model
from shunter.predictors.lessons import Lessons, lessons_for, requests_of
from shunter.predictors.throughput import BIN_MS
from shunter.protocols import Describes, Explains, Learns, Shares
from shunter.sharing.score import THRESHOLDS, shipped_tree
from shunter.world import I64


@dataclass(frozen=True)
class Lucid(Learns, Shares, Describes, Explains):
    """Profiles jobs on a few nodes first, runs the least GPU time first, and packs light jobs in pairs."""

    profiling: bool = param(True, "run jobs on a few nodes first, to see what they do to a GPU; else nothing is packed")
    profile_time: float = param(200.0, "seconds that a job is profiled at most", low=1, high=86_400, scale="log")
    profile_nodes: int = param(2, "nodes set apart for profiling, at most a quarter of all", low=1, high=1000)
    profile_gpus: int = param(8, "jobs with more GPUs are not profiled", low=1, high=1000)
    scaling: bool = param(True, "one node more for the profiler while its queue is long, until few jobs are to come")
    packing: bool = param(True, "two jobs may share GPUs")
    dynamic: bool = param(True, "pack only while more than a few jobs are to come soon")
    quiet: float = param(2.0, "jobs in ten minutes to come, up to which nothing is packed", low=0, high=1e6)
    scores: str = param(
        "learned",
        "how light a job is: by a tree learned from measured pairs, or by GPU utilisation below 25 % and 53 %, as the "
        "paper reads its own (thresholds)",
        choices=("learned", "thresholds"),
    )
    capacity: int = param(2, "the sum of sharing scores (0, 1, 2) on a GPU at most", low=0, high=4)
    ratio: float = param(2.0, "a newcomer has at most so many times the expected GPU time of whom it joins", low=0.1)
    gpu_memory: float = param(24.0, "GiB of a GPU that two jobs may fill", low=1, high=1000)
    estimate: str = param(
        "ebm",
        "what orders jobs and pairs: GPU time by a model learned from ended jobs or by the truth (oracle), or nothing "
        "but the submission (none)",
        choices=(*LEARNED, "oracle", "none"),
    )
    refit: float = param(7.0, "days after which the model is fitted anew to what has ended; 0: never", low=0, high=3650)

    tuned: ClassVar[dict[str, tuple[str, ...]]] = {  # what is worth trying on a cluster of one's own
        "profile_time": ("60", "100", "200", "300", "500"),
        "profile_nodes": ("1", "2", "4"),
        "profile_gpus": ("4", "8"),
        "capacity": ("1", "2"),
        "quiet": ("0", "2", "5"),
    }
    forecasts: ClassVar[bool] = True  # packs by the submissions that it expects

    @property
    def needs(self) -> frozenset[str]:
        """What running jobs do to their GPUs; for an oracle, true run times."""
        return frozenset({"use", "duration"} if self.estimate == "oracle" else {"use"})

    @property
    def model(self) -> str:
        """The model that makes its estimates, by its name in ``predictors``; without one, it forecasts submissions."""
        return LEARNED.get(self.estimate, "ebm")

    def estimate_source(self, trace: Trace) -> str:
        """Where estimates come from."""
        return self.estimate

    def start(self, cluster: Cluster, previous: Any = None) -> LucidMemory:
        """A fresh memory, or one with the lessons of another configuration."""
        return LucidMemory(cluster, previous.lessons if isinstance(previous, LucidMemory) else None)

    def start_with(self, cluster: Cluster, lessons: Lessons) -> LucidMemory:
        """A fresh memory that begins with lessons from the past."""
        return LucidMemory(cluster, lessons)

    def decide(self, view: View, memory: LucidMemory) -> Plan:
        """Plan one step: who leaves the profiler, who enters it, or who of the main queue starts."""
        actions = [] if memory.partition else self._begin(view, memory)
        while view.now >= memory.due:
            self._refit(view, memory)
        take_in(view, memory, self.prioritise)
        actions = actions or self._next(view, memory)
        told, memory.told = memory.told, []
        return Plan(actions, told if view.reasons_wanted else ())

    def _next(self, view: View, memory: LucidMemory) -> list[Action]:
        profiler = memory.profiler
        if actions := profiler.stop(view):
            return actions
        self._look_ahead(view, memory)
        actions = [*profiler.give_back(view), *profiler.rescale(view, memory.outlook.gpus)]
        if profiler.shrunk:
            take_in(view, memory, self.prioritise)
        if profiler.changed:
            profiler.changed = False
            memory.forget_nodes()
        if actions:
            return actions
        if started := profiler.start(view, memory.places):
            memory.stage[started.job] = PROFILING
            memory.profiled[started.job] = True
            return [started]
        for vc in sorted(memory.dirty):
            if started := self._start(view, memory, vc):
                return [started]
            memory.dirty.discard(vc)
        return self._set_timer(view, memory)

    # -- the beginning, and what is learned on the way

    def _begin(self, view: View, memory: LucidMemory) -> list[Action]:
        jobs = view.world.jobs.shape[1]
        memory.stage, memory.priority, memory.expected = (
            np.zeros(jobs, np.int64),
            np.zeros(jobs),
            np.zeros(jobs, np.int64),
        )
        memory.profiled, memory.ended_there = np.zeros(jobs, bool), np.zeros(jobs, bool)
        memory.places = Places(view.world.gpus.shape[1])
        tree = shipped_tree() if self.scores == "learned" else THRESHOLDS
        memory.packing = Packing(self.capacity, self.ratio, self.gpu_memory * 1024, tree.score)
        base = self.profile_nodes if self.profiling else 0
        memory.partition = Partition(round(self.profile_time * 1000), self.profile_gpus, base, self.scaling)
        memory.outlook = Outlook(memory.lessons.arrivals if memory.lessons else None)
        if self.estimate in LEARNED:
            memory.lessons = memory.lessons or lessons_for(self.model, requests_of(view), None)
            memory.learned = memory.lessons.prepared()
            memory.due = memory.lessons.next_look(view.now, self.refit)
        actions = memory.partition.set_up(view)
        find_way(view, memory, self.prioritise)
        return actions

    def _refit(self, view: View, memory: LucidMemory) -> None:
        assert memory.lessons is not None
        assert memory.learned is not None
        memory.lessons = memory.lessons.refitted(view.world, memory.learned, memory.due, self.refit)
        memory.learned = memory.lessons.taught(memory.learned)
        memory.due = memory.lessons.next_look(memory.due, self.refit)

    def prioritise(self, view: View, memory: LucidMemory, job: int) -> float:
        """The place of a job in the order: GPU time by its estimate, in GPU-ms."""
        if self.estimate == "none":
            return float(view.jobs.submit[job])
        if view.truth is not None:
            expected = float(view.truth[job])
        else:
            assert memory.learned is not None
            expected = float(model.estimate(view.world.jobs, memory.learned, job))
            memory.expected[job] = memory.expected[job] or max(round(expected), 1)
        return expected * int(view.jobs.gpus[job]) * int(view.jobs.share[job]) / 1000

    # -- what is to come

    def _look_ahead(self, view: View, memory: LucidMemory) -> None:
        """Once in a bin: whether jobs are packed."""
        if memory.bin == view.now // BIN_MS:
            return
        memory.bin = view.now // BIN_MS
        memory.outlook.look(view.now)
        on = self.packing and (not self.dynamic or memory.outlook.jobs > self.quiet)
        if on != memory.binder.on:
            memory.binder.on = on
            memory.dirty.update(memory.queues)

    def _set_timer(self, view: View, memory: LucidMemory) -> list[Action]:
        """Look again in the next bin, if that may let somebody start who waits."""
        at = (view.now // BIN_MS + 1) * BIN_MS
        waits = self.packing and not memory.binder.on and any(memory.queues.values())
        if memory.timer == at or not waits:
            return []
        memory.timer = at
        return [Timer(at)]

    # -- the main queue

    def _start(self, view: View, memory: LucidMemory, vc: int) -> Start | None:
        """The first job of a queue that finds a partner or a place; while nothing is packed, the first or nobody."""
        queue, nodes, failed = memory.queues.get(vc, []), memory.own_nodes(view, vc), set[tuple[int, ...]]()
        for at, (priority, job) in enumerate(queue):
            found = self._place(view, memory, job, priority, nodes, failed)
            if found is not None:
                del queue[at]
                memory.stage[job] = RUNS
                if not found.shared:
                    memory.fresh.append(job)
                return found
            if not memory.binder.on:
                return None
        return None

    def _place(
        self, view: View, memory: LucidMemory, job: int, priority: float, nodes: I64, failed: set[tuple[int, ...]]
    ) -> Start | None:
        """A partner's GPUs, else GPUs of its own; ``failed`` are demands for which there was neither before."""
        jobs, binder = view.jobs, memory.binder
        if binder.on and binder.may_share(view, job):
            kind = (int(jobs.gpus[job]), binder.rate(view, job))
            if kind not in failed:
                other, short_of_memory = binder.find(view, job, priority)
                if other >= 0:
                    binder.join(view, job, other)
                    return Start(job, view.placement(other), shared=True)
                if not short_of_memory:  # who comes later in the order fares no better
                    failed.add(kind)
        demand = tuple(int(column[job]) for column in (jobs.gpus, jobs.gpu_type, jobs.cpu, jobs.mem, jobs.share))
        if demand in failed:
            return None
        gpus = memory.places.find(view, job, nodes)
        if gpus is None:
            failed.add(demand)
            return None
        return Start(job, gpus)

    # -- what it tells

    def pairs(self, memory: LucidMemory) -> list[tuple[int, int, int]]:
        """Who joined whom on their GPUs: time (ms), newcomer, resident."""
        return memory.packing.joined if memory.packing else []

    def sharing_scores(self, memory: LucidMemory, jobs: int) -> I64:
        """The sharing score of each job, -1 where none was asked for."""
        found = np.full(jobs, UNKNOWN, np.int64)
        if memory.packing:
            found[list(memory.packing.score)] = list(memory.packing.score.values())
        return found

    def predictions(self, memory: LucidMemory) -> I64 | None:
        """The run time behind each job's first place in the order (ms), 0: it had none; None: learned by no model."""
        return memory.expected if self.estimate in LEARNED else None

    def profiled(self, memory: LucidMemory, jobs: int) -> tuple[Mask, Mask]:
        """Which jobs ran in the profiler, and which ended there."""
        return memory.profiled, memory.ended_there

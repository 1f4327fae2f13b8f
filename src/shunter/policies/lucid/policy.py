"""Lucid: Hu et al., ASPLOS 2023."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from shunter import world as w
from shunter.arrays import type_of
from shunter.capabilities import Compilable, Compiled, Describes, Explains, Refits, Shares
from shunter.cluster import Cluster
from shunter.compiled import pointer
from shunter.model import GPU, Plan, Trace, View
from shunter.params import Among, Between, param
from shunter.policies.lucid import memory as s
from shunter.policies.lucid.build import LucidMemory, state_of
from shunter.policies.lucid.decide import decide
from shunter.predictors.learned import Learned
from shunter.predictors.lessons import Lessons, lessons_for, requests_of
from shunter.scheduling.queue.policy import LEARNED, Mask, ask, decode
from shunter.sharing.score import THRESHOLDS, shipped_tree
from shunter.world import F64, I64, Decision, World

BLOCKING = ("skip", "strict", "reserve")
SOURCES = {"none": s.NONE, "oracle": s.ORACLE, "limit": s.LIMIT, **dict.fromkeys(LEARNED, s.LEARNED)}
SCATTER = 1.5  # of the log of run time over estimate, where nothing has ended that would say


@dataclass(frozen=True)
class Lucid(Compilable, Refits, Shares, Describes, Explains):
    """Profiles jobs on a few nodes, runs the least GPU time first, packs pairs; stops a job only after profiling."""

    profiling: bool = param(True, "run jobs on a few nodes first, to measure their GPU use; else nothing is packed")
    profile_when: str = param(
        "full",
        "which jobs are profiled: all, as published, or only those that find no free GPUs (full)",
        choices=("always", "full"),
    )
    profile_time: float = param(
        2400.0,
        "seconds that a job is profiled at most; it then starts again",
        low=1,
        high=86_400,
        scale="log",
        search=Between(60, 4800, log=True),
    )
    profile_nodes: int = param(
        4, "nodes set apart for profiling, at most a quarter of all", low=1, high=1000, search=Between(1, 8)
    )
    profile_gpus: int = param(32, "jobs with more GPUs are not profiled", low=1, high=1000)
    scaling: bool = param(True, "the profiler gets more nodes while its queue is long, until few jobs are to come")
    profile_growth: int = param(1, "nodes that scaling adds at most", low=0, high=1000)
    profile_queue: int = param(2, "jobs waiting to be profiled above which scaling adds a node", low=0, high=100_000)
    packing: bool = param(True, "two jobs may share GPUs", search=Among(("true", "false")))
    pack_when: str = param(
        "full",
        "when a job shares: before it looks for free GPUs, as published (always), or only if none are free (full)",
        choices=("always", "full"),
    )
    dynamic: bool = param(False, "pack only while more than a few jobs are to come soon, as published")
    quiet: float = param(2.0, "jobs expected in ten minutes, up to which dynamic packs nothing", low=0, high=1e6)
    scores: str = param(
        "learned",
        "how light a job is: by a tree learned from measured pairs, or by GPU utilisation below 25 % and 53 %, as the "
        "paper reads its own (thresholds)",
        choices=("learned", "thresholds"),
    )
    capacity: int = param(
        4,
        "the sum of sharing scores (0, 1, 2) on a GPU at most; 4: any two jobs",
        low=0,
        high=4,
        search=Among(("2", "3", "4")),
    )
    ratio: float = param(2.0, "largest expected GPU time of a job over that of the job that it joins", low=0.1)
    gpu_memory: float = param(24.0, "GiB of a GPU that two jobs may fill", low=1, high=1000)
    blocking: str = param(
        "reserve",
        "what jobs may do behind one that finds no room: pass it (skip; no job while packing is off, as published), "
        "wait (strict), or pass, except on nodes kept for the oldest that is larger than a node (reserve)",
        choices=BLOCKING,
    )
    certainty: float = param(
        0.8, "share of jobs with its estimate that end in time, for a job to use nodes kept for another", low=0, high=1
    )
    estimate: str = param(
        "ebm",
        "what orders jobs and pairs: GPU time by a model learned from ended jobs, by the user's limit (else the "
        "model) or by the truth (oracle), or nothing but the submission (none)",
        choices=(*LEARNED, "limit", "oracle", "none"),
    )
    refit: float = param(
        7.0, "days after which the model is fitted again to the jobs that have ended; 0: never", low=0, high=3650
    )

    forecasts: ClassVar[bool] = True  # packs by the submissions that it expects

    # -- what it needs

    @property
    def needs(self) -> frozenset[str]:
        """What running jobs do to their GPUs; for an oracle, true run times."""
        return frozenset({"use", "duration"} if self.estimate == "oracle" else {"use"})

    @property
    def predictor(self) -> str:
        """The model that makes its estimates, by its name in ``predictors``; without one, it forecasts submissions."""
        return LEARNED.get(self.estimate, "ebm")

    def lessons_of(self, history: Trace) -> Mask:
        """The jobs that outlast the profiler, or are too large for it."""
        large = history.gpus > self.profile_gpus * GPU
        outlasts: Mask = large | (history.duration > self.profile_time * 1000) | (not self.profiling)
        return outlasts

    def estimate_source(self, trace: Trace) -> str:
        """Where estimates come from."""
        return self.estimate

    # -- deciding

    def start(self, cluster: Cluster, previous: Any = None) -> LucidMemory:
        """A fresh memory, or one with the lessons of another configuration, and what it has seen since."""
        if not isinstance(previous, LucidMemory):
            return LucidMemory(cluster)
        return LucidMemory(cluster, previous.lessons, generation=previous.generation, seen=previous.learned)

    def start_with(self, cluster: Cluster, lessons: Lessons) -> LucidMemory:
        """A fresh memory that begins with lessons from the past."""
        return LucidMemory(cluster, lessons)

    def compiled(self, view: View, memory: LucidMemory) -> Compiled:
        """The compiled form, made once for all views whose rows stand for the same jobs."""
        if memory.form is None or memory.generation != view.generation:
            learned = self._learned(view, memory) if self.estimate in (*LEARNED, "limit") else None
            if self.estimate in LEARNED:
                assert memory.lessons is not None
                in_excerpt = view.taken is not None
                memory.due = w.NEVER if in_excerpt else memory.lessons.next_look(view.now, self.refit)
            arrivals = memory.lessons.arrivals if memory.lessons else None
            tree = shipped_tree(memory.cluster.sharing) if self.scores == "learned" else THRESHOLDS
            base = self.profile_nodes if self.profiling else 0
            state = state_of(view, self._config(), tree, base)
            state = state.replace(odds=self.odds(memory.lessons))
            if learned is not None:
                state = state.replace(learned=learned)
            if arrivals is not None:
                state = state.replace(arrivals=arrivals.copy())  # every run notes its own submissions
            memory.form = Compiled(decide_pointer(), state, 0)
            memory.plan = w.new_decision(view.world)
            memory.generation = view.generation
        return memory.form

    def _learned(self, view: View, memory: LucidMemory) -> Learned:
        """The model with what was seen so far, or as it was before the first job came."""
        seen = memory.learned
        if seen is not None and memory.generation != view.generation:
            seen = seen.renumbered(view.renumbering(len(seen.expected), memory.generation))
        memory.lessons = memory.lessons or lessons_for(self.predictor, requests_of(view), None)
        if seen is not None and len(seen.expected) == view.world.jobs.shape[1]:
            return seen.copy()
        if view.taken is not None and memory.generation != view.generation:
            memory.lessons = memory.lessons.about(requests_of(view), memory.lessons.history)
        return memory.lessons.prepared()

    def _config(self) -> s.LucidConfig:
        return s.LucidConfig(
            profile_time=round(self.profile_time * 1000) if self.profiling else 0,
            profile_gpus=self.profile_gpus,
            profile_all=self.profile_when == "always",
            scaled=self.scaling,
            growth=self.profile_growth,
            long_queue=self.profile_queue,
            packs=self.packing,
            pack_first=self.pack_when == "always",
            dynamic=self.dynamic,
            quiet=self.quiet,
            capacity=self.capacity,
            ratio=self.ratio,
            memory=self.gpu_memory * 1024,
            blocking=BLOCKING.index(self.blocking),
            certainty=self.certainty,
            source=SOURCES[self.estimate],
        )

    def odds(self, lessons: Lessons | None) -> F64:
        """Quantiles of the log of run time over estimate: 0 for the truth, else as the model has erred."""
        levels = (np.arange(s.LEVELS) + 0.5) / s.LEVELS
        if self.estimate == "oracle":
            return np.zeros(s.LEVELS)
        if lessons is not None and lessons.fitted is not None and lessons.fitted.errors.shape[1]:
            quantiles: F64 = np.quantile(lessons.fitted.errors[1], levels)
            return quantiles
        return np.array([SCATTER * NormalDist().inv_cdf(level) for level in levels])

    def due(self, memory: LucidMemory) -> int:
        """When its model is fitted again (ms)."""
        return memory.due

    def refresh(self, view: View, memory: LucidMemory) -> None:
        """Fit the model again to all that had ended when that was due."""
        assert memory.lessons is not None
        assert memory.form is not None
        learned = memory.state.learned
        memory.lessons = memory.lessons.refitted(view.world, learned, memory.due, self.refit)
        state = memory.state.replace(learned=memory.lessons.taught(learned), odds=self.odds(memory.lessons))
        memory.form = memory.form._replace(memory=state)
        memory.due = memory.lessons.next_look(memory.due, self.refit)

    def decide(self, view: View, memory: LucidMemory) -> Plan:
        """The same decision as the compiled loop takes, as a plan."""
        self.compiled(view, memory)
        while view.now >= memory.due:
            self.refresh(view, memory)
        form = self.compiled(view, memory)
        assert memory.plan is not None
        ask(form.decide, view.world, form.memory, form.parts, memory.plan)
        return decode(memory.plan)

    # -- what it reports

    def pairs(self, memory: LucidMemory) -> I64:
        """Which job joined which on its GPUs: time (ms), newcomer, resident."""
        if memory.form is None:
            return np.zeros((0, 3), np.int64)
        joined, pairs = memory.state.joined, memory.state.pairs
        return np.stack([column[:pairs] for column in (joined.time, joined.newcomer, joined.resident)], axis=1)

    def sharing_scores(self, memory: LucidMemory, jobs: int) -> I64:
        """The sharing score of each job, -1 where none was needed."""
        return np.full(jobs, s.UNKNOWN, np.int64) if memory.form is None else memory.state.score

    def predictions(self, memory: LucidMemory) -> I64 | None:
        """The run time behind each job's first place in the order (ms), 0: it had none; None: learned by no model."""
        return memory.state.expected if self.estimate in LEARNED and memory.form is not None else None

    def profiled(self, memory: LucidMemory, jobs: int) -> tuple[Mask, Mask]:
        """Which jobs ran in the profiler, and which ended there."""
        if memory.form is None:
            return np.zeros(jobs, bool), np.zeros(jobs, bool)
        return memory.state.profiled.astype(bool), memory.state.ended_there.astype(bool)


@cache
def decide_pointer() -> Any:
    """``decide``, compiled."""
    from numba import types

    return pointer(decide, types.void(type_of(World), type_of(s.LucidState), types.int64, type_of(Decision)))

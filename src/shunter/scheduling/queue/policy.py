"""What all policies share that keep their waiting jobs in a compiled queue, in the order of a key."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import reasons
from shunter import world as w
from shunter.capabilities import Compilable, Compiled, Describes, Explains, Ranks, Refits
from shunter.cluster import Cluster
from shunter.compiled import entry, kernel
from shunter.errors import PolicyError
from shunter.model import Action, Assign, Migrate, Plan, Preempt, Reason, Resize, Start, Timer, Trace, View
from shunter.params import param
from shunter.predictors.calibrating import NAMES as QUANTILES
from shunter.predictors.learned import Learned
from shunter.predictors.lessons import Lessons, lessons_for, requests_of
from shunter.predictors.models import model
from shunter.scheduling.queue.keys import check_key, no_number
from shunter.scheduling.queue.pools import see_pools
from shunter.scheduling.queue.queue import Queue
from shunter.world import F64, I64, Decision, Job, World

EXACT = "the trace has iterations and no column 'declared': declared run times are taken as exact"
QUANTILE_DOC = "quantile of a learned estimate that is used in its place; none: the estimate itself"
LEARNED = {"rolling": "history", "gbm": "gbm", "ebm": "ebm", "blend": "blend"}  # estimate -> model in predictors/
ESTIMATES = ("auto", "oracle", "noisy", "declared", "limit", "history", "last-two", *LEARNED)
ESTIMATES_DOC = (
    "where run-time estimates come from: the truth (oracle), the truth with Helios' noise (noisy), the iterations that "
    "the user declared, the user's limit, the user's last two jobs (history), the same within the limit, and the limit "
    "before two have ended (last-two), limit where the trace has one, else history (auto); or learned from ended jobs: "
    "rolling means of similar ones, gbm, ebm, or blend of rolling and gbm"
)
MIN_RUN = 10.0  # at most a tenth of the GPU time goes into stops then
MIN_RUN_DOC = (
    "a job is stopped only after it has worked this many times as long as its checkpoint and its restart take; nothing "
    "changes where stopping is free; 0: at once"
)
HYSTERESIS_DOC = "a waiting job stops a running one only if that one's key is more than this many times its own"
MAX_STOPS_DOC = (
    "how often a job may be stopped, by failed nodes included, until it is left alone; 0: any number of times"
)
BACKFILLS = ("none", "easy", "conservative")
BACKFILL_DOC = "whether later jobs may start before an earlier one that doesn't fit"
BOUND_DOC = (
    "share of jobs that end within the run time that backfilling plans with, by what ended jobs took over their "
    "estimates, and never beyond the limit; 0: the estimate itself, raised step by step once it has run out"
)
CANDIDATES = ("queue", "shortest")
CANDIDATES_DOC = "which later job backfill=easy tries first: the next in the queue, or the one with the least estimate"
PASSING_DOC = (
    "with backfill=easy a later job starts only if it should end within this many times the mean completion time of "
    "the jobs of its virtual cluster that ended lately; 0: however long it takes"
)
NONE = np.zeros(0)
CODE_NAMES = tuple(reasons.CODES)
Mask: TypeAlias = NDArray[np.bool_]


@dataclass
class QueueMemory:
    """What a queue policy remembers: its compiled form, made when the first view is there."""

    cluster: Cluster
    previous: QueueMemory | None = None
    form: Compiled | None = None
    plan: Decision | None = None
    lessons: Lessons | None = None  # where estimates are learned: from what
    due: int = w.NEVER  # when the model is fitted again (ms)
    generation: int = 0  # of the views that the form was made for

    def __deepcopy__(self, memo: dict[int, Any]) -> QueueMemory:
        """An independent memory; the compiled functions, which never change, are shared."""
        previous, form = copy.deepcopy(self.previous, memo), copy.deepcopy(self.form, memo)
        plan = copy.deepcopy(self.plan, memo)
        return QueueMemory(self.cluster, previous, form, plan, self.lessons, self.due, self.generation)


class Queued(Compilable, Refits, Ranks, Describes, Explains):
    """A policy with a ``key``; subclasses decide what happens to the first job in the order."""

    estimate: str = "auto"
    quantile: str = "none"
    backfill: str = "none"
    bound: float = 0.0
    candidates: str = "queue"
    passing: float = 0.0
    blocking: str = "skip"
    depth: int = 0
    refit: float = 7.0
    min_run: float = MIN_RUN  # see MIN_RUN_DOC
    hysteresis: float = 1.0  # see HYSTERESIS_DOC
    max_stops: int = 0  # see MAX_STOPS_DOC

    uses_estimate: ClassVar[bool] = False  # the key reads job.estimate
    varying: ClassVar[bool] = False  # the key of a waiting job changes with time ...
    ageing: ClassVar[bool] = False  # ... falls, or stays, while job.usage does
    sees_pool: ClassVar[bool] = False  # the key reads job.free and its neighbours; it is made again at every decision
    preemptive: ClassVar[bool] = False  # running jobs are stopped for earlier ones
    declared_first: ClassVar[bool] = False  # estimate=auto begins with declared iterations

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Smaller first; ties go to the job submitted first."""
        return job.submit

    def key_params(self) -> F64:
        """The parameters that ``key`` gets as ``p``."""
        return NONE

    def quantum(self) -> float:
        """Seconds after which a preemptive order looks again although nothing happened; 0: never."""
        return 0.0

    def configured(self, queue: Queue, view: View, cluster: Cluster) -> Queue:
        """The queue with what only this policy needs; given one that serves any order, for the jobs of this view."""
        return queue

    @property
    def look(self) -> Any:
        """The kernel that looks at pools and makes all keys again, where keys depend on pools."""
        return see_pools

    # -- what it needs

    @property
    def estimates(self) -> bool:
        """Whether run-time estimates matter at all."""
        return self.uses_estimate or self.backfill != "none"

    @property
    def share_within(self) -> float:
        """The share of jobs that should end within the run time that backfilling plans with; 0: the estimate."""
        return 0.0 if self.backfill == "none" or self.estimate == "oracle" else self.bound

    @property
    def needs(self) -> frozenset[str]:
        """True durations, for an oracle."""
        return frozenset({"duration"}) if self.estimates and self.estimate in ("oracle", "noisy") else frozenset()

    @property
    def predictor(self) -> str:
        """The model that makes its estimates, by its name in ``predictors``; "": none does."""
        own = self.estimate if "." in self.estimate else ""  # of a third party, by its dotted path
        return LEARNED.get(self.estimate, own) if self.estimates else ""

    def estimate_source(self, trace: Trace) -> str:
        """Where estimates really come from, for this trace: none, oracle, or some of declared, limit and history."""
        if not self.estimates:
            return "none"
        if self.predictor or self.estimate in ("oracle", "noisy", "history", "last-two"):
            return f"{self.estimate} {self.quantile}" if self.predictor and self.quantile != "none" else self.estimate
        first = self.estimate == "declared" or (self.estimate == "auto" and self.declared_first)
        declared = (trace.declarations > 0) & first
        limited = (trace.limit > 0) & ~declared
        if self.estimate in ("limit", "declared") and not (declared | limited).any():
            column = {"limit": "limit", "declared": "declared' or 'iterations"}[self.estimate]
            raise PolicyError(
                f"estimate={self.estimate} needs a '{column}' column, and no job of the trace has one; use history"
            )
        sources = {"declared": declared, "limit": limited, "history": ~declared & ~limited}
        return "+".join(name for name, jobs in sources.items() if jobs.any())

    def remarks(self, trace: Trace) -> list[str]:
        """What one must know about it on this trace, in words."""
        return [EXACT] if "declared" in self.estimate_source(trace) and not trace.declared.any() else []

    # -- deciding

    def start(self, cluster: Cluster, previous: Any = None) -> QueueMemory:
        """A fresh memory, or one that continues from what another configuration knew."""
        return QueueMemory(cluster, previous if isinstance(previous, QueueMemory) else None)

    def start_with(self, cluster: Cluster, lessons: Lessons) -> QueueMemory:
        """A fresh memory that begins with lessons from the past."""
        return QueueMemory(cluster, lessons=lessons)

    @abstractmethod
    def form(self, view: View, cluster: Cluster, previous: Compiled | None) -> Compiled:
        """The compiled form, with its arrays for the jobs of this view."""

    def compiled(self, view: View, memory: QueueMemory) -> Compiled:
        """The compiled form, made once for all views whose rows stand for the same jobs."""
        if memory.form is None or memory.generation != view.generation:
            before = memory if memory.form is not None else memory.previous
            previous = before.form if before is not None else None
            if previous is not None and before is not None and before.generation != view.generation:
                rows = view.renumbering(len(queue_of(previous).estimate), before.generation)
                previous = previous._replace(memory=previous.memory.renumbered(rows))
            if previous is not None and before is not None and before.cluster.vcs != memory.cluster.vcs:
                queue = queue_of(previous)
                ended = queue.completions.renamed(before.cluster.vcs, memory.cluster.vcs)
                previous = previous._replace(memory=previous.memory.with_queue(queue.replace(completions=ended)))
            check_key(self)
            memory.form = self.form(view, memory.cluster, previous)
            memory.plan = w.new_decision(view.world)
            memory.previous, memory.generation = None, view.generation
            if self.predictor and before is not None and previous is not None and self._goes_on(before, previous, view):
                memory.lessons = before.lessons
                self._use(memory, queue_of(previous).learned.copy())
                memory.due = before.due if view.taken is None else w.NEVER
            elif self.predictor:
                self._begin_learning(view, memory)
        queue_of(memory.form).stoppable.forget()  # it may be another world, with the same rows
        return memory.form

    def _goes_on(self, before: QueueMemory, previous: Compiled, view: View) -> bool:
        """Whether another configuration used the same model, so that what it saw on the way counts."""
        same = before.lessons is not None and before.lessons.model == model(self.predictor)
        return same and view.past is None and len(queue_of(previous).learned.expected) == view.world.jobs.shape[1]

    def check_form(self, memory: QueueMemory) -> None:
        """Refuse a key that was no number."""
        job = queue_of(memory.form).state.no_number if memory.form is not None else -1
        if job >= 0:
            raise no_number(type(self).key, f"for job {job} (counted from 0 in order of submission)")

    def ranking(self, view: View, memory: QueueMemory) -> I64:
        """The waiting jobs in their order at this instant, once a decision was made."""
        form, pending = self.compiled(view, memory), view.pending
        queue, keys = queue_of(form), np.zeros(len(pending))
        if queue.config.sees_pool:
            assert memory.plan is not None
            self.look(view.world, queue, form.parts.parts, 0, memory.plan)
            keys = queue.key[pending]
        else:
            keys_of(view.world, queue, form.parts.parts, pending, keys)
        ties = queue.tie[pending] if len(queue.tie) else pending
        ranking: I64 = pending[np.lexsort((pending, ties, keys))]
        return ranking

    # -- learned estimates

    def _begin_learning(self, view: View, memory: QueueMemory) -> None:
        """Give the queue its model; without lessons it begins with rolling means."""
        requests = requests_of(view)
        memory.lessons = memory.lessons or lessons_for(self.predictor, requests, view.past, at=view.now)
        if view.past is not None or len(memory.lessons.jobs) != len(requests):
            past = view.past if view.past is not None else memory.lessons.history
            memory.lessons = memory.lessons.about(requests, past)
        self._use(memory, memory.lessons.prepared())
        memory.due = memory.lessons.next_look(view.now, self.refit) if view.taken is None else w.NEVER

    def _use(self, memory: QueueMemory, learned: Learned) -> None:
        assert memory.form is not None
        learned.chosen[0] = ("none", *QUANTILES).index(self.quantile) - 1
        queue = queue_of(memory.form).replace(learned=learned)
        memory.form = memory.form._replace(memory=memory.form.memory.with_queue(queue))

    def due(self, memory: QueueMemory) -> int:
        """When the model is fitted again (ms)."""
        return memory.due

    def refresh(self, view: View, memory: QueueMemory) -> None:
        """Fit the model again to all that had ended when that was due, and say when it is due again."""
        assert memory.lessons is not None
        assert memory.form is not None
        learned = queue_of(memory.form).learned
        memory.lessons = memory.lessons.refitted(view.world, learned, memory.due, self.refit)
        self._use(memory, memory.lessons.taught(learned))
        memory.due = memory.lessons.next_look(memory.due, self.refit)

    def groups(self, memory: QueueMemory) -> tuple[I64, I64]:
        """The demand class and the pool of each job, of which its reasons speak."""
        if memory.form is None:
            raise PolicyError("there are no groups before the first decision")
        queue = queue_of(memory.form)
        return queue.class_of, queue.pool_of[queue.class_of]

    def predictions(self, memory: QueueMemory) -> I64 | None:
        """How long each job was expected to run when it came (ms, 0: it never came); None: not, or by the truth."""
        if not self.estimates or self.needs or memory.form is None:
            return None
        estimate: I64 = queue_of(memory.form).estimate
        return estimate

    def decide(self, view: View, memory: QueueMemory) -> Plan:
        """The same decision as the compiled loop takes, as a plan."""
        return decided(self, view, memory)


def decided(policy: Any, view: View, memory: Any) -> Plan:
    """The decision of a policy's compiled form, as a plan; its model is fitted again first where that is due.

    As in the compiled loop, there is a form before anything is fitted again, and another one afterwards.
    """
    form = policy.compiled(view, memory)
    while view.now >= policy.due(memory):
        policy.refresh(view, memory)
        form = policy.compiled(view, memory)
    assert memory.plan is not None
    ask(form.decide, view.world, form.memory, form.parts, memory.plan)
    policy.check_form(memory)
    return decode(memory.plan)


@dataclass(frozen=True)
class Estimating(Queued):
    """A queue that may have to know how long jobs will run. Subclasses say what for."""

    estimate: str = param("auto", ESTIMATES_DOC, choices=ESTIMATES, by_path=True)
    quantile: str = param("none", QUANTILE_DOC, choices=("none", *QUANTILES))
    bound: float = param(0.9, BOUND_DOC, low=0, high=0.99)
    refit: float = param(
        7.0, "days after which a learned estimate's model is fitted again to what has ended; 0: never", low=0, high=3650
    )

    def remarks(self, trace: Trace) -> list[str]:
        """Settings that do nothing for this trace, in words."""
        unused = {
            "estimate does nothing without backfill": self.estimate != type(self).estimate and not self.estimates,
            "refit does nothing without a learned estimate": self.refit != type(self).refit and not self.predictor,
            "bound does nothing without backfill": self.bound != type(self).bound and self.backfill == "none",
            "quantile does nothing without a learned estimate": self.quantile != "none" and not self.predictor,
        }
        return super().remarks(trace) + [remark for remark, holds in unused.items() if holds]


@kernel
def keys_of(world: World, queue: Any, parts: Any, jobs: I64, keys: F64) -> None:
    """The key of each of these jobs at this instant."""
    for at in range(len(jobs)):
        keys[at] = parts.key(world, queue, jobs[at], world.clock[w.NOW])


def queue_of(form: Compiled) -> Any:
    """The queue in a compiled form: its memory, or a part of that."""
    return form.memory if isinstance(form.memory, Queue) else form.memory.queue


ENTRIES: dict[Any, Callable[..., Any]] = {}  # by pointer, whose signature has the types of all arguments


def ask(function: Any, world: World, memory: Any, parts: Any, plan: Decision) -> None:
    """Call a compiled policy once; numba looks at the types of the arguments only the first time."""
    call = ENTRIES.get(function)
    if call is None:
        call = ENTRIES[function] = entry(call_once, function, world, memory, parts, plan)
    call(function, world, memory, parts, plan)


@kernel
def call_once(function: Any, world: World, memory: Any, parts: Any, plan: Decision) -> None:
    """Plan from the beginning."""
    plan.counts[:] = 0
    function(world, memory, parts, plan)


def decode(decision: Decision) -> Plan:
    """A compiled plan as actions."""
    actions: list[Action] = []
    used = 0
    for kind, target, coded, arg, *each in decision.actions[: decision.counts[0]].tolist():
        shared, size = divmod(coded, w.SHARED)
        gpus = tuple(decision.gpu_ids[used : used + size].tolist())
        if kind == w.A_START:
            lease = None if arg == w.NEVER else arg
            actions.append(Start(target, gpus, lease, bool(shared), *(value or None for value in each)))
        elif kind == w.A_PREEMPT:
            actions.append(Preempt(target, keep=bool(arg)))
        elif kind == w.A_MIGRATE:
            actions.append(Migrate(target, gpus))
        elif kind == w.A_RESIZE:
            actions.append(Resize(target, gpus, *(value or None for value in each)))
        elif kind == w.A_ASSIGN:
            actions.append(Assign(target, arg))
        else:
            actions.append(Timer(arg))
        used += size
    return Plan(actions, [_reason(row) for row in decision.reasons[: decision.counts[2]].tolist()])


def _reason(row: list[int]) -> Reason:
    scope, subject, code, *numbers = row
    return Reason(subject, CODE_NAMES[code], tuple(numbers), reasons.SCOPES[scope])

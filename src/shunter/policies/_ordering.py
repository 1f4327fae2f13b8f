"""What most policies are: an order for the queue, a rule for what doesn't fit, backfilling, and a placement.

A new one is a file in this folder with a class that has a docstring and a ``key``:

    @dataclass(frozen=True)
    class Sjf(Ordering):
        '''Shortest job first, by estimated run time.'''

        uses_estimate = True

        @staticmethod
        def key(job: Job, p: F64) -> float:
            return job.estimate

``key`` is compiled; ``p`` holds what ``key_params`` returns, for orders that have parameters of their own.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shunter import placers, reasons
from shunter import world as w
from shunter.cluster import Cluster
from shunter.compiled import pointer
from shunter.errors import PolicyError
from shunter.model import Plan, Preempt, Reason, Start, Timer, Trace, View
from shunter.params import param
from shunter.policies import _queue as q
from shunter.policies._pass import ask, decide_pointer, tools_for
from shunter.protocols import Compiled
from shunter.world import F64, I64, Decision, Job, World

BACKFILLS = ("none", "easy", "conservative")
NONE = np.zeros(0)
CODE_NAMES = tuple(reasons.CODES)


@dataclass
class QueueMemory:
    """What a queue policy remembers: its compiled form, made when the first view is there."""

    cluster: Cluster
    previous: QueueMemory | None = None
    form: Compiled | None = None
    plan: Decision | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> QueueMemory:
        """An independent memory; the compiled functions, which never change, are shared."""
        previous, form = copy.deepcopy(self.previous, memo), copy.deepcopy(self.form, memo)
        return QueueMemory(self.cluster, previous, form, copy.deepcopy(self.plan, memo))


@dataclass(frozen=True)
class Ordering:
    """A queue in some order. Subclasses say which."""

    estimate: str = param(
        "auto",
        "where run-time estimates come from: the truth (oracle), the user's limit, the user's past (history), "
        "or limit where the trace has one, else history (auto)",
        choices=("auto", "oracle", "limit", "history"),
    )
    backfill: str = param(
        "none", "whether later jobs may start before an earlier one that doesn't fit", choices=BACKFILLS
    )
    blocking: str = param(
        "strict", "a job that doesn't fit stops its pool (strict) or is passed over (skip)", choices=("strict", "skip")
    )
    placement: str = param("consolidate", "which nodes a job gets", choices=placers.names())
    depth: int = param(100, "jobs that hold a reservation under conservative backfilling", low=1, high=10_000)

    uses_estimate: ClassVar[bool] = False  # the key reads job.estimate
    varying: ClassVar[bool] = False  # the key of a waiting job changes with time ...
    ageing: ClassVar[bool] = False  # ... falls, or stays, while job.usage does
    preemptive: ClassVar[bool] = False  # running jobs are stopped for earlier ones

    def __post_init__(self) -> None:
        if self.backfill != "none" and self.blocking == "skip":
            raise PolicyError(
                "blocking=skip contradicts backfill: backfilling already decides who may pass; leave one out"
            )
        if self.backfill == "conservative" and self.preemptive:
            raise PolicyError(
                "backfill=conservative promises start times that a preemptive policy breaks; use easy or none"
            )

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

    def half_life(self) -> float:
        """Seconds in which a user's past usage counts half; 0: ``key`` does not read ``job.usage``."""
        return 0.0

    # -- what it needs

    @property
    def estimates(self) -> bool:
        """Whether run-time estimates matter at all."""
        return self.uses_estimate or self.backfill != "none"

    @property
    def needs(self) -> frozenset[str]:
        """True durations, for an oracle."""
        return frozenset({"duration"}) if self.estimates and self.estimate == "oracle" else frozenset()

    def estimate_source(self, trace: Trace) -> str:
        """Where estimates really come from, for this trace: none, oracle, limit, history, or limit+history."""
        if not self.estimates:
            return "none"
        if self.estimate in ("oracle", "history"):
            return self.estimate
        known = trace.limit > 0
        if not known.any():
            if self.estimate == "limit":
                raise PolicyError("estimate=limit needs a 'limit' column, and no job of the trace has one; use history")
            return "history"
        return "limit" if known.all() else "limit+history"

    def remarks(self, trace: Trace) -> list[str]:
        """Settings that do nothing for this trace, in words."""
        if self.backfill != "conservative" and self.depth != 100:
            return ["depth does nothing without backfill=conservative"]
        return []

    # -- deciding

    def start(self, cluster: Cluster, previous: Any = None) -> QueueMemory:
        """A fresh memory, or one that goes on with another configuration's estimates and history."""
        return QueueMemory(cluster, previous if isinstance(previous, QueueMemory) else None)

    def compiled(self, view: View, memory: QueueMemory) -> Compiled:
        """The compiled form, with its arrays for the jobs of this view."""
        if memory.form is None:
            queue = build_queue(self, view, memory.cluster)
            if memory.previous is not None and memory.previous.form is not None:
                take_over(queue, memory.previous.form.memory)
            key, place = key_pointer(type(self).key), placers.kernel_of(self.placement)
            tools = tools_for(key, place, self.preemptive, self.backfill, view.reasons_wanted)
            memory.plan = w.new_decision(view.world)
            memory.form = Compiled(decide_pointer(tools), queue, tools)
            memory.previous = None
        return memory.form

    def groups(self, memory: QueueMemory) -> tuple[I64, I64]:
        """The demand class and the pool of each job, of which its reasons speak."""
        if memory.form is None:
            raise PolicyError("there are no groups before the first decision")
        queue = memory.form.memory
        return queue.class_of, queue.pool_of[queue.class_of]

    def decide(self, view: View, memory: QueueMemory) -> Plan:
        """The same decision as the compiled loop takes, as a plan."""
        form = self.compiled(view, memory)
        assert memory.plan is not None
        ask(form.decide, view.world, form.memory, form.parts, memory.plan)
        return decode(memory.plan)


@functools.cache
def key_pointer(key: Callable[[Job, F64], float]) -> Any:
    """An order's key, compiled."""
    return pointer(key, w.signatures()["key"])


def decode(decision: Decision) -> Plan:
    """A compiled plan as actions."""
    actions: list[Start | Preempt | Timer] = []
    used = 0
    for kind, target, size, arg in decision.actions[: decision.counts[0]].tolist():
        if kind == w.A_START:
            actions.append(Start(target, tuple(decision.gpu_ids[used : used + size].tolist())))
        elif kind == w.A_PREEMPT:
            actions.append(Preempt(target, keep=bool(arg)))
        else:
            actions.append(Timer(arg))
        used += size
    return Plan(actions, [_reason(row) for row in decision.reasons[: decision.counts[2]].tolist()])


def _reason(row: list[int]) -> Reason:
    scope, subject, code, *numbers = row
    return Reason(subject, CODE_NAMES[code], tuple(numbers), reasons.SCOPES[scope])


# ---------------------------------------------------------------------------------------------- the memory's arrays


def build_queue(policy: Ordering, view: View, cluster: Cluster) -> q.Queue:
    """The arrays of a queue for the jobs in this view, all of them still to come."""
    world = view.world
    n, m, g = world.jobs.shape[1], world.nodes.shape[1], world.gpus.shape[1]
    class_of, first_member = demand_classes(world)
    classes = len(first_member)
    pools = pools_of(world, first_member)
    counts = np.bincount(class_of, minlength=classes)
    users = max(int(world.jobs[w.USER].max(initial=0)) + 1, 1)
    estimate = np.zeros(n, np.int64)
    if view.truth is not None:
        estimate[:] = np.maximum(view.truth, 1)
    elif not policy.estimates:
        estimate[:] = 1
    return q.Queue(
        settings=settings_of(policy, world, cluster),
        params=np.ascontiguousarray(policy.key_params(), np.float64),
        factors=np.array([cluster.vc_priority.get(vc, 1.0) for vc in cluster.vcs] + [1.0]),
        key=np.zeros(n),
        exact=np.zeros(n),
        estimate=estimate,
        due=np.zeros(n, np.int64),
        class_of=class_of,
        members=np.zeros(n, np.int64),
        at=np.full(n, -1, np.int64),
        first=np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64),
        size=np.zeros(classes, np.int64),
        blocked=np.zeros(classes, np.int64),
        pool_of=pools,
        sample=first_member,
        head=np.full(int(pools.max(initial=0)) + 1, -1, np.int64),
        shadow=np.full((2, int(pools.max(initial=0)) + 1), -1, np.int64),
        upset=np.zeros(int(pools.max(initial=0)) + 1, np.int64),
        users=np.zeros((6, users)),
        total=np.zeros(1),
        sizes=np.zeros((2, q.SIZE_CLASSES + 1)),
        scratch=scratch_for(m, g, int(world.clock[w.SLOTS_PER_GPU])),
        profile=profile_for(m, g, policy.depth if policy.backfill == "conservative" else 0),
        told=told_for(world, first_member, int(pools.max(initial=0)) + 1),
    )


def settings_of(policy: Ordering, world: World, cluster: Cluster) -> I64:
    """The queue's settings as numbers."""
    settings = np.zeros(q.SETTINGS_SIZE, np.int64)
    settings[q.STRICT] = policy.blocking == "strict"
    settings[q.BACKFILL] = BACKFILLS.index(policy.backfill)
    settings[q.PREEMPTIVE] = policy.preemptive
    settings[q.VARYING] = policy.varying
    settings[q.AGEING] = policy.ageing
    settings[q.REACH] = 60_000 * settings[q.AGEING]
    settings[q.HORIZON] = -w.NEVER
    sources = {"oracle": q.S_ORACLE, "auto": q.S_LIMIT, "limit": q.S_LIMIT, "history": q.S_HISTORY}
    settings[q.SOURCE] = sources[policy.estimate] if policy.estimates else q.S_NONE
    settings[q.FRESH] = 1
    settings[q.SLOW_STOPS] = any(seconds > 0 for _, seconds in cluster.overheads.checkpoint)
    settings[q.QUANTUM] = round(policy.quantum() * 1000)
    settings[q.DEPTH] = policy.depth
    settings[q.FAIR] = round(policy.half_life() * 1000) if (world.jobs[w.USER] >= 0).any() else 0
    settings[q.SHARES] = (world.jobs[w.SHARE] < 1000).any()
    settings[q.KEYED_AT] = settings[q.SEEN_RELEASES] = -1
    settings[q.USAGE_AT] = world.clock[w.NOW]
    if settings[q.SHARES] and policy.backfill == "conservative":
        raise PolicyError("backfill=conservative plans whole GPUs, but the trace has jobs that want a share; use easy")
    return settings


def scratch_for(nodes: int, gpus: int, per_gpu: int) -> q.Scratch:
    """Room to work in."""

    def room(size: int) -> I64:
        return np.zeros(size, np.int64)

    paper = (room(nodes), room(nodes), room(nodes), room(gpus), room(gpus))
    wide, running = max(nodes, gpus), gpus * per_gpu
    identity = np.arange(gpus)
    return q.Scratch(
        *paper,
        room(wide),
        room(wide),
        identity,
        room(128),
        room(gpus),
        room(gpus),
        room(gpus),
        room(gpus),
        room(running),
        room(running),
    )


def profile_for(nodes: int, gpus: int, depth: int) -> q.Profile:
    """An empty table of the future; of no size where nobody plans it."""
    rows = gpus + 2 * depth + 4 if depth else 0

    def room(*shape: int) -> I64:
        return np.zeros(shape, np.int64)

    return q.Profile(room(rows), room(3, rows, nodes), room(depth), room(depth), room(depth, nodes))


def told_for(world: World, sample: I64, pools: int) -> q.Told:
    """Nothing has been said yet."""
    wanted = int(world.clock[w.REASONS])
    classes, jobs = len(sample) * wanted, world.jobs.shape[1] * wanted
    alike = world.jobs[w.VC, sample] * (world.jobs[w.TYPE].max(initial=0) + 2) + world.jobs[w.TYPE, sample]
    kin_of = np.unique(alike, return_inverse=True)[1].astype(np.int64)

    def nothing(size: int) -> I64:
        return np.full(size, -1, np.int64)

    return q.Told(
        everything=np.zeros(1, np.int64),
        head=nothing(pools * wanted),
        shadow=nothing(pools * wanted),
        code=np.zeros(classes, np.int64),
        free=nothing(classes),
        largest=nothing(classes),
        start=nothing(jobs),
        kin_of=kin_of,
        kin=np.full((6, int(kin_of.max(initial=0)) + 1), -1, np.int64),
    )


def demand_classes(world: World) -> tuple[I64, I64]:
    """A class for every combination of demands that occurs: (class of each job, one job of each class)."""
    code = np.zeros(world.jobs.shape[1], np.int64)
    for column in (w.GPUS, w.SHARE, w.VC, w.TYPE, w.CPU, w.MEM):
        values = world.jobs[column]
        if values.min(initial=w.NEVER) < values.max(initial=-w.NEVER):
            kinds, inverse = np.unique(values, return_inverse=True)
            code = code * len(kinds) + inverse
            if code.max() > 2**31:
                code = np.unique(code, return_inverse=True)[1]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return np.ascontiguousarray(inverse, np.int64), first


def pools_of(world: World, members: I64) -> I64:
    """The pool of each class: its virtual cluster and GPU type, but only the former where jobs take any type."""
    vc, kind = world.jobs[w.VC, members], world.jobs[w.TYPE, members]
    loose = np.isin(vc, vc[kind < 0])
    return np.unique(np.where(loose, -1, kind) + (vc + 1) * (kind.max(initial=0) + 2), return_inverse=True)[1].astype(
        np.int64
    )


def take_over(queue: q.Queue, old: q.Queue) -> None:
    """Go on with what another configuration learned; with its estimates only if they come from the same source."""
    if queue.users.shape == old.users.shape:
        queue.users[:], queue.sizes[:], queue.total[:] = old.users, old.sizes, old.total
        queue.settings[q.USERS_SEEN] = old.settings[q.USERS_SEEN]
        queue.settings[q.USAGE_AT] = old.settings[q.USAGE_AT]
    if queue.settings[q.SOURCE] == old.settings[q.SOURCE] and queue.settings[q.SOURCE] >= q.S_LIMIT:
        queue.estimate[:] = old.estimate

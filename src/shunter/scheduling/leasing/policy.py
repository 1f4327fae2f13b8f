"""Policies that lease GPUs for a while: an order, tiers at which a job takes what is free, and when it accepts which.

A subclass has a ``key`` (see ``_ordering``), and may say with ``placing`` how jobs are placed, and with ``opens`` and
``took`` when a waiting job accepts a tier and what is learned from that; both are compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numpy as np
from numba import typeof, types

from shunter import placers
from shunter import reasons as r
from shunter import world as w
from shunter.arrays import Arrays, Nothing, type_of
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.compiled import kernel, pointer
from shunter.errors import NetworkError, PolicyError
from shunter.model import View
from shunter.network.models import find
from shunter.params import Between, param
from shunter.scheduling.leasing import memory as o
from shunter.scheduling.leasing.decide import decide
from shunter.scheduling.leasing.reserving import leaves_alone, may_stay
from shunter.scheduling.queue import queue as q
from shunter.scheduling.queue.decide import parts_for
from shunter.scheduling.queue.keys import key_pointer
from shunter.scheduling.queue.memory import queue_for, scratch_for, spans
from shunter.scheduling.queue.policy import BACKFILLS, Estimating, Mask, Queued, QueueMemory
from shunter.scheduling.tiers import BEST, EVEN
from shunter.scheduling.waiting_reasons import say, tell_class, tell_everything, tell_pool
from shunter.world import I64, Decision, World

HOUR = 3600.0
SHORTEST_LEASE = 1.0  # seconds
RENEWALS = ("again", "keep", "better")


class Placing(NamedTuple):
    """How jobs are placed by tiers: the same for every demand class, or an array with a number for each."""

    fit: Any = BEST
    spread: Any = EVEN
    takes: Any = True  # (tiers, classes) which tiers a class may be put on, of those that can hold it


@dataclass(frozen=True)
class Leasing(Queued):
    """A queue whose jobs get GPUs for the time of a lease. Subclasses say in which order, and which they take."""

    lease: float = param(
        HOUR,
        "seconds for which a job gets its GPUs before they are offered again; 0: until it ends",
        low=0,
        high=1e7,
        search=Between(600, 28_800, log=True, off="0"),
    )
    renewal: str = param(
        "again",
        "at the end of a lease a job waits for an offer like all others (again), or it keeps its GPUs unless a job "
        "before it in the order takes them (keep), or unless it can have a lower tier (better)",
        choices=RENEWALS,
    )

    def __post_init__(self) -> None:
        if 0 < self.lease < SHORTEST_LEASE:
            raise PolicyError(
                f"parameter 'lease' must be 0, for no lease, or at least {SHORTEST_LEASE:g} s, got {self.lease:g}"
            )

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """How demand classes are placed: given a job of each, and which of them one domain of each tier could hold."""
        return Placing()

    def kinds(self, view: View) -> I64 | None:
        """A number for each job where jobs of the same demand are not treated alike; None: they are."""
        return None

    def configured(self, queue: q.Queue, view: View, cluster: Cluster) -> q.Queue:
        """Jobs are placed by tiers."""
        queue, world = super().configured(queue, view, cluster), view.world
        holds = spans(world, cluster, queue.sample) >= world.jobs[w.GPUS, queue.sample]
        placing = self.placing(view, queue.sample, holds)

        def each(value: Any) -> I64:
            return np.ascontiguousarray(np.broadcast_to(np.asarray(value, np.int64), len(queue.sample)))

        room = np.zeros(int(world.domains.max(initial=0)) + 1, np.int64)
        return queue.replace(tiers=q.Tiers(holds & placing.takes, each(placing.fit), each(placing.spread), room))

    def knowledge(self, sizes: I64, tiers: int, jobs: int) -> Arrays:
        """What only this policy knows, for ``Offers.own``: given the numbers of GPUs that jobs want."""
        return Nothing()

    def inherit(self, offers: o.Offers, old: o.Offers) -> None:
        """Go on with what an earlier memory knew, where that means the same."""

    @staticmethod
    def opens(world: World, offers: o.Offers, job: int, tier: int) -> int:
        """The time from which a waiting job accepts an offer of this tier (ms)."""
        return 0

    @staticmethod
    def took(world: World, offers: o.Offers, job: int, tier: int) -> None:
        """A waiting job takes an offer of this tier."""

    @staticmethod
    def lasts(world: World, offers: o.Offers, job: int, tier: int) -> int:
        """For how long a job gets GPUs of this tier (ms)."""
        return int(offers.config.lease)

    @staticmethod
    def ended(world: World, offers: o.Offers, job: int, tier: int) -> None:
        """The lease of a job on this tier is over."""

    @staticmethod
    def looks(world: World, offers: o.Offers, job: int, tier: int) -> None:
        """A new instant; ``job`` and ``tier`` say nothing."""

    def decision(self) -> Any:
        """The kernel that decides; one serves every policy that does nothing but lease."""
        return decide

    def timer_changes(self, memory: QueueMemory) -> I64:
        """How the policy's timers changed: rows of time (ms), tier, GPUs, timer (ms), from how many waits it comes."""
        if memory.form is None or not isinstance(memory.form.memory, o.Offers):
            return np.zeros((0, len(o.TimerChanges.fields) - 1), np.int64)
        history = memory.form.memory.history
        columns = (history.time, history.tier, history.gpus, history.timer, history.waits)
        return np.stack([column[: history.rows] for column in columns], axis=1)

    def form(self, view: View, cluster: Cluster, previous: Compiled | None) -> Compiled:
        """The compiled form."""
        self.check_lease(view)
        queue = queue_for(self, view, cluster, previous, self.kinds(view))
        # leases end, no job is stopped; a job that finds no room stops no other
        queue = queue.replace(config=queue.config.replace(preemptive=False, strict=False))
        parts = parts_for(
            key_pointer(type(self).key), placers.kernel_of("consolidate"), tiers=True, learned=bool(self.predictor)
        )
        cls = type(self)
        hooks = (cls.opens, cls.took, cls.lasts, cls.ended, cls.looks)
        tools = tools_for(parts, hooks, view.reasons_wanted, self.backfill != "none")
        offers = self.memory(view, queue)
        if previous is not None and isinstance(previous.memory, o.Offers):
            self.inherit(offers, previous.memory)
        return Compiled(decide_pointer(self.decision(), tools), offers, tools)

    def check_lease(self, view: View) -> None:
        """Refuse a lease that some job would spend on nothing but its restart."""
        jobs = view.world.jobs
        longest = int(jobs[w.RESTART].max(initial=0))
        if view.leases and 0 < self.lease * 1000 <= longest:
            size = int(jobs[w.GPUS, jobs[w.RESTART] == longest].min())
            raise PolicyError(
                f"policy '{type(self).__name__.lower()}': lease={self.lease:g} is too short: restarting a job with "
                f"{size} GPUs takes {longest / 1000:g} s, so that it would never get any work done; set a longer "
                "lease, lease=0 for none, or a shorter restart in [overheads] of the cluster"
            )

    def memory(self, view: View, queue: q.Queue) -> o.Offers:
        """The arrays that it remembers."""
        world = view.world
        nothing = np.full(len(queue.sample), -1, np.int64)
        sizes, size_of = np.unique(world.jobs[w.GPUS, queue.sample], return_inverse=True)

        classes = len(queue.sample)
        nodes, gpus = (world.nodes.shape[1], world.gpus.shape[1]) if self.backfill != "none" else (0, 0)
        return o.Offers(
            queue=queue,
            config=o.LeaseConfig(
                lease=round(self.lease * 1000) if self.lease > 0 and view.leases else w.NEVER,
                renewal=RENEWALS.index(self.renewal),
                gated=type(self).opens is not Leasing.opens,
            ),
            state=o.LeaseState(),
            candidate=nothing,
            offered=nothing.copy(),
            gate=o.Gates(*[np.zeros(classes, np.int64) for _ in o.Gates.fields]),
            wakes=np.full(o.MOST_WAKES, -1, np.int64),
            aside=np.zeros(world.jobs.shape[1], np.int64),
            then=scratch_for(nodes, gpus, int(world.clock[w.SLOTS_PER_GPU])),
            size_of=size_of,
            gpus_of=sizes,
            seat=np.zeros(0, np.int64),
            own=self.knowledge(sizes, len(queue.tiers.takes), world.jobs.shape[1]),
            history=timer_changes_for(0),
        )


@dataclass(frozen=True)
class Backfilled(Estimating, Leasing):
    """The same with backfilling as a choice."""

    backfill: str = param(
        "none",
        "where a job finds no room, later ones take what is free (none), or only if that can't delay the first such "
        "job: room is reserved for it at the earliest time at which there should be some (easy)",
        choices=BACKFILLS[:2],
    )
    ties: str = param(
        "submission",
        "of jobs that stand alike in the order, the one submitted first comes first (submission), or the one that has "
        "waited longest since it last had GPUs (assignment), as in the simulator of Dally's authors",
        choices=("submission", "assignment"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ties == "assignment" and (self.backfill != "none" or self.lease == 0):
            raise PolicyError("ties=assignment goes with a lease and without backfilling; set lease and backfill=none")
        if self.backfill == "easy" and self.renewal == "better":
            raise PolicyError(
                "renewal=better contradicts backfill=easy: the better place that a job leaves its GPUs for may be "
                "reserved; use keep or again"
            )

    def configured(self, queue: q.Queue, view: View, cluster: Cluster) -> q.Queue:
        """Jobs that stand alike may go by how long they have waited."""
        queue = super().configured(queue, view, cluster)
        return queue.replace(tie=np.zeros(len(queue.key), np.int64)) if self.ties == "assignment" else queue


def timer_changes_for(rows: int) -> o.TimerChanges:
    """Room for this many changes of timers."""
    columns = ("time", "tier", "gpus", "timer", "waits")
    return o.TimerChanges(**{name: np.zeros(rows, np.int64) for name in columns})


def first_only(holds: Mask) -> Mask:
    """Of the tiers that could hold each class only the first."""
    first: Mask = np.arange(len(holds))[:, None] == np.argmax(holds, axis=0)
    return first


def skew_of(model: str) -> float:
    """The largest layer over all; of a model that is unknown 1, so that it is consolidated."""
    try:
        return find(model).skew
    except NetworkError:
        return 1.0


@kernel
def silent(world: World, offers: o.Offers, parts: q.Parts, plan: Decision) -> None:
    """What a policy uses that needn't say why jobs wait."""


@kernel
def tell_offer(offers: o.Offers, plan: Decision, cls: int) -> None:
    """Say that a class waits for a lower tier although GPUs are free, and for how long."""
    given, timer, lowest = offers.queue.given, offers.gate.timer[cls], 0
    while offers.queue.tiers.takes[lowest, cls] == 0:
        lowest += 1
    news = given.code[cls] != r.OFFER or abs(given.free[cls] - timer) * 10 > timer
    if news and say(plan, r.OF_CLASS, cls, r.OFFER, lowest, timer, offers.gate.evidence[cls]):
        given.code[cls], given.free[cls] = r.OFFER, timer


@kernel
def give_reasons(world: World, offers: o.Offers, parts: q.Parts, plan: Decision) -> None:
    """Say what has changed in why jobs wait."""
    queue = offers.queue
    if world.clock[w.N_PENDING] == 0 or tell_everything(world, queue, plan) != r.NONE:
        return
    if queue.config.backfill == q.B_EASY:
        for pool in range(len(queue.head)):
            tell_pool(world, queue, plan, pool)
    for cls in range(len(queue.size)):
        if queue.size[cls] > 0:
            if queue.blocked[cls] == 0 and offers.offered[cls] > 0 and offers.candidate[cls] < 0:
                tell_offer(offers, plan, cls)
            else:
                tell_class(world, queue, plan, cls)


@kernel
def never_in_the_way(world: World, offers: o.Offers, terms: o.Terms, paper: q.Paper, cls: int) -> bool:
    """What a policy uses in place of ``leaves_alone`` that reserves nothing ..."""
    return True


@kernel
def always_stays(
    world: World, offers: o.Offers, terms: o.Terms, paper: q.Paper, job: int, gpu_ids: I64, end: int
) -> bool:
    """... and in place of ``may_stay``."""
    return True


@functools.cache
def tools_for(
    parts: q.Parts, hooks: tuple[Callable[..., Any], ...], reasons: bool, reserves: bool = False
) -> o.OfferTools:
    """The pointers that a policy needs, compiled; the rest isn't."""
    world, offers, number = type_of(World), type_of(o.Offers), types.int64
    asks, notes = (kind(world, offers, number, number) for kind in (number, types.void))
    opens, took, lasts, ended, looks = map(_pointer, hooks, (asks, notes, asks, notes, notes))
    giving = _pointer(give_reasons if reasons else silent, types.void(world, offers, typeof(parts), type_of(Decision)))
    terms = o.Terms(parts, opens, lasts)
    window = np.zeros(1, np.int64)
    seen = (world, offers, typeof(terms), typeof(q.Paper(*[window] * 5)), number)
    leaves, stays = (leaves_alone, may_stay) if reserves else (never_in_the_way, always_stays)
    reserving = _pointer(leaves, types.boolean(*seen)), _pointer(stays, types.boolean(*seen, typeof(window), number))
    return o.OfferTools(parts, opens, took, lasts, ended, looks, giving, terms, *reserving)


@functools.cache
def decide_pointer(decide: Any, tools: o.OfferTools) -> Any:
    """The decision, compiled; the types of its arguments are always the same."""
    return _pointer(decide, types.void(type_of(World), type_of(o.Offers), typeof(tools), type_of(Decision)))


@functools.cache
def _pointer(function: Any, signature: Any) -> Any:
    return pointer(function, signature)

"""The live cluster as a backend: a policy sees it as a view, plans on paper, and ``wanted`` returns the changes.

Nothing here changes a job: see ``rounds``.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster
from shunter.errors import PolicyError
from shunter.live import job_arrays
from shunter.live.ended_jobs import EndedHistory
from shunter.live.machines import Machines, machines_of
from shunter.live.manager import Looks
from shunter.live.replica import Names, Replica
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.stops import StopLimits
from shunter.model import Action, Plan, Preempt, Refusal, Resize, Start, Timer, Trace, View
from shunter.texts import counted
from shunter.world import I64

ROUNDING_S = 0.01  # a wait may end so much too early
REQUEST = [
    *(w.SUBMIT, w.GPUS, w.SHARE, w.USER, w.VC, w.TYPE, w.LIMIT, w.CPU, w.MEM, w.DEADLINE, w.MODEL, w.DECLARED, w.NAME),
    *(w.ACCOUNT, w.SPAN, w.MIN_GPUS, w.MAX_GPUS, w.CURVE),
]  # of a job, in the view: what a policy may take for settled once it has seen the job
RELEASES_A_ROUND = 1_000_000  # room for what is released on paper within one
Levers = frozenset[str]


@dataclass(frozen=True)
class Scope:
    """Which waiting jobs a policy may order; all others are left to the manager."""

    without_users: frozenset[str] = frozenset()
    without_partitions: frozenset[str] = frozenset()
    without_qos: frozenset[str] = frozenset()

    def covers(self, job: LiveJob) -> bool:
        """Whether this is one of them: it waits for its turn, wants GPUs, and is not excluded."""
        return job.waits and job.gpus + job.shards > 0 and not self.excludes(job)

    def excludes(self, job: LiveJob) -> bool:
        """Whether a job, waiting or running, is the manager's alone."""
        return (
            job.hints.sla == "yes"
            or job.user in self.without_users
            or job.qos in self.without_qos
            or not self.without_partitions.isdisjoint(job.partition.split(","))
        )


@dataclass(frozen=True)
class Rhythm:
    """How often the manager is asked: a whole look every interval, and one more whenever its counters have changed."""

    interval_s: float = 60.0
    poll_s: float = 5.0  # at the least between two questions


@dataclass
class Round:
    """One look at the cluster and what the policy wants of it."""

    number: int
    snapshot: Snapshot
    view: View
    jobs: tuple[LiveJob, ...]  # by row of the view
    ranking: list[str] = field(default_factory=list)  # the waiting jobs in the policy's order, those to start now first
    starts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what should start now, and on which nodes
    shared: set[str] = field(default_factory=set)  # which of them beside another on its GPU
    preempts: list[str] = field(default_factory=list)  # what should be stopped and queued again
    sizes: dict[str, int] = field(default_factory=dict)  # what should have another number of GPUs, and how many
    refusals: list[Refusal] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)  # which jobs may be changed
    took_s: float = 0.0  # for looking, deciding and planning, not for acting
    looked: float = field(default_factory=time.monotonic)  # when the look began

    @property
    def waiting(self) -> int:
        """How many jobs the policy orders; every task of an array counts, though the view has only the first ones."""
        records = {self.jobs[row].target: self.jobs[row] for row in self.view.pending}
        return sum(job_arrays.count(job_arrays.numbers(job.tasks)) if job.tasks else 1 for job in records.values())


class LiveView(View):
    """A view of a live cluster."""

    leases = False  # the manager has none
    order_wanted = True  # it becomes priorities

    def __init__(
        self, replica: Replica, generation: int, earlier: Mapping[int, Sequence[str]], past: EndedHistory
    ) -> None:
        """``earlier``: the jobs of views before this one, the last one last, by generation."""
        shown = replica.view
        super().__init__(shown.world, None, shown.names)
        self.generation, self._earlier, self._rows, self._past = generation, earlier, replica.rows, past
        self.moved = self.moved_since(max(earlier, default=0))

    def moved_since(self, generation: int) -> I64:
        """Where each row of the views of a generation is now; a policy that failed may remember an older one."""
        return np.array([self._rows.get(job, -1) for job in self._earlier.get(generation, ())], np.int64)

    @cached_property
    def past(self) -> Trace | None:  # type: ignore[override]
        """The jobs that ended before."""
        return self._past.trace(tuple(self.names["vc"]))


class LiveBackend:
    """A live cluster: ``wait``, ``look``, let a policy ``apply`` its plans, and see what is ``wanted``."""

    def __init__(
        self,
        manager: Looks,
        rhythm: Rhythm | None = None,
        scope: Scope | None = None,
        levers: Levers = frozenset({"nice"}),
        history: Trace | None = None,
        *,
        stops: StopLimits | None = None,
        until_idle: bool = False,
    ) -> None:
        self.stops = stops or StopLimits()
        self.stops_left = self.stops.per_hour  # of this hour; whoever keeps the journal says so before a look
        self.manager, self.rhythm, self.scope, self.levers = manager, rhythm or Rhythm(), scope or Scope(), levers
        self.until_idle = until_idle  # whether iteration ends when no job is left
        self.number = 0  # of the last look
        self.names = Names.of(history)
        self._past = EndedHistory(self.names, history)
        self._racks = manager.racks()
        self._machines: Machines = machines_of(manager.nodes(), racks=self._racks)
        self._round: Round | None = None
        self._replica: Replica | None = None
        self._requests: I64 = np.zeros(0, np.int64)  # of its jobs
        self._generation = 0
        self._earlier: dict[int, list[str]] = {}  # jobs of the last view decided on and of the last one, by generation
        self._order: Sequence[int] | None = None  # of the waiting jobs in this round, where the policy has one
        self._starting: dict[str, tuple[tuple[int, ...], int]] = {}  # planned, and since when (ms)
        self._timer = w.NEVER
        self._looked = self._asked = -float("inf")
        self._counters = ""

    # -- the contract

    @property
    def cluster(self) -> Cluster:
        """The machines."""
        return self._machines.cluster

    def prepare(self, needs: frozenset[str]) -> None:
        """Refuse a policy that needs what the manager does not know."""
        if needs:
            raise PolicyError(
                f"a live cluster does not know {', '.join(sorted(needs))}, which this policy needs; choose another"
                " (estimate=limit or history instead of oracle)"
            )

    def __iter__(self) -> Iterator[View]:
        """One view after the other; nothing is done on the cluster."""
        while self.wait(threading.Event()):
            view = self.look()
            if view is None or (self.until_idle and not len(view.pending) + len(view.running) + len(view.ended)):
                return
            yield view

    def apply(self, plan: Plan) -> Sequence[Refusal]:
        """Check the whole plan and do it on paper; if anything is refused, nothing is done."""
        current = self._round
        assert current is not None
        assert self._replica is not None
        refusals = [Refusal(action, why) for action in plan.actions if (why := self._no_lever(action))]
        refusals = refusals or self._too_many_stops(plan)
        refusals = refusals or list(self._replica.simulator.apply(plan))
        current.refusals += refusals
        if plan.order is not None:
            self._order = plan.order
        for action in () if refusals else plan.actions:
            if isinstance(action, Start):
                job = current.jobs[action.job].id
                self._starting[job] = (tuple(action.gpus), current.snapshot.now)
                current.starts[job] = self._nodes_of(action.gpus)
                if action.shared:
                    current.shared.add(job)
                elif len(action.gpus) != current.jobs[action.job].gpus and any(self._widths(current.jobs[action.job])):
                    current.sizes[job] = len(action.gpus)
            elif isinstance(action, Preempt):
                current.preempts.append(current.jobs[action.job].id)
            elif isinstance(action, Resize):
                current.sizes[current.jobs[action.job].id] = len(action.gpus)
            elif isinstance(action, Timer):
                self._timer = min(self._timer, action.at)
        return refusals

    def forget_plan(self) -> None:
        """A decision failed: what it has planned to start is not to be waited for."""
        if self._round is not None:
            now = self._round.snapshot.now
            self._starting = {job: planned for job, planned in self._starting.items() if planned[1] != now}

    def _too_many_stops(self, plan: Plan) -> list[Refusal]:
        """Refusals where a plan stops more jobs than are left of this hour: a part of them would make no room."""
        assert self._round is not None
        stops = [action for action in plan.actions if isinstance(action, Preempt | Resize)]
        resized = sum(job.runs for job in self._round.jobs if job.id in self._round.sizes)
        if not stops or len(self._round.preempts) + resized + len(stops) <= self.stops_left:
            return []
        most = counted(self.stops.per_hour, "job", "are")
        why = f"at most {most} stopped in an hour, and {self.stops_left} are left of this one"
        return [Refusal(action, why) for action in stops]

    def _stoppable(self, job: LiveJob) -> bool:
        """Whether the policy may count on stopping a job: of a running one now, of a waiting one once it runs."""
        if "requeue" not in self.levers or self.scope.excludes(job):
            return False
        if not job.runs:
            return self.stops.ever(job)
        return self.stops_left > 0 and self.stops.now(job)

    def _widths(self, job: LiveJob) -> tuple[int, int]:
        """The fewest and the most GPUs that the policy may give a job; (0, 0): as many as it asks for."""
        return job.widths if "resize" in self.levers and self._stoppable(job) else (0, 0)

    def _no_lever(self, action: Action) -> str:
        """Why the manager can't do an action at all; "": it can."""
        if isinstance(action, Start | Timer):
            return ""
        if not isinstance(action, Preempt | Resize):
            return f"a live cluster has no lever for {type(action).__name__}"
        resizes = isinstance(action, Resize)
        for lever, doing in (("requeue", "stopping"), ("resize", "resizing"))[: 1 + resizes]:
            if lever not in self.levers:
                return f"{doing} jobs is switched off (lever {lever})"
        assert self._round is not None
        job = self._round.jobs[action.job] if 0 <= action.job < len(self._round.jobs) else None
        return _not_agreed(job, resizes) if job is not None else ""

    # -- looking

    def wait(self, stop: threading.Event) -> bool:
        """Wait until the interval is over, a policy's timer is due, or something has happened; False: stopped."""
        while not stop.wait(self._pause()):
            self._asked = time.monotonic()
            before, self._counters = self._counters, self.manager.counters()
            over = self._asked - self._looked >= self.rhythm.interval_s - ROUNDING_S
            if over or time.time() * 1000 >= self._timer or before != self._counters:
                self._looked, self._timer = self._asked, w.NEVER
                return True
        return False

    def rest(self) -> None:
        """A look failed: the next one comes after an interval."""
        self._looked, self._counters = time.monotonic(), ""

    def _pause(self) -> float:
        """Seconds until the next question: a poll after the last one, but none shortly before the interval ends."""
        now, poll = time.monotonic(), self.rhythm.poll_s
        rest, left = self._asked + poll - now, self._looked + self.rhythm.interval_s - now
        silent = not self._counters  # it did not answer: an interval is soon enough
        return max(left if rest < left and (silent or left - rest < poll) else rest, 0.0)

    def look(self) -> View | None:
        """Poll the cluster; None: its machines are others than before, and a policy must be started again for these."""
        begun = time.monotonic()
        snapshot = self.manager.snapshot()
        return None if self._other_machines(snapshot) else self._shown(snapshot, begun)

    def _other_machines(self, snapshot: Snapshot) -> bool:
        """Whether nodes came, went or changed."""
        present = machines_of(snapshot.nodes, racks=self._racks)
        if (present.names, present.cluster) == (self._machines.names, self._machines.cluster):
            if (present.vc, present.only_type) != (self._machines.vc, self._machines.only_type):
                self._machines = present  # a partition came or went
            return False
        self._machines = present
        self._starting.clear()
        self._looked = -float("inf")
        return True

    def _shown(self, snapshot: Snapshot, looked: float) -> View:
        """A view of a replica of the cluster."""
        self.number += 1
        previous, waited = self._replica, self._waiting()
        ended = self._ended(snapshot)
        self._past.note(snapshot, ended)
        waiting = [job for job in snapshot.jobs if self.scope.covers(job)]
        replica = Replica(
            snapshot, self._machines, self.names, waiting, ended=ended, stoppable=self._stoppable, widths=self._widths
        )
        requests = replica.simulator.world.jobs[REQUEST]  # users change their jobs at any time
        if (
            previous is None
            or previous.machines is not self._machines
            or [job.id for job in previous.jobs] != [job.id for job in replica.jobs]
            or (previous.bound, previous.node_sets) != (replica.bound, replica.node_sets)
            or not np.array_equal(self._requests, requests)
        ):
            self._generation += 1
        view = LiveView(replica, self._generation, self._earlier, self._past)
        decided = dict(itertools.islice(self._earlier.items(), 1))
        self._earlier = decided | {self._generation: [job.id for job in replica.jobs]}
        self._replica, self._requests = replica, requests
        self._round, self._order = (
            Round(self.number, snapshot, view, replica.jobs, scope=self.scope, looked=looked),
            None,
        )
        self._begin(replica, [replica.rows[job.id] for job in ended], waited)
        return view

    def _waiting(self) -> frozenset[str]:
        """The jobs that wait in the last view, after what was planned."""
        if self._round is None:
            return frozenset()
        return frozenset(self._round.jobs[row].id for row in self._round.view.pending.tolist())

    def _begin(self, replica: Replica, ended: list[int], waited: frozenset[str]) -> None:
        """Put on paper what was to start and has not yet, and show what is new since the last view."""
        world = replica.simulator.world
        world.clock[w.RELEASES] = self.number * RELEASES_A_ROUND  # whatever the policy saw before may have changed
        lapsed = replica.snapshot.now - round(2000 * self.rhythm.interval_s)
        for job, (gpus, since) in list(self._starting.items()):
            row = replica.rows.get(job, -1)
            starts = row >= 0 and world.jobs[w.STATE, row] == w.PENDING and since > lapsed
            if not starts or replica.simulator.apply(Plan((Start(row, gpus),))):
                del self._starting[job]
        stopping = [row for row, job in enumerate(replica.jobs) if job.state == "COMPLETING"]
        world.jobs[w.STATE, stopping] = w.STOPPING  # they hold their GPUs still, and are not to be stopped again
        arrived = [row for row in replica.view.pending.tolist() if replica.jobs[row].id not in waited]
        for name, length, rows in ((w.L_ARRIVED, w.N_ARRIVED, arrived), (w.L_ENDED, w.N_ENDED, ended)):
            world.clock[length] = len(rows)
            world.lists[name, : len(rows)] = rows

    def _ended(self, snapshot: Snapshot) -> list[LiveJob]:
        """Jobs of the last view that have run and ended since."""
        if self._replica is None:
            return []
        present = {job.id: job for job in snapshot.jobs}
        found = []
        for before in self._replica.jobs:
            job = present.get(before.id)
            if before.over or (job is None and not before.runs):
                continue  # shown already, or cancelled while it waited
            if job is None:
                found.append(before.ended_at(snapshot.now))
            elif job.has_run:
                found.append(job)
        return found

    @property
    def current(self) -> Round:
        """The round that the last look has begun."""
        assert self._round is not None
        return self._round

    # -- what comes of a view

    def wanted(self) -> Round:
        """What the policy wants of the last view."""
        current, replica = self._round, self._replica
        assert current is not None
        assert replica is not None
        self._earlier = {self._generation: self._earlier[self._generation]}
        order = current.view.pending.tolist() if self._order is None else self._order
        first = sorted(self._starting, key=lambda job: self._starting[job][1])
        current.ranking = [*first, *(replica.jobs[row].id for row in order)]
        current.took_s = time.monotonic() - current.looked
        return current

    def _nodes_of(self, gpus: Sequence[int]) -> tuple[str, ...]:
        owners = np.repeat(np.arange(self.cluster.nodes), self.cluster.node_gpus)
        return tuple(dict.fromkeys(self._machines.names[owners[gpu]] for gpu in sorted(gpus)))


def _not_agreed(job: LiveJob, resizes: bool) -> str:
    """Why a job may not be stopped, or resized; "": it has agreed."""
    if not job.may_be_requeued:
        return "the job has not agreed to be stopped and queued again (requeue=yes in its comment)"
    if resizes and not any(job.widths):
        return "the job has not agreed to be resized (resize=2-8 in its comment), or asks for GPUs in another form"
    return ""

"""The controller: moves a live cluster towards the plan of a policy, safely and with few changes.

Three modes.  *watch* says what it would do, *dry-run* prints the exact commands, *act* runs them.  Whatever it does is
in the journal first.  It never cancels a job, and if it stops, the manager goes on by its own rules.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.live.backend import Levers, Round
from shunter.live.journal import ABANDONED, DONE, FAILED, INTENT, UNDONE, UNMARKED, Journal
from shunter.live.levers import Order, chained
from shunter.live.manager import DeclinedError, ForbiddenError, GoneError, ResourceManager, UnreachableError
from shunter.live.ordering import affordable, merged, moves
from shunter.live.reconciling import Force, Reconciler
from shunter.live.replica import number_of
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.stops import HOUR_S, StopLimits
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.live.switching import PolicySwitch

KEPT_DAYS = 90.0  # in the journal, of jobs that are gone
DAY_S = 86_400.0
LONGEST_REST = 6  # doublings of the interval that a job is left alone for whose change the manager declined
GIVEN_BACK = ("pin", "resize", "shard", "priority")  # as soon as the lever is switched off
OLDEST_LOOK = 2.0  # intervals after which nothing is done any more that was decided on it
FRESH_S = 10.0  # and however short the interval is, a look is good for so long
NO_MARKS = "this account may not write the AdminComment of jobs: what they had before is in the journal alone"
ROUND_SHARE = 0.8  # of an interval that may go by in acting


class Mode(StrEnum):
    """What is done with the changes that a policy wants."""

    WATCH = "watch"
    DRY_RUN = "dry-run"
    ACT = "act"


@dataclass(frozen=True)
class ChangeLimits:
    """How much may be changed."""

    changes: int = 100  # in one round
    depth: int = 1000  # a job further back than this, that should be there, is not moved
    lift: int = 10_000  # so far above the highest natural priority a job may be put
    stops: StopLimits = field(default_factory=StopLimits)  # with the lever requeue


@dataclass
class RoundResult:
    """What came of a round."""

    round: Round
    orders: list[Order]
    postponed: int = 0  # orders that the bounds put off
    done: int = 0
    failed: list[tuple[Order, str]] = field(default_factory=list)
    respected: dict[str, str] = field(default_factory=dict)  # jobs that someone else changed, just noticed
    silence: str = ""  # why changes were abandoned: the manager did not answer, or could not report other controllers
    stale_s: float = 0.0  # how old the look was when nothing was done because it was too old
    paused: str = ""  # why nothing is changed at present
    unread: dict[str, str] = field(default_factory=dict)  # jobs and nodes that can't be read, just noticed, and why
    policy: str = ""  # in force in this round
    switch: PolicySwitch | None = None  # to that policy, or one that was refused
    remark: str = ""  # of what chooses the policy
    ratio: float | None = None  # realised mean wait over the shadow's, where the guard has compared them


class Controller:
    """Turns rounds into orders, and orders into changes."""

    def __init__(
        self,
        manager: ResourceManager,
        journal: Journal,
        *,
        mode: Mode = Mode.WATCH,
        levers: Levers = frozenset({"nice"}),
        bounds: ChangeLimits | None = None,
        interval_s: float = 60.0,
    ) -> None:
        self.manager, self.journal, self.mode, self.levers = manager, journal, mode, levers
        self.bounds, self.interval_s = bounds or ChangeLimits(), interval_s
        self.paused = ""  # why it only watches for now; "": it doesn't
        self.doubt = ""  # why the policy may not be switched: the guard's last comparison; "": it may
        self.unsure = ""  # why nothing at all is changed in this round; "": it may be
        self.outdated = False  # whether jobs were given back since the look of this round: it shows what is no more
        self._refused: dict[str, tuple[int, float]] = {}  # jobs that were not changed: how often, until when
        self.marks = True  # whether this account may write the AdminComment of jobs
        self._reconciler = Reconciler(manager, journal)
        self._unread: set[str] = set()
        self._tidy_at = -float("inf")

    def note(self, kind: str, text: str) -> None:
        """Note an event in the journal; one that only watches writes nothing."""
        if self.mode is Mode.ACT:
            self.journal.note(kind, text)

    # -- a round

    def act_on(self, wanted: Round) -> RoundResult:
        """Reconcile the journal with what the jobs show, find the orders, and carry them out in mode act."""
        acts = self.mode is Mode.ACT
        if acts:
            self.journal.live(os.getpid(), self.interval_s)
            self._tidy(wanted.snapshot)
        stale_s = self._stale_s(wanted) if acts else 0.0
        may_change = not stale_s and not self.unsure
        respected = {} if self.outdated else self.respect(wanted.snapshot, may_change)
        begun = time.perf_counter()
        orders, postponed = self.orders(wanted)
        wanted.took_s += time.perf_counter() - begun
        result = RoundResult(
            wanted,
            orders if acts else chained(orders, self.manager.annotated),
            postponed,
            respected=respected,
            paused=self.paused,
            unread=self._unreadable(),
        )
        if acts:
            result.stale_s, result.silence = stale_s or self._stale_s(wanted), self.unsure
            if not result.stale_s and not result.silence:
                self._carry_out(orders, result)
            self.journal.live(os.getpid(), self.interval_s)
        return result

    def _stale_s(self, current: Round) -> float:
        """How old a look is that is too old to act on; 0: it is not."""
        age_s = time.monotonic() - current.looked
        return age_s if age_s > max(OLDEST_LOOK * self.interval_s, FRESH_S) else 0.0

    def orders(self, current: Round) -> tuple[list[Order], int]:
        """The changes of this round that lead to what the policy wants, and how many more it would take."""
        force, alone = self.journal.in_force(), self.journal.left_alone()
        jobs = {job.id: job for job in current.jobs if job.state == "PENDING"}
        unknown = {act.order.handle for act in self.journal.acts(INTENT)}  # whether they are changed will be seen
        unknown |= self._reconciler.corrected
        free = {name: job for name, job in jobs.items() if job.handle not in alone and job.handle not in unknown}
        ours = {name: job for name, job in free.items() if not self._rests(job.handle)}
        found = [order for order in self._lifted(current, force) if order.handle not in unknown]
        if self.paused:
            return self._cut(found)
        found += self._requeues(current, unknown | alone.keys())
        stopped = {order.handle for order in found if order.lever == "requeue"}
        found += self._resizes(current, unknown | alone.keys() | stopped, force, len(stopped))
        if "pin" in self.levers:
            found += self._pins(current, ours, force)
        if "shard" in self.levers:
            shared = [ours[name] for name in current.starts if name in current.shared and name in ours]
            fewer = [job for job in shared if (job.handle, "shard") not in force]  # once, not again and again
            found += [order for job in fewer if (order := self._shard(job, force))]
        if self.levers & {"nice", "priority"}:
            back = {
                order.handle for order in found if order.lever == "priority"
            }  # as long as it has one, nice is ignored
            ranking = [ours[name] for name in current.ranking if name in ours and ours[name].handle not in back]
            urgent, later = self._cut(found)
            ranked, more = self._ranked(current.snapshot, ranking, force, self.bounds.changes - len(urgent))
            return [*urgent, *ranked], later + more
        return self._cut(found)

    def _cut(self, orders: list[Order]) -> tuple[list[Order], int]:
        urgent = orders[: self.bounds.changes]
        return urgent, len(orders) - len(urgent)

    def _order(self, job: LiveJob, lever: str, value: str, why: str, force: Force) -> Order:
        """A change to exactly this record, which goes with a mark that says what the job had before our first one."""
        own = own_value(job, lever, force)
        journal = self.journal.id if self.marks else ""
        return Order(job.handle, lever, value, own, why, job.target, job.annotation, journal)

    def stops_left(self) -> int:
        """How many jobs may still be stopped within this hour; what is not known to have failed counts as done."""
        return max(self.bounds.stops.per_hour - self.journal.stops_since(time.time() - HOUR_S), 0)

    def _requeues(self, current: Round, without: Set[str]) -> list[Order]:
        """Jobs to be stopped: each has agreed, ran long enough, and was neither stopped too often nor left alone.

        The policy was shown only such jobs; this is checked again because a stop can't be undone.
        """
        if not current.preempts or "requeue" not in self.levers:
            return []
        why, limits = "the policy gives its GPUs to others", self.bounds.stops
        wanted = [job for job in current.jobs if job.id in current.preempts and limits.now(job)]
        stopped = [job for job in wanted if job.handle not in without and not self._rests(job.handle)]
        return [
            Order(job.handle, "requeue", "", str(job.restarts), why, job.target) for job in stopped[: self.stops_left()]
        ]

    def _resizes(self, current: Round, without: Set[str], force: Force, stops: int) -> list[Order]:
        """Jobs that get another number of GPUs: those that wait at once; those that run are asked to queue themselves.

        Each has agreed to the number. One that was asked is given the number once it waits, whatever the policy says
        then, and is not asked twice in one run, nor in vain. ``stops`` are in this round already.
        """
        if "resize" not in self.levers:
            return []
        asked = {act.order.handle: act for act in self.journal.acts(DONE, lever="signal")}
        tried = self.journal.acts(INTENT, DONE, FAILED, UNDONE, lever="resize")
        given = {act.order.handle: act.id for act in tried}  # ids say what came after what: a clock may be set back
        found, left = [], self.stops_left() - stops
        for job in current.snapshot.jobs:
            last, wanted = asked.get(job.handle), current.sizes.get(job.id, 0)
            queued = last is not None and int(last.order.before) < job.restarts
            if job.state == "PENDING" and queued and last is not None and given.get(job.handle, 0) < last.id:
                wanted = int(last.order.value)
            low, high = job.widths
            if not 0 < low <= wanted <= high or wanted == job.gpus or job.handle in without or self._rests(job.handle):
                continue
            value = "" if current.scope.excludes(job) else self.manager.sized(job, wanted)
            if not value:
                continue
            if job.state == "PENDING":
                found.append(self._order(job, "resize", value, f"the policy gives it {counted(wanted, 'GPU')}", force))
            elif self.bounds.stops.now(job) and left > 0 and (last is None or queued):
                why = f"the policy gives it {counted(wanted, 'GPU')}"
                found.append(Order(job.handle, "signal", str(wanted), str(job.restarts), why, job.target))
                left -= 1
        return found

    def _shard(self, job: LiveJob, force: Force) -> Order | None:
        """Half the shards, where it asked for shards."""
        half = self.manager.half_share(job)
        return self._order(job, "shard", half, "the policy lets it share a GPU", force) if half else None

    def _pins(self, current: Round, jobs: Mapping[str, LiveJob], force: Force) -> list[Order]:
        """The nodes that the policy chose for those that should start now."""
        found = []
        parts = Counter(job.handle for job in current.snapshot.jobs)  # of arrays and heterogeneous jobs there are many
        for name, nodes in current.starts.items():
            job, wanted = jobs.get(name), ",".join(nodes)
            if job is None or job.handle != job.id or parts[job.handle] > 1:
                continue
            held = force.get((job.handle, "pin"))
            if held is None or held.order.value != wanted:
                if job.wanted_nodes and held is None:
                    continue  # its user has chosen already
                found.append(self._order(job, "pin", wanted, "the policy chose these nodes", force))
        return found

    def _lifted(self, current: Round, force: Force) -> list[Order]:
        """What goes back in this round: pins that did not make a job start, and what is switched off.

        Whatever waits is looked at, also what a node's failure or a requeue has put back into the queue, and what the
        policy does not see.
        """
        waiting = {job.handle: job for job in current.snapshot.jobs if job.state == "PENDING" and not job.held}
        on = frozenset[str]() if self.paused else self.levers
        return [
            self._order(waiting[handle], lever, act.order.before, "it is given back", force)
            for (handle, lever), act in force.items()
            if handle in waiting
            and ((lever == "pin" and waiting[handle].id not in current.starts) or lever in {*GIVEN_BACK} - on)
        ]

    # -- the order of the queue

    def _ranked(
        self, snapshot: Snapshot, ranking: Sequence[LiveJob], force: Force, most: int
    ) -> tuple[list[Order], int]:
        """A limited number of moves towards this order, and how many remain; none costs an excluded job a place."""
        lever = "nice" if "nice" in self.levers else "priority"
        ours = {job.handle: job for job in reversed(ranking)}  # of an array the first task
        others = {job.handle: job for job in snapshot.jobs if job.waits and job.handle not in ours}
        priority = {handle: job.priority for handle, job in (others | ours).items()}
        lifted = {handle: priority[handle] - self._natural(job, lever, force) for handle, job in ours.items()}
        by_nature = sorted(priority, key=lambda handle: (lifted.get(handle, 0) - priority[handle], number_of(handle)))
        order = merged(by_nature, list(dict.fromkeys(job.handle for job in ranking)))
        natural = [priority[handle] - lifted[handle] for handle in ours] or [1]
        low = max(min(natural) - len(ours), 1)  # room to tell equals apart
        high = min(max(natural) + self.bounds.lift, self.manager.most_priority)
        ties = sorted(priority, key=number_of)  # the manager orders by job ids then
        wanted = moves(order, priority, set(others), low, high, ties)
        now_at = {handle: at for at, handle in enumerate(sorted(ties, key=lambda handle: -priority[handle]))}
        goes_to = {handle: at for at, handle in enumerate(order)}
        urgency = {handle: min(now_at[handle], goes_to[handle]) for handle in wanted}
        chosen = sorted((handle for handle in wanted if urgency[handle] < self.bounds.depth), key=urgency.__getitem__)
        now = affordable(chosen, wanted, order, priority, set(others), ties, most)
        found = []
        for handle in now:
            place = f"place {goes_to[handle] + 1} of {len(order)}, it stands at {now_at[handle] + 1}"
            value = self._value(ours[handle], lever, wanted[handle])
            made = self._order(ours[handle], lever, value, f"the policy puts it at {place}", force)
            found.append(replace(made, raises=wanted[handle] > priority[handle]))
        return found, max(len(chosen) - len(now), 0)

    def _natural(self, job: LiveJob, lever: str, force: Force) -> int:
        """The priority that a job would have if we had not touched it."""
        own = own_value(job, lever, force)
        return job.priority + job.nice - int(own) if lever == "nice" else int(own.partition(":")[0])

    def _value(self, job: LiveJob, lever: str, priority: int) -> str:
        """What a lever must be set to for a job to have this priority."""
        if lever == "priority":
            return str(priority)
        most = self.manager.most_nice
        return str(max(min(job.nice + job.priority - priority, most), -most))

    # -- doing it

    def _carry_out(self, orders: Sequence[Order], result: RoundResult) -> None:
        """Do these, each written down first; when the manager does not answer or forbids it, the rest is abandoned."""
        ended, annotations = "", dict[str, str]()  # a job may get several orders, and each adds a mark
        unpaid = ""  # a job that did not make room: no other may be put before excluded ones in its place
        with self.manager.within(max(self.interval_s * ROUND_SHARE, 1.0)):
            for act in self.journal.intend(result.round.number, orders):
                self.journal.confirm()
                ended = ended or self.journal.handed_back()
                if ended:
                    self.journal.settle(act, ABANDONED, ended)
                    result.failed.append((act.order, ended))
                    continue
                if unpaid and act.order.raises:
                    self.journal.settle(act, ABANDONED, f"job {unpaid} has not made room")
                    result.postponed += 1
                    continue
                try:
                    order = replace(act.order, annotation=annotations.get(act.order.handle, act.order.annotation))
                    order = self._pull(order)
                except UnreachableError as error:
                    ended = result.silence = str(error)
                    self.journal.settle(act, INTENT, ended)  # it may have been done all the same: `recover` looks
                    result.failed.append((act.order, ended))
                except DeclinedError as error:
                    self.journal.settle(act, FAILED, str(error))
                    result.failed.append((act.order, str(error)))
                    self._rest(act.order.handle)
                    if act.order.raises is False and not isinstance(
                        error, GoneError
                    ):  # a job that is gone has made room
                        unpaid = unpaid or act.order.handle
                    if isinstance(error, ForbiddenError):
                        ended = self.paused = result.paused = f"this account may not change the jobs of others: {error}"
                else:
                    annotations[order.handle] = self.manager.annotated(order)
                    self.journal.settle(act, DONE, "" if order.journal else UNMARKED)
                    if order.gives_back:
                        self.journal.settle(act, UNDONE, order.why)
                    result.done += 1

    def _pull(self, order: Order) -> Order:
        """Do one; without a mark where only administrators may write one. Returns it as it was done."""
        if order.lever == "pin" and order.value and not self.manager.waits(order.handle):
            raise DeclinedError("it has started meanwhile")  # the manager would not refuse: it would take nodes from it
        if order.lever == "priority" and order.gives_back and self.manager.held(order.target):
            raise DeclinedError("it has been held meanwhile")
        order = order if self.marks else replace(order, journal="")
        try:
            self.manager.carry_out(order)
        except ForbiddenError as error:
            if not order.journal:
                raise
            order = replace(order, journal="")
            self.manager.carry_out(order)
            self.marks = False
            self.journal.note("marks", f"{NO_MARKS}: {error}")
        return order

    def _rest(self, handle: str) -> None:
        """The manager declined to change a job: it is tried again, ever more rarely, and holds up no other."""
        times = self._refused.get(handle, (0, 0.0))[0] + 1
        self._refused[handle] = times, time.monotonic() + self.interval_s * 2 ** min(times, LONGEST_REST)

    def _rests(self, handle: str) -> bool:
        return handle in self._refused and time.monotonic() < self._refused[handle][1]

    def _tidy(self, snapshot: Snapshot) -> None:
        """Once a day the journal forgets what is long over."""
        here = {name for job in snapshot.jobs if not job.over for name in (job.handle, job.whole)}
        self._refused = {handle: rest for handle, rest in self._refused.items() if handle in here}
        if time.monotonic() >= self._tidy_at + DAY_S:
            self.journal.forget(KEPT_DAYS, here)
            self._tidy_at = time.monotonic()

    def _unreadable(self) -> dict[str, str]:
        """What the last look could not read, and has not reported before."""
        found = {name: why for name, why in self.manager.unread.items() if name not in self._unread}
        self._unread = set(self.manager.unread)
        if found and self.mode is Mode.ACT:
            some = "; ".join(f"{name}: {why}" for name, why in list(found.items())[:10])
            self.journal.note("unread", f"{len(found)} left to {self.manager.name}: {some}")
        return found

    def respect(self, snapshot: Snapshot, may_change: bool = True) -> dict[str, str]:
        """Jobs that others have changed since: these are left alone. Their marks go, if anything may be changed now."""
        acts = self.mode is Mode.ACT
        return self._reconciler.reconcile(snapshot, set(self._refused), may_change) if acts else {}


def own_value(job: LiveJob, lever: str, force: Force) -> str:
    """What a job had before our first change: its mark says so, else the journal, else it has it now."""
    if (mark := job.marked.get(lever)) is not None:
        return mark.before
    if (act := force.get((job.handle, lever))) is not None:
        return act.order.before
    if lever == "priority":  # with the job's own nice, which the manager clears
        nice = int(own_value(job, "nice", force))
        return f"{max(job.priority + job.nice - nice, 1)}:{nice}"
    return {"nice": str(job.nice), "resize": job.sizing, "shard": job.per_node}.get(lever, "")


class Watching(Controller):
    """Changes nothing, and sees in every round what another controller has written down by then."""

    def __init__(self, manager: ResourceManager, path: Path, **how: Any) -> None:
        super().__init__(manager, Journal.in_memory(), **how)
        self.path = path

    def stops_left(self) -> int:
        """By what the other controller has written down."""
        with closing(to_read(self.path)) as self.journal:
            return super().stops_left()

    def act_on(self, wanted: Round) -> RoundResult:
        """What would be done."""
        with closing(to_read(self.path)) as self.journal:
            return super().act_on(wanted)


def to_read(path: Path) -> Journal:
    """The journal at this path, to be read; an empty one where there is none."""
    return Journal.reading(path) if path.is_file() else Journal.in_memory()

"""Scheduling by network tiers played out slowly: the reference for Dally, Tiresias and plain Gandiva.

Plain lists and dictionaries; everything is recomputed whenever it is needed.  Times are integers (ms).  At each instant
(1) jobs whose work is done end, (2) jobs whose time has come begin to wait, (3) who waited too long is promoted,
(4) leases that are over end: the job waits again, its waiting clock at zero, (5) offers are made: all that is free, to
the waiting jobs in their order, until nobody takes any.  After each start the offers begin anew with the first job.

Where the papers leave room, this is what holds here:

- Ties in the order go to the lower job index.  "Last started first" is about a job's first start.
- A job takes the lowest tier that has room for it if it accepts that tier by now; it does not look at higher ones then,
  since whatever has room at a tier has room at all above.
- A tier is accepted once the timers of *all* lower tiers that could hold the job on an empty cluster have run out.
- A wait counts for the tier that was taken, if it was at least one lease long, as long as it is not older than the
  history: a timer may change without anything else happening, and offers are made then.  Of a floor and a ceiling that
  contradict each other (``clamps``) the floor holds.
- ``keep``: when leases end, the GPUs concerned are offered on paper with the free ones.  Their holders stand in the
  order with the waiting jobs; a holder whose GPUs are all still there when its turn comes keeps them for another lease.
  That is repeated with those that are left, until no more is kept; the rest must go.
- ``moves``: at an instant at which GPUs come free, running jobs that began to run there before stand in the order with
  the waiting ones.  In its turn such a job moves to free GPUs of the lowest tier below its own that has room, also of
  one on which it would not be started; its lease goes on.
- ``passes``: there are no leases.  A job that does not fit, in its turn, takes the place of running jobs of a larger
  key: as few as needed, the last in the order first.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shunter.testing.placement import Places
from shunter.testing.reference import RefRun
from shunter.testing.tiers import FREE, Fit, Layout, Spread, holding, lowest_room, place_at, tier_of

Order: TypeAlias = Literal["sensitivity", "service", "time", "last started"]
Timers: TypeAlias = Literal["auto", "manual", "none", "infinite"]
Takes: TypeAlias = Literal["all", "first", "last", "ends"]


@dataclass(frozen=True)
class LeaseJob:
    """A job; its index in the list is its id, and the list is sorted by ``submit``."""

    submit: int
    work: int  # its run time at speed 1
    gpus: int
    speeds: tuple[float, float, float] = (1.0, 1.0, 1.0)  # on one machine, in one rack, further
    takes: Takes = "all"  # which tiers: all that could hold it, the lowest of them, the last, or machine and last
    spread: Spread | None = None  # where it differs from the rules'


@dataclass(frozen=True)
class Rules:
    """What distinguishes the policies; times in ms, limits in (GPU) seconds."""

    order: Order
    lease: int = 0  # 0: for ever
    keep: bool = False
    fit: Fit = "first"
    spread: Spread = "list"
    timers: Timers = "none"
    machine_timer: int = 0
    rack_timer: int = 0
    history: int = 0
    deviations: float = 2.0
    clamps: bool = False
    limits: tuple[float, ...] = ()  # of queues by what was attained; inside a queue who was submitted first goes first
    look_again: int = 0  # how often promotions are considered, and offers made in passes although nothing happened
    promote: float = 0.0
    starve: int = 0
    passes: bool = False
    moves: bool = False

    @property
    def unit(self) -> int:
        """What timers are counted in: a lease, or an hour where there are none."""
        return self.lease or 3_600_000


@dataclass
class Stay:
    """A job on its GPUs."""

    begun: int
    counted: int  # its work is counted up to here
    lease_end: float
    places: Places
    speed: float


@dataclass
class LeaseState:
    """Everything that changes."""

    jobs: Sequence[LeaseJob]
    layout: Layout
    rules: Rules
    nodes: list[list[int]]  # which job holds each GPU
    done: list[float]  # work, as last counted
    executed: list[int]
    forgotten: list[int]  # run time before a promotion
    started: list[int]  # when a job first got GPUs; -1: never
    runs: list[list[RefRun]]
    now: int = -1
    freed: bool = False  # whether GPUs came free at this instant
    looked: int = -1  # when promotions were last considered, in multiples of ``look_again``
    entered: set[int] = field(default_factory=set)
    since: dict[int, int] = field(default_factory=dict)  # waiting job -> when it began to wait
    running: dict[int, Stay] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    waits: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    # (tier, GPUs) -> (when it was over, how long it was) of every wait that counts


def simulate(jobs: Sequence[LeaseJob], layout: Layout, rules: Rules) -> LeaseState:
    """Play it all; ``runs`` and ``waits`` of the result tell what happened."""
    nodes, zeros = [[FREE] * gpus for gpus in layout.gpus], [0] * len(jobs)
    runs: list[list[RefRun]] = [[] for _ in jobs]
    state = LeaseState(jobs, layout, rules, nodes, [0.0] * len(jobs), zeros, list(zeros), [-1] * len(jobs), runs)
    while len(state.ended) < len(jobs):
        state.now, state.freed = next_instant(state), False
        end_finished(state)
        enter(state)
        promote(state)
        end_leases(state)
        while make_all_offers(state):  # a job without work is gone before time moves on
            end_finished(state)
    return state


# --------------------------------------------------------------------------------------------------- time and the queue


def next_instant(state: LeaseState) -> int:
    """The next submission, end, end of a lease or look; when a tier is acceptable, or a wait too old to count."""
    instants: list[float] = [job.submit for index, job in enumerate(state.jobs) if index not in state.entered]
    instants += [true_end(state, index) for index in state.running]
    instants += [stay.lease_end for stay in state.running.values()]
    instants += [opening(state, index, tier) for index in state.since for tier in tiers_of(state, index)]
    if state.rules.timers == "auto":
        instants += [time + state.rules.history + 1 for waits in state.waits.values() for time, _ in waits]
    if state.rules.passes and state.since:
        instants.append((state.now // state.rules.look_again + 1) * state.rules.look_again)
    return int(min(instant for instant in instants if instant > state.now))


def true_end(state: LeaseState, index: int) -> int:
    """When a running job will have done its work where it is."""
    stay = state.running[index]
    return stay.counted + math.ceil((state.jobs[index].work - state.done[index]) / stay.speed)


def end_finished(state: LeaseState) -> None:
    """Rule 1."""
    for index in list(state.running):
        if true_end(state, index) == state.now:
            leave(state, index)
            state.ended.add(index)


def enter(state: LeaseState) -> None:
    """Rule 2."""
    for index, job in enumerate(state.jobs):
        if index not in state.entered and job.submit <= state.now:
            state.entered.add(index)
            state.since[index] = state.now


def promote(state: LeaseState) -> None:
    """Rule 3, at the first instant of each interval ``look_again``: what a job ran is forgotten."""
    rules = state.rules
    if rules.look_again == 0 or state.looked == state.now // rules.look_again:
        return
    state.looked = state.now // rules.look_again
    for index, since in state.since.items():
        ran, waited = state.executed[index] - state.forgotten[index], state.now - since
        long_for_its_run = rules.promote > 0 and waited >= rules.promote * ran
        if ran > 0 and (long_for_its_run or (rules.starve > 0 and waited >= rules.starve)):
            state.forgotten[index] = state.executed[index]


def end_leases(state: LeaseState) -> None:
    """Rule 4."""
    over = [index for index, stay in state.running.items() if stay.lease_end == state.now]
    while state.rules.keep and (kept := renewed(state, over)):
        for index in kept:
            over.remove(index)
            state.running[index].lease_end = state.now + state.rules.lease
    for index in over:
        leave(state, index)
        state.since[index] = state.now


def renewed(state: LeaseState, over: Sequence[int]) -> list[int]:
    """Those of the jobs whose leases are over that keep their GPUs: offers are made on paper, to all in their order."""
    paper = [[FREE if job in over else job for job in node] for node in state.nodes]
    kept = []
    for index in in_order(state, [*state.since, *over]):
        if index in over:
            mine = [
                (node, gpu) for node, held in enumerate(state.nodes) for gpu, job in enumerate(held) if job == index
            ]
            if all(paper[node][gpu] == FREE for node, gpu in mine):
                kept.append(index)
                for node, gpu in mine:
                    paper[node][gpu] = index
        else:
            found = accepted(state, paper, index)
            if found is not None:
                hold(paper, index, found[1])
    return kept


def hold(nodes: list[list[int]], index: int, places: Places) -> None:
    """A job takes the first free GPUs of these nodes."""
    for node, count in places:
        for _ in range(count):
            nodes[node][nodes[node].index(FREE)] = index


def leave(state: LeaseState, index: int) -> None:
    """A running job gives its GPUs back."""
    stay = state.running.pop(index)
    state.executed[index] += state.now - stay.counted
    state.done[index] += (state.now - stay.counted) * stay.speed
    state.nodes = without(state.nodes, index)
    state.runs[index].append(RefRun(stay.begun, state.now, stay.places))
    state.freed = True


def without(nodes: Sequence[Sequence[int]], index: int) -> list[list[int]]:
    """The nodes as they are without a job."""
    return [[FREE if job == index else job for job in node] for node in nodes]


# --------------------------------------------------------------------------------------------------------------- offers


def key(state: LeaseState, index: int) -> tuple[float, float]:
    """What the order goes by at this instant, smaller first; in seconds."""
    job, stay, rules = state.jobs[index], state.running.get(index), state.rules
    more = state.now - stay.counted if stay else 0
    executed = state.executed[index] - state.forgotten[index] + more
    if rules.order == "last started":
        return (-state.started[index] / 1000 if state.started[index] >= 0 else 1.0), 0.0
    if rules.order == "sensitivity":
        work = state.done[index] + more * (stay.speed if stay else 0)
        return ((work / 1000) / (executed / 1000) if executed > 0 else 0.0), 0.0
    attained = executed * (job.gpus if rules.order == "service" else 1) / 1000
    if rules.limits:
        return sum(attained >= limit for limit in rules.limits), job.submit / 1000
    return attained, 0.0


def in_order(state: LeaseState, some: Iterable[int]) -> list[int]:
    """Sort these jobs, the first one first."""
    return sorted(some, key=lambda index: (key(state, index), index))


def make_all_offers(state: LeaseState) -> bool:
    """Rule 5; whether anybody took anything."""
    anybody = False
    while make_offers(state):
        anybody = True
    return anybody


def make_offers(state: LeaseState) -> bool:
    """Offer what is free up to the first job that takes it; whether there was one."""
    moving = [index for index, stay in state.running.items() if stay.begun < state.now] if may_move(state) else []
    for index in in_order(state, [*state.since, *moving]):
        if index in state.running:
            if move(state, index):
                return True
            continue
        found = accepted(state, state.nodes, index)
        if found is not None:
            start(state, index, *found)
            return True
        if state.rules.passes and preempt_for(state, index):
            return True
    return False


def accepted(state: LeaseState, nodes: list[list[int]], index: int) -> tuple[int, Places] | None:
    """The tier and places that a waiting job takes if these GPUs are free."""
    job, rules = state.jobs[index], state.rules
    tier = lowest_room(state.layout, nodes, job.gpus, tiers_of(state, index))
    if tier is None or opening(state, index, tier) > state.now:
        return None
    sizes = [job.gpus for job in state.jobs]
    return tier, place_at(state.layout, nodes, sizes, job.gpus, tier, rules.fit, job.spread or rules.spread)


def tiers_of(state: LeaseState, index: int) -> list[int]:
    """The tiers that a job takes at all."""
    job, last = state.jobs[index], state.layout.tiers - 1
    tiers = list(holding(state.layout, job.gpus))
    if job.takes == "first" or state.rules.timers == "infinite":
        return tiers[:1]
    return {"all": tiers, "last": [last], "ends": [tier for tier in tiers if tier in (0, last)]}[job.takes]


def start(state: LeaseState, index: int, tier: int, places: Places) -> None:
    """A waiting job takes an offer."""
    wait = state.now - state.since.pop(index)
    if tier < state.layout.tiers - 1 and wait >= state.rules.unit:
        state.waits.setdefault((tier, state.jobs[index].gpus), []).append((state.now, wait))
    hold(state.nodes, index, places)
    lease_end = state.now + state.rules.lease if state.rules.lease else math.inf
    speed = state.jobs[index].speeds[min(tier_of(state.layout, places), 2)]
    state.running[index] = Stay(state.now, state.now, lease_end, places, speed)
    if state.started[index] < 0:
        state.started[index] = state.now


def may_move(state: LeaseState) -> bool:
    """Whether running jobs are offered GPUs too."""
    return state.rules.moves and state.freed


def move(state: LeaseState, index: int) -> bool:
    """Move a running job to a lower tier, if there is room; whether there was."""
    job, stay, rules, layout = state.jobs[index], state.running[index], state.rules, state.layout
    tier = lowest_room(layout, state.nodes, job.gpus, range(tier_of(layout, stay.places)))
    if tier is None:
        return False
    sizes = [job.gpus for job in state.jobs]
    places = place_at(layout, state.nodes, sizes, job.gpus, tier, rules.fit, job.spread or rules.spread)
    leave(state, index)
    hold(state.nodes, index, places)
    speed = job.speeds[min(tier_of(layout, places), 2)]
    state.running[index] = Stay(state.now, state.now, stay.lease_end, places, speed)
    return True


def preempt_for(state: LeaseState, index: int) -> bool:
    """Start a job in the place of running jobs that come after it, if that is possible; whether it was."""
    nodes = state.nodes
    lesser = [other for other in in_order(state, state.running) if key(state, other) > key(state, index)]
    off: list[int] = []
    while accepted(state, nodes, index) is None:
        if not lesser:
            return False
        off.append(lesser.pop())
        nodes = without(nodes, off[-1])
    for victim in reversed(list(off)):  # spare those that need not go, the first in order first
        spared = [other for other in off if other != victim]
        with_it = state.nodes
        for other in spared:
            with_it = without(with_it, other)
        if accepted(state, with_it, index) is not None:
            off = spared
    for victim in off:
        leave(state, victim)
        if state.runs[victim][-1].start == state.now:
            state.runs[victim].pop()  # it has not run
        state.since[victim] = state.now
    found = accepted(state, state.nodes, index)
    assert found is not None
    start(state, index, *found)
    return True


# --------------------------------------------------------------------------------------------------------------- timers


def opening(state: LeaseState, index: int, tier: int) -> float:
    """From when on a waiting job accepts a tier."""
    gpus = state.jobs[index].gpus
    timers = [timer(state, below, gpus) for below in holding(state.layout, gpus) if below < tier]
    return math.ceil(state.since[index] + max(timers, default=0.0))


def timer(state: LeaseState, tier: int, gpus: int) -> float:
    """How long a job of so many GPUs waits for this tier before it accepts the next."""
    rules = state.rules
    if rules.timers == "manual":
        return rules.machine_timer + tier * (rules.rack_timer - rules.machine_timer)
    if rules.timers != "auto":
        return 0.0
    recent = [wait for time, wait in state.waits.get((tier, gpus), []) if state.now - time <= rules.history]
    return tuned(rules, tier, recent)


def tuned(rules: Rules, tier: int, waits: Sequence[int]) -> float:
    """The auto-tuner: mean plus some sample standard deviations of the recent waits, one lease if there are none."""
    found, unit = float(rules.unit), rules.unit
    if waits:
        found = statistics.fmean(waits)
        found += rules.deviations * statistics.stdev(waits) if len(waits) > 1 else 0.0
    if not rules.clamps:
        return found
    least, most = (6, math.ceil(0.8 * rules.history / unit)) if tier == 0 else (12, rules.history / unit)
    return max(min(found, most * unit), least * unit)

"""The state at an instant, for the slow reference of policies that lease GPUs: the order, and which job accepts what.

The rules are in ``leases``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shunter.testing.placement import Places
from shunter.testing.reference import RefRun
from shunter.testing.tiers import FREE, Fit, Layout, Spread, holding, lowest_room, place_at

Order: TypeAlias = Literal["sensitivity", "single GPU", "service", "time", "last started"]
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
    estimate: int = 0  # of its work; 0: there is none
    checkpointable: bool = True  # it may be stopped and moved; else it keeps its GPUs until it ends


@dataclass(frozen=True)
class LeaseRules:
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
    limits: tuple[float, ...] = ()  # of queues by what was attained; inside a queue the first submitted goes first
    running_first: bool = False  # inside a queue running jobs go first, then those that ran, then the others
    longest_idle_first: bool = False  # of equal jobs the one without GPUs for longest goes first
    look_again: int = 0  # how often promotions are considered, and offers made in passes although nothing happened
    promote: float = 0.0
    starve: int = 0
    passes: bool = False
    easy: bool = False
    moves: bool = False
    move_again: int = 0  # how often running jobs look for closer GPUs although none came free; 0: never
    returns: bool = False

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
class ReferenceLeases:
    """Everything that changes."""

    jobs: Sequence[LeaseJob]
    layout: Layout
    rules: LeaseRules
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
    seat: dict[int, int] = field(default_factory=dict)  # of jobs whose lease ended: the tier that they had
    waits: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    # (tier, GPUs) -> (when it was over, how long it was) of every wait that counts


# ---------------------------------------------------------------------------------------------- the order and the nodes


def key(state: ReferenceLeases, index: int, at: int | None = None) -> tuple[float, ...]:
    """The key of the order at this instant, or later if the job continues as it does; smaller first; in seconds."""
    job, stay, rules = state.jobs[index], state.running.get(index), state.rules
    more = (state.now if at is None else at) - stay.counted if stay else 0
    executed = state.executed[index] - state.forgotten[index] + more
    if rules.order == "last started":
        return (-state.started[index] / 1000 if state.started[index] >= 0 else 1.0), 0.0
    if rules.order in ("sensitivity", "single GPU"):
        work = state.done[index] + more * (stay.speed if stay else 0)
        work *= job.gpus if rules.order == "single GPU" else 1
        return ((work / 1000) / (executed / 1000) if executed > 0 else 0.0), 0.0
    attained = executed * (job.gpus if rules.order == "service" else 1) / 1000
    if rules.limits:
        return sum(attained >= limit for limit in rules.limits), *inside_queue(state, index, executed)
    return attained, 0.0


def inside_queue(state: ReferenceLeases, index: int, executed: int) -> tuple[float, ...]:
    """The value that queues compare."""
    job, stay = state.jobs[index], state.running.get(index)
    if not state.rules.running_first:
        return (job.submit / 1000,)
    if stay:
        return 0, stay.begun / 1000
    return (1, -state.since[index] / 1000) if executed > 0 else (2, job.submit / 1000)


def in_order(state: ReferenceLeases, some: Iterable[int]) -> list[int]:
    """Sort these jobs, the first one first; running jobs have been without GPUs since now."""
    idle_since = state.since if state.rules.longest_idle_first else {}
    default = state.now if state.rules.longest_idle_first else 0
    return sorted(some, key=lambda index: (key(state, index), idle_since.get(index, default), index))


def lease_end(state: ReferenceLeases, index: int) -> float:
    """When a lease that a job gets now ends."""
    leased = state.rules.lease and state.jobs[index].checkpointable
    return state.now + state.rules.lease if leased else math.inf


def hold(nodes: list[list[int]], index: int, places: Places) -> None:
    """A job takes the first free GPUs of these nodes."""
    for node, count in places:
        for _ in range(count):
            nodes[node][nodes[node].index(FREE)] = index


def without(nodes: Sequence[Sequence[int]], index: int) -> list[list[int]]:
    """The nodes as they are without a job."""
    return [[FREE if job == index else job for job in node] for node in nodes]


# --------------------------------------------------------------------------------------------------------------- offers


def accepted(state: ReferenceLeases, nodes: list[list[int]], index: int) -> tuple[int, Places] | None:
    """The tier and places that a waiting job takes if these GPUs are free."""
    job, rules = state.jobs[index], state.rules
    tier = lowest_room(state.layout, nodes, job.gpus, tiers_of(state, index))
    if tier is None or opening(state, index, tier) > state.now:
        return None
    sizes = [job.gpus for job in state.jobs]
    return tier, place_at(state.layout, nodes, sizes, job.gpus, tier, rules.fit, job.spread or rules.spread)


def has_room(state: ReferenceLeases, nodes: list[list[int]], index: int) -> bool:
    """Whether there is room for a job at any tier that it takes."""
    return lowest_room(state.layout, nodes, state.jobs[index].gpus, tiers_of(state, index)) is not None


def tiers_of(state: ReferenceLeases, index: int) -> list[int]:
    """The tiers that a job takes at all."""
    started_on, last = tiers_to_start_on(state, index), state.layout.tiers - 1
    seat = state.seat.get(index, last) if state.rules.returns else last
    return sorted({*started_on, *(range(seat + 1) if seat < last else ())})


def tiers_to_start_on(state: ReferenceLeases, index: int) -> list[int]:
    """The tiers that a job takes that was never stopped."""
    job, last = state.jobs[index], state.layout.tiers - 1
    tiers = list(holding(state.layout, job.gpus))
    if job.takes == "first" or state.rules.timers == "infinite":
        return tiers[:1]
    return {"all": tiers, "last": [last], "ends": [tier for tier in tiers if tier in (0, last)]}[job.takes]


# --------------------------------------------------------------------------------------------------------------- timers


def opening(state: ReferenceLeases, index: int, tier: int) -> float:
    """The time from which a waiting job accepts a tier."""
    gpus = state.jobs[index].gpus
    timers = [timer(state, below, gpus) for below in holding(state.layout, gpus) if below < tier]
    return math.ceil(state.since[index] + max(timers, default=0.0))


def timer(state: ReferenceLeases, tier: int, gpus: int) -> float:
    """How long a job of this many GPUs waits for this tier before it accepts the next."""
    rules = state.rules
    if rules.timers == "manual":
        return rules.machine_timer + tier * (rules.rack_timer - rules.machine_timer)
    if rules.timers != "auto":
        return 0.0
    recent = [wait for time, wait in state.waits.get((tier, gpus), []) if state.now - time <= rules.history]
    return tuned(rules, tier, recent)


def tuned(rules: LeaseRules, tier: int, waits: Sequence[int]) -> float:
    """The auto-tuner: mean plus some sample standard deviations of the recent waits, one lease if there are none."""
    found, unit = float(rules.unit), rules.unit
    if waits:
        found = statistics.fmean(waits)
        found += rules.deviations * statistics.stdev(waits) if len(waits) > 1 else 0.0
    if not rules.clamps:
        return found
    least, most = (6, math.ceil(0.8 * rules.history / unit)) if tier == 0 else (12, rules.history / unit)
    return max(min(found, most * unit), least * unit)

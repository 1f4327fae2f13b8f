"""Dally: delay scheduling over network tiers: Sharma et al., IEEE Big Data 2025."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shunter import world as w
from shunter.arrays import F1, I1, I2, Arrays, narrowed
from shunter.compiled import kernel
from shunter.model import View
from shunter.params import Among, Between, param
from shunter.scheduling.leasing.memory import Offers
from shunter.scheduling.leasing.policy import HOUR, RENEWALS, Backfilled, Placing, first_only, timer_changes_for
from shunter.scheduling.queue.policy import Mask
from shunter.scheduling.queue.queue import Queue
from shunter.scheduling.tiers import FITS, SPREADS
from shunter.world import F64, I64, Job, World

MODES = ("auto", "manual", "none", "infinite")
USUAL_GPUS = 512  # of the cluster for which the window of the waits is `history` itself
MOST_WAITS = 512  # that a timer is tuned from: the latest ones
MOST_CHANGES = 200_000  # of timers that are kept to be looked at


class TimerConfig(Arrays):
    """How timers come about; times in ms."""

    tuned: bool  # from recent waits
    window: float  # for how long a wait counts
    deviations: float
    clamps: bool
    unit: float  # the shortest wait that counts, and a timer without any


class Timers(Arrays):
    """A timer for each tier but the last and number of GPUs, tier by tier; times in ms."""

    config: TimerConfig
    timer: F1  # (timers,)
    tuned_at: I1  # (timers,) when it was last tuned, -1: never
    first: I1  # (timers,) of its waits, the first that counts ...
    last: I1  # (timers,) ... and the one after the last; the waits are rings
    waits: I2  # (timers, MOST_WAITS)
    took_at: I2  # (timers, MOST_WAITS) when these waits ended


timers_of = narrowed(Timers)


@dataclass(frozen=True)
class Dally(Backfilled):
    """Waits for GPUs that are close together as long as such waits lately took; slowed-down jobs come first."""

    timers: str = param(
        "auto",
        "how long a job waits for a better tier: tuned from recent waits (auto), fixed (manual), not at all (none), "
        "or until it comes (infinite)",
        choices=MODES,
        search=Among(("auto", "none", "infinite")),
    )
    machine_timer: float = param(12 * HOUR, "timers=manual: seconds of waiting for one machine", low=0, high=1e8)
    rack_timer: float = param(
        24 * HOUR, "timers=manual: seconds of waiting, from the beginning, for one rack", low=0, high=1e8
    )
    history: float = param(
        24.0,
        "timers=auto: hours for which a wait counts",
        low=0.1,
        high=10_000,
        scale="log",
        search=Between(1, 168, log=True),
    )
    window: str = param(
        "fixed",
        "timers=auto: waits count for history hours (fixed), or for history x sqrt(512 / GPUs of the cluster), so that "
        "the window is shorter on larger clusters, as the paper advises (size)",
        choices=("fixed", "size"),
    )
    deviations: float = param(2.0, "timers=auto: standard deviations above the mean of the waits", low=0, high=10)
    clamps: bool = param(
        False,
        "timers=auto: keep them within 6 leases and 0.8 x history for a machine, 12 leases and history for a rack, as "
        "the authors' simulator does",
    )
    sensitivity: str = param(
        "parallel",
        "what run times are compared with: the time that the work should take on as many GPUs, as in the authors' "
        "simulator (parallel), or on a single one, as in the paper's text (single)",
        choices=("parallel", "single"),
    )
    renewal: str = param(
        "again",
        "at the end of a lease a job waits for an offer like all others (again), or it keeps its GPUs unless a job "
        "before it in the order takes them (keep)",
        choices=RENEWALS[:2],  # for a better tier it would have to wait again
        search=Among(RENEWALS[:2]),
    )
    fit: str = param("first", "which machine or rack, where several have room", choices=FITS[:2])
    spread: str = param("list", "which GPUs of a rack or of the cluster", choices=SPREADS)

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Nw_sens: work done over time run, relative to the ideal; the least first, jobs that never ran before all."""
        ideal = job.work * job.gpus if p[0] == 1 else job.work
        return ideal / job.executed if job.executed > 0 else 0.0

    def key_params(self) -> F64:
        """Whether the ideal is a run on a single GPU."""
        return np.array([float(self.sensitivity == "single")])

    def memory(self, view: View, queue: Queue) -> Offers:
        """What it remembers, with the window of this cluster and room for what its timers do."""
        offers = super().memory(view, queue).replace(history=timer_changes_for(MOST_CHANGES * (self.timers == "auto")))
        timers = offers.own
        if self.window == "fixed" or not isinstance(timers, Timers):
            return offers
        window = round(timers.config.window * math.sqrt(USUAL_GPUS / view.world.gpus.shape[1]))
        return offers.replace(own=timers.replace(config=timers.config.replace(window=window)))

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """With infinite timers a job never goes further than the first tier that could hold it."""
        takes = first_only(holds) if self.timers == "infinite" else holds
        return Placing(FITS.index(self.fit), SPREADS.index(self.spread), takes)

    def knowledge(self, sizes: I64, tiers: int, jobs: int) -> Timers:
        """Timers of all tiers but the last, by number of GPUs; without history a timer is one lease."""
        count = (tiers - 1) * len(sizes)
        config = TimerConfig(
            tuned=self.timers == "auto",
            window=self.history * HOUR * 1000,
            deviations=self.deviations,
            clamps=self.clamps,
            unit=(self.lease or HOUR) * 1000,
        )
        timer = np.zeros(count)
        if self.timers == "manual":
            step = self.rack_timer - self.machine_timer
            fixed = [self.machine_timer + tier * step for tier in range(tiers - 1)]
            timer = np.repeat(np.array(fixed) * 1000, len(sizes))

        def none(*shape: int) -> I64:
            return np.zeros(shape, np.int64)

        rings = none(count, MOST_WAITS), none(count, MOST_WAITS)
        return Timers(config, timer, np.full(count, -1, np.int64), none(count), none(count), *rings)

    def inherit(self, offers: Offers, old: Offers) -> None:
        """The timers of the same settings go on, for those numbers of GPUs that both know."""
        timers, before = offers.own, old.own
        if not isinstance(timers, Timers) or not isinstance(before, Timers):
            return
        if not same_numbers(timers.config, before.config):
            return
        sizes, known = len(offers.gpus_of), len(old.gpus_of)
        _, here, there = np.intersect1d(offers.gpus_of, old.gpus_of, return_indices=True)
        for tier in range(min(len(timers.timer) // sizes, len(before.timer) // known)):
            for name in ("timer", "tuned_at", "first", "last", "waits", "took_at"):
                getattr(timers, name)[tier * sizes + here] = getattr(before, name)[tier * known + there]
        rows = offers.history.rows = min(old.history.rows, len(offers.history.time))
        for name in ("time", "tier", "gpus", "timer", "waits"):
            getattr(offers.history, name)[:rows] = getattr(old.history, name)[:rows]

    @staticmethod
    def opens(world: World, offers: Offers, job: int, tier: int) -> int:
        """When the timers of all lower tiers that could hold the job have run out since it began to wait."""
        cls, longest, timers = offers.queue.class_of[job], 0.0, timers_of(offers.own)
        sizes, tuned = len(offers.gpus_of), timers.config.tuned
        for lower in range(tier):
            if offers.queue.tiers.takes[lower, cls] == 1:
                row = lower * sizes + offers.size_of[cls]
                if tuned and timers.tuned_at[row] != world.clock[w.NOW]:
                    tune(world, offers, row)
                if tuned:  # its timer changes without anything else happening when a wait is too old to count
                    offers.state.opening = min(offers.state.opening, forgets_at(timers, row))
                if timers.timer[row] >= longest:
                    longest = timers.timer[row]
                    offers.state.evidence = timers.last[row] - timers.first[row] if tuned else -1
        return int(world.jobs[w.WAITING_SINCE, job] + math.ceil(longest))

    @staticmethod
    def took(world: World, offers: Offers, job: int, tier: int) -> None:
        """Remember how long it waited for this tier; waits of less than a lease say nothing."""
        timers, waited = timers_of(offers.own), world.clock[w.NOW] - world.jobs[w.WAITING_SINCE, job]
        row = tier * len(offers.gpus_of) + offers.size_of[offers.queue.class_of[job]]
        if timers.config.tuned and row < len(timers.timer) and waited >= timers.config.unit:
            at = timers.last[row] % MOST_WAITS
            timers.waits[row, at] = waited
            timers.took_at[row, at] = world.clock[w.NOW]
            timers.last[row] += 1
            tune(world, offers, row)


@kernel
def forgets_at(timers: Timers, row: int) -> int:
    """When the oldest wait that a timer was tuned from no longer counts."""
    first = timers.first[row]
    if first == timers.last[row]:
        return int(w.NEVER)
    return int(timers.took_at[row, first % MOST_WAITS]) + int(timers.config.window) + 1


@kernel
def tune(world: World, offers: Offers, row: int) -> None:
    """Set a timer to the mean of its recent waits and some standard deviations; one lease without any."""
    timers, now = timers_of(offers.own), world.clock[w.NOW]
    config, waits, took_at = timers.config, timers.waits[row], timers.took_at[row]
    first, last = max(timers.first[row], timers.last[row] - MOST_WAITS), timers.last[row]
    while first < last and took_at[first % MOST_WAITS] < now - config.window:
        first += 1
    timers.first[row] = first
    count, total, squares = last - first, 0.0, 0.0
    for at in range(first, last):
        total += waits[at % MOST_WAITS]
    mean = total / max(count, 1)
    for at in range(first, last):
        squares += (waits[at % MOST_WAITS] - mean) ** 2
    timer = config.unit
    if count > 0:
        timer = mean + config.deviations * math.sqrt(squares / max(count - 1, 1))
    if config.clamps:
        timer = clamped(config, timer, row < len(offers.gpus_of))
    timers.tuned_at[row] = now
    if timer != timers.timer[row]:
        timers.timer[row] = timer
        note(world, offers, row, count)


@kernel
def clamped(config: TimerConfig, timer: float, machine: bool) -> float:
    """The timer within the bounds of the authors' simulator, which the paper does not mention."""
    lease, window = config.unit, config.window
    low = (6 if machine else 12) * lease
    high = math.ceil(0.8 * window / lease) * lease if machine else window
    return float(min(max(timer, low), max(high, low)))


@kernel
def note(world: World, offers: Offers, row: int, waits: int) -> None:
    """Keep that a timer has changed, for people to look at."""
    history, sizes = offers.history, len(offers.gpus_of)
    at = history.rows
    if at < len(history.time):
        history.time[at], history.tier[at], history.gpus[at] = (
            world.clock[w.NOW],
            row // sizes,
            offers.gpus_of[row % sizes],
        )
        history.timer[at], history.waits[at] = int(timers_of(offers.own).timer[row]), waits
        history.rows += 1


def same_numbers(one: Arrays, other: Arrays) -> bool:
    """Whether two configurations are the same."""
    return all(getattr(one, name) == getattr(other, name) for name in one.fields)

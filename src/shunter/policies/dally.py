"""Dally: delay scheduling over network tiers: Sharma et al., IEEE Big Data 2025."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shunter import world as w
from shunter.compiled import kernel
from shunter.model import View
from shunter.params import param
from shunter.scheduling.leasing.memory import EVIDENCE, HISTORY_ROWS, OPENING, Offers
from shunter.scheduling.leasing.policy import HOUR, RENEWALS, Backfilled, Placing, first_only
from shunter.scheduling.queue.policy import Mask
from shunter.scheduling.queue.queue import Queue
from shunter.scheduling.tiers import FITS, SPREADS
from shunter.world import F64, I64, Job, World

# -- columns of `own`, one row per tier and number of GPUs: the timer (ms), when it was last tuned, and the first and
# the one after the last of its waits in `kept`, a ring that holds them (ms) with their times
TIMER, TUNED_AT, FIRST, LAST = range(4)
# -- entries of the row after those: how timers come about
MODE, WINDOW, DEVIATIONS, CLAMPS, UNIT = range(5)  # UNIT: the shortest wait that counts, and a timer without any
AUTO, MANUAL = range(2)
MODES = ("auto", "manual", "none", "infinite")
USUAL_GPUS = 512  # of the cluster for which the window of the waits is `history` itself
MOST_WAITS = 512  # that a timer is tuned from: the latest ones
MOST_CHANGES = 200_000  # of timers that are kept to be looked at


@dataclass(frozen=True)
class Dally(Backfilled):
    """Waits for GPUs that are close together as long as such waits lately took; slowed-down jobs come first."""

    timers: str = param(
        "auto",
        "how long a job waits for a better tier: tuned from recent waits (auto), fixed (manual), not at all (none), "
        "or until it comes (infinite)",
        choices=MODES,
    )
    machine_timer: float = param(12 * HOUR, "timers=manual: seconds of waiting for one machine", low=0, high=1e8)
    rack_timer: float = param(
        24 * HOUR, "timers=manual: seconds of waiting, from the beginning, for one rack", low=0, high=1e8
    )
    history: float = param(24.0, "timers=auto: hours for which a wait counts", low=0.1, high=10_000, scale="log")
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
    )
    fit: str = param("first", "which machine or rack, where several have room", choices=FITS[:2])
    spread: str = param("list", "which GPUs of a rack or of the cluster", choices=SPREADS)

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Nw_sens: work done over time run, relative to the ideal; the least first, and who never ran before all."""
        ideal = job.work * job.gpus if p[0] == 1 else job.work
        return ideal / job.executed if job.executed > 0 else 0.0

    def key_params(self) -> F64:
        """Whether the ideal is a run on a single GPU."""
        return np.array([float(self.sensitivity == "single")])

    def memory(self, view: View, queue: Queue) -> Offers:
        """What it remembers, with the window of this cluster."""
        offers = super().memory(view, queue)
        if self.window == "size":
            offers.own[-1, WINDOW] = round(offers.own[-1, WINDOW] * math.sqrt(USUAL_GPUS / view.world.gpus.shape[1]))
        return offers

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """With infinite timers a job never goes further than the first tier that could hold it."""
        takes = first_only(holds) if self.timers == "infinite" else holds
        return Placing(FITS.index(self.fit), SPREADS.index(self.spread), takes)

    def knowledge(self, sizes: I64, tiers: int, jobs: int) -> tuple[F64, F64, int]:
        """Timers of all tiers but the last, by number of GPUs; without history a timer is one lease."""
        rows = (tiers - 1) * len(sizes)
        own = np.zeros((rows + 1, 5))
        own[:, TUNED_AT] = -1
        own[rows] = (MANUAL, self.history * HOUR * 1000, self.deviations, self.clamps, (self.lease or HOUR) * 1000)
        if self.timers == "auto":
            own[rows, MODE] = AUTO
        elif self.timers == "manual":
            step = self.rack_timer - self.machine_timer
            fixed = [self.machine_timer + tier * step for tier in range(tiers - 1)]
            own[:rows, TIMER] = np.repeat(np.array(fixed) * 1000, len(sizes))
        return own, np.zeros((rows, 2 * MOST_WAITS)), MOST_CHANGES if self.timers == "auto" else 0

    def inherit(self, offers: Offers, old: Offers) -> None:
        """The timers of the same settings go on, for those numbers of GPUs that both know."""
        if not np.array_equal(offers.own[-1], old.own[-1]):
            return
        sizes, known = len(offers.gpus_of), len(old.gpus_of)
        _, here, there = np.intersect1d(offers.gpus_of, old.gpus_of, return_indices=True)
        for tier in range(min(len(offers.kept) // sizes, len(old.kept) // known)):
            offers.own[tier * sizes + here] = old.own[tier * known + there]
            offers.kept[tier * sizes + here] = old.kept[tier * known + there]
        rows = min(int(old.settings[HISTORY_ROWS]), len(offers.history))
        offers.history[:rows], offers.settings[HISTORY_ROWS] = old.history[:rows], rows

    @staticmethod
    def opens(world: World, offers: Offers, job: int, tier: int) -> int:
        """When the timers of all lower tiers that could hold the job have run out since it began to wait."""
        cls, longest = offers.queue.class_of[job], 0.0
        sizes, tuned = len(offers.gpus_of), offers.own[len(offers.own) - 1, MODE] == AUTO
        for lower in range(tier):
            if offers.queue.tiers.takes[lower, cls] == 1:
                row = lower * sizes + offers.size_of[cls]
                if tuned and offers.own[row, TUNED_AT] != world.clock[w.NOW]:
                    tune(world, offers, row)
                if tuned:  # its timer changes without anything else happening when a wait is too old to count
                    offers.settings[OPENING] = min(offers.settings[OPENING], forgets_at(offers, row))
                if offers.own[row, TIMER] >= longest:
                    longest = offers.own[row, TIMER]
                    offers.settings[EVIDENCE] = int(offers.own[row, LAST] - offers.own[row, FIRST]) if tuned else -1
        return int(world.jobs[w.WAITING_SINCE, job] + math.ceil(longest))

    @staticmethod
    def took(world: World, offers: Offers, job: int, tier: int) -> None:
        """Remember how long it waited for this tier; waits of less than a lease say nothing."""
        waited = world.clock[w.NOW] - world.jobs[w.WAITING_SINCE, job]
        row = tier * len(offers.gpus_of) + offers.size_of[offers.queue.class_of[job]]
        settings = offers.own[len(offers.own) - 1]
        if settings[MODE] == AUTO and row < len(offers.own) - 1 and waited >= settings[UNIT]:
            at = int(offers.own[row, LAST]) % MOST_WAITS
            offers.kept[row, at] = waited
            offers.kept[row, MOST_WAITS + at] = world.clock[w.NOW]
            offers.own[row, LAST] += 1
            tune(world, offers, row)


@kernel
def forgets_at(offers: Offers, row: int) -> int:
    """When the oldest wait that a timer was tuned from no longer counts."""
    first, window = int(offers.own[row, FIRST]), int(offers.own[len(offers.own) - 1, WINDOW])
    if first == offers.own[row, LAST]:
        return int(w.NEVER)
    return int(offers.kept[row, MOST_WAITS + first % MOST_WAITS]) + window + 1


@kernel
def tune(world: World, offers: Offers, row: int) -> None:
    """Set a timer to the mean of its recent waits and some standard deviations; one lease without any."""
    own, waits, now = offers.own[row], offers.kept[row], world.clock[w.NOW]
    settings = offers.own[len(offers.own) - 1]
    own[FIRST] = max(own[FIRST], own[LAST] - MOST_WAITS)
    while own[FIRST] < own[LAST] and waits[MOST_WAITS + int(own[FIRST]) % MOST_WAITS] < now - settings[WINDOW]:
        own[FIRST] += 1
    count, total, squares = own[LAST] - own[FIRST], 0.0, 0.0
    for at in range(int(own[FIRST]), int(own[LAST])):
        total += waits[at % MOST_WAITS]
    mean = total / max(count, 1)
    for at in range(int(own[FIRST]), int(own[LAST])):
        squares += (waits[at % MOST_WAITS] - mean) ** 2
    timer = settings[UNIT]
    if count > 0:
        timer = mean + settings[DEVIATIONS] * math.sqrt(squares / max(count - 1, 1))
    if settings[CLAMPS] == 1:
        timer = clamped(settings, timer, row < len(offers.gpus_of))
    own[TUNED_AT] = now
    if timer != own[TIMER]:
        own[TIMER] = timer
        note(world, offers, row, int(count))


@kernel
def clamped(settings: F64, timer: float, machine: bool) -> float:
    """The timer within the bounds of the authors' simulator, which the paper does not mention."""
    lease, window = settings[UNIT], settings[WINDOW]
    low = (6 if machine else 12) * lease
    high = math.ceil(0.8 * window / lease) * lease if machine else window
    return float(min(max(timer, low), max(high, low)))


@kernel
def note(world: World, offers: Offers, row: int, waits: int) -> None:
    """Keep that a timer has changed, for people to look at."""
    at, sizes = offers.settings[HISTORY_ROWS], len(offers.gpus_of)
    if at < len(offers.history):
        history = offers.history[at]
        history[0], history[1], history[2] = world.clock[w.NOW], row // sizes, offers.gpus_of[row % sizes]
        history[3], history[4] = int(offers.own[row, TIMER]), waits
        offers.settings[HISTORY_ROWS] += 1

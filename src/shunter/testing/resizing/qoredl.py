"""Qore-DL in plain Python."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from shunter import world as w
from shunter.instances import CPU_POWER, SERVED
from shunter.model import View
from shunter.policies.qoredl.memory import draw_at
from shunter.testing.resizing.active import ActiveJobs
from shunter.testing.resizing.adjusting import THETA, AdjusterCases, Option, adjusted, exhaustive, genetic
from shunter.testing.resizing.placing import LIGHTEST, Widths
from shunter.testing.resizing.policy import PlainResizing, PlainResizingMemory
from shunter.world import F64

TICK_S = 26.2  # of the scheduler's loop, by the authors' code
ADJUST_TICKS = 11  # between two adjustments, by the same
CAPS = ((0.4, 5), (0.7, 4), (1.01, 2))  # most workers of a new job by load
ON_LIGHTEST = 0.95  # of the tasks go to the lightest third of the hosts


@dataclass(frozen=True)
class PlainQoredl(PlainResizing):
    """The same as ``policies.qoredl``."""

    interval: float = TICK_S
    flip: bool = True
    adjust: bool = True
    search: str = "exhaustive"

    style = LIGHTEST
    squeezes = True

    def widths(self, view: View, active: ActiveJobs, memory: PlainResizingMemory) -> Widths:
        """What runs stays, or is adjusted when that is due; what waits is configured and queued."""
        usage, free = _usage(view), int(view.nodes.free.sum())
        speeds = np.stack([active.best(at, int(view.nodes.total.max())) for at in range(len(active))])
        wanted = active.width.copy()
        cpu: dict[int, int] = {}
        servers: dict[int, int] = {}
        due = memory.own.get("adjust", view.now + round(ADJUST_TICKS * TICK_S * 1000))
        if self.adjust and view.now >= due:
            due = view.now + round(ADJUST_TICKS * TICK_S * 1000)
            for at, option in self._adjusted(view, active, speeds, usage, free).items():
                free -= option.width - int(wanted[at])
                wanted[at] = option.width
                cpu |= {at: option.cpu} if option.vertical else {}
        memory.own["adjust"] = due
        queue = self._queue(active, speeds, usage, view)
        for at, width, serving in queue:
            gpus = min(width, free)
            if gpus >= active.least[at]:
                wanted[at] = gpus
                free -= gpus
                servers |= {at: serving} if serving and gpus == width else {}
        return Widths(wanted, [at for at, _, _ in queue] + np.flatnonzero(active.runs).tolist(), cpu, servers)

    def _queue(self, active: ActiveJobs, speeds: F64, usage: float, view: View) -> list[tuple[int, int, int]]:
        """Waiting jobs by priority, each with the width that its deadline asks for, and servers (0: as usual)."""
        cap = next(most for load, most in CAPS if usage < load)
        found = []
        for at in np.flatnonzero(~active.runs).tolist():
            width, serving = _configured(view, active, at, speeds[at], (cap, usage))
            slack = float(min(active.due[at] - active.now, 10**12))
            need = width / max(int(view.nodes.total.sum()), 1)
            found.append((self._priority(slack, need, usage), at, width, serving))
        found.sort(key=lambda entry: (-entry[0], entry[1]))
        return [(at, width, serving) for _, at, width, serving in found]

    def _priority(self, slack: float, need: float, usage: float) -> float:
        """Larger first: slack over need in light load, slack times need in heavy load; late jobs come first."""
        if not self.flip:
            return -slack
        return -slack / need if usage <= THETA[1] else -slack * need

    def _adjusted(self, view: View, active: ActiveJobs, speeds: F64, usage: float, free: int) -> dict[int, Option]:
        cpu, asked = view.jobs.cpu_now[active.rows], view.jobs.cpu[active.rows]
        low, high = view.jobs.min_cpu[active.rows], view.jobs.max_cpu[active.rows]
        least = np.minimum(np.maximum(low, (0.475 * asked).astype(int)), cpu)
        most = np.maximum(np.minimum(high, (2.01 * asked).astype(int)), cpu)

        def speed(at: int, width: int, each: int) -> float:
            job = int(active.rows[at])
            factor = (each / int(asked[at])) ** CPU_POWER if high[at] and each != asked[at] else 1.0
            if not view.jobs.servers[job]:
                return factor * float(speeds[at, width])
            serving = int(view.jobs.servers_now[job])
            if width != active.width[at]:
                serving = _usual(int(active.asked[at]), int(view.jobs.servers[job]), width)
            return factor * _split_speed(view, active, at, min(width - serving, SERVED * serving), width)

        def room(at: int) -> int:
            nodes = view.gpus.node[list(view.placement(int(active.rows[at])))]
            return min(max(int(view.nodes.cpu_free[node]), 0) // int((nodes == node).sum()) for node in nodes.tolist())

        rate = np.array([speed(at, int(active.width[at]), int(cpu[at])) for at in range(len(active))])
        expected = active.left / np.maximum(rate, 1e-9)
        late = np.where(active.due < w.NEVER, expected - (active.due - active.now), -1.0)
        numbers = itertools.count(1)
        search = genetic(lambda: draw_at(view.world, next(numbers))) if self.search == "genetic" else exhaustive
        ends = np.where(high > 0, least, cpu), np.where(high > 0, most, cpu)
        return adjusted(AdjusterCases(active, speed, late, usage, free, cpu, ends, room), search)


def _usual(asked: int, servers: int, width: int) -> int:
    """The servers of so many instances if nothing else is said."""
    return servers if width == asked else -(-width // (SERVED + 1))


def _split_speed(view: View, active: ActiveJobs, at: int, workers: int, width: int) -> float:
    """The speed of a job of so many instances of which so many train."""
    curve = int(view.world.jobs[w.CURVE, active.rows[at]])
    if curve < 0:
        return float(workers / active.unit[at])
    return float(view.world.scaling[2 * curve + (width > view.nodes.total.max()), workers] / active.unit[at])


def _configured(view: View, active: ActiveJobs, at: int, speeds: F64, load: tuple[int, float]) -> tuple[int, int]:
    """The fewest instances with which a job meets its deadline, within the cap; what it asks for without a deadline.

    Of a job with servers: the fewest workers, and servers beside them by load.
    """
    cap, usage = load
    if active.due[at] == w.NEVER:
        return int(active.asked[at]), 0
    least, most = int(active.least[at]), min(int(active.most[at]), max(cap, int(active.least[at])))
    ahead = active.due[at] - active.now
    if view.jobs.servers[active.rows[at]]:
        each = next(each for bound, each in ((0.4, 2), (0.7, 3), (1.01, 4)) if usage < bound)
        splits = [(workers, -(-workers // each)) for workers in range(1, cap + 1)]
        inside = [split for split in splits if least <= sum(split) <= active.most[at]]
        speed = active.left[at] / max(int(ahead), 1)
        fast = [(a, b) for a, b in inside if _split_speed(view, active, at, a, a + b) >= speed]
        chosen = (fast or inside[-1:] or [(least, 0)])[0]
        return sum(chosen), chosen[1]
    for width in range(least, most + 1):
        if active.left[at] <= ahead * speeds[width]:
            return width, 0
    return most, 0


def _usage(view: View) -> float:
    """U: the hosts' shares of instances in use, weighed by the chance that a task is placed there."""
    up = view.nodes.state == w.UP
    used = np.sort(1 - view.nodes.free[up] / view.nodes.total[up])
    factor, weight, weights, total = (1 - ON_LIGHTEST) ** (3 / max(len(used), 1)), 1.0, 0.0, 0.0
    for share in used.tolist():
        total += weight * share
        weights += weight
        weight *= factor
    return total / weights if len(used) else 1.0

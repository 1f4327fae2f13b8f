"""Qore-DL in plain Python."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from shunter import world as w
from shunter.model import View
from shunter.policies.qoredl.memory import draw_at
from shunter.testing.resizing.active import ActiveJobs
from shunter.testing.resizing.adjusting import THETA, AdjusterCases, adjusted, exhaustive, genetic
from shunter.testing.resizing.placing import LIGHTEST
from shunter.testing.resizing.policy import PlainResizing, PlainResizingMemory, Widths
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

    def widths(self, view: View, active: ActiveJobs, memory: PlainResizingMemory) -> Widths:
        """What runs stays, or is adjusted when that is due; what waits is configured and queued."""
        usage, free = _usage(view), int(view.nodes.free.sum())
        speeds = np.stack([active.best(at, int(view.nodes.total.max())) for at in range(len(active))])
        wanted = active.width.copy()
        due = memory.own.get("adjust", view.now + round(ADJUST_TICKS * TICK_S * 1000))
        if self.adjust and view.now >= due:
            due = view.now + round(ADJUST_TICKS * TICK_S * 1000)
            for at, width in self._adjusted(view, active, speeds, usage, free).items():
                free -= width - int(wanted[at])
                wanted[at] = width
        memory.own["adjust"] = due
        queue = self._queue(active, speeds, usage, view)
        for at, width in queue:
            gpus = min(width, free)
            if gpus >= active.least[at]:
                wanted[at] = gpus
                free -= gpus
        return Widths(wanted, [at for at, _ in queue] + np.flatnonzero(active.runs).tolist())

    def _queue(self, active: ActiveJobs, speeds: F64, usage: float, view: View) -> list[tuple[int, int]]:
        """Waiting jobs by priority, each with the width that its deadline asks for."""
        cap = next(most for load, most in CAPS if usage < load)
        found = []
        for at in np.flatnonzero(~active.runs).tolist():
            width = _configured(active, at, speeds[at], cap)
            slack = float(min(active.due[at] - active.now, 10**12))
            need = width / max(int(view.nodes.total.sum()), 1)
            found.append((self._priority(slack, need, usage), at, width))
        found.sort(key=lambda entry: (-entry[0], entry[1]))
        return [(at, width) for _, at, width in found]

    def _priority(self, slack: float, need: float, usage: float) -> float:
        """Larger first: slack over need in light load, slack times need in heavy load; late jobs come first."""
        if not self.flip:
            return -slack
        return -slack / need if usage <= THETA[1] else -slack * need

    def _adjusted(self, view: View, active: ActiveJobs, speeds: F64, usage: float, free: int) -> dict[int, int]:
        rate = speeds[np.arange(len(active)), active.width]
        expected = active.left / np.maximum(rate, 1e-9)
        late = np.where(active.due < w.NEVER, expected - (active.due - active.now), -1.0)
        numbers = itertools.count(1)
        search = genetic(lambda: draw_at(view.world, next(numbers))) if self.search == "genetic" else exhaustive
        return adjusted(AdjusterCases(active, speeds, late, usage, free), search)


def _configured(active: ActiveJobs, at: int, speeds: F64, cap: int) -> int:
    """The fewest instances with which a job meets its deadline, within the cap; what it asks for without a deadline."""
    if active.due[at] == w.NEVER:
        return int(active.asked[at])
    most = min(int(active.most[at]), max(cap, int(active.least[at])))
    ahead = active.due[at] - active.now
    for width in range(int(active.least[at]), most + 1):
        if active.left[at] <= ahead * speeds[width]:
            return width
    return most


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

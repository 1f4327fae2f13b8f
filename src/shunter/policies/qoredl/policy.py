"""Qore-DL: a configurator, a scheduler whose priority flips with the load, and an adjuster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shunter import world as w
from shunter.arrays import Arrays
from shunter.model import Renumbering, View
from shunter.params import Among, Between, param
from shunter.policies.qoredl.decide import decide
from shunter.policies.qoredl.memory import QoredlConfig, QoredlState, nothing_adjusted
from shunter.scheduling.resizing.policy import Resizing

TICK_S = 26.2  # of the scheduler's loop, by the authors' code
ADJUST_TICKS = 11  # between two adjustments, by the same


@dataclass(frozen=True)
class Qoredl(Resizing):
    """Qore-DL: workers and servers from deadlines, a priority that flips with the load, and four adjusting cases.

    Reconstructed from what is public. Where jobs give a range, the CPU of their instances is adjusted too, not memory.
    """

    interval: float = param(
        TICK_S, "seconds between two rounds of the scheduler", low=1, high=86_400, search=Between(20, 600, log=True)
    )
    flip: bool = param(
        True,
        "whether large jobs come first in light load and small ones in heavy load; else by slack",
        search=Among(("true", "false")),
    )
    adjust: bool = param(True, "whether running jobs are adjusted", search=Among(("true", "false")))
    search: str = param("exhaustive", "how the adjuster finds a width", choices=("exhaustive", "genetic"))

    lightest = True
    squeezes = True

    @property
    def kernel(self) -> Any:
        """What runs stays, or is adjusted; what waits is configured and queued."""
        return decide

    def own(self, view: View, before: Arrays | None, rows: Renumbering | None) -> Arrays:
        """When jobs are adjusted next goes on."""
        period = round(ADJUST_TICKS * TICK_S * 1000)
        config = QoredlConfig(self.flip, self.adjust, self.search == "genetic", period)
        jobs = view.world.jobs
        state = nothing_adjusted(view.world, int(jobs[[w.GPUS, w.MAX_GPUS]].max(initial=1)), config)
        if isinstance(before, QoredlState):
            state.due = before.due
        return state

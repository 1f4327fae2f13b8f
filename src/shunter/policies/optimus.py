"""Optimus: Peng et al., EuroSys 2018."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shunter.arrays import Arrays
from shunter.model import Renumbering, View
from shunter.params import Between, param
from shunter.scheduling.resizing.policy import Resizing
from shunter.scheduling.resizing.sharing_out import GainConfig, decide, nobody_present


@dataclass(frozen=True)
class OptimusPolicy(Resizing):
    """Gives GPUs one by one to the job whose remaining time they shorten most; deadlines mean nothing to it."""

    interval: float = param(600.0, "seconds between two rounds", low=1, high=86_400, search=Between(60, 3600, log=True))

    @property
    def kernel(self) -> Any:
        """GPUs one by one."""
        return decide

    def own(self, view: View, before: Arrays | None, rows: Renumbering | None) -> Arrays:
        """By the time that they save."""
        return nobody_present(view.world.jobs.shape[1], GainConfig(by_loss=False, step=self.interval * 1000))

"""SLAQ: Zhang et al., SoCC 2017."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shunter.arrays import Arrays
from shunter.model import View
from shunter.params import param
from shunter.scheduling.resizing.policy import Resizing
from shunter.scheduling.resizing.sharing_out import GainConfig, decide, nobody_present


@dataclass(frozen=True)
class Slaq(Resizing):
    """Gives GPUs one by one to the job whose loss they lower most until the next round, if losses fall as 1/k."""

    interval: float = param(300.0, "seconds between two rounds", low=1, high=86_400)

    @property
    def kernel(self) -> Any:
        """GPUs one by one."""
        return decide

    def own(self, view: View, before: Arrays | None) -> Arrays:
        """By what the loss falls."""
        return nobody_present(view.world.jobs.shape[1], GainConfig(by_loss=True, step=self.interval * 1000))

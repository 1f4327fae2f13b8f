"""SLAQ: Zhang et al., SoCC 2017."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shunter.arrays import Arrays
from shunter.model import Renumbering, View
from shunter.params import Between, param
from shunter.predictors.progress.curves import BINS, LossCurve
from shunter.predictors.progress.extrapolating import OptimusCurve
from shunter.scheduling.resizing.memory import ResizingState
from shunter.scheduling.resizing.policy import Resizing
from shunter.scheduling.resizing.sharing_out import WHOLE_FALL, GainConfig, decide, nobody_present
from shunter.world import F64

FEWEST = 3  # parts of the declared work whose losses must be known before a curve is fitted


@dataclass(frozen=True)
class Slaq(Resizing):
    """Gives GPUs one by one to the job whose loss they lower most until the next round, by its losses so far.

    The curve 1 / (a k + b) + c is fitted to the losses of each job at every interval, and its fall counts over the
    largest so far. Losses of a job that reports none are taken to fall as 1/k.
    """

    interval: float = param(300.0, "seconds between two rounds", low=1, high=86_400, search=Between(60, 3600, log=True))

    @property
    def kernel(self) -> Any:
        """GPUs one by one."""
        return decide

    def own(self, view: View, before: Arrays | None, rows: Renumbering | None) -> Arrays:
        """By what the loss falls."""
        config = GainConfig(by_loss=True, step=self.interval * 1000)
        return nobody_present(view.world.jobs.shape[1], config, losses=view.knows_losses)

    def reads_losses(self, view: View) -> bool:
        """Where there are any."""
        return view.knows_losses

    def read(self, view: View, state: ResizingState, job: int, losses: F64) -> None:
        """Fit the curve of a job to its losses so far."""
        super().read(view, state, job, losses)
        found = fall_of(losses)
        if found is not None:
            present = state.own
            present.slope[job], present.level[job], present.scale[job] = found  # type: ignore[attr-defined]


def fall_of(losses: F64) -> tuple[float, float, float] | None:
    """Slope and level of the inverse of a loss by parts of the declared work, and a scale; None: too little is known.

    The scale makes the largest fall so far as large as the whole fall of a job without losses.
    """
    seen = LossCurve("so far", "", BINS * losses[:, 0], losses[:, 1]).binned(BINS)
    if len(seen) < FEWEST:
        return None
    slope, level, _ = OptimusCurve().fitted(seen)
    fall = float(seen.max() - seen.min())
    return slope, level, WHOLE_FALL / fall if fall > 0 else 0.0

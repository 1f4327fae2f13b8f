"""How long a training runs: from its iterations, what each takes, and what more GPUs gain."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shunter.errors import LiveError, did_you_mean
from shunter.live.hints import LONGEST_S
from shunter.network import models
from shunter.predictors.progress.curves import LossCurve
from shunter.predictors.progress.extrapolating import LEVELS, remaining
from shunter.scaling.curves import Scaling, ScalingCurve
from shunter.world import F64


@dataclass(frozen=True)
class TrainingWork:
    """A training of which is known what an iteration takes on some GPUs."""

    iterations: float  # on those GPUs
    iteration_s: float
    gpus: int
    model: str = ""  # "": not known
    curve: ScalingCurve | None = None  # None: what other numbers of GPUs gain is not known
    losses: LossCurve | None = None  # so far
    assumptions: tuple[str, ...] = field(default=())

    def runs(self, gpus: int | None = None, machines: int = 1) -> F64 | None:
        """How long it still runs (ms) on this many GPUs; several values where it is uncertain, None: not known."""
        asked = self.gpus if gpus is None else gpus
        if asked != self.gpus and self.curve is None:
            return None
        gain = (
            1.0
            if self.curve is None or asked == self.gpus
            else self._speed(asked, machines) / self._speed(self.gpus, 1)
        )
        return 1000 * self._left() * self.iteration_s / gain

    def _speed(self, gpus: int, machines: int) -> float:
        return self.curve.speed(gpus, machines) if self.curve else float(gpus)

    def _left(self) -> F64:
        """Iterations that are left."""
        if self.losses is None:
            return np.array([self.iterations])
        found = remaining(self.losses.iteration, self.losses.loss, self.iterations)
        levels = (np.arange(20) + 0.5) / 20
        return np.interp(levels, (LEVELS[0], 0.5, LEVELS[1]), (found.low, found.end, found.high))


def check_model(name: str, scaling: Scaling) -> None:
    """Refuse a model that is neither in the catalogue nor has a scaling curve."""
    if name and not models.is_known(name) and scaling.curve(name) is None:
        aliases = {alias for model in models.catalogue().values() for alias in model.aliases}
        others = {curve.model for curve in scaling.published if not models.is_known(curve.model)}
        known = did_you_mean(name, {*models.catalogue(), *aliases, *others})
        raise LiveError(f"there is no model '{name}'; {known}; or leave --model out and set --iteration-s")


def training(
    model: str, iterations: float, iteration_s: float, gpus: int, scaling: Scaling, losses: LossCurve | None = None
) -> TrainingWork:
    """What is known of a training; without a measured iteration, as the catalogue of models computes it."""
    curve = scaling.curve(model) if model else None
    said = []
    if not iteration_s:
        if not (model and models.is_known(model)):
            known = ", ".join(sorted(models.catalogue()))
            raise LiveError(
                f"how long an iteration takes is not known; set --iteration-s, or --model to one of: {known}"
            )
        found = models.find(model)
        alone = models.compute_ns(models.profile(found, "profiled").layers) / 1e9
        iteration_s = alone * gpus / (curve.speed(gpus) if curve else gpus)
        said.append(
            f"an iteration takes {iteration_s:.3g} s, computed from {found.source} per GPU and not measured: other"
            " batches and GPUs differ by many times; set --iteration-s"
        )
    if not 0 < iterations * iteration_s <= LONGEST_S:
        raise LiveError(f"{iterations:g} iterations of {iteration_s:g} s are no run that can be planned; correct them")
    if curve is not None:
        said.append(f"speed on other numbers of GPUs by {curve.source or 'the scaling curve of its model'}")
    if losses is not None:
        said.append("the iterations that are left by its losses so far, which is uncertain by half a run")
    return TrainingWork(iterations, iteration_s, gpus, model, curve, losses, tuple(said))

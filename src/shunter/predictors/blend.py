"""Helios' mix of a rolling mean and gradient boosted trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shunter.params import param
from shunter.predictors.gbm import Gbm


@dataclass(frozen=True)
class Blend(Gbm):
    """weight x history + (1 - weight) x gbm, as QSSF's estimate."""

    name: ClassVar[str] = "blend"

    weight: float = param(0.1, "of the rolling mean", low=0, high=1)

    @property
    def alpha(self) -> float:
        """The weight of the rolling mean."""
        return self.weight

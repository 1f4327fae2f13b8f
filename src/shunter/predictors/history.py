"""Helios' rolling estimate: the decayed mean run time of the nearest group of ended jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from shunter.predictors.fitting import Model, Trained, TrainingTable
from shunter.predictors.trees import no_trees


@dataclass(frozen=True)
class History(Model):
    """Rolling mean of the user's jobs of a similar name and as many GPUs, else of the next wider group, and so on."""

    name: ClassVar[str] = "history"

    @property
    def alpha(self) -> float:
        """All of an estimate is the rolling mean."""
        return 1.0

    def trainer(self, early: TrainingTable) -> Callable[[TrainingTable], Trained]:
        """There is nothing to train."""
        return lambda table: Trained(no_trees())

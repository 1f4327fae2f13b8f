"""Estimate run times with a model of your own: a class that trains trees, and any policy that uses estimates.

What becomes decision trees runs in the compiled loop, at every arrival, with what has ended by then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import shunter
from shunter.params import param
from shunter.predictors.fitting import Model, Trained, TrainingTable
from shunter.predictors.trees import Builder


@dataclass(frozen=True)
class TwoLevels(Model):
    """One split: jobs below and above the median of a feature, each with the median of its logarithms."""

    name: ClassVar[str] = "two-levels"

    feature: int = param(0, "the column of the table that it splits at", low=0, high=100)

    def trainer(self, early: TrainingTable) -> Callable[[TrainingTable], Trained]:
        """Nothing must be chosen beforehand."""
        return self._train

    def _train(self, table: TrainingTable) -> Trained:
        column = table.rows[:, self.feature]
        known = column[np.isfinite(column)]
        bound = float(np.median(known)) if len(known) else 0.0
        low = column <= bound
        leaves = [float(np.median(table.target[part])) if part.any() else 0.0 for part in (low, ~low)]
        trees = Builder()
        root = trees.add(float(np.median(table.target)), self.feature, bound)
        lower, upper = trees.add(leaves[0]), trees.add(leaves[1])
        trees.roots.append(trees.join(root, lower, upper, missing=lower))
        return Trained(trees.grown(0.0))


for estimate in ("history", f"{__name__}.TwoLevels"):
    result = shunter.simulate("synthetic:jobs=2000,gpus=32,load=1.1", "4x8", f"sjf:estimate={estimate}")
    print(f"{estimate.rpartition('.')[2]:>10}: mean JCT {result.summary['jct_s']['mean'] / 3600:.2f} h")

"""Explainable boosting machine on log run times (interpret): Lucid's GA2M."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shunter import extras
from shunter.params import param
from shunter.predictors.fitting import Model, Trained, TrainingTable, blocks, named, varying
from shunter.predictors.trees import of_ebm

# Settings of ExplainableBoostingRegressor; those of the paper's artifact are the library's but for what it names, and
# ``feature_types``, what its ``binning`` is called today.
PUBLISHED = {"learning_rate": 0.01, "feature_types": "uniform", "interactions": 20}
FAST = {
    "feature_types": "quantile",
    "learning_rate": 0.05,
    "max_bins": 64,
    "max_interaction_bins": 16,
    "interactions": 10,
    "smoothing_rounds": 50,
    "interaction_smoothing_rounds": 20,
    "early_stopping_rounds": 50,
}


@dataclass(frozen=True)
class Ebm(Model):
    """Explainable boosting machine: a sum of one curve per feature and one table per pair, found by boosting."""

    name: ClassVar[str] = "ebm"
    libraries: ClassVar[tuple[str, ...]] = ("interpret-core",)
    module: ClassVar[str] = "interpret.glassbox"

    settings: str = param("fast", "fast, or as Lucid's authors set it: far slower", choices=("fast", "published"))
    bags: int = param(4, "blocks of time, each left out by one machine, whose mean is taken", low=2, high=32)

    def trainer(self, early: TrainingTable) -> Callable[[TrainingTable], Trained]:
        """There is nothing to choose."""
        return self._train

    def _train(self, table: TrainingTable) -> Trained:
        glassbox = extras.load("interpret.glassbox", "model 'ebm'")
        columns = varying(table.rows) or [0]
        # Rows left out at random would be siblings of rows that are not: boosting would hardly ever stop.
        bags = np.ones((len(table.target), self.bags), np.int8)
        for bag, left_out in enumerate(blocks(len(table.target), self.bags)):
            bags[left_out, bag] = -1
        settings = PUBLISHED if self.settings == "published" else FAST
        ebm = glassbox.ExplainableBoostingRegressor(
            feature_names=[table.names[column] for column in columns],
            outer_bags=self.bags,
            n_jobs=1,
            random_state=0,
            **settings | {"feature_types": [settings["feature_types"]] * len(columns)},
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of missing values, which are meant
            ebm.fit(table.rows[:, columns], table.target, bags=bags)
        names = tuple(ebm.term_names_)
        return Trained(of_ebm(ebm, columns), names, named(names, ebm.term_importances()))

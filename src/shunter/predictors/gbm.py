"""Gradient boosted trees on log run times (LightGBM)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from shunter import extras
from shunter.params import param
from shunter.predictors.fitting import Model, Trained, TrainingTable, blocks, named
from shunter.predictors.trees import mean_of, of_lightgbm


@dataclass(frozen=True)
class Gbm(Model):
    """LightGBM: the mean of several boosters, each stopped by the error on a block of time that it has not seen."""

    name: ClassVar[str] = "gbm"
    libraries: ClassVar[tuple[str, ...]] = ("lightgbm",)
    module: ClassVar[str] = "lightgbm"

    rounds: int = param(600, "trees of a booster at most", low=1, high=10_000)
    rate: float = param(0.05, "learning rate", low=1e-4, high=1, scale="log")
    leaves: int = param(31, "leaves of a tree", low=2, high=1024)
    smallest: int = param(50, "jobs in a leaf at least", low=1, high=100_000)
    patience: int = param(30, "rounds without gain after which a booster stops", low=1, high=1000)
    bags: int = param(4, "blocks of time, and boosters", low=2, high=32)
    objective: str = param("auto", "what is minimised, in logs; auto: the better one", choices=("auto", "l1", "l2"))

    def trainer(self, early: TrainingTable) -> Callable[[TrainingTable], Trained]:
        """Choose what is minimised by the error on the blocks that each booster has not seen."""
        lightgbm = extras.load("lightgbm", f"model '{self.name}'")
        objective = self.objective
        if objective == "auto":
            errors = {tried: self._boosters(lightgbm, tried, early, some=2)[1] for tried in ("l1", "l2")}
            objective = min(errors, key=errors.__getitem__)

        def train(table: TrainingTable) -> Trained:
            boosters, _ = self._boosters(lightgbm, objective, table)
            gains = sum(booster.feature_importance("gain") for booster in boosters)
            importance = named(table.names, gains / max(gains.sum(), 1e-9))
            return Trained(mean_of([of_lightgbm(booster.dump_model()) for booster in boosters]), (), importance)

        return train

    def _boosters(self, lightgbm: Any, objective: str, table: TrainingTable, some: int = 0) -> tuple[list[Any], float]:
        """A booster for each block of time that is left out, or the last ones, and the mean |error| on those blocks."""
        with ThreadPoolExecutor(2) as pool:  # they need no lock; threads inside one would wait for each other
            parts = blocks(len(table.target), self.bags)[-some:]
            done = list(pool.map(partial(self._boosted, lightgbm, objective, table), parts))
        return [booster for booster, _ in done], float(np.concatenate([errors for _, errors in done]).mean())

    def _boosted(self, lightgbm: Any, objective: str, table: TrainingTable, left_out: slice) -> tuple[Any, Any]:
        used = np.ones(len(table.target), bool)
        used[left_out] = False
        watched = table.rows[left_out], table.target[left_out]
        data = lightgbm.Dataset(table.rows[used], table.target[used])
        booster = lightgbm.train(
            self._settings(objective),
            data,
            num_boost_round=self.rounds,
            valid_sets=[lightgbm.Dataset(*watched, reference=data)],
            callbacks=[lightgbm.early_stopping(self.patience, verbose=False)],
        )
        # LightGBM has one number of threads for the whole process. If it changes while the other booster predicts or
        # reads its data, LightGBM writes beyond its arrays.
        return booster, np.abs(booster.predict(watched[0], num_threads=1) - watched[1])

    def _settings(self, objective: str) -> dict[str, Any]:
        return {
            "objective": objective,
            "metric": "l1",
            "learning_rate": self.rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.smallest,
            "feature_fraction": 0.8,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "seed": 0,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }

"""Gradient boosted trees on log run times (LightGBM)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shunter import extras
from shunter.params import param
from shunter.predictors import features as f
from shunter.predictors.fitting import Known, Learner, Model, named
from shunter.predictors.trees import of_lightgbm

FEW = 20_000  # jobs
WATCHED = 0.15  # the last part of the earlier jobs, on which rounds and objective are chosen


@dataclass(frozen=True)
class Gbm(Model):
    """LightGBM on log run time; rounds and objective are chosen on the last jobs before those it is judged on."""

    name: ClassVar[str] = "gbm"
    libraries: ClassVar[tuple[str, ...]] = ("lightgbm",)

    rounds: int = param(600, "trees at most", low=1, high=10_000)
    rate: float = param(0.05, "learning rate", low=1e-4, high=1, scale="log")
    leaves: int = param(31, "leaves of a tree", low=2, high=1024)
    smallest: int = param(50, "jobs in a leaf at least", low=1, high=100_000)
    patience: int = param(30, "rounds without gain after which it stops", low=1, high=1000)
    objective: str = param("auto", "what is minimised in log seconds", choices=("auto", "l1", "l2"))

    def learner(self, early: Known) -> Callable[[Known], Learner]:
        """Choose objective and rounds by the mean |log error| of those of the earlier jobs that ended last."""
        lightgbm = extras.load("lightgbm", f"model '{self.name}'")
        first, last = early.split(WATCHED)
        tried = [self._tried(lightgbm, objective, first, last) for objective in self._objectives()]
        _, rounds, objective = min(tried)

        def train(jobs: Known) -> Learner:
            booster = lightgbm.train(
                self._settings(objective, len(jobs)), self._data(lightgbm, jobs), num_boost_round=rounds
            )
            gains = booster.feature_importance("gain")
            return Learner(of_lightgbm(booster.dump_model()), (), named(range(f.WIDTH), gains / max(gains.sum(), 1e-9)))

        return train

    def _objectives(self) -> tuple[str, ...]:
        return ("l1", "l2") if self.objective == "auto" else (self.objective,)

    def _tried(self, lightgbm: Any, objective: str, first: Known, last: Known) -> tuple[float, int, str]:
        watch = self._data(lightgbm, last)
        booster = lightgbm.train(
            self._settings(objective, len(first)),
            self._data(lightgbm, first),
            num_boost_round=self.rounds,
            valid_sets=[watch],
            callbacks=[lightgbm.early_stopping(self.patience, verbose=False)],
        )
        guesses = booster.predict(last.rows, num_iteration=booster.best_iteration)
        return float(np.abs(guesses - last.logs).mean()), max(int(booster.best_iteration), 1), objective

    def _settings(self, objective: str, jobs: int) -> dict[str, Any]:
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
            "num_threads": 1 if jobs < FEW else 2,  # threads wait for each other longer than a small table takes
            "verbosity": -1,
        }

    def _data(self, lightgbm: Any, jobs: Known) -> Any:
        return lightgbm.Dataset(jobs.rows, jobs.logs, params={"verbosity": -1}, free_raw_data=True)

"""How long an iteration takes: learned from other models, or scaled from one measurement of the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shunter import extras
from shunter.errors import ModelError, did_you_mean
from shunter.predictors.splitting import BY_MODEL, RANDOM, folds
from shunter.seeding import rng
from shunter.world import F64, I64

FEATURES = ("batch", "flops", "params", "cpu_normalized", "mem_normalized")
RESOURCES = ("cpu_normalized", "mem_normalized")  # what one job may have more or less of
TARGET = "time_avg_for_100_iteration"
TREES = 200
ROUNDS = 300
MODELS = ("forest", "gbm", "scaled")
FEWEST = 50  # measurements
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class TimeTable:
    """Measured iteration times."""

    rows: F64  # (measurements, FEATURES), all above 0
    seconds: F64
    model: I64  # a code per trained model
    configuration: I64  # a code per model and resources: repeats have the same

    @classmethod
    def of(cls, numbers: Mapping[str, F64]) -> TimeTable:
        """The table of these columns; models are distinguished by batch, FLOPs and parameters."""
        rows = np.column_stack([numbers[name] for name in FEATURES])
        seconds = numbers[TARGET]
        if len(seconds) < FEWEST:
            raise ModelError(f"iteration times: needs at least {FEWEST} measurements, got {len(seconds)}; add some")
        bad = ~((rows > 0) & (rows < 1e30)).all(axis=1) | ~((seconds > 0) & (seconds < 1e9))
        if bad.any():
            raise ModelError(
                f"iteration times: measurement {int(np.argmax(bad)) + 1} must have numbers above 0; correct it"
            )
        model, configuration = (
            np.unique(rows[:, :width], axis=0, return_inverse=True)[1].reshape(-1) for width in (3, len(FEATURES))
        )
        return cls(rows, seconds, model, configuration)


def ratio_exponents(logs: F64, times: F64, model: I64) -> F64:
    """By which power of its CPUs and memory a job's time changes: within models, by least squares of logs."""
    count = np.bincount(model)
    inner = np.column_stack([_within(column, model, count) for column in logs.T])
    found, *_ = np.linalg.lstsq(inner, _within(times, model, count), rcond=None)
    return np.asarray(found)


def scaled_time(measured_s: float, measured: ArrayLike, asked: ArrayLike, exponents: ArrayLike) -> float:
    """The time of an iteration with other resources, from one measurement of the same job."""
    ratios = np.asarray(asked, np.float64) / np.asarray(measured, np.float64)
    return float(measured_s * np.prod(ratios ** np.asarray(exponents)))


def _within(values: F64, model: I64, count: I64) -> F64:
    """Differences to the mean of the same model."""
    return values - (np.bincount(model, values) / np.maximum(count, 1))[model]


# ------------------------------------------------------------------------------------------- judging


def judge(table: TimeTable, wanted: Sequence[str] | None, on_progress: OnProgress) -> dict[str, Any]:
    """Every model by both splits."""
    names = list(dict.fromkeys(wanted or MODELS))
    for name in names:
        if name not in MODELS:
            raise ModelError(f"unknown model '{name}' for iteration times; {did_you_mean(name, MODELS)}")
    splits = []
    for at, split in enumerate((RANDOM, BY_MODEL)):
        expected = {name: np.full(len(table.seconds), np.nan) for name in names}
        for out in folds(table.model, split):
            learned = np.setdiff1d(np.arange(len(table.seconds)), out)
            for name in names:
                expected[name][out] = _expected(name, table, learned, out)
        splits.append({"split": split, "models": [scores(name, expected[name], table.seconds) for name in names]})
        on_progress(at + 1, 2)
    return {
        "rows": len(table.seconds),
        "groups": int(table.model.max()) + 1,
        "configurations": int(table.configuration.max()) + 1,
        "splits": splits,
    }


def scores(name: str, expected: F64, actual: F64) -> dict[str, Any]:
    """R2, and the median error as a share, over what was expected at all."""
    known = np.isfinite(expected)
    said, true = expected[known], actual[known]
    if not len(true):
        return {"model": name, "rows": 0, "r2": None, "median_ape": None}
    spread = float(np.sum((true - true.mean()) ** 2))
    return {
        "model": name,
        "rows": len(true),
        "r2": 1 - float(np.sum((true - said) ** 2)) / spread if spread else None,
        "median_ape": float(np.median(np.abs(said - true) / np.maximum(np.abs(true), 1e-12))),
    }


def _expected(name: str, table: TimeTable, learned: I64, out: I64) -> F64:
    if name == "scaled":
        return _scaled(table, learned, out)
    logs, times = np.log(table.rows), np.log(table.seconds)
    found: F64 = np.exp(regressor(name).fit(logs[learned], times[learned]).predict(logs[out]))
    return found


def regressor(name: str) -> Any:
    """A model of a library, not fitted."""
    if name == "forest":
        ensemble = extras.load("sklearn.ensemble", "model 'forest'")
        return ensemble.RandomForestRegressor(TREES, min_samples_leaf=2, random_state=0, n_jobs=1)
    lightgbm = extras.load("lightgbm", "model 'gbm'")
    settings = {"num_leaves": 15, "min_child_samples": 10, "learning_rate": 0.05, "n_jobs": 1, "verbosity": -1}
    return lightgbm.LGBMRegressor(
        n_estimators=ROUNDS, random_state=0, deterministic=True, force_row_wise=True, **settings
    )


def _scaled(table: TimeTable, learned: I64, out: I64) -> F64:
    """From one measurement of the same model in another configuration, chosen at random; NaN: there is none.

    A new job has one: it runs.  Rows of the test may serve as that measurement, but never as examples.
    """
    columns = [FEATURES.index(name) for name in RESOURCES]
    logs = np.log(table.rows[:, columns])
    exponents = ratio_exponents(logs[learned], np.log(table.seconds[learned]), table.model[learned])
    found, draw = np.full(len(out), np.nan), rng(0, "measured iterations")
    members = {code: np.flatnonzero(table.model == code) for code in np.unique(table.model[out]).tolist()}
    for at, row in enumerate(out.tolist()):
        same = members[int(table.model[row])]
        others = same[table.configuration[same] != table.configuration[row]]
        if len(others):
            one = int(others[draw.integers(len(others))])
            found[at] = scaled_time(table.seconds[one], table.rows[one, columns], table.rows[row, columns], exponents)
    return found

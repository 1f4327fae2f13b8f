"""A forecast of the nodes in use: the mean over the next steps and over twice as many, from what is known at each step.

``last`` takes the present for the future, which says nothing of where demand goes: its forecasts are NaN, and the rule
uses the past alone.  ``lightgbm`` fits one model per horizon, directly: its features end with the present step, and
it is fitted only on means that were complete before the time from which it is used.  ``leak`` is what the authors' code
does, kept to show what that is worth: a forecast of single steps from what was an hour before *them*, so that the mean
over the next hours contains hours that are still to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from shunter.energy.series import DAY_MS, STEP_MS, NodeSeries
from shunter.errors import EnergyError, did_you_mean
from shunter.extras import load
from shunter.world import F64, I64

PEAK = "peak"  # no forecast: the maximum of the past
KINDS = ("lightgbm", "last", "leak")
WHAT = "the forecast of node demand"  # for messages
STEPS_A_DAY = DAY_MS // STEP_MS
SHORTEST = 7 * STEPS_A_DAY  # steps to learn from
HELD_OUT = 30 * STEPS_A_DAY  # steps at the end on which the number of rounds is found, but never more than half
LONGEST = 365 * STEPS_A_DAY
TIMES = 8  # and at least this many times the steps ahead
REACH = 20  # steps that a feature goes back
ROUNDS, PATIENCE = 10_000, 200
PARAMS = {  # the authors' settings; the rest are LightGBM's own
    "objective": "regression",
    "metric": "rmse",
    "bagging_fraction": 0.85,
    "bagging_freq": 1,
    "deterministic": True,
    "num_threads": 1,
    "verbosity": -1,
}


@dataclass(frozen=True, eq=False)
class Forecasts:
    """What was forecast at each step: the mean number of nodes over the next steps, and over twice as many."""

    near: F64  # (steps,)
    far: F64  # (steps,)
    scores: dict[str, float]  # how good it is in the time that it was not fitted on


def forecasts(kind: str, series: NodeSeries, begin: int, ahead: int, scored: bool = True, seed: int = 0) -> Forecasts:
    """Forecasts for the steps from ``begin`` on, fitted on those before; what is before is not to be looked at."""
    if kind == "last":
        present = series.used.astype(np.float64)
        nothing = np.full(len(series), np.nan)
        return Forecasts(nothing, nothing, _scores(series.used, present, present, begin, ahead))
    if kind not in KINDS:
        raise EnergyError(f"there is no forecast '{kind}'; {did_you_mean(kind, (*KINDS, PEAK))}")
    if not enough(begin, ahead):
        days = max(SHORTEST, TIMES * ahead) / STEPS_A_DAY
        raise EnergyError(
            f"{series.name}: a forecast for {ahead} steps is learned from {days:.1f} days or more, got "
            f"{begin / STEPS_A_DAY:.1f} before the time to be forecast; move that, or take the forecast 'last'"
        )
    single, one_step = one_step_scores(series, begin, seed) if scored or kind == "leak" else (np.zeros(0), {})
    if kind == "leak":
        near, far = (_running_mean(single, steps) for steps in (ahead, 2 * ahead))
    else:
        near, far = fit(series.time[:begin], series.used[:begin], ahead, seed).at(series.time, series.used)
    return Forecasts(near, far, _scores(series.used, near, far, begin, ahead) | one_step)


def enough(steps: int, ahead: int) -> bool:
    """Whether there is enough of a past to learn from."""
    return steps >= max(SHORTEST, TIMES * ahead)


# ------------------------------------------------------------------------------------------- without a leak


@dataclass(frozen=True, eq=False)
class NodeForecaster:
    """Two fitted models."""

    near: Any
    far: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> NodeForecaster:
        return self  # it never changes

    def at(self, time: I64, used: I64) -> tuple[F64, F64]:
        """Both forecasts at every step of a series, each from the steps up to it."""
        rows = features(time, used)
        return self.near.predict(rows, num_threads=1), self.far.predict(rows, num_threads=1)

    def now(self, time: I64, used: I64) -> tuple[float, float]:
        """Both at the last step alone."""
        near, far = self.at(time[-REACH:], used[-REACH:])
        return float(near[-1]), float(far[-1])


def fit(time: I64, used: I64, ahead: int, seed: int = 0) -> NodeForecaster:
    """Learn from a past, at most the last year of it."""
    time, used = time[-LONGEST:], used[-LONGEST:]
    lightgbm, rows = load("lightgbm", WHAT), features(time, used)
    return NodeForecaster(*(_fit(lightgbm, rows, mean_ahead(used, steps), seed) for steps in (ahead, 2 * ahead)))


def _fit(lightgbm: Any, rows: F64, target: F64, seed: int) -> Any:
    """A model whose number of rounds is found on the last part, and which is then fitted on all of it."""
    known = np.flatnonzero(~np.isnan(target))
    horizon = len(rows) - 1 - known[-1]
    known = known[known >= REACH]
    late = known[-_held_out(len(known)) :]
    early = known[known < late[0] - horizon]  # their means are complete before the last part begins
    rounds = _trained(lightgbm, rows, target, early, late, seed).best_iteration
    return lightgbm.train(PARAMS | {"seed": seed}, lightgbm.Dataset(rows[known], target[known]), rounds)


def _held_out(steps: int) -> int:
    return min(HELD_OUT, steps // 2)


def _trained(lightgbm: Any, rows: F64, target: F64, early: I64, late: I64, seed: int) -> Any:
    """Fitted on the early steps until it gets no better on the late ones."""
    sets = [lightgbm.Dataset(rows[at], target[at]) for at in (early, late)]
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    return lightgbm.train(PARAMS | {"seed": seed}, sets[0], ROUNDS, valid_sets=[sets[1]], callbacks=[stop])


def features(time: I64, used: I64) -> F64:
    """A row per step, from the steps up to it: the clock, the present, rolling values and lags.

    Month, week and day of the year are left out: in less than a year of history they only number the days.
    """
    x = used.astype(np.float64)
    return np.column_stack([*_clock(time), x, *_rolling(x), *_lags(x)])


def _clock(time: I64) -> list[F64]:
    minutes = time // 60_000
    parts = (minutes // 60 % 24, minutes % 60, (time // DAY_MS + 3) % 7)  # 1 January 1970 was a Thursday
    return [part.astype(np.float64) for part in parts]


def _rolling(x: F64) -> list[F64]:
    """Mean, median and standard deviation over three and six steps."""
    return [
        _windowed(x, steps, of)
        for steps in (3, 6)
        for of in (lambda a: a.mean(axis=1), lambda a: np.median(a, axis=1), lambda a: a.std(axis=1, ddof=1))
    ]


def _windowed(x: F64, steps: int, of: Any) -> F64:
    found = np.full(len(x), np.nan)
    if len(x) >= steps:
        found[steps - 1 :] = of(sliding_window_view(x, steps))
    return found


def _lags(x: F64) -> list[F64]:
    """Three hours ago, and smoothed over the steps beside."""
    return [_lag(x, 18), 0.5 * _lag(x, 18) + 0.25 * (_lag(x, 19) + _lag(x, 17))]


def _lag(x: F64, steps: int) -> F64:
    return np.concatenate([np.full(min(steps, len(x)), np.nan), x[: max(len(x) - steps, 0)]])


def mean_ahead(used: I64, steps: int) -> F64:
    """The mean over this many steps after each; NaN where they are not all there."""
    sums = np.concatenate([[0], np.cumsum(used)]).astype(np.float64)
    found = np.full(len(used), np.nan)
    if len(used) > steps:
        found[:-steps] = (sums[steps + 1 :] - sums[1:-steps]) / steps
    return found


# ------------------------------------------------------------------------------------------- as the authors did


def one_step_scores(series: NodeSeries, begin: int, seed: int = 0) -> tuple[F64, dict[str, float]]:
    """The authors' forecast of each single step from what was an hour before it, and its RMSE and SMAPE."""
    lightgbm = load("lightgbm", WHAT)
    rows, target = _artifact_features(series), series.used.astype(np.float64)
    steps = np.arange(begin)
    split = begin - _held_out(begin)
    model = _trained(lightgbm, rows, target, steps[:split], steps[split:], seed)
    found: F64 = model.predict(rows, num_iteration=model.best_iteration, num_threads=1)
    error = found[begin:] - target[begin:]
    smape = 200 * float(np.mean(np.abs(error) / np.maximum(np.abs(found[begin:]) + target[begin:], 1e-9)))
    return found, {"one_step_rmse": _rms(error), "one_step_smape": smape}


def _artifact_features(series: NodeSeries) -> F64:
    """The whole calendar, rolling values that end an hour before, and lags."""
    days = series.time.astype("datetime64[ms]").astype("datetime64[D]")
    years, months = days.astype("datetime64[Y]"), days.astype("datetime64[M]")
    of_year, of_month = (days - years).astype(np.int64), (days - months).astype(np.int64)
    date = [years.astype(np.int64), (months - years).astype(np.int64), of_month]
    week = (series.time // DAY_MS + 3) // 7  # from Monday to Sunday
    x = series.used.astype(np.float64)
    return np.column_stack([*date, *_clock(series.time), of_year, week, *_rolling(_lag(x, 6)), *_lags(x)])


def _running_mean(x: F64, steps: int) -> F64:
    """The mean over each step and those after it, this many in all, or as many as there are."""
    sums = np.concatenate([[0.0], np.cumsum(x)])
    first = np.arange(len(x))
    last = np.minimum(first + steps, len(x))
    mean: F64 = (sums[last] - sums[first]) / (last - first)
    return mean


def _scores(used: I64, near: F64, far: F64, begin: int, ahead: int) -> dict[str, float]:
    """The RMSE of both horizons from ``begin`` on, where what came is known."""
    errors = {"near_rmse": near - mean_ahead(used, ahead), "far_rmse": far - mean_ahead(used, 2 * ahead)}
    known = {name: error[begin:][~np.isnan(error[begin:])] for name, error in errors.items()}
    return {name: _rms(error) for name, error in known.items() if len(error)}


def _rms(error: F64) -> float:
    return float(np.sqrt(np.mean(error**2)))

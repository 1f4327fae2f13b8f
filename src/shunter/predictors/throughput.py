"""How many jobs and GPUs will be asked for in the next bins of ten minutes (Lucid's throughput model).

Every feature of a bin is at least six bins old, so that one model forecasts up to an hour ahead.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

import numpy as np

from shunter.arrays import F1, F2, Arrays
from shunter.compiled import kernel
from shunter.errors import ModelError
from shunter.model import EARLIEST_DATE_MS, GPU, Trace
from shunter.predictors.features import day_of_month
from shunter.predictors.fitting import Model, TrainingTable, versions_of
from shunter.predictors.trees import Trees, check, evaluate, evaluate_all
from shunter.world import F64

BIN_MS = 600_000
AHEAD = 6  # bins that can be forecast
LAGS = (6, 18, 144)
ROLLED = 6  # bins of a rolling mean
DAY = 144  # bins
FEWEST = 2 * DAY  # bins to learn from
MOST_BINS = 10_000_000  # two centuries
JOBS, GPUS = range(2)  # the two series

_SERIES = ("jobs", "gpus")
NAMES = (
    "hour",
    "weekday",
    "day",
    *(f"{name}_{part}" for name in _SERIES for part in (
        *(f"lag_{lag}" for lag in LAGS), *(f"soft_{lag}" for lag in LAGS), "mean", "median", "std", "day_mean")),
)  # fmt: skip
PER_SERIES = 2 * len(LAGS) + 4
WIDTH = len(NAMES)


@dataclass(frozen=True, eq=False)
class ThroughputForecaster:
    """A fitted throughput model."""

    name: str
    settings: dict[str, str | int | float | bool | None]
    jobs: Trees  # of log(1 + jobs) in a bin
    gpus: Trees
    bins: int  # that it was fitted to
    fitted_at: int  # ms
    versions: dict[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = NAMES

    def check(self) -> None:
        """Refuse what no fit gives, and kernels could not stand."""
        check(self.jobs, len(self.features))
        check(self.gpus, len(self.features))
        if not 0 <= self.bins < 2**63 or not -(2**63) <= self.fitted_at < 2**63:
            raise ValueError("bins and fitted_at must be numbers of bins and of milliseconds")


class SubmissionCounts(Arrays):
    """A throughput model at work: what has been submitted so far, and what comes next."""

    counts: F2  # (2, bins) jobs and GPUs submitted
    begin: F1  # (1,) of the first bin, ms
    jobs: Trees
    gpus: Trees
    row: F1  # scratch
    window: F1  # (ROLLED,) scratch
    ahead: F2  # (2, AHEAD) the last forecast


@kernel
def at_bin(series: F64, at: int) -> float:
    """What was submitted in a bin; NaN before the first, and nothing once no more can come."""
    if at < 0:
        return np.nan
    return float(series[at]) if at < len(series) else 0.0


@kernel
def fill_series(series: F64, at: int, window: F64, part: F64) -> None:
    """The features of a bin that come from one series, all of them at least AHEAD bins old."""
    for i in range(len(LAGS)):
        lag = LAGS[i]
        part[i] = at_bin(series, at - lag)
        # the published one is centred on the lag itself, and so looks at a bin that is one too new
        around = at_bin(series, at - lag) + at_bin(series, at - lag - 2)
        part[len(LAGS) + i] = 0.5 * at_bin(series, at - lag - 1) + 0.25 * around
    total, squares = 0.0, 0.0
    for i in range(ROLLED):
        value = at_bin(series, at - AHEAD - i)
        total += value
        squares += value * value
        place = i
        while place > 0 and window[place - 1] > value:  # insertion keeps them sorted, for the median
            window[place] = window[place - 1]
            place -= 1
        window[place] = value
    mean = total / ROLLED
    first = 2 * len(LAGS)
    part[first] = mean
    part[first + 1] = (window[(ROLLED - 1) // 2] + window[ROLLED // 2]) / 2 if not math.isnan(mean) else np.nan
    part[first + 2] = math.sqrt(max(squares / ROLLED - mean * mean, 0.0)) if not math.isnan(mean) else np.nan
    days = 0.0
    for i in range(DAY):
        days += at_bin(series, at - AHEAD - i)
    part[first + 3] = days / DAY


@kernel
def fill_bin(counts: F64, begin: float, at: int, window: F64, row: F64) -> None:
    """Describe a bin from what was submitted at least AHEAD bins before it."""
    time = int(begin) + at * BIN_MS
    row[0], row[1], row[2] = np.nan, np.nan, np.nan
    if begin >= EARLIEST_DATE_MS:
        days = time // 86_400_000
        row[0] = (time - days * 86_400_000) / 3_600_000.0
        row[1] = (days + 3) % 7
        row[2] = day_of_month(days)
    for series in range(2):
        first = 3 + series * PER_SERIES
        fill_series(counts[series], at, window, row[first : first + PER_SERIES])


@kernel
def fill_bins(counts: F64, begin: float, window: F64, rows: F64) -> None:
    """Describe every bin."""
    for at in range(rows.shape[0]):
        fill_bin(counts, begin, at, window, rows[at])


@kernel
def note_arrival(arrivals: SubmissionCounts, gpus: float, now: int) -> None:
    """A job was submitted that asks for this many GPUs."""
    at = int(now - arrivals.begin[0]) // BIN_MS
    if 0 <= at < arrivals.counts.shape[1]:
        arrivals.counts[JOBS, at] += 1.0
        arrivals.counts[GPUS, at] += gpus


@kernel
def look_ahead(arrivals: SubmissionCounts, now: int) -> None:
    """Forecast the bin of this instant and the next ones, from the bins that are over; fills ``ahead``."""
    over = int(now - arrivals.begin[0]) // BIN_MS
    for step in range(AHEAD):
        fill_bin(arrivals.counts, arrivals.begin[0], over + step, arrivals.window, arrivals.row)
        arrivals.ahead[JOBS, step] = max(math.expm1(evaluate(arrivals.jobs, arrivals.row)), 0.0)
        arrivals.ahead[GPUS, step] = max(math.expm1(evaluate(arrivals.gpus, arrivals.row)), 0.0)


# ------------------------------------------------------------------------------------------- fitting


def binned(trace: Trace, begin: int, end: int) -> F64:
    """Jobs and GPUs (2, bins) that were submitted in each ten minutes between two instants."""
    _check_span(trace, end - begin)
    inside = (trace.submit >= begin) & (trace.submit < end)
    at, bins = (trace.submit[inside] - begin) // BIN_MS, max(-(-(end - begin) // BIN_MS), 0)
    return np.array([np.bincount(at, weights, bins) for weights in (np.ones(len(at)), trace.gpus[inside] / GPU)])


def _check_span(trace: Trace, length: int) -> None:
    """Refuse a time that has more bins than memory should hold."""
    if length > MOST_BINS * BIN_MS:
        raise ModelError(
            f"trace '{trace.name}' spans {length // BIN_MS:,} bins of ten minutes, at most {MOST_BINS:,} can be; leave "
            "out jobs that are far from the others with 'shunter trace slice'"
        )


def rows_of(counts: F64, begin: int) -> F64:
    """The features (bins, features) of every bin."""
    rows = np.empty((counts.shape[1], WIDTH))
    fill_bins(np.ascontiguousarray(counts), float(begin), np.zeros(ROLLED), rows)
    return rows


def fit(model: Model, counts: F64, begin: int) -> ThroughputForecaster:
    """Fit to bins that are over, with any model that trains trees."""
    bins = counts.shape[1]
    if bins < FEWEST:
        raise ModelError(
            f"the throughput model must have at least {FEWEST} bins of ten minutes to learn from, got {bins}; give a "
            "longer history"
        )
    rows = rows_of(counts, begin)
    tables = [TrainingTable(rows[DAY:], np.log1p(series[DAY:]), NAMES) for series in counts]
    jobs, gpus = (model.trainer(table)(table).trees for table in tables)
    return ThroughputForecaster(model.name, asdict(model), jobs, gpus, bins, begin + bins * BIN_MS, versions_of(model))


def forecasts(fitted: ThroughputForecaster, counts: F64, begin: int) -> F64:
    """What was forecast for every bin (2, bins), an hour before it."""
    rows = rows_of(counts, begin)
    values = np.empty((2, len(rows)))
    evaluate_all(fitted.jobs, rows, values[JOBS])
    evaluate_all(fitted.gpus, rows, values[GPUS])
    return np.maximum(np.expm1(values), 0.0)


def forecast(fitted: ThroughputForecaster, counts_so_far: F64, begin: int) -> F64:
    """Jobs and GPUs (2, AHEAD) to come in the next bins, after those that are over."""
    over = counts_so_far.shape[1]
    arrivals = at_work(fitted, counts_so_far, begin, over)
    look_ahead(arrivals, begin + over * BIN_MS)
    return arrivals.ahead


def at_work(fitted: ThroughputForecaster, counts: F64, begin: int, bins: int) -> SubmissionCounts:
    """A model with what has been submitted so far, and room for this many bins in all."""
    room = np.zeros((2, bins))
    room[:, : counts.shape[1]] = counts
    scratch = np.zeros(WIDTH), np.zeros(ROLLED), np.zeros((2, AHEAD))
    return SubmissionCounts(room, np.array([float(begin)]), fitted.jobs, fitted.gpus, *scratch)


def prepare(fitted: ThroughputForecaster, window: Trace, history: Trace | None = None) -> SubmissionCounts:
    """A model for the submissions of a window that has seen those of the history before it."""
    first = history if history is not None and len(history) else window
    begin = int(first.submit[0]) // BIN_MS * BIN_MS
    seen = binned(first, begin, int(window.submit[0])) if first is not window else np.zeros((2, 0))
    _check_span(window, int(window.submit[-1]) - begin)
    bins = (int(window.submit[-1]) - begin) // BIN_MS + 1
    return at_work(fitted, seen, begin, bins)

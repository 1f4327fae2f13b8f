"""The most CPU, memory or GPU memory that a job will use, learned from the user's own measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.errors import ModelError, did_you_mean
from shunter.predictors.iteration_time import regressor, scores
from shunter.predictors.splitting import BY_MODEL, RANDOM, folds
from shunter.world import F64, I64

PREFIX = "peak_"
MODELS = ("median", "gbm", "forest")
SIZES = ("flops", "params")  # what distinguishes models where no column does
KNOWN = ("batch", *SIZES, "gpus", "workers", "cpus", "mem", "amp")  # columns that may be known before a job runs
FEWEST = 30
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class PeakTable:
    """What was known of jobs, and the peaks that were measured."""

    rows: F64  # (jobs, features)
    features: tuple[str, ...]
    peaks: Mapping[str, F64]
    model: I64  # a code per trained model

    @classmethod
    def of(cls, numbers: Mapping[str, F64], texts: Mapping[str, Sequence[str]]) -> PeakTable:
        """Columns ``peak_...`` are what is learned; of the others, only those in ``KNOWN`` are used."""
        peaks = {name: values for name, values in numbers.items() if name.startswith(PREFIX)}
        known = {name: values for name, values in numbers.items() if name in KNOWN}
        if not peaks or not known:
            raise ModelError(
                f"peaks: needs a column peak_..., such as peak_mem, and one of {', '.join(KNOWN)}, all of them numbers;"
                " name yours with --columns peak_mem=max_rss,batch=size"
            )
        model = _models(numbers, texts)
        if len(model) < FEWEST:
            raise ModelError(f"peaks: needs at least {FEWEST} jobs, got {len(model)}; add some")
        return cls(np.column_stack(list(known.values())), tuple(known), peaks, model)


def _models(numbers: Mapping[str, F64], texts: Mapping[str, Sequence[str]]) -> I64:
    if "model" in texts or "model" in numbers:
        named = np.asarray(texts["model"] if "model" in texts else numbers["model"])
        return np.unique(named, return_inverse=True)[1].reshape(-1)
    if not all(name in numbers for name in SIZES):
        raise ModelError("peaks: needs a column model, or flops and params, to keep jobs of one model together; add it")
    sizes = np.column_stack([numbers[name] for name in SIZES])
    return np.unique(sizes, axis=0, return_inverse=True)[1].reshape(-1)


def judge(table: PeakTable, wanted: Sequence[str] | None, on_progress: OnProgress) -> dict[str, Any]:
    """Every model and peak by both splits."""
    names = list(dict.fromkeys(wanted or MODELS))
    for name in names:
        if name not in MODELS:
            raise ModelError(f"unknown model '{name}' for peaks; {did_you_mean(name, MODELS)}")
    splits = []
    for at, split in enumerate((RANDOM, BY_MODEL)):
        rows = []
        for peak, actual in table.peaks.items():
            for name in names:
                expected = np.full(len(actual), np.nan)
                for out in folds(table.model, split):
                    learned = np.setdiff1d(np.arange(len(actual)), out)
                    expected[out] = _expected(name, table.rows, actual, learned, out)
                rows.append({"peak": peak} | scores(name, expected, actual))
        splits.append({"split": split, "models": rows})
        on_progress(at + 1, 2)
    return {
        "rows": len(table.model),
        "groups": int(table.model.max()) + 1,
        "features": list(table.features),
        "splits": splits,
    }


def _expected(name: str, rows: F64, actual: F64, learned: I64, out: I64) -> F64:
    if name == "median":
        return np.full(len(out), np.median(actual[learned]))
    found: F64 = regressor(name).fit(rows[learned], actual[learned]).predict(rows[out])
    return found

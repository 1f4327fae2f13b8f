"""Two ways to judge a model on measurements: random rows, and whole groups left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shunter.errors import ModelError
from shunter.seeding import rng
from shunter.world import I64

FOLDS = 5
RANDOM, BY_MODEL = "random rows", "by model"


def folds(groups: Sequence[str] | I64, split: str, count: int = FOLDS, seed: int = 0) -> Iterator[I64]:
    """The rows to judge on, fold by fold: random ones, or those of whole groups; every row once."""
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    units = codes if split == BY_MODEL else np.arange(len(codes))
    kinds = int(units.max()) + 1 if len(units) else 0
    if kinds < 2:
        raise ModelError(f"a split {split} needs at least two of them, got {kinds}; add measurements")
    fold = np.empty(kinds, np.int64)
    fold[rng(seed, f"folds {split}").permutation(kinds)] = np.arange(kinds) % min(count, kinds)
    for each in range(min(count, kinds)):
        yield np.flatnonzero(fold[units] == each)

"""How well the end of a training is expected from its first part, on whole recorded curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shunter.errors import ModelError
from shunter.predictors.progress import lstm
from shunter.predictors.progress.curves import BINS, FEWEST, LossCurve, StopRule
from shunter.predictors.progress.extrapolating import BEGIN, LEVELS, METHODS, Method, expected_end, method
from shunter.predictors.splitting import BY_MODEL, RANDOM, folds
from shunter.world import F64

EVERY = 5  # bins between two questions about a curve
OnProgress = Callable[[int, int], None]


class CurveQuestion(NamedTuple):
    """The first bins of a curve, and after how many the run had converged."""

    curve: int
    seen: int
    end: int


@dataclass(frozen=True, eq=False)
class CurveTask:
    """Curves as binned losses, and the questions about them."""

    curves: list[F64]
    families: list[str]
    questions: list[CurveQuestion]
    rule: StopRule


def task(curves: Sequence[LossCurve], rule: StopRule) -> CurveTask:
    """Questions at every twentieth of a run, from a fifth of it until it has converged."""
    usable = [curve for curve in curves if len(curve.loss) >= FEWEST]
    binned = [curve.binned(curve.iteration[-1]) for curve in usable]
    ends = [rule.end(losses) for losses in binned]
    questions = [CurveQuestion(at, seen, end) for at, end in enumerate(ends) for seen in range(BEGIN, end, EVERY)]
    if not questions:
        raise ModelError(f"no loss curve has {FEWEST} measurements and goes on after a fifth of its run; add some")
    return CurveTask(binned, [curve.family for curve in usable], questions, rule)


def names_of(wanted: Sequence[str] | None) -> list[str]:
    """The methods that are compared; if none is named, all but 'lstm', which is trained for every fold."""
    if not wanted:
        return list(METHODS)
    for name in wanted:
        if name != "lstm":
            method(name)
    return list(dict.fromkeys(wanted))


def judge(curves: Sequence[LossCurve], wanted: Sequence[str] | None, on_progress: OnProgress) -> dict[str, Any]:
    """Every method by both splits: curves left out at random, and whole families left out."""
    asked = task(curves, StopRule())
    names, splits = names_of(wanted), []
    for at, split in enumerate((RANDOM, BY_MODEL)):
        found = {name: _errors(asked, name, split) for name in names}
        splits.append({"split": split, "models": [_scores(asked, name, split, error) for name, error in found.items()]})
        on_progress(at + 1, 2)
    return {
        "curves": len(asked.curves),
        "left_out": len(curves) - len(asked.curves),
        "families": sorted(set(asked.families)),
        "rows": len(asked.questions),
        "decline": asked.rule.decline,
        "splits": splits,
    }


def _curve_folds(asked: CurveTask, split: str) -> list[tuple[Any, Any]]:
    """For every fold the questions to judge on, and the curves to learn from; a curve is never on both sides."""
    of = np.array([question.curve for question in asked.questions])
    families = sorted(set(asked.families))
    groups = [families.index(each) for each in asked.families]
    count = len(families) if split == BY_MODEL else 5
    found = []
    for out in folds(np.array(groups), split, count):
        learned = np.setdiff1d(np.arange(len(asked.curves)), out)
        rows = np.flatnonzero(np.isin(of, out))
        if len(rows):
            found.append((rows, learned))
    return found


def _errors(asked: CurveTask, name: str, split: str) -> F64:
    """Expected minus actual end of every question, as a share of the declared run."""
    errors = np.zeros(len(asked.questions))
    for rows, learned in _curve_folds(asked, split):
        by: Method = lstm.trained([asked.curves[at] for at in learned]) if name == "lstm" else method(name)
        for row in rows:
            curve, seen, end = asked.questions[row]
            errors[row] = (expected_end(by, asked.curves[curve][:seen], asked.rule) - end) / BINS
    return errors


def _scores(asked: CurveTask, name: str, split: str, errors: F64) -> dict[str, Any]:
    """The errors of a method, and whether its 90 % interval holds when its width comes from other curves."""
    of, seen, end = (np.array(column) for column in zip(*asked.questions, strict=True))
    left, end = 1 - seen / BINS, end / BINS
    late = -errors / left  # how much later it ended than expected
    low, high = np.zeros(len(errors)), np.zeros(len(errors))
    for rows, learned in _curve_folds(asked, split):
        least, most = np.quantile(late[np.isin(of, learned)], LEVELS)
        expected = end[rows] + errors[rows]
        low[rows] = np.clip(expected + least * left[rows], seen[rows] / BINS, 1)
        high[rows] = np.clip(expected + most * left[rows], seen[rows] / BINS, 1)
    return {
        "model": name,
        "rows": len(errors),
        "mean_error": float(np.abs(errors).mean()),
        "median_error": float(np.median(np.abs(errors))),
        "bias": float(errors.mean()),
        "interval_holds": float(np.mean((low <= end) & (end <= high))),
        "upper_holds": float(np.mean(end <= high)),
        "width": float(np.mean(high - low)),
    }


def error_levels(curves: Sequence[LossCurve], name: str = "power") -> tuple[float, ...]:
    """How much later runs ended than expected at ``LEVELS``, as a share of the declared iterations that were left."""
    asked = task(curves, StopRule())
    left = np.array([1 - question.seen / BINS for question in asked.questions])
    late = -_errors(asked, name, RANDOM) / left
    return tuple(float(np.quantile(late, level)) for level in LEVELS)

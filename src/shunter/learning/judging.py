"""A model on windows that it has not seen, beside policies with the same estimates and the same jobs in view."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shunter.errors import ModelError
from shunter.learning import episodes as e
from shunter.learning.engine import LearningGround
from shunter.learning.outcomes import OBJECTIVES, compared, runs_in, scores
from shunter.learning.training import CHECKED_ON, REFERENCE, Players, apart, parts_of
from shunter.policies.scored.models import ScoreModel
from shunter.policies.scored.provenance import elsewhere, met_again
from shunter.report.bootstrap import FEWEST
from shunter.texts import percent
from shunter.world import F64, I64

WINDOWS = 24


def judged(
    model: ScoreModel, ground: LearningGround, windows: int = WINDOWS, others: Sequence[str] = (), seed: int = 0,
    threads: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """Every objective under the model and under other policies, with paired intervals against the reference.

    No job is in two windows, so that they may be drawn again as if each were by itself.
    """
    if windows < FEWEST:
        raise ModelError(f"--windows must be at least {FEWEST}, else there is no interval, got {windows}")
    mode = e.INSPECT if model.asks == "skip" else e.PICK
    visible = model.training.visible
    players = Players(ground, model, mode, model.training.base or REFERENCE, threads, visible)
    if visible:
        others = (f"scored:model=saf,visible={visible}", *others)  # with the same jobs in view
    firsts = _windows(ground, windows)
    waits = {"model": players.waits(firsts), REFERENCE: players.base_waits(firsts, REFERENCE)}
    waits |= {name: players.base_waits(firsts, name) for name in others if name != REFERENCE}
    rows = _rows(waits, runs_in(ground.run_times, firsts, ground.length), seed)
    same = model.training.jobs == ground.trace.digest
    return {
        "model": model.name,
        "training": model.training.model_dump(),
        "trace": ground.trace.name,
        "cluster": ground.cluster.name,
        "estimate": ground.estimated_by or ground.estimate,
        "window": ground.length,
        "windows": len(firsts),
        "windows_asked": windows,
        "first_jobs": firsts.tolist(),
        "same_trace": same,
        "remarks": _remarks(model, ground, firsts, same),
        "reference": REFERENCE,
        "rows": rows,
        "verdict": verdict(model, rows, len(firsts), ground.length),
    }


def _windows(ground: LearningGround, count: int) -> I64:
    """The windows to judge on, by their first jobs: at most this many, none of which overlaps another."""
    last_part = parts_of(ground)[2]
    if last_part[-1] + ground.length > len(ground.trace):
        raise ModelError(
            f"{len(ground.trace):,} jobs are too few: a window has {ground.length:,}, and only the last part of the"
            f" trace is judged on; use a trace of {_enough(ground.length):,} jobs or more"
        )
    return apart(last_part, count, ground.length)


def _enough(length: int) -> int:
    """How many jobs a trace must have for the fewest windows that make an interval."""
    return math.ceil(round(FEWEST * length / (1 - CHECKED_ON), 3))


def _rows(waits: Mapping[str, F64], runs: F64, seed: int) -> list[dict[str, Any]]:
    """Each policy with its numbers, against the reference."""

    def against_reference(found: F64, objective: str) -> dict[str, Any]:
        base = scores(objective, waits[REFERENCE], runs)
        return compared(scores(objective, found, runs), base, seed).as_dict()

    return [
        {"policy": name, "objectives": {objective: against_reference(found, objective) for objective in OBJECTIVES}}
        for name, found in waits.items()
    ]


def _remarks(model: ScoreModel, ground: LearningGround, firsts: I64, same: bool) -> list[str]:
    """What one must know before the numbers; the last part of the same trace has no job that was learned from."""
    submit = ground.trace.submit[(firsts[:, None] + np.arange(ground.length)).ravel()]
    again = [] if same else met_again(model.training, ground.trace.name, submit)
    return [*again, *elsewhere(model.training, ground.cluster)]


def verdict(model: ScoreModel, rows: Sequence[dict[str, Any]], windows: int, length: int) -> str:
    """What the intervals say, in a sentence."""
    if windows < FEWEST:
        return (
            f"Can't tell: {windows} window{'s' * (windows > 1)} only. An interval needs {FEWEST} windows of {length:,}"
            f" jobs, so a trace of {_enough(length):,} jobs or more."
        )
    objective = model.training.objective or "wait"
    found = next(row for row in rows if row["policy"] == "model")["objectives"][objective]
    what = OBJECTIVES[objective].partition(" (")[0]
    if not found["base"] and not found["value"]:
        return f"Can't tell: the {what} is 0 in all windows, so they show no difference; use longer ones (--jobs)."
    if found["low"] is None or not np.isfinite(found["share"]):
        return f"There is no interval, so nothing is shown about the {what}."
    low, high = percent(found["low"]), percent(found["high"])
    change = f"{percent(found['share'])} ({low} to {high}, {windows} windows)"
    if found["flat"] and found["share"]:
        return f"Nothing is shown about the {what}: {change}; all of the difference is in one window."
    if not found["shown"]:
        return f"No difference to {REFERENCE} is shown in the {what}: {change}."
    return f"The model's {what} is {'lower' if found['share'] < 0 else 'higher'} than that of {REFERENCE}: {change}."

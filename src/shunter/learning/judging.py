"""A model on windows that it has not seen, beside policies with the same estimates and the same jobs in view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shunter.errors import ModelError
from shunter.learning import episodes as e
from shunter.learning.engine import LearningGround
from shunter.learning.outcomes import OBJECTIVES, compared, runs_in, scores
from shunter.learning.training import FEWEST_JOBS, REFERENCE, Players, parts_of, spaced
from shunter.policies.scored.models import ScoreModel

WINDOWS = 24
FEWEST = 5  # windows of which an interval is made


def judged(
    model: ScoreModel, ground: LearningGround, windows: int = WINDOWS, others: Sequence[str] = (), seed: int = 0,
    threads: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """Every objective under the model and under other policies, with paired intervals against the reference."""
    if windows < FEWEST:
        raise ModelError(f"--windows must be at least {FEWEST}, else there is no interval, got {windows}")
    mode = e.INSPECT if model.asks == "skip" else e.PICK
    visible = model.training.visible
    players = Players(ground, model, mode, model.training.base or REFERENCE, threads, visible)
    if visible:
        others = (f"scored:model=saf,visible={visible}", *others)  # with the same jobs in view
    firsts = spaced(parts_of(ground)[2], windows)
    if firsts[-1] + ground.length > len(ground.trace):
        raise ModelError(
            f"{len(ground.trace):,} jobs are too few: the model's windows have {ground.length:,}, and only the last"
            f" part of the trace is judged on; use a trace of {FEWEST_JOBS * ground.length:,} jobs or more"
        )
    runs = runs_in(ground.run_times, firsts, ground.length)
    waits = {"model": players.waits(firsts), REFERENCE: players.base_waits(firsts, REFERENCE)}
    waits |= {name: players.base_waits(firsts, name) for name in others if name != REFERENCE}
    rows = []
    for name, found in waits.items():
        numbers = {
            objective: compared(
                scores(objective, found, runs), scores(objective, waits[REFERENCE], runs), seed
            ).as_dict()
            for objective in OBJECTIVES
        }
        rows.append({"policy": name, "objectives": numbers})
    seen = model.training.jobs == ground.trace.digest
    return {
        "model": model.name,
        "training": model.training.model_dump(),
        "trace": ground.trace.name,
        "cluster": ground.cluster.name,
        "estimate": ground.estimate,
        "window": ground.length,
        "windows": len(firsts),
        "first_jobs": firsts.tolist(),
        "same_trace": seen,
        "reference": REFERENCE,
        "rows": rows,
        "verdict": verdict(model, rows),
    }


def verdict(model: ScoreModel, rows: Sequence[dict[str, Any]]) -> str:
    """What the intervals say, in a sentence."""
    objective = model.training.objective or "wait"
    found = next(row for row in rows if row["policy"] == "model")["objectives"][objective]
    what = OBJECTIVES[objective].partition(" (")[0]
    if found["low"] is None or not np.isfinite(found["share"]):
        return f"There is no interval, so nothing is shown about the {what}."
    change = f"{found['share']:+.1%} ({found['low']:+.1%} to {found['high']:+.1%})"
    if not found["shown"]:
        return f"No difference to {REFERENCE} is shown in the {what}: {change}."
    return f"The model's {what} is {'lower' if found['share'] < 0 else 'higher'} than that of {REFERENCE}: {change}."

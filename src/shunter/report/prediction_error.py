"""How well run times were predicted."""

from __future__ import annotations

from typing import Any

import numpy as np

from shunter.world import F64, I64

SHORTEST_MS = 1000  # shorter run times count as this long when predictions are judged


def log_errors(predicted: I64 | F64, actual: I64 | F64) -> F64:
    """ln(predicted / actual), times in ms: 0.7 is twice as long as it was, -0.7 half as long."""
    errors: F64 = np.log(np.maximum(predicted, SHORTEST_MS)) - np.log(np.maximum(actual, SHORTEST_MS))
    return errors


def foresight(predicted: I64 | F64, actual: I64 | F64) -> dict[str, Any]:
    """How many predictions there are, and how good they are; numbers that nothing follows for are None."""
    from shunter.predictors.evaluating import rank_correlation

    if not len(actual):
        return {"jobs": 0, "mean_abs_log_error": None, "rank_correlation": None, "bias": None}
    errors = log_errors(predicted, actual)
    return {
        "jobs": len(actual),
        "mean_abs_log_error": float(np.abs(errors).mean()),
        "rank_correlation": rank_correlation(predicted.astype(np.float64), actual.astype(np.float64)),
        "bias": float(errors.mean()),
    }

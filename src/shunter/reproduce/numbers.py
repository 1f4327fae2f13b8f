"""Further numbers of a run: virtual clusters, large and small jobs, predictions, and jobs that shared."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.model import GPU
from shunter.predictors.evaluating import ModelEstimates, scores
from shunter.report import metrics
from shunter.report.waiting import waiting as waiting_by_reason
from shunter.simulation import Result

LARGE = 8  # GPUs; a job with more is large
SHARED = ("profiled share", "ended in profiler share", "packed share", "packed slowdown")
WAITED_FULL, WAITED_CLOSER = "waited for free GPUs share", "waited for closer GPUs share"
PREDICTED = ("r2", "mape", "median_ape", "mean_abs_log_error", "rank_correlation")


def by_vc(result: Result) -> dict[str, float]:
    """Means of each virtual cluster that has jobs."""
    found: dict[str, float] = {}
    for code, vc in enumerate(result.trace.vcs):
        found |= _means(result, vc, result.trace.vc == code)
    return found


def by_size(result: Result) -> dict[str, float]:
    """Means of large jobs and of small ones, and the longest waits."""
    large = result.trace.gpus > LARGE * GPU
    waits = result.table[w.WAITED, result.table[w.STATE] == w.DONE] / 1000
    return {
        **_means(result, "large", large),
        **_means(result, "small", ~large),
        "wait_p99.9_s": float(np.percentile(waits, 99.9)),
    }


def _means(result: Result, name: str, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> dict[str, float]:
    which = which & (result.table[w.STATE] == w.DONE)
    if not which.any():
        return {}
    times = {"jct_mean_s": metrics.jct_ms(result.table), "wait_mean_s": result.table[w.WAITED]}
    return {f"{name} {measure}": float(values[which].mean()) / 1000 for measure, values in times.items()}


def predictions(result: Result) -> dict[str, float]:
    """How good the run times were that the policy expected, if it expected any and did not know the truth."""
    expected = result.insights.predicted
    if expected is None:
        return {}
    judged = (result.table[w.STATE] == w.DONE) & (expected > 0)
    actual = np.maximum(result.trace.duration[judged] / 1000, 1.0)
    found = scores(ModelEstimates("", np.maximum(expected[judged] / 1000, 1.0)), actual)
    return {f"predicted {name}": float(found[name]) for name in PREDICTED if found.get(name) is not None}


def sharing(result: Result) -> dict[str, float]:
    """How many jobs were profiled, ended there and were packed, and how much longer those took; if any job shares."""
    shared = result.insights.summary(result.trace, result.table, "").get("sharing")
    if shared is None:
        return {}
    shares = [shared[name] / len(result.trace) for name in ("profiled", "ended_in_profiler", "packed_jobs")]
    slowdown = shared["mean_slowdown"]
    return dict(zip(SHARED, [*shares, *([] if slowdown is None else [slowdown])], strict=False))


def waiting(result: Result) -> dict[str, float]:
    """Of all waiting, the part in which too few GPUs were free, and in which enough were but not close together.

    Only if the reasons for waiting were recorded.
    """
    if result.reasons is None:
        return {}
    found = waiting_by_reason(result.kept)
    spent = dict(zip(found.codes, found.per_job.sum(axis=1).tolist(), strict=True))
    total = max(sum(spent.values()), 1)
    return {WAITED_FULL: spent["full"] / total, WAITED_CLOSER: (spent["offer"] + spent["scattered"]) / total}


def about_estimates(result: Result) -> dict[str, float]:
    """What an experiment on orders by estimate asks for."""
    return {**by_vc(result), **predictions(result)}


def about_sharing(result: Result) -> dict[str, float]:
    """What an experiment on sharing GPUs asks for."""
    return {**by_vc(result), **by_size(result), **predictions(result), **sharing(result)}

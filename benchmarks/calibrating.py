"""How often, and how fast, quantiles should be calibrated: ``python -m benchmarks.calibrating TRACE --until DATE``.

Prints, by month, which share of the jobs stayed below P10, P50, P75 and P90 of a model that is calibrated more or less
often, and whose levels move more or less fast. A model is fitted once for all of these.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np

from shunter import traces
from shunter.predictors import calibrating, evaluating
from shunter.predictors.evaluating import EvaluationTask
from shunter.predictors.fitted import Fitted
from shunter.predictors.fitting import EndedJobs, Model
from shunter.predictors.lessons import fit_once
from shunter.predictors.models import model as model_of
from shunter.predictors.updating import Schedule
from shunter.report.gains import months
from shunter.world import F64

HOUR_MS = 3_600_000
CASES = ((24, 2.0), (24, 4.0), (24, 8.0), (24, 16.0), (6, 2.0), (6, 4.0), (1, 2.0), (1, 4.0), (1, 8.0))  # hours, pace


def held(given: EvaluationTask, model: str, hours: int, pace: float) -> F64:
    """Whether each job stayed below each quantile (quantiles, jobs)."""
    with patch.object(evaluating, "DAY_MS", hours * HOUR_MS), patch.object(calibrating, "PACE", pace):
        found = evaluating.live(model_of(model), given, Schedule(drift=float("inf")))
    assert found.quantiles is not None
    return np.asarray(given.actual <= found.quantiles, np.float64)


@contextmanager
def remembered() -> Iterator[None]:
    """In here each fit is made once: it does not depend on how it is calibrated."""
    known: dict[int, Fitted] = {}

    def once(model: Model, jobs: EndedJobs) -> Fitted:
        if jobs.at not in known:
            known[jobs.at] = fit_once(model, jobs)
        return known[jobs.at]

    with patch.object(evaluating, "fit_once", once):
        yield


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrating", description=__doc__.partition(":")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--format", default=None)
    parser.add_argument("--until", required=True, help="the date up to which is trained")
    parser.add_argument("--model", default="history")
    asked = parser.parse_args()
    trace = traces.read(asked.trace, asked.format)
    given = evaluating.task(trace, int(np.datetime64(asked.until, "ms").astype(np.int64)))
    month = months(given.moment[given.asked])
    names = list(dict.fromkeys(month.tolist()))
    sys.stdout.write(f"| calibrated every | pace | {' | '.join(names)} | all |\n|---|---|{'---|' * (len(names) + 1)}\n")
    with remembered():
        for hours, pace in CASES:
            below = held(given, asked.model, hours, pace)
            parts = [*(below[:, month == name] for name in names), below]
            cells = ["/".join(f"{100 * share:.0f}" for share in part.mean(axis=1)) for part in parts]
            sys.stdout.write(f"| {hours} h | {pace:g} | {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

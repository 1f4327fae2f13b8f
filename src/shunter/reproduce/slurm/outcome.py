"""When jobs started and ended, on a live cluster or in the simulator, and how near the one is to the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from shunter.clusters.stop_costs import USUAL
from shunter.reproduce.slurm.design import GPUS, SubmittedJob, cluster, trace
from shunter.reproduce.trials import TrialCase, TrialExtras, run_cases
from shunter.setup import set_up
from shunter.world import F64


@dataclass(frozen=True, eq=False)
class ScheduleTimes:
    """Seconds since the first submission, for each job."""

    submit: F64
    start: F64
    end: F64
    gpus: F64

    @property
    def wait(self) -> F64:
        """Time in the queue."""
        return self.start - self.submit

    def measures(self) -> dict[str, float]:
        """What is reported of it."""
        jct, makespan = self.end - self.submit, float(self.end.max() - self.submit.min())
        used = float(((self.end - self.start) * self.gpus).sum())
        return {
            "makespan_s": makespan,
            "wait_mean_s": float(self.wait.mean()),
            "wait_p50_s": float(np.percentile(self.wait, 50)),
            "wait_p95_s": float(np.percentile(self.wait, 95)),
            "jct_mean_s": float(jct.mean()),
            "jct_p95_s": float(np.percentile(jct, 95)),
            "utilization": used / (GPUS * makespan),
        }


def predicted(
    jobs: Sequence[SubmittedJob], policies: Collection[str], handover_s: float = 0.0
) -> dict[str, ScheduleTimes]:
    """What the simulator says of each policy; GPUs stand free for this long before each job begins.

    Runs are kept, as those of every reproduction.
    """
    setup = set_up(trace([replace(job, run_s=job.run_s + handover_s) for job in jobs]), cluster(), overhead=USUAL)
    cases = [TrialCase("mix", "lab", policy) for policy in policies]
    found = run_cases({"mix": setup}, cases, 1, watch=TrialExtras(starts=lambda case: True), workers=1)
    submit, gpus = setup.trace.submit / 1000, np.array([job.gpus for job in jobs], np.float64)
    times = {}
    for case in cases:
        (one,) = found.outcomes[case]
        assert one.start is not None
        times[case.policy] = ScheduleTimes(submit, one.start + handover_s, submit + one.jct, gpus)
    return times


class Spread(NamedTuple):
    """A number of several runs: the mean, and half of the way from the least to the most."""

    mean: float
    half: float


def spreads(runs: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Each number over runs, or over pairs of runs."""
    found = {name: [run[name] for run in runs] for name in runs[0]}
    return {name: Spread(sum(x) / len(x), (max(x) - min(x)) / 2) for name, x in found.items()}


def relative(run: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    """By how much a run's numbers differ from another's."""
    return {name: run[name] / base[name] - 1 if base[name] else 0.0 for name in run}


def fidelity(live: ScheduleTimes, simulated: ScheduleTimes) -> dict[str, float]:
    """How near the simulator is to what happened: how far its numbers are off, and each job's wait."""
    from shunter.predictors.evaluating import rank_correlation

    rank = rank_correlation(live.wait, simulated.wait)
    return relative(simulated.measures(), live.measures()) | {
        "wait_mean_abs_error_s": float(np.abs(live.wait - simulated.wait).mean()),
        "wait_rank_correlation": float("nan") if rank is None else rank,
    }

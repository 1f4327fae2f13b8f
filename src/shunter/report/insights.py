"""What a policy reports of a run beside its schedule: estimates, jobs that shared GPUs, and profiled jobs.

``shunter.capabilities`` declares the methods: ``Explains`` and ``Shares``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.capabilities import Explains, Shares, capability_and_memory
from shunter.model import Trace
from shunter.report.prediction_error import foresight
from shunter.world import F64, I64

if TYPE_CHECKING:
    import polars as pl

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sharing:
    """Which jobs shared GPUs, and what is known of them."""

    rows: I64  # (pairs, 3) time (ms), newcomer, resident
    score: I64  # (jobs,) -1: not known
    profiled: Mask  # (jobs,)
    ended_there: Mask  # (jobs,) in the profiler
    workload: I64  # (jobs,) in the order of ``workload_names``
    speed: F64  # (workloads, workloads) of the first beside the second

    @property
    def packed(self) -> I64:
        """Jobs that ever shared their GPUs."""
        return np.unique(self.rows[:, 1:])

    def pairs(self) -> pl.DataFrame:
        """One row per pair: since when, both jobs as rows of the job table, and how fast each is beside the other."""
        import polars as pl

        from shunter.sharing.workload_assignment import workload_names

        job, partner = self.rows[:, 1], self.rows[:, 2]
        first, second, names = self.workload[job], self.workload[partner], pl.Series(workload_names())
        return pl.DataFrame(
            {
                "time": self.rows[:, 0] / 1000,
                "job": job,
                "partner": partner,
                "workload": names.gather(first),
                "partner_workload": names.gather(second),
                "score": self.score[job],
                "partner_score": self.score[partner],
                "speed": self.speed[first, second],
                "partner_speed": self.speed[second, first],
            }
        )

    def summary(self, slowdown: F64) -> dict[str, Any]:
        """The numbers of ``sharing`` in the summary; ``slowdown`` of each job, NaN: not known."""
        known = slowdown[self.packed]
        known = known[~np.isnan(known)]
        profiled = int(self.profiled.sum())
        return {
            "pairs": len(self.rows),
            "packed_jobs": len(self.packed),
            "mean_slowdown": float(known.mean()) if len(known) else None,
            "profiled": profiled,
            "ended_in_profiler": int(self.ended_there.sum()),
            "share": profiled / max(len(self.profiled), 1),
        }


@dataclass(frozen=True, eq=False)
class Insights:
    """What a policy reported; empty if it reports nothing."""

    predicted: I64 | None = None  # (jobs,) ms, 0: none
    sharing: Sharing | None = None

    def columns(self, trace: Trace, jobs: I64) -> dict[str, Any]:
        """What it adds to the table of jobs, times in seconds."""
        import polars as pl

        from shunter.sharing.workload_assignment import workload_names

        found: dict[str, Any] = {}
        if self.predicted is not None:
            ended = jobs[w.STATE] == w.DONE
            found["predicted"] = pl.Series(_or_none(self.predicted / 1000, self.predicted > 0))
            found["actual"] = pl.Series(_or_none(trace.duration / 1000, ended))
        if self.sharing is not None:
            slowdown = slowdowns(trace, jobs)
            found["profiled"] = pl.Series(self.sharing.profiled)
            found["workload"] = pl.Series(workload_names()).gather(self.sharing.workload)
            found["slowdown"] = pl.Series(_or_none(slowdown, ~np.isnan(slowdown)))
        return found

    def summary(self, trace: Trace, jobs: I64, estimate: str) -> dict[str, Any]:
        """What it adds to the summary."""
        found: dict[str, Any] = {}
        if self.predicted is not None:
            judged = (jobs[w.STATE] == w.DONE) & (self.predicted > 0)
            scores = foresight(self.predicted[judged], trace.duration[judged])
            found["prediction"] = {"model": estimate, **scores}
        if self.sharing is not None:
            found["sharing"] = self.sharing.summary(slowdowns(trace, jobs))
        return found

    @property
    def pairs(self) -> pl.DataFrame | None:
        """Which jobs shared GPUs with which; None if the policy doesn't report it."""
        return None if self.sharing is None else self.sharing.pairs()


def insights(policy: Any, memory: Any, workloads: Any, jobs: int) -> Insights:
    """Query a policy after its run; ``workloads``: what each job did to its GPUs, if several may share one."""
    explaining = capability_and_memory(Explains, policy, memory)
    predicted = explaining[0].predictions(explaining[1]) if explaining else None
    sharing = capability_and_memory(Shares, policy, memory)
    pairs = sharing[0].pairs(sharing[1]) if sharing else None
    if workloads is None or not sharing or pairs is None:
        return Insights(predicted)
    sharer, own = sharing
    rows = np.array(pairs, np.int64).reshape(-1, 3)
    score = sharer.sharing_scores(own, jobs)
    profiled, ended = sharer.profiled(own, jobs)
    return Insights(predicted, Sharing(rows, score, profiled, ended, workloads.of_job, workloads.speed))


def slowdowns(trace: Trace, jobs: I64) -> F64:
    """Time on GPUs, less what was lost, over the time that a job takes alone; NaN where it did not finish."""
    lost = jobs[w.LOST] * 1000 / np.maximum(trace.gpus, 1)  # GPU time to time, as GPUs are in thousandths
    finished = (jobs[w.STATE] == w.DONE) & (trace.duration > 0)
    slowdown: F64 = np.where(finished, (jobs[w.EXECUTED] - lost) / np.maximum(trace.duration, 1), np.nan)
    return slowdown


def _or_none(values: F64, known: Mask) -> list[float | None]:
    return [value if there else None for value, there in zip(values.tolist(), known.tolist(), strict=True)]

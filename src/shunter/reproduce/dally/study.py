"""The experiment, run: all its numbers, and what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.model import GPU
from shunter.processes import Progress
from shunter.reproduce.dally import headline, paper
from shunter.reproduce.dally.design import DALLY, SHOWN, TABLE_I, WORLDS, Design, NetworkSetting, Reading, workloads
from shunter.reproduce.numbers import waiting
from shunter.reproduce.trials import Scheduler, TrialCase, Trials, run_cases
from shunter.reproduce.writing import record
from shunter.run_folder import versions
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

TITLE = "Dally: A network-placement sensitive cluster scheduler for deep learning"
MEASURES = (
    "makespan_s", "jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s", "wait_mean_s", "wait_p95_s", "wait_p99_s",
    "communication_mean_s", "utilization", "preemptions",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class DallyStudy:
    """What was run, and the results."""

    design: Design
    trials: Trials
    jobs: dict[str, int]  # by workload
    stands_in: bool
    work: dict[str, F64] = field(default_factory=dict)  # GPU time of each job at full speed, s; by workload

    @property
    def table(self) -> pl.DataFrame:
        """One row per run."""
        return self.trials.table

    def case(self, workload: str, scheduler: Scheduler, racks: int = 0, world: NetworkSetting = TABLE_I) -> TrialCase:
        """A cell of the experiment; 0 racks: the shown size."""
        return self.design.case(workload, racks or self.design.shown, scheduler.policy, world)

    def distance(self, reading: Reading | None = None, relative: bool = False) -> float:
        """By which factor, in the geometric mean, JCTs are off those of Tables II and III; NaN without any.

        ``relative``: all divided by Dally's, so that it is about how schedulers compare, not how long all takes.
        """
        found = []
        for workload, measure in product(self.design.workloads, paper.MEASURES):
            off = {
                scheduler: math.log(self.trials.of(self.read(reading, workload, scheduler), measure).value / figure)
                for scheduler in self.design.schedulers
                if (figure := paper.printed(workload, scheduler, measure))
            }
            dally = off.pop(DALLY, float("nan")) if relative else 0.0
            found += [abs(value - dally) for value in off.values()]
        return math.exp(float(np.mean(found))) if found and self.design.shown == SHOWN else float("nan")

    def read(self, reading: Reading | None, workload: str, scheduler: Scheduler, racks: int = 0) -> TrialCase:
        """A cell under a reading, or as it is; 0 racks: the shown size."""
        if reading is None:
            return self.case(workload, scheduler, racks)
        return self.design.read(reading, workload, scheduler, racks)

    def findings(self) -> list[paper.ChangeClaimResult]:
        """The judged claims of the paper; none if the jobs are synthetic."""
        return [] if self.stands_in else paper.findings(self.design, self.trials)

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""
        design = self.design
        return {
            "experiment": "dally",
            "paper": TITLE,
            "workloads": "stand-in" if self.stands_in else "published",
            "jobs": self.jobs,
            "seed": design.seed,
            "repeats": design.repeats,
            "racks": list(design.racks),
            "schedulers": {scheduler.label: scheduler.policy for scheduler in design.schedulers},
            "results": [
                _row(self, world, workload, racks, scheduler)
                for world in (TABLE_I, *WORLDS)
                for workload in design.workloads
                for racks in design.racks
                for scheduler in design.schedulers
            ],
            **headline.summary(self),
            "claims": [_claim(found) for found in self.findings()],
            "readings": [_reading(self, reading) for reading in (None, *design.readings())],
            "versions": versions(),
        }


def run(
    design: Design, workers: int | None = None, progress: Progress = lambda done, total: None, dask: str = ""
) -> DallyStudy:
    """Run the whole experiment; ``progress`` gets the runs that are done, and all."""
    traces, stands_in = workloads(design.workloads)
    cases = list(design.cases())
    trials = run_cases(traces, cases, design.repeats, design.seed, design.watch, workers, progress, waiting, dask)
    jobs = {name: len(traces[name]) for name in design.workloads}
    work = {name: traces[name].duration / 1000 * traces[name].gpus / GPU for name in design.workloads}
    return DallyStudy(design, trials, jobs, stands_in, work)


def _row(study: DallyStudy, world: NetworkSetting, workload: str, racks: int, scheduler: Scheduler) -> dict[str, Any]:
    case = study.case(workload, scheduler, racks, world)
    where = {"world": world.title, "workload": workload, "racks": racks, "scheduler": scheduler.label}
    return {**where, "policy": case.policy, **{name: record(study.trials.of(case, name)) for name in MEASURES}}


def _claim(found: paper.ChangeClaimResult) -> dict[str, Any]:
    claim = found.claim
    return {
        "claim": claim.text,
        "workload": claim.workload,
        "racks": list(claim.racks),
        "printed": claim.printed,
        "ours": {name: record(change) for name, change in found.judged.items()},
        "by_racks": {str(racks): record(change) for racks, change in found.ours.items()},
        "direction": found.direction,
        "size": found.size,
        "counted": found.counted,
        "comes_out": found.comes_out if found.counted else None,
    }


def _reading(study: DallyStudy, reading: Reading | None) -> dict[str, Any]:
    rows = [
        {"workload": workload, "scheduler": scheduler.label, "policy": case.policy}
        | {name: record(study.trials.of(case, name)) for name in MEASURES}
        for workload in study.design.workloads
        for scheduler in study.design.schedulers
        for case in [study.read(reading, workload, scheduler)]
    ]
    changed = {"settings": dict(reading.settings), "network": reading.network} if reading else {}
    return {
        "reading": reading.title if reading else "as above",
        **changed,
        "racks": study.design.shown,
        "off_by_a_factor": _finite(study.distance(reading)),
        "relative_to_dally_off_by_a_factor": _finite(study.distance(reading, relative=True)),
        "results": rows,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

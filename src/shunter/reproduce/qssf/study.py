"""The experiment, run: all its numbers, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter.folders import versions
from shunter.processes import Progress
from shunter.report.bootstrap import Estimate
from shunter.report.metrics import spread
from shunter.reproduce.claims import Finding, findings
from shunter.reproduce.qssf import paper
from shunter.reproduce.qssf.data import scenes_of
from shunter.reproduce.qssf.design import DATA, FIFO, QSSF, WEEKLY, Design
from shunter.reproduce.trials import POINTS, Case, Scheduler, Trials, by_vc, run_cases, teach
from shunter.reproduce.writing import record
from shunter.scenes import Scene

TITLE = "Characterization and prediction of deep learning workloads in large-scale GPU datacenters"
STAND_IN = (
    "The public traces were not found: these are made-up stand-ins. What comes out is not to be compared with what is"
    " printed."
)
MEASURES = (
    *(f"{name}_{point}_s" for name in ("jct", "wait") for point in POINTS), "makespan_s", "utilization", "preemptions",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Study:
    """What was run, and what came of it."""

    design: Design
    trials: Trials
    weekly: Trials | None  # one run each, with models that are fitted anew every week
    jobs: dict[str, tuple[int, int]]  # by data set: learned from, simulated
    recorded: dict[str, dict[str, float]]  # waits as recorded, where they are
    vcs: dict[str, dict[str, int]]  # by data set: nodes of each virtual cluster
    stands_in: bool

    def case(self, data: str, scheduler: Scheduler) -> Case:
        """A cell of the experiment."""
        return self.design.case(data, scheduler)

    def of(self, data: str, scheduler: Scheduler, measure: str) -> Estimate:
        """A number of a cell."""
        return self.trials.of(self.case(data, scheduler), measure)

    def factor(self, data: str, scheduler: Scheduler, measure: str) -> Estimate:
        """How many times as large the same is under FIFO."""
        return self.trials.factor(self.case(data, FIFO), self.case(data, scheduler), measure)

    def findings(self) -> list[Finding]:
        """What becomes of what is printed; nothing, where the jobs are others."""
        if self.stands_in:
            return []
        cases = {(data, s): self.case(data, s) for data in self.design.data for s in DATA[data].schedulers}
        return findings(paper.CLAIMS, self.trials, cases)


def prepared(design: Design, progress: Progress = lambda done, total: None) -> tuple[dict[str, Scene], bool]:
    """What is simulated, with all models fitted; and whether it stands in for what was not found."""
    found, stands_in = scenes_of(design.data, design.seed)
    teach(found, [*design.cases()], progress)
    return found, stands_in


def run(
    design: Design,
    scenes: Mapping[str, Scene],
    stands_in: bool,
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
    weekly: bool = True,
) -> Study:
    """Run the whole experiment."""
    cases = list(design.cases())
    again = list(design.weekly()) if weekly else []
    steps = [sum(len(scenes[case.workload].trace) for case in part) for part in (cases * design.repeats, again)]
    trials = run_cases(
        scenes, cases, design.repeats, design.seed, workers=workers, more=by_vc,
        progress=lambda done, _: progress(done, sum(steps)),
    )  # fmt: skip
    once = None
    if again:
        once = run_cases(
            scenes,
            again,
            1,
            design.seed,
            workers=workers,
            progress=lambda done, _: progress(steps[0] + done, sum(steps)),
        )
    return Study(design, trials, once, *_about(design, scenes), stands_in)


def _about(design: Design, scenes: Mapping[str, Scene]) -> tuple[Any, Any, Any]:
    """How many jobs there are, what they waited as recorded, and the nodes of each virtual cluster."""
    jobs, vcs = {}, {}
    recorded: dict[str, dict[str, float]] = {}
    for name in design.data:
        scene = scenes[name]
        jobs[name] = (len(scene.history or ()), len(scene.trace))
        waits = scene.trace.recorded_wait[scene.trace.recorded_wait >= 0]
        recorded |= {name: spread(waits, 1000)} if len(waits) else {}
        vcs[name] = {group.vc: group.count for group in scene.cluster.groups if group.vc}
    return jobs, recorded, vcs


def summary(study: Study) -> dict[str, Any]:
    """All of it for scripts."""
    design = study.design
    return {
        "experiment": "qssf",
        "paper": TITLE,
        "workloads": "stand-in" if study.stands_in else "published",
        "seed": design.seed,
        "repeats": design.repeats,
        "data": {name: _data(study, name) for name in design.data},
        "results": [_row(study, data, s) for data in design.data for s in DATA[data].schedulers],
        "claims": [found.record for found in study.findings()],
        "weekly": weekly_changes(study),
        "versions": versions(),
    }


def _data(study: Study, name: str) -> dict[str, Any]:
    learned, simulated = study.jobs[name]
    about = DATA[name]
    return {
        "title": about.title,
        "about": list(about.told),
        "jobs_learned_from": learned,
        "jobs": simulated,
        "nodes": study.vcs[name],
        "recorded_wait_s": study.recorded.get(name),
    }


def _row(study: Study, data: str, scheduler: Scheduler) -> dict[str, Any]:
    numbers = {name: record(study.of(data, scheduler, name)) for name in MEASURES}
    faster = {
        f"fifo_over_{name}": record(study.factor(data, scheduler, name)) for name in ("jct_mean_s", "wait_mean_s")
    }
    vcs = [
        vc for vc in study.vcs[data] if f"{vc} jct_mean_s" in study.trials.outcomes[study.case(data, FIFO)][0].numbers
    ]
    parts = {
        vc: {name: record(study.of(data, scheduler, f"{vc} {name}")) for name in ("jct_mean_s", "wait_mean_s")}
        for vc in vcs
    }
    return {"data": data, "scheduler": scheduler.label, "policy": scheduler.policy, **numbers, **faster, "by_vc": parts}


def weekly_changes(study: Study) -> list[dict[str, Any]]:
    """What fitting anew every week brings, in one run: mean JCT and queueing delay with it and without."""
    if study.weekly is None:
        return []
    rows = []
    for data in study.design.data:
        again = study.weekly.outcomes[study.case(data, WEEKLY)][0].numbers
        once = study.trials.outcomes[study.case(data, QSSF)][0].numbers
        names = ("jct_mean_s", "wait_mean_s")
        rows.append({"data": data, "once": {n: once[n] for n in names}, "weekly": {n: again[n] for n in names}})
    return rows

"""The experiment, run: testbeds x loads x seeds x policies, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.processes import Progress
from shunter.report.bootstrap import Estimate, estimate, means_of_repeats
from shunter.report.deadlines import alone_ms, deadlines
from shunter.reproduce.qoredl import paper
from shunter.reproduce.qoredl.design import (
    ABLATIONS,
    FIRST_SEED,
    JOBS,
    LOADS,
    NOISY,
    OURS,
    POLICIES,
    SEEDS,
    STOPPING,
    TESTBEDS,
    THEIRS,
    TRUE,
    Variant,
    varied,
    workload,
)
from shunter.reproduce.writing import record
from shunter.run_folder import versions
from shunter.sim import Scenario, Simulator
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

MEASURES = ("met", "late_s", "moves", "efficiency")


@dataclass(frozen=True)
class QoredlPart:
    """Which part of it is run."""

    testbeds: tuple[str, ...] = tuple(TESTBEDS)
    loads: tuple[float, ...] = LOADS
    seeds: int = SEEDS
    seed: int = FIRST_SEED  # the first of them
    jobs: int = JOBS
    ablations: bool = True

    @property
    def policies(self) -> dict[str, Variant]:
        """What is compared, by label."""
        return POLICIES | (ABLATIONS if self.ablations else {})

    @property
    def cells(self) -> list[tuple[str, float]]:
        """Testbeds and loads."""
        return list(product(self.testbeds, self.loads))


@dataclass(frozen=True, eq=False)
class QoredlStudy:
    """What was run, and the results."""

    part: QoredlPart
    numbers: dict[tuple[str, str, float], list[dict[str, float]]]  # by policy, testbed and load: one for each seed

    def values(self, policy: str, measure: str, cells: Sequence[tuple[str, float]] = ()) -> F64:
        """A measure for each seed, the mean over cells; all cells if none are given."""
        chosen = cells or self.part.cells
        rows = [[run[measure] for run in self.numbers[policy, bed, load]] for bed, load in chosen]
        means: F64 = np.array(rows, np.float64).mean(axis=0)
        return means

    def of(self, policy: str, measure: str, cells: Sequence[tuple[str, float]] = ()) -> Estimate:
        """A measure with its interval over seeds."""
        return estimate(means_of_repeats(self.values(policy, measure, cells)), self.part.seeds)

    def ahead(self, policy: str, other: str, measure: str = "met") -> Estimate:
        """By how much a policy is above another in the mean of all cells; seed by seed."""
        gaps = self.values(policy, measure) - self.values(other, measure)
        return estimate(means_of_repeats(gaps), self.part.seeds)

    @property
    def best_other(self) -> str:
        """The policy other than ours that meets most deadlines."""
        return max((name for name in POLICIES if name != OURS), key=lambda name: self.of(name, "met").value)

    def findings(self) -> list[tuple[str, str, Estimate]]:
        """What is claimed, what is printed of it, and ours."""
        found = [
            (
                f"deadlines met, {THEIRS} over Kubeflow",
                f"up to +{paper.COMPLETION:.1%}",
                self.ahead(THEIRS, "Kubeflow"),
            ),
            (
                f"resource efficiency, {THEIRS} over Kubeflow",
                f"up to +{paper.EFFICIENCY:.1%} (its definition is not printed)",
                self.ahead(THEIRS, "Kubeflow", "efficiency"),
            ),
            (f"deadlines met, {OURS} over {self.best_other}, the next best", "-", self.ahead(OURS, self.best_other)),
        ]
        if self.part.ablations:
            for name, variant in ABLATIONS.items():
                found.append((f"deadlines met, {variant.base} over {name}", "-", self.ahead(variant.base, name)))
            for prediction in (NOISY, TRUE):
                pair = [f"{base}, {prediction} prediction" for base in (OURS, STOPPING)]
                if set(pair) <= set(ABLATIONS):
                    found.append((f"deadlines met, {pair[0]} over {pair[1]}", "-", self.ahead(*pair)))
        return found

    @property
    def table(self) -> pl.DataFrame:
        """One row per run."""
        import polars as pl

        rows = [
            {"policy": policy, "testbed": bed, "load": load, "seed": self.part.seed + number, **run}
            for (policy, bed, load), runs in self.numbers.items()
            for number, run in enumerate(runs)
        ]
        return pl.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""
        part = self.part
        return {
            "experiment": "qoredl",
            "paper": paper.TITLE,
            "testbeds": list(part.testbeds),
            "loads": list(part.loads),
            "seeds": part.seeds,
            "seed": part.seed,
            "jobs": part.jobs,
            "results": [
                {
                    "policy": name,
                    "text": variant.policy,
                    "prediction": variant.prediction,
                    "ranged": variant.ranged,
                    "equipped": variant.equipped,
                    **{measure: record(self.of(name, measure)) for measure in MEASURES},
                }
                for name, variant in part.policies.items()
            ],
            "claims": [
                {"claim": claim, "printed": printed, "ours": record(ours)} for claim, printed, ours in self.findings()
            ],
            "versions": versions(),
        }


def run(part: QoredlPart, progress: Progress = lambda done, total: None) -> QoredlStudy:
    """Run it; ``progress`` gets the runs that are done, and all."""
    found: dict[tuple[str, str, float], list[dict[str, float]]] = {}
    todo = list(product(part.policies.items(), part.cells, range(part.seeds)))
    for done, ((name, variant), (bed, load), number) in enumerate(todo):
        found.setdefault((name, bed, load), []).append(one_run(variant, bed, load, part.seed + number, part.jobs))
        progress(done + 1, len(todo))
    return QoredlStudy(part, found)


def one_run(variant: Variant, bed: str, load: float, seed: int, jobs: int = JOBS) -> dict[str, float]:
    """The numbers of one run."""
    testbed = TESTBEDS[bed]
    cluster, asked = testbed.cluster, workload(testbed, load, seed, jobs)
    usual, trace = Scenario(scaling=testbed.scaling(cluster)), varied(asked, variant, seed)
    alone = Simulator(asked, cluster, seed=seed, scenario=usual).world  # what could be met is the same for all variants
    scene = Scenario(scaling=testbed.scaling(cluster, equipped=True)) if variant.equipped else usual
    simulator = Simulator(trace, cluster, seed=seed, scenario=scene)
    simulator.run(registry.policy(variant.policy))
    world = simulator.world
    found = deadlines(trace, world.jobs, simulator.events, alone_ms(asked, alone.jobs, alone.scaling, cluster))
    used = float(world.jobs[w.ATTAINED].sum())
    return {
        "met": found["met_share"],
        "late_s": found["lateness_s"]["mean"],
        "moves": found["moves_per_job"],
        "efficiency": float((trace.duration * world.jobs[w.GPUS]).sum()) / used,
    }

"""Runs it: each scheduler on each trace, with several seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.adapting.searching import FoundSettings
from shunter.adapting.study import FIXED, HINDSIGHT, LABELS, Adapting, AdaptingStudy, speedup
from shunter.errors import RunError, did_you_mean
from shunter.model import GPU
from shunter.processes import Progress
from shunter.report.bootstrap import Estimate
from shunter.reproduce.autosched.design import DATA, OBJECTIVES, AutoschedPart, setup_of
from shunter.reproduce.autosched.paper import GAINS, TITLE, PrintedGain
from shunter.reproduce.claims import place
from shunter.reproduce.writing import record
from shunter.run_folder import versions
from shunter.setup import Setup

if TYPE_CHECKING:
    import polars as pl

TOLERANCE = 1.02  # a factor of up to this away from what is printed counts as the same size
PARTS = 1000  # of one study, for progress


@dataclass(frozen=True, eq=False)
class GainResult:
    """A printed gain, and ours on one trace."""

    claim: PrintedGain
    data: str
    ours: Estimate

    @property
    def verdict(self) -> str:
        """Whether it is as printed, by the rule of ``claims``; gains of a few percent leave little tolerance."""
        found = place(self.ours, self.claim.low, self.claim.high, 1.0 if self.claim.direction else TOLERANCE)
        return {"inside": "yes", "below": "smaller", "above": "larger", "not clear": "not clear"}[found]

    @property
    def record(self) -> dict[str, Any]:
        """For scripts."""
        claim = self.claim
        about = {"claim": claim.text, "data": self.data, "source": claim.source, "printed": claim.printed}
        return {**about, "ours": record(self.ours), "as_printed": self.verdict}


@dataclass(frozen=True, eq=False)
class AutoschedStudy:
    """What was run, and the results: repeats by trace and scheduler."""

    part: AutoschedPart
    cells: dict[tuple[str, str], list[AdaptingStudy]]
    facts: dict[str, dict[str, float]]  # jobs and load by trace
    stands_in: bool

    def gains(self) -> list[GainResult]:
        """What is printed, beside ours."""
        return [
            GainResult(claim, data, speedup(studies, claim.name, claim.base))
            for claim in GAINS
            for (data, policy), studies in self.cells.items()
            if policy == claim.policy and data in (claim.data or DATA)
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Every scheduler of every cell, means over repeats, and how many times as good as Fixed in hindsight."""
        return [
            {
                "data": data, "policy": policy, "settings": name, "objective": OBJECTIVES[policy],
                "jct_mean_s": mean(float(np.nanmean(study.runs[name].jct)) for study in studies),
                "rho_at_most_1": mean(study.runs[name].fair for study in studies),
                "over_fixed": record(speedup(studies, name, FIXED)),
                "over_hindsight": record(speedup(studies, name, HINDSIGHT)),
                "switches": mean(len(study.runs[name].switches) for study in studies),
                "evaluations": mean(_evaluations(study, name) for study in studies),
                "search_median_s": _latency(studies, name),
            }
            for (data, policy), studies in self.cells.items()
            for name in LABELS
        ]  # fmt: skip

    @property
    def table(self) -> pl.DataFrame:
        """One row per run."""
        import polars as pl

        return pl.DataFrame(
            [
                {
                    "data": data, "policy": policy, "repeat": repeat, "settings": name, "begins_with": run.policy,
                    "jct_mean_s": float(np.nanmean(run.jct)), "rho_at_most_1": run.fair,
                    "preemptions": run.preemptions, "switches": len(run.switches),
                    "evaluations": _evaluations(study, name), "digest": run.digest,
                }
                for (data, policy), studies in self.cells.items()
                for repeat, study in enumerate(studies)
                for name, run in study.runs.items()
            ]
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""
        part = self.part
        return {
            "experiment": "autosched", "paper": TITLE, "workloads": "stand-in" if self.stands_in else "published",
            "days": part.days, "repeats": part.repeat, "budget": part.budget, "recheck_s": part.recheck / 1000,
            "seed": part.seed, "data": self.facts, "results": self.rows(),
            "claims": [gain.record for gain in self.gains()], "versions": versions(),
        }  # fmt: skip


def mean(values: Any) -> float:
    """The mean of an iterable."""
    return float(np.mean(list(values)))


def _evaluations(study: AdaptingStudy, name: str) -> int:
    return study.fixed[name].evaluations if name in study.fixed else study.runs[name].evaluations


def _latency(studies: Sequence[AdaptingStudy], name: str) -> float | None:
    seconds = [each.seconds for study in studies for each in study.runs[name].searches]
    return float(np.median(seconds)) if seconds else None


def check(part: AutoschedPart) -> AutoschedPart:
    """Refuse what can't be run before anything is."""
    for given, known, what in ((part.data, DATA, "data set"), (part.policies, OBJECTIVES, "scheduler")):
        for name in given:
            if name not in known:
                raise RunError(f"there is no {what} '{name}'; {did_you_mean(name, known)}")
    if not 0.25 <= part.days <= 30:
        raise RunError(f"--days must be from 0.25 to 30, got {part.days:g}")
    return part


def run(part: AutoschedPart, progress: Progress = lambda done, total: None) -> AutoschedStudy:
    """Run all of it, one after the other."""
    cells: dict[tuple[str, str], list[AdaptingStudy]] = {}
    facts, made_up, done = {}, False, 0
    total = len(part.data) * len(part.policies) * part.repeat
    for data in part.data:
        setup, made_up = setup_of(data, part.days, part.seed, part.cluster)
        facts[data] = _facts(setup)
        for policy in part.policies:
            by_past: FoundSettings | None = None
            for repeat in range(part.repeat):
                work = Adapting(setup, part.options(policy), repeat)
                by_past = by_past or work.fixed_by_past()
                study = work.run(partial(_report, progress, done, total), by_past)
                cells.setdefault((data, policy), []).append(study)
                done += 1
    return AutoschedStudy(part, cells, facts, made_up)


def _report(progress: Progress, before: int, total: int, done: int, steps: int) -> None:
    progress(PARTS * before + PARTS * done // max(steps, 1), PARTS * total)


def _facts(setup: Setup) -> dict[str, float]:
    trace = setup.trace
    span = max(int(trace.submit[-1] - trace.submit[0]), 1)
    load = float((trace.duration * (trace.gpus / GPU)).sum()) / span / setup.cluster.gpus
    return {"jobs": len(trace), "gpus": setup.cluster.gpus, "load": load if math.isfinite(load) else 0.0}

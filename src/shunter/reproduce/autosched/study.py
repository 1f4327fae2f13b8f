"""Runs it: each scheduler on each trace, with several seeds."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import extras
from shunter.adapting.study import AUTOSCHED, FIXED, HINDSIGHT, LABELS, Adapting, AdaptingStudy, checked, speedup
from shunter.errors import RunError, did_you_mean
from shunter.model import GPU
from shunter.processes import Progress
from shunter.report.bootstrap import Estimate, drawn_quantiles, draws_of, estimate
from shunter.reproduce.autosched.design import DATA, OBJECTIVES, PREDICTOR, AutoschedPart, setup_of
from shunter.reproduce.autosched.keeping import COLUMNS, USES, KeptRuns
from shunter.reproduce.autosched.paper import (
    GAINS,
    NOT_MEASURED,
    SAVINGS,
    TIMES,
    TITLE,
    NotMeasured,
    PrintedGain,
    PrintedSaving,
    PrintedTime,
)
from shunter.reproduce.claims import place
from shunter.reproduce.writing import record
from shunter.run_folder import versions
from shunter.setup import Setup
from shunter.sweeps.cached_runs import cached_store
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

TOLERANCE = 1.02  # a factor of up to this away from what is printed counts as the same size
PARTS = 1000  # of one study, for progress
NOT_RUN = "not run"
VERDICTS = {"inside": "yes", "below": "smaller", "above": "larger", "not clear": "not clear"}


@dataclass(frozen=True, eq=False)
class GainResult:
    """A printed gain, and ours on one trace."""

    claim: PrintedGain
    data: str
    ours: Estimate | None  # None: it was not run

    @property
    def verdict(self) -> str:
        """Whether it is as printed, by the rule of ``claims``; gains of a few percent leave little tolerance."""
        return _verdict(self.claim, self.ours, 1.0 if self.claim.direction else TOLERANCE)

    @property
    def record(self) -> dict[str, Any]:
        """For scripts."""
        return {**_about_claim(self), "ours": _ours(self.ours), "as_printed": self.verdict}


@dataclass(frozen=True, eq=False)
class SavingResult:
    """How many times as fast searches are as printed, and ours on one trace."""

    claim: PrintedSaving
    data: str
    ours: Estimate | None  # of seconds; None: it was not run
    evaluations: float | None  # how many times as few

    @property
    def verdict(self) -> str:
        """Whether it is as printed, by the rule of ``claims``."""
        return _verdict(self.claim, self.ours, TOLERANCE)

    @property
    def record(self) -> dict[str, Any]:
        """For scripts."""
        ours = {"ours": _ours(self.ours), "evaluations": self.evaluations}
        return {**_about_claim(self), **ours, "as_printed": self.verdict}


@dataclass(frozen=True, eq=False)
class TimeResult:
    """How long searches take as printed, and ours on one trace."""

    claim: PrintedTime
    data: str
    seconds: tuple[float, float] | None  # median and P99; None: it was not run

    @property
    def record(self) -> dict[str, Any]:
        """For scripts."""
        median, p99 = self.seconds or (None, None)
        return {**_about_claim(self), "median_s": median, "p99_s": p99}


def _verdict(claim: PrintedGain | PrintedSaving, ours: Estimate | None, tolerance: float) -> str:
    return NOT_RUN if ours is None else VERDICTS[place(ours, claim.low, claim.high, tolerance)]


def _about_claim(result: GainResult | SavingResult | TimeResult) -> dict[str, str]:
    claim = result.claim
    return {"claim": claim.text, "data": result.data, "source": claim.source, "printed": claim.printed}


def _ours(found: Estimate | None) -> dict[str, float | None]:
    return record(found or Estimate(math.nan, math.nan, math.nan))


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
            GainResult(claim, data, _gain(studies, claim))
            for claim in GAINS
            for (data, policy), studies in self.cells.items()
            if policy == claim.policy and data in (claim.data or DATA)
        ]

    def savings(self) -> list[SavingResult]:
        """How many times as fast searches are with parts of AutoSched, as printed and here."""
        return [
            SavingResult(claim, data, *saving(studies, claim.name, claim.base))
            for claim in SAVINGS
            for (data, policy), studies in self.cells.items()
            if policy == claim.policy
        ]

    def times(self) -> list[TimeResult]:
        """How long searches take, as printed and here."""
        return [
            TimeResult(claim, data, _seconds(studies, claim))
            for claim in TIMES
            for (data, policy), studies in self.cells.items()
            if policy == claim.policy and data in (claim.data or DATA)
        ]

    def not_measured(self) -> list[NotMeasured]:
        """What is printed of these schedulers and not measured here."""
        return [claim for claim in NOT_MEASURED if claim.policy in self.part.policies]

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

    def ablations(self) -> list[dict[str, Any]]:
        """AutoSched with and without parts: how many times as good as AutoSched, evaluations, and seconds a search."""
        return [
            {
                "data": data, "policy": policy, "name": name,
                "over_autosched": record(speedup(studies, name, AUTOSCHED)),
                "evaluations": mean(study.runs[name].evaluations for study in studies),
                "search_median_s": _latency(studies, name),
            }
            for (data, policy), studies in self.cells.items()
            for name in studies[0].runs
            if name not in LABELS or name == AUTOSCHED
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
            "search": part.search, "generator": part.generator,
            "seed": part.seed, "data": self.facts, "results": self.rows(),
            "ablations": self.ablations() if part.ablations else [],
            "claims": [gain.record for gain in self.gains()], "savings": [each.record for each in self.savings()],
            "times": [each.record for each in self.times()],
            "not_measured": [dataclasses.asdict(each) for each in self.not_measured()], "versions": versions(),
        }  # fmt: skip


def mean(values: Any) -> float:
    """The mean of an iterable."""
    return float(np.mean(list(values)))


def _evaluations(study: AdaptingStudy, name: str) -> int:
    return study.fixed[name].evaluations if name in study.fixed else study.runs[name].evaluations


def _latency(studies: Sequence[AdaptingStudy], name: str) -> float | None:
    seconds = [each.seconds for study in studies for each in study.runs[name].searches]
    return float(np.median(seconds)) if seconds else None


def _gain(studies: Sequence[AdaptingStudy], claim: PrintedGain) -> Estimate | None:
    ran = {claim.name, claim.base} <= studies[0].runs.keys()
    return speedup(studies, claim.name, claim.base) if ran else None


def saving(studies: Sequence[AdaptingStudy], name: str, base: str) -> tuple[Estimate | None, float | None]:
    """How many times as fast the median search of one is as that of another, and with how many times fewer evaluations.

    The interval is over stretches of hours.
    """
    if any(each not in study.runs or not study.runs[each].searches for each in (base, name) for study in studies):
        return None, None
    (before, strata), (after, _) = (_drawn_medians(studies, each) for each in (base, name))
    many, few = (mean(study.runs[each].evaluations for study in studies) for each in (base, name))
    return estimate(before / after, strata), many / few


def _drawn_medians(studies: Sequence[AdaptingStudy], name: str) -> tuple[F64, int]:
    seconds = [np.array([each.seconds for each in study.runs[name].searches]) for study in studies]
    draws = draws_of([len(each) for each in seconds], False, studies[0].options.seed)
    return drawn_quantiles(draws, seconds, (0.5,))[0], draws.parts


def _seconds(studies: Sequence[AdaptingStudy], claim: PrintedTime) -> tuple[float, float] | None:
    searches = [each for study in studies if claim.name in study.runs for each in study.runs[claim.name].searches]
    took = [each.seconds / (max(each.evaluations, 1) if claim.evaluation else 1) for each in searches]
    return (float(np.median(took)), float(np.percentile(took, 99))) if took else None


def check(part: AutoschedPart) -> AutoschedPart:
    """Refuse what can't be run before anything is."""
    extras.require(PREDICTOR, "reproduce autosched")
    for given, known, what in ((part.data, DATA, "data set"), (part.policies, OBJECTIVES, "scheduler")):
        for name in given:
            if name not in known:
                raise RunError(f"there is no {what} '{name}'; {did_you_mean(name, known)}")
    if not 0.25 <= part.days <= 30:
        raise RunError(f"--days must be from 0.25 to 30, got {part.days:g}")
    for policy in part.policies:
        for options in (part.options(policy), *(part.ablated(policy).values() if part.ablations else ())):
            checked(options)
    return part


def run(part: AutoschedPart, progress: Progress = lambda done, total: None) -> AutoschedStudy:
    """Run all of it, one after the other."""
    cells: dict[tuple[str, str], list[AdaptingStudy]] = {}
    facts, made_up, done = {}, False, 0
    total = len(part.data) * len(part.policies) * part.repeat
    with cached_store("adapting", COLUMNS, USES) as store:
        for data in part.data:
            setup, made_up = setup_of(data, part.days, part.seed, part.machines(data))
            facts[data] = _facts(setup)
            for policy in part.policies:
                for repeat in range(part.repeat):
                    report = partial(_report, progress, done, total)
                    study = _cell(
                        setup, part, policy, repeat, KeptRuns(store, policy, _about(setup, part, policy)), report
                    )
                    cells.setdefault((data, policy), []).append(study)
                    done += 1
    return AutoschedStudy(part, cells, facts, made_up)


def _cell(
    setup: Setup, part: AutoschedPart, policy: str, repeat: int, kept: KeptRuns, progress: Progress
) -> AdaptingStudy:
    """One scheduler on one trace with one seed; the search on the past is the same for all seeds."""
    work = Adapting(setup, part.options(policy), repeat)
    by_past = kept.found(FIXED, work.fixed_by_past)
    own = dataclasses.replace(kept, about=(*kept.about, repeat))
    study = work.run(progress, by_past, own)
    for name, options in part.ablated(policy).items() if part.ablations else ():
        other = Adapting(setup, options, repeat)
        ablated = dataclasses.replace(own, about=(*own.about, str(options)))
        study.runs[name] = ablated.ran(name, partial(other.adapted, AUTOSCHED, by_past.policy))
    return study


def _about(setup: Setup, part: AutoschedPart, policy: str) -> tuple[Any, ...]:
    """What runs depend on, besides the sources."""
    digest = hashlib.blake2b(digest_size=16)
    for trace in (setup.trace, *([] if setup.history is None else [setup.history])):
        for column in (trace.submit, trace.duration, trace.gpus, trace.user, trace.vc):
            digest.update(np.ascontiguousarray(column).tobytes())
    return (digest.hexdigest(), str(setup.cluster.groups), str(part.options(policy)), part.fixed)


def _report(progress: Progress, before: int, total: int, done: int, steps: int) -> None:
    progress(PARTS * before + PARTS * done // max(steps, 1), PARTS * total)


def _facts(setup: Setup) -> dict[str, float]:
    trace = setup.trace
    span = max(int(trace.submit[-1] - trace.submit[0]), 1)
    load = float((trace.duration * (trace.gpus / GPU)).sum()) / span / setup.cluster.gpus
    return {"jobs": len(trace), "gpus": setup.cluster.gpus, "load": load if math.isfinite(load) else 0.0}

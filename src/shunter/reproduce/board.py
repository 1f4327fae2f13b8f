"""An experiment of data sets x schedulers: what is run, and where to find its numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shunter import simulation
from shunter.errors import RunError, did_you_mean
from shunter.report.bootstrap import Estimate
from shunter.report.metrics import spread
from shunter.reproduce.claims import Claim, ClaimResult
from shunter.reproduce.trials import Scheduler, TrialCase, Trials
from shunter.reproduce.writing import record
from shunter.setup import Setup


@dataclass(frozen=True)
class DataSet:
    """Jobs on machines, and their scheduler."""

    title: str
    schedulers: tuple[Scheduler, ...]
    since: str
    until: str
    remarks: tuple[str, ...]  # what one must know of it

    def cases(self, name: str) -> Iterator[TrialCase]:
        """All that is run on it."""
        return (case_of(name, scheduler) for scheduler in self.schedulers)


def case_of(data: str, scheduler: Scheduler) -> TrialCase:
    """One cell: a scheduler that needs a variant of the data set runs on that."""
    return TrialCase(data + scheduler.variant, data, scheduler.policy)


def check_data(names: Sequence[str], known: Collection[str], what: str = "data set") -> tuple[str, ...]:
    """The data sets, in their order; all if none is given."""
    for name in names:
        if name not in known:
            raise RunError(f"there is no {what} '{name}'; {did_you_mean(name, known)}")
    return tuple(name for name in known if name in names) or tuple(known)


def is_oracle(policy: str) -> bool:
    """Whether a policy knows true run times."""
    return "duration" in simulation.resolve(policy).policy.needs


def marked(scheduler: Scheduler) -> str:
    """A scheduler's name, with a star where it is an oracle."""
    return scheduler.label + "*" * is_oracle(scheduler.policy)


@dataclass(frozen=True)
class Facts:
    """What a data set has."""

    learned: int  # jobs before the window
    jobs: int  # in it
    recorded: dict[str, float] | None  # waits as recorded, if they were
    nodes: dict[str, int]  # of each virtual cluster

    @classmethod
    def of(cls, setup: Setup) -> Facts:
        """Count."""
        waits = setup.trace.recorded_wait[setup.trace.recorded_wait >= 0]
        nodes = {group.vc: group.count for group in setup.cluster.groups if group.vc}
        return cls(len(setup.history or ()), len(setup.trace), spread(waits, 1000) if len(waits) else None, nodes)


@dataclass(frozen=True, eq=False)
class Board:
    """What came of all runs."""

    sets: Mapping[str, DataSet]  # those that were run
    base: Scheduler  # with which the others are compared
    trials: Trials
    facts: Mapping[str, Facts]
    stands_in: bool  # the jobs are made up, because the public ones were not found

    def of(self, data: str, scheduler: Scheduler, measure: str) -> Estimate:
        """A number of a cell."""
        return self.trials.of(case_of(data, scheduler), measure)

    def factor(self, data: str, scheduler: Scheduler, measure: str, base: Scheduler | None = None) -> Estimate:
        """How many times as large the same is under the base."""
        return self.trials.factor(case_of(data, base or self.base), case_of(data, scheduler), measure)

    def has(self, data: str, scheduler: Scheduler, measure: str) -> bool:
        """Whether there is such a number."""
        outcomes = self.trials.outcomes.get(case_of(data, scheduler))
        return outcomes is not None and all(measure in outcome.numbers for outcome in outcomes)

    def vcs(self, data: str) -> list[str]:
        """The virtual clusters that have jobs."""
        return [vc for vc in self.facts[data].nodes if self.has(data, self.base, f"{vc} jct_mean_s")]

    def findings(self, claims: Iterable[Claim]) -> list[ClaimResult]:
        """The judged claims about what was run; none if the jobs are others."""
        return [
            ClaimResult(claim, self.factor(claim.data, claim.better, claim.key, claim.base))
            for claim in claims
            if not self.stands_in and all(self.has(claim.data, s, claim.key) for s in (claim.base, claim.better))
        ]

    def rows(self, measures: Sequence[str]) -> list[dict[str, Any]]:
        """All numbers for scripts; those that a cell lacks are left out."""
        return [self._row(data, s, measures) for data, about in self.sets.items() for s in about.schedulers]

    def _row(self, data: str, scheduler: Scheduler, measures: Sequence[str]) -> dict[str, Any]:
        means = ("jct_mean_s", "wait_mean_s")
        numbers = {m: record(self.of(data, scheduler, m)) for m in measures if self.has(data, scheduler, m)}
        factors = {f"{self.base.label.lower()}_over_{m}": record(self.factor(data, scheduler, m)) for m in means}
        parts = {vc: {m: record(self.of(data, scheduler, f"{vc} {m}")) for m in means} for vc in self.vcs(data)}
        who = {"data": data, "scheduler": scheduler.label, "policy": scheduler.policy}
        return {**who, "oracle": is_oracle(scheduler.policy), **numbers, **factors, "by_vc": parts}

    def about(self) -> dict[str, Any]:
        """What the data sets are, for scripts."""
        return {
            name: {
                "title": about.title,
                "about": list(about.remarks),
                "jobs_learned_from": self.facts[name].learned,
                "jobs": self.facts[name].jobs,
                "nodes": self.facts[name].nodes,
                "recorded_wait_s": self.facts[name].recorded,
            }
            for name, about in self.sets.items()
        }

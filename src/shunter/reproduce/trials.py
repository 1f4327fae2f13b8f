"""Many runs of an experiment: each case repeated with arrivals moved by seconds, and compared repeat by repeat."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import clusters, registry, simulation
from shunter import world as w
from shunter.comparison import compile_once
from shunter.model import Trace
from shunter.params import declared
from shunter.processes import Progress, run_tasks, usable_cores
from shunter.protocols import Learns, capability
from shunter.report import metrics
from shunter.report.bootstrap import Estimate, estimate, means_of_repeats
from shunter.setup import Setup, set_up
from shunter.simulation import NamedPolicy, Result
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

POINTS = ("mean", "p50", "p95", "p99")
More: TypeAlias = Callable[[Result], dict[str, float]]
Learn: TypeAlias = Callable[[Setup, Sequence[str]], object]  # fits what policies learn from the past of a setup


@cache
def resolved(policy: str) -> NamedPolicy:
    """The policy that a text names; an experiment runs few policies, many times each."""
    return simulation.resolve(policy)


@dataclass(frozen=True)
class Scheduler:
    """A policy under the name that a paper, or we, give it."""

    label: str
    policy: str
    style: int  # its colour
    variant: str = ""  # of the workload, where it needs one of its own: what its name ends with


@dataclass(frozen=True)
class TrialCase:
    """What is run: jobs, machines, network model, and policy."""

    workload: str
    cluster: str
    policy: str
    network: str = ""
    contention: bool = False
    restart: float = 0.0  # seconds that a job needs to start again

    @property
    def place(self) -> TrialCase:
        """The same for all policies."""
        return dataclasses.replace(self, policy="")


@dataclass(frozen=True)
class TrialExtras:
    """What else is seen of which cases."""

    course: Callable[[TrialCase], bool] = lambda case: False  # the course of the first run over time
    reasons: Callable[[TrialCase], bool] = lambda case: False  # why jobs waited


@dataclass(frozen=True)
class Trial:
    """One run of a case."""

    case: TrialCase
    repeat: int
    seed: int
    course: bool  # whether its course over time is kept
    reasons: bool  # whether the reasons for waiting are recorded


@dataclass(frozen=True, eq=False)
class RunCourse:
    """One run over time, in seconds since the first submission."""

    time: F64
    busy: F64  # share of the GPUs
    remaining: F64  # jobs that have come and not ended
    timers: pl.DataFrame | None  # time, gpus, tier, timer, waits; of a policy that has them


@dataclass(frozen=True, eq=False)
class TrialResult:
    """What came of a trial: its numbers, and every job's completion time."""

    numbers: dict[str, float]
    jct: F64
    course: RunCourse | None
    digest: str


@dataclass(frozen=True, eq=False)
class Trials:
    """All runs of an experiment."""

    repeats: int
    seed: int
    outcomes: dict[TrialCase, list[TrialResult]]  # by repeat
    _means: dict[tuple[TrialCase, str], F64] = field(default_factory=dict, repr=False)

    def means(self, case: TrialCase, measure: str) -> F64:
        """The mean of a measure, and after it those of repeats drawn again and again, paired over all cases."""
        key = (case, measure)
        if key not in self._means:
            values = np.array([outcome.numbers[measure] for outcome in self.outcomes[case]])
            self._means[key] = means_of_repeats(values, self.seed)
        return self._means[key]

    def of(self, case: TrialCase, measure: str) -> Estimate:
        """A measure, mean over the repeats."""
        return self.estimate(self.means(case, measure))

    def change(self, case: TrialCase, base: TrialCase, measure: str) -> Estimate:
        """By which part a measure is above (below: negative) that of another case."""
        return self.estimate(self.changes(case, base, measure))

    def changes(self, case: TrialCase, base: TrialCase, measure: str) -> F64:
        """The same with every draw."""
        with np.errstate(divide="ignore", invalid="ignore"):
            changes: F64 = self.means(case, measure) / self.means(base, measure) - 1
        return changes

    def factor(self, base: TrialCase, case: TrialCase, measure: str) -> Estimate:
        """How many times as large a measure is in the first case as in the second."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.estimate(self.means(base, measure) / self.means(case, measure))

    def estimate(self, means: F64) -> Estimate:
        """What arithmetic on means says."""
        return estimate(means, self.repeats)

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per run."""
        import polars as pl

        return pl.DataFrame(
            [
                {**dataclasses.asdict(case), "repeat": repeat, **outcome.numbers, "digest": outcome.digest}
                for case, outcomes in self.outcomes.items()
                for repeat, outcome in enumerate(outcomes)
            ],
            infer_schema_length=None,
        )


def nothing_more(result: Result) -> dict[str, float]:
    """No numbers but those of every run."""
    return {}


def run_cases(
    workloads: Mapping[str, Trace | Setup],
    cases: Collection[TrialCase],
    repeats: int,
    seed: int = 0,
    watch: TrialExtras = TrialExtras(),  # noqa: B008  it never changes
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
    more: More = nothing_more,
) -> Trials:
    """Run every case ``repeats`` times over all cores.

    A workload that is a setup has its machines already. ``more`` finds further numbers in a result.
    """
    cases = list(dict.fromkeys(cases))
    places = {case.place: _place(workloads[case.workload], case) for case in cases}
    trials = [
        Trial(case, r, seed, r == 0 and watch.course(case), watch.reasons(case))
        for case in cases
        for r in range(repeats)
    ]
    workers = workers or usable_cores()
    if min(workers, len(trials)) > 1:
        compile_once(places[cases[0].place], resolved(cases[0].policy))
    steps = [len(places[trial.case.place].trace) for trial in trials]
    found = run_tasks(_run, (places, more), trials, steps, workers, progress)
    rows = [found[at : at + repeats] for at in range(0, len(found), repeats)]
    return Trials(repeats, seed, dict(zip(cases, rows, strict=True)))


def _place(workload: Trace | Setup, case: TrialCase) -> Setup:
    if isinstance(workload, Setup):
        return workload
    machines = clusters.load(case.cluster, workload)
    if case.restart > 0:
        machines = dataclasses.replace(
            machines, overheads=dataclasses.replace(machines.overheads, restart=((1, case.restart),))
        )
    return set_up(workload, machines, network=case.network, contention=case.contention)


def fit(setup: Setup, policies: Sequence[str]) -> None:
    """Fit the models of policies that learn from the past; every run then finds them in the cache."""
    for text in policies:
        simulation.lessons_before(resolved(text).policy, setup, setup.trace)


def teach(workloads: Mapping[str, Setup], cases: Collection[TrialCase], learn: Learn = fit) -> None:
    """Fit all models that policies take from the past, one after the other, each once."""
    pairs = ((case, capability(Learns, resolved(case.policy).policy)) for case in cases)
    wanted = {(case.workload, learner.model): case.policy for case, learner in pairs if learner and learner.model}
    for (name, _), policy in wanted.items():
        learn(workloads[name], [policy])


def _run(shared: tuple[Mapping[TrialCase, Setup], More], trial: Trial, on_progress: simulation.Progress) -> TrialResult:
    places, more = shared
    where, policy = places[trial.case.place], resolved(trial.case.policy)
    result = simulation.run(where, policy, trial.seed, trial.repeat, on_progress, decisions=trial.reasons)
    finished = result.table[w.STATE] == w.DONE
    jct = metrics.jct_ms(result.table)[finished] / 1000
    return TrialResult(
        {**_numbers(result), **more(result)}, jct, _course(result) if trial.course else None, result.digest
    )


def _numbers(result: Result) -> dict[str, float]:
    """The numbers of the summary that follow from the job table alone: logs of millions of events take seconds."""
    jobs = result.table
    finished = jobs[w.STATE] == w.DONE
    makespan = int(jobs[w.ENDED_AT].max() - jobs[w.SUBMIT].min())
    communication = np.zeros(len(finished)) if result.communication is None else result.communication
    times = {"jct": metrics.jct_ms(jobs), "wait": jobs[w.WAITED], "communication": communication}
    spreads = {name: metrics.spread(values[finished], 1000) for name, values in times.items()}
    return {
        "makespan_s": makespan / 1000,
        **{f"{name}_{point}_s": found[point] for name, found in spreads.items() for point in POINTS},
        "utilization": int(jobs[w.ATTAINED].sum()) / (result.cluster.gpus * makespan) if makespan else 0.0,
        "preemptions": float(jobs[w.PREEMPTIONS].sum()),
        "finished": float(finished.sum()),
        "elapsed_s": result.elapsed_s,
    }


def _course(result: Result) -> RunCourse:
    series, begin = result.series, result.trace.submit[0] / 1000
    remaining = (series["running"] + series["queue"]).to_numpy().astype(np.float64)
    busy = series["busy_gpus"].to_numpy() / result.cluster.gpus
    timers = None if result.timers is None else result.timers.with_columns(time=result.timers["time"] - begin)
    return RunCourse(series["time"].to_numpy() - begin, busy, remaining, timers)


def with_settings(policy: str, settings: Mapping[str, Any]) -> str:
    """The text of a policy with these settings; those that it does not have are left aside."""
    return _with_settings(policy, tuple(settings.items()))


@cache
def _with_settings(policy: str, settings: tuple[tuple[str, Any], ...]) -> str:
    name, _, given = policy.partition(":")
    known = declared(registry.policy_class(name))
    asked = dict(part.split("=", 1) for part in given.split(",") if part)
    asked |= {key: str(value) for key, value in settings if key in known}
    return registry.text(registry.policy(f"{name}:{','.join(f'{key}={value}' for key, value in asked.items())}"))

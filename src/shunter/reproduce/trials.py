"""Many runs of an experiment: each case repeated with arrivals moved by seconds, and compared repeat by repeat."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import clusters, registry, simulation
from shunter import world as w
from shunter.capabilities import Learns, capability
from shunter.model import Trace
from shunter.params import declared
from shunter.processes import Progress
from shunter.report import metrics
from shunter.report.bootstrap import Estimate, estimate, means_of_repeats
from shunter.setup import Setup, set_up
from shunter.simulation import Result
from shunter.sweeps.cached_runs import cached_store, counted, rows_of
from shunter.sweeps.engines import opener
from shunter.sweeps.places import Identity, code_version
from shunter.sweeps.store import INTEGER, INTEGERS, MEASURED, NUMBER, SERIES, TEXT, TEXTS
from shunter.sweeps.work import Row, attempted
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

POINTS = ("mean", "p50", "p95", "p99")
COURSE = ("time", "busy", "remaining")
TIMERS = {"time": SERIES, "tier": TEXTS, "gpus": INTEGERS, "timer": SERIES, "waits": INTEGERS}
COLUMNS = {  # of a store of outcomes, with their kinds; numbers are measures
    **dict.fromkeys(("key", "version", "host", "error", "command", "digest"), TEXT),
    **dict.fromkeys(("workload", "cluster", "policy", "network"), TEXT),
    **dict.fromkeys(("repeat", "seed"), INTEGER),
    **dict.fromkeys(("restart", "begun", "seconds", "cpu_s"), NUMBER),
    **dict.fromkeys(("jct", "start"), SERIES),
    **{f"course.{name}": SERIES for name in COURSE},
    **{f"timers.{name}": kind for name, kind in TIMERS.items()},
}
More: TypeAlias = Callable[[Result], dict[str, float]]
Learn: TypeAlias = Callable[[Setup, Sequence[str]], object]  # fits what policies learn from the past of a setup


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
    starts: Callable[[TrialCase], bool] = lambda case: False  # when each job started


@dataclass(frozen=True)
class Trial:
    """One run of a case."""

    case: TrialCase
    repeat: int
    seed: int
    course: bool  # whether its course over time is kept
    reasons: bool  # whether the reasons for waiting are recorded
    starts: bool = False  # whether it is kept when jobs started

    @property
    def place(self) -> TrialCase:
        """The same for all policies."""
        return self.case.place

    @property
    def policy(self) -> str:
        """The text of its policy."""
        return self.case.policy


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
    jct: F64  # s, of the jobs that finished
    course: RunCourse | None
    digest: str
    start: F64 | None = None  # s, of the same jobs, where it is kept


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


def run_cases(  # noqa: PLR0913, PLR0917  one argument per choice
    workloads: Mapping[str, Trace | Setup],
    cases: Collection[TrialCase],
    repeats: int,
    seed: int = 0,
    watch: TrialExtras = TrialExtras(),  # noqa: B008  it never changes
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
    more: More = nothing_more,
    dask: str = "",
) -> Trials:
    """Run every case ``repeats`` times, on processes or on Dask; what was run in the last month is not run again.

    A workload that is a setup has its machines already. ``more`` finds further numbers in a result.
    """
    cases = list(dict.fromkeys(cases))
    places = {case.place: _place(workloads[case.workload], case) for case in cases}
    trials = [
        Trial(case, r, seed, r == 0 and watch.course(case), watch.reasons(case), watch.starts(case))
        for case in cases
        for r in range(repeats)
    ]
    runner = TrialRunner(places, more, code_version())
    keys = [runner.key(trial) for trial in trials]
    with cached_store("reproduce", COLUMNS) as store:
        runs = dict(zip(keys, trials, strict=True))
        rows = rows_of(runs, runner, store, opener(dask, workers), counted(progress, 0, len(runs)))
    row_of = {key: at for at, key in enumerate(runs)}
    found = [_outcome(rows, row_of[key]) for key in keys]
    by_case = [found[at : at + repeats] for at in range(0, len(found), repeats)]
    return Trials(repeats, seed, dict(zip(cases, by_case, strict=True)))


@dataclass(frozen=True, eq=False)
class TrialRunner:
    """How a trial becomes a row."""

    places: Mapping[TrialCase, Setup]  # by ``TrialCase.place``
    more: More
    version: str

    def key(self, trial: Trial) -> str:
        """The name of a trial's content."""
        kept = (trial.course, trial.reasons, trial.starts)
        watched = (f"{self.more.__module__}.{self.more.__qualname__}", *map(str, kept))
        return Identity(self.places[trial.place], simulation.resolve(trial.policy), found=watched).key(
            trial.seed, trial.repeat
        )

    def row(self, trial: Trial, key: str) -> Row:
        """Run it."""
        return attempted(self._about(trial, key), trial.policy, "", lambda: self._done(trial))

    def lost(self, trial: Trial, key: str, why: str) -> Row:
        """The row of a trial whose worker died with it."""
        return {**self._about(trial, key), "error": why}

    def _about(self, trial: Trial, key: str) -> Row:
        case = trial.case
        where = {"workload": case.workload, "cluster": case.cluster, "network": case.network, "restart": case.restart}
        chance = {"repeat": trial.repeat, "seed": trial.seed}
        return {"key": key, "version": self.version, "policy": case.policy, **where, **chance}

    def _done(self, trial: Trial) -> Row:
        where, policy = self.places[trial.place], simulation.resolve(trial.policy)
        result = simulation.run(where, policy, trial.seed, trial.repeat, decisions=trial.reasons)
        finished = result.table[w.STATE] == w.DONE
        numbers = {**_numbers(result), **self.more(result)}
        row: Row = {"digest": result.digest, **{MEASURED + name: value for name, value in numbers.items()}}
        row["jct"] = metrics.jct_ms(result.table)[finished] / 1000
        row["start"] = result.table[w.STARTED, finished] / 1000 if trial.starts else None
        return row | (_course(result) if trial.course else {})


def _outcome(rows: pl.DataFrame, at: int) -> TrialResult:
    """What a row says."""
    import polars as pl

    numbers = {
        name.removeprefix(MEASURED): rows[name][at]
        for name in rows.columns
        if name.startswith(MEASURED) and rows[name][at] is not None
    }
    series = {name: rows[f"course.{name}"][at] for name in COURSE}
    timers = {name: rows[f"timers.{name}"][at] for name in TIMERS}
    course = None
    if series["time"] is not None:
        kept = None if timers["time"] is None else pl.DataFrame(timers)
        time, busy, remaining = (each.to_numpy() for each in series.values())
        course = RunCourse(time, busy, remaining, kept)
    start = None if rows["start"][at] is None else rows["start"][at].to_numpy()
    return TrialResult(numbers, rows["jct"][at].to_numpy(), course, rows["digest"][at], start)


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
        simulation.lessons_before(simulation.resolve(text).policy, setup, setup.trace)


def teach(workloads: Mapping[str, Setup], cases: Collection[TrialCase], learn: Learn = fit) -> None:
    """Fit all models that policies take from the past, one after the other, each once."""
    pairs = ((case, capability(Learns, simulation.resolve(case.policy).policy)) for case in cases)
    wanted = {
        (case.workload, learner.predictor): case.policy for case, learner in pairs if learner and learner.predictor
    }
    for (name, _), policy in wanted.items():
        learn(workloads[name], [policy])


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


def _course(result: Result) -> Row:
    """The columns of a row that say how a run went over time."""
    series, begin = result.series, result.trace.submit[0] / 1000
    remaining = (series["running"] + series["queue"]).to_numpy().astype(np.float64)
    busy = series["busy_gpus"].to_numpy() / result.cluster.gpus
    found = {"course.time": series["time"].to_numpy() - begin, "course.busy": busy, "course.remaining": remaining}
    if result.timers is None:
        return found
    timers = result.timers.with_columns(time=result.timers["time"] - begin)
    return found | {f"timers.{name}": timers[name] for name in TIMERS}


def with_settings(policy: str, settings: Mapping[str, Any]) -> str:
    """The text of a policy with these settings; those that it does not have are left aside."""
    name, _, given = policy.partition(":")
    known = declared(registry.policy_class(name))
    asked = dict(part.split("=", 1) for part in given.split(",") if part)
    asked |= {key: str(value) for key, value in settings.items() if key in known}
    return registry.text(registry.policy(f"{name}:{','.join(f'{key}={value}' for key, value in asked.items())}"))

"""A published experiment of data sets x schedulers: what it is, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from shunter.processes import Progress
from shunter.reproduce.board import Board, DataSet, Facts, case_of
from shunter.reproduce.claims import Claim, ClaimResult
from shunter.reproduce.numbers import PREDICTED
from shunter.reproduce.trials import POINTS, Learn, More, Scheduler, TrialCase, Trials, fit, run_cases, teach
from shunter.run_folder import versions
from shunter.setup import Setup

if TYPE_CHECKING:
    import polars as pl

REPEATS = 5
MEASURES = (
    *(f"{name}_{point}_s" for name in ("jct", "wait") for point in POINTS), "makespan_s", "utilization", "preemptions",
    *(f"predicted {name}" for name in PREDICTED),
)  # fmt: skip
Scenes: TypeAlias = tuple[dict[str, Setup], bool]  # what is simulated, by workload; whether it is made up


@dataclass(frozen=True)
class PublishedExperiment:
    """What is published, and how we run it."""

    name: str
    paper: str
    data: Mapping[str, DataSet]
    quick: tuple[str, ...]  # data sets for a look
    base: Scheduler  # with which the others are compared
    once: Scheduler  # the one with a model that is fitted once, before the window ...
    refitted: Scheduler  # ... and the same with a model that is fitted again on the way
    claims: Sequence[Claim]
    measures: tuple[str, ...]  # for scripts: MEASURES, and what ``more`` finds
    more: More  # numbers that the runs of others don't need
    setups: Callable[[Sequence[str], int], Scenes]  # of data sets, by a seed


@dataclass(frozen=True)
class Part:
    """Which part of it is run."""

    data: tuple[str, ...]
    repeats: int = REPEATS
    seed: int = 0
    refitted: bool = True  # whether to measure the effect of fitting the model again


@dataclass(frozen=True, eq=False)
class Study:
    """What was run, and the results."""

    experiment: PublishedExperiment
    part: Part
    board: Board
    refitted: Trials | None  # one run of each data set, with a model that is fitted again

    @property
    def table(self) -> pl.DataFrame:
        """One row per run."""
        return self.board.trials.table

    def findings(self) -> list[ClaimResult]:
        """The judged claims of the paper."""
        return self.board.findings(self.experiment.claims)

    def changes(self) -> list[dict[str, Any]]:
        """The effect of fitting the model again, in one run: numbers with it and without."""
        if self.refitted is None:
            return []
        rows = []
        for data in self.part.data:
            refitted = self.refitted.outcomes[case_of(data, self.experiment.refitted)][0].numbers
            once = self.board.trials.outcomes[case_of(data, self.experiment.once)][0].numbers
            names = [name for name in self.experiment.measures if name in refitted and name in once]
            rows.append(
                {"data": data, "once": {n: once[n] for n in names}, "refitted": {n: refitted[n] for n in names}}
            )
        return rows

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""
        return {
            "experiment": self.experiment.name,
            "paper": self.experiment.paper,
            "workloads": "stand-in" if self.board.stands_in else "published",
            "seed": self.part.seed,
            "repeats": self.part.repeats,
            "data": self.board.about(),
            "results": self.board.rows(self.experiment.measures),
            "claims": [found.record for found in self.findings()],
            "refitted": self.changes(),
            "versions": versions(),
        }


def prepared(experiment: PublishedExperiment, part: Part, learn: Learn = fit) -> Scenes:
    """What is simulated, with all models fitted."""
    found, made_up = experiment.setups(part.data, part.seed)
    teach(found, _cases(experiment, part), learn)
    return found, made_up


def _cases(experiment: PublishedExperiment, part: Part) -> list[TrialCase]:
    return [case for name in part.data for case in experiment.data[name].cases(name)]


def run(
    experiment: PublishedExperiment,
    part: Part,
    setups: Scenes,
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
    dask: str = "",
) -> Study:
    """Run it; ``progress`` gets the runs that are done, and all."""
    found, made_up = setups
    cases = _cases(experiment, part)
    again = [case_of(name, experiment.refitted) for name in part.data] if part.refitted else []
    total = len(cases) * part.repeats + len(again)

    def run_all(some: Sequence[TrialCase], repeats: int, before: int) -> Trials:
        def on_progress(done: int, _: int) -> None:
            progress(before + done, total)

        return run_cases(
            found, some, repeats, part.seed, workers=workers, progress=on_progress, more=experiment.more, dask=dask
        )

    trials = run_all(cases, part.repeats, 0)
    refitted = run_all(again, 1, total - len(again)) if again else None
    facts = {name: Facts.of(found[name]) for name in part.data}
    sets = {name: experiment.data[name] for name in part.data}
    return Study(experiment, part, Board(sets, experiment.base, trials, facts, made_up), refitted)

"""Runs policies on a part of the jobs, with several seeds; what was run is kept in the user's cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shunter import world as w
from shunter.errors import PolicyError
from shunter.model import Trace
from shunter.processes import Progress as Show
from shunter.report import metrics
from shunter.report.bootstrap import Draws, drawn_means, drawn_quantiles, draws_of
from shunter.simulation import Result
from shunter.sweeps import store as stores
from shunter.sweeps.cached_runs import rows_of
from shunter.sweeps.engines import Opener
from shunter.sweeps.places import Ground, Places
from shunter.sweeps.plan import Place, RunSpec
from shunter.sweeps.running import Progress
from shunter.sweeps.store import Store
from shunter.sweeps.work import FAIRNESS, POINTS, SIZES, Row, SweepRunner
from shunter.world import F64

UNFINISHED = -1  # the time of a job that did not finish
MISSED = "missed_share"  # of the deadlines
COLUMNS = {
    **stores.COLUMNS,
    **dict.fromkeys(("jct_ms", "wait_ms", "missed"), stores.INTEGERS),
    **{MISSED: stores.NUMBER, "abandoned": stores.TEXT},
}
NUMBERS = (*(f"{name}.{point}" for name in ("jct_s", "wait_s") for point in POINTS), MISSED)
SIDES = (  # what else a choice of settings changes
    *(f"fairness.{name}" for name in FAIRNESS),
    *(f"by_size.{size}.jct_s.mean" for size in SIZES),
    *("preemptions", "lost_gpu_hours"),
)
DECISIONS_PER_JOB, DECISIONS_PER_MINUTE = 100, 3  # of the jobs and of their time; what needs more is abandoned
DEADLINES = "deadlines"
OBJECTIVES = {  # what is minimised, and its column
    "jct": "jct_s.mean",
    "wait": "wait_s.mean",
    "tail": "wait_s.p99",
    DEADLINES: MISSED,
}
UNITS = {"jct_ms": 1000, "wait_ms": 1000, "missed": 1}  # what is kept of every job, over seconds or shares
TIMES = {"jct": "jct_ms", "wait": "wait_ms", "tail": "wait_ms", DEADLINES: "missed"}  # what it is computed from
TAIL = 0.99
TIE = 1e-12  # of a share of deadlines, per second of mean JCT: less than one deadline


@dataclass(frozen=True, eq=False)
class TimedRunner(SweepRunner):
    """Keeps besides the numbers of a run the times of its jobs, from which intervals are made.

    A policy that refuses these jobs, makes no progress or needs too many decisions is not an error: it is as bad as can
    be.
    """

    def budget(self, trace: Trace) -> int:
        """This many decisions per job, and per minute of the trace."""
        minutes = int(trace.submit[-1] - trace.submit[0]) // 60_000 if len(trace) else 0
        return DECISIONS_PER_JOB * len(trace) + DECISIONS_PER_MINUTE * minutes + 100_000

    def _done(self, spec: RunSpec) -> Row:
        try:
            return super()._done(spec)
        except PolicyError as error:
            return {"abandoned": str(error), **dict.fromkeys(NUMBERS, math.inf)}

    def found(self, result: Result) -> Row:
        """What is kept of a result."""
        done = result.table[w.STATE] == w.DONE
        times = {"jct_ms": metrics.jct_ms(result.table), "wait_ms": metrics.wait_ms(result.table)}
        due, late = result.trace.deadline > 0, ~done | (times["jct_ms"] > result.trace.deadline)
        row = {name: np.where(done, each, UNFINISHED) for name, each in times.items()}
        row["missed"] = np.where(due, late, UNFINISHED)  # a job without a deadline counts for nothing
        return {**super().found(result), **row, MISSED: float(late[due].mean()) if due.any() else None}


@dataclass(frozen=True)
class JobSample:
    """Jobs that policies are run on: those of a place, with several seeds in a row."""

    place: Place
    first_seed: int = 0


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The runs of one policy on a sample of jobs, one per seed."""

    policy: str
    numbers: dict[str, float]  # means over the seeds, by columns
    times: Callable[[str], list[F64]]  # of every job, per seed; NaN: it did not finish
    abandoned: str = ""  # why there are none

    def value(self, objective: str) -> float:
        """An objective, mean over the seeds."""
        return self.numbers[OBJECTIVES[objective]]

    def rank(self, objective: str) -> float:
        """What it is ordered by; of those that miss as many deadlines, the mean JCT decides."""
        value = self.value(objective)
        return value if objective != DEADLINES else np.nan_to_num(value, posinf=np.inf) + TIE * self.value("jct")

    def drawn(self, objective: str, draws: Draws) -> F64:
        """An objective over all jobs, and after it in every draw of them."""
        times = self.times(TIMES[objective])
        return drawn_quantiles(draws, times, [TAIL])[0] if objective == "tail" else drawn_means(draws, times)


class Evaluator:
    """Runs policies where they are not in the store yet."""

    def __init__(self, ground: Ground, repeats: int, store: Store, open_engine: Opener, show: Show, total: int) -> None:
        self.places, self.repeats, self.ran = Places(ground), repeats, 0
        self._runner, self._store, self._open_engine = TimedRunner(ground), store, open_engine
        self._show, self._asked, self._total = show, 0, total
        self._known: dict[tuple[JobSample, str], Evaluated] = {}

    def evaluate(self, sample: JobSample, policies: Sequence[str]) -> list[Evaluated]:
        """What policies give on a sample."""
        new = [policy for policy in policies if (sample, policy) not in self._known]
        if new:
            self._run(sample, new)
        return [self._known[sample, policy] for policy in policies]

    def _run(self, sample: JobSample, policies: Sequence[str]) -> None:
        runs: dict[str, RunSpec] = {}
        for policy in policies:
            identity = self.places.identity(sample.place, policy)
            runs |= {
                identity.key(self.places.ground.seed, seed): RunSpec(sample.place, policy, seed)
                for seed in range(sample.first_seed, sample.first_seed + self.repeats)
            }
        before, ran = self._asked, self.ran

        def on_progress(progress: Progress) -> None:
            self.ran = ran + progress.done
            self._show(before + progress.found + progress.done, max(self._total, before + len(runs)))

        columns = (*NUMBERS, *SIDES, "abandoned")
        rows = rows_of(runs, self._runner, self._store, self._open_engine, on_progress, columns)
        self._asked += len(runs)
        for at, policy in enumerate(policies):
            own = rows[at * self.repeats : (at + 1) * self.repeats]
            numbers = {name: float(np.mean(own[name].fill_null(np.nan).to_numpy())) for name in (*NUMBERS, *SIDES)}
            why = next((text for text in own["abandoned"].to_list() if text), "")
            times = _Times(self._store, own["key"].to_list())
            self._known[sample, policy] = Evaluated(policy, numbers, times, why)

    def draws(self, sample: JobSample, policy: str) -> Draws:
        """What intervals on a sample are over; the same for all policies, so that differences are those of pairs."""
        (own,) = self.evaluate(sample, [policy])
        setup = self.places.setup(sample.place)
        return draws_of([len(each) for each in own.times("jct_ms")], setup.redraws, self.places.ground.seed)


@dataclass(frozen=True, eq=False)
class _Times:
    """The times of jobs, read from the store when they are needed."""

    store: Store
    keys: list[str]

    @cached_property
    def _read(self) -> dict[str, list[F64]]:
        frame = self.store.read(list(UNITS), self.keys)
        rows = {key: at for at, key in enumerate(frame["key"])}
        found = {}
        for name, unit in UNITS.items():
            arrays = [frame[name][rows[key]].to_numpy().astype(np.float64) for key in self.keys]
            found[name] = [np.where(each == UNFINISHED, np.nan, each / unit) for each in arrays]
        return found

    def __call__(self, name: str) -> list[F64]:
        """Those of this column, per seed."""
        return self._read[name]

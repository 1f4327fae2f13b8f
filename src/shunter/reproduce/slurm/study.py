"""The experiment, run: Slurm's own priority and ours, live and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from math import isnan
from typing import TYPE_CHECKING, Any

from shunter.errors import RunError, SlurmError
from shunter.processes import Progress
from shunter.registry import policy as policy_named
from shunter.reproduce.slurm import paper
from shunter.reproduce.slurm.design import BASE, SubmittedJob, mix
from shunter.reproduce.slurm.live import controlled, fresh_lab, level, play, warm_up
from shunter.reproduce.slurm.outcome import ScheduleTimes, Spread, fidelity, predicted, relative, spreads
from shunter.run_folder import versions
from shunter.slurm.lab import Lab

if TYPE_CHECKING:
    import polars as pl

POLICIES = ("wfp3:backfill=easy", "sjf:backfill=easy")
INTERVAL_S = 1.0
SLURM = "multifactor"  # the run without a controller
# Slurm's backfill reserves for many waiting jobs, not just for the first
SIMULATED_SLURM = f"{BASE},backfill=conservative"
LIVE, AGAIN = "live", "live again"
SIMULATED, WITH_HANDOVER = "simulated", "simulated with hand-over"


@dataclass(frozen=True)
class SlurmPart:
    """Which part of it is run."""

    jobs: int
    policies: tuple[str, ...] = POLICIES
    interval_s: float = INTERVAL_S
    seed: int = 0
    repeat: int = 2  # live runs of each, to see how far one is from another


@dataclass(frozen=True, eq=False)
class SlurmStudy:
    """What was run, and the results: by scheduler the live runs, and what was simulated."""

    part: SlurmPart
    jobs: Sequence[SubmittedJob]
    live: dict[str, list[ScheduleTimes]]
    simulated: dict[str, dict[str, ScheduleTimes]]
    handover_s: float

    def runs(self, scheduler: str, where: str) -> list[ScheduleTimes]:
        """All runs of a scheduler there."""
        return self.live[scheduler] if where == LIVE else [self.simulated[scheduler][where]]

    def measures(self, scheduler: str, where: str) -> dict[str, Spread]:
        """The numbers of its runs."""
        return spreads([run.measures() for run in self.runs(scheduler, where)])

    def changes(self, scheduler: str, where: str) -> dict[str, Spread]:
        """What a scheduler changes, relative to Slurm's own, over all pairs of runs."""
        pairs = product(self.runs(scheduler, where), self.runs(SLURM, where))
        return spreads([relative(run.measures(), base.measures()) for run, base in pairs])

    def fidelity(self, scheduler: str, where: str) -> dict[str, Spread]:
        """How near a simulation is to what happened; or, if that is asked, one live run to another."""
        live = self.live[scheduler]
        pairs = combinations(live, 2) if where == AGAIN else product(live, self.runs(scheduler, where))
        return spreads([fidelity(*pair) for pair in pairs])

    def compared(self, scheduler: str) -> tuple[str, ...]:
        """The runs to compare with its live runs."""
        return (SIMULATED, WITH_HANDOVER, *([AGAIN] if len(self.live[scheduler]) > 1 else []))

    @property
    def table(self) -> pl.DataFrame:
        """One row per job and run."""
        import polars as pl

        about = pl.DataFrame(
            [{"job": job.name, "user": job.user, "gpu_type": job.kind, "limit_min": job.limit_min} for job in self.jobs]
        )
        runs = {
            (scheduler, where, number): run
            for scheduler in self.live
            for where in (LIVE, SIMULATED, WITH_HANDOVER)
            for number, run in enumerate(self.runs(scheduler, where), 1)
        }
        parts = []
        for (scheduler, where, number), run in runs.items():
            times = {"gpus": run.gpus, "submit": run.submit, "start": run.start, "end": run.end}
            named = about.with_columns(scheduler=pl.lit(scheduler), where=pl.lit(where), repeat=pl.lit(number))
            parts.append(named.hstack(pl.DataFrame(times)))
        return pl.concat(parts)

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""
        return {
            "experiment": "slurm",
            "paper": paper.TITLE,
            "jobs": len(self.jobs),
            "seed": self.part.seed,
            "interval_s": self.part.interval_s,
            "handover_s": self.handover_s,
            "repeat": self.part.repeat,
            "results": {s: {w: _record(self.measures(s, w)) for w in (LIVE, *f)} for s, f in self.simulated.items()},
            "changes": {
                s: {w: _record(self.changes(s, w)) for w in (LIVE, *self.simulated[s])} for s in self.part.policies
            },
            "fidelity": {s: {w: _record(self.fidelity(s, w)) for w in self.compared(s)} for s in self.live},
            "printed": paper.CHANGES,
            "versions": versions(),
        }


def _record(found: dict[str, Spread]) -> dict[str, Any]:
    """For JSON, which knows no number that is none."""
    return {name: None if isnan(spread.mean) else spread._asdict() for name, spread in found.items()}


def check(part: SlurmPart) -> list[SubmittedJob]:
    """Refuse what can't be run before anything is started; the jobs."""
    jobs = mix(part.jobs, part.seed)
    if not part.interval_s >= 0.2:
        raise RunError(f"--interval must be at least 0.2 s, got {part.interval_s:g}")
    if part.repeat < 1:
        raise RunError(f"--repeat must be >= 1, got {part.repeat}")
    for text in part.policies:
        policy_named(text)
    reason = Lab.missing(database=True)
    if reason:
        raise SlurmError(reason)
    return jobs


def run(part: SlurmPart, progress: Progress = lambda done, total: None) -> SlurmStudy:
    """Run it: each scheduler on a cluster that is fresh, and in the simulator."""
    jobs = check(part)
    schedulers = {SLURM: SIMULATED_SLURM} | {text: text for text in part.policies}
    order = [scheduler for _ in range(part.repeat) for scheduler in schedulers]
    live: dict[str, list[ScheduleTimes]] = {scheduler: [] for scheduler in schedulers}
    handovers = []
    for done, scheduler in enumerate(order):
        on_progress = partial(_report, progress, done * len(jobs), len(order) * len(jobs))
        with fresh_lab() as lab, ExitStack() as stack:
            if scheduler != SLURM:
                stack.enter_context(controlled(lab, scheduler, part.interval_s))
            handovers.append(warm_up(lab))
            level(lab)
            live[scheduler].append(play(lab, jobs, on_progress))
    handover_s = handovers[0]  # before anything else was run
    policies = list(schedulers.values())
    found = {SIMULATED: predicted(jobs, policies), WITH_HANDOVER: predicted(jobs, policies, handover_s)}
    simulated = {
        scheduler: {where: times[policy] for where, times in found.items()} for scheduler, policy in schedulers.items()
    }
    return SlurmStudy(part, jobs, live, simulated, handover_s)


def _report(progress: Progress, before: int, total: int, ended: int) -> None:
    progress(before + ended, total)

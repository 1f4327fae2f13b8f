"""The experiment, run: Slurm's own priority and ours, live and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from shunter.errors import RunError, SlurmError
from shunter.folders import versions
from shunter.processes import Progress
from shunter.registry import policy as policy_named
from shunter.reproduce.slurm import paper
from shunter.reproduce.slurm.design import BASE, Job, mix
from shunter.reproduce.slurm.live import controlled, fresh_lab, play, warm_up
from shunter.reproduce.slurm.outcome import Outcome, fidelity, predicted
from shunter.slurm.lab import Lab

if TYPE_CHECKING:
    import polars as pl

POLICIES = ("wfp3:backfill=easy", "sjf:backfill=easy")
INTERVAL_S = 1.0
SLURM = "multifactor"  # the run without a controller
# Slurm's backfill reserves for many waiting jobs, not just for the first
SIMULATED_SLURM = f"{BASE},backfill=conservative"
LIVE, AGAIN = "live", "live once more"
SIMULATED, WITH_HANDOVER = "simulated", "simulated with hand-over"


@dataclass(frozen=True)
class Part:
    """Which part of it is run."""

    jobs: int
    policies: tuple[str, ...] = POLICIES
    interval_s: float = INTERVAL_S
    seed: int = 0
    again: bool = True  # whether Slurm's own is run twice, to see how far one live run is from another


@dataclass(frozen=True, eq=False)
class Study:
    """What was run, and what came of it: outcomes by scheduler and by where it was."""

    part: Part
    jobs: Sequence[Job]
    outcomes: dict[str, dict[str, Outcome]]
    handover_s: float

    def measures(self, scheduler: str, where: str) -> dict[str, float]:
        """The numbers of a run."""
        return self.outcomes[scheduler][where].measures()

    def changes(self, scheduler: str, where: str) -> dict[str, float]:
        """What a scheduler changes, relative to Slurm's own."""
        ours, base = self.measures(scheduler, where), self.measures(SLURM, where)
        return {name: ours[name] / base[name] - 1 if base[name] else 0.0 for name in ours}

    def fidelity(self, scheduler: str, where: str) -> dict[str, Any]:
        """How near a simulation, or another live run, is to what happened."""
        return fidelity(self.outcomes[scheduler][LIVE], self.outcomes[scheduler][where])

    @property
    def table(self) -> pl.DataFrame:
        """One row per job and run."""
        import polars as pl

        about = pl.DataFrame(
            [{"job": job.name, "user": job.user, "gpu_type": job.kind, "limit_min": job.limit_min} for job in self.jobs]
        )
        parts = []
        for scheduler, places in self.outcomes.items():
            for where, found in places.items():
                times = {"gpus": found.gpus, "submit": found.submit, "start": found.start, "end": found.end}
                named = about.with_columns(scheduler=pl.lit(scheduler), where=pl.lit(where))
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
            "results": {s: {where: found.measures() for where, found in f.items()} for s, f in self.outcomes.items()},
            "changes": {s: {w: self.changes(s, w) for w in f} for s, f in self.outcomes.items() if s != SLURM},
            "fidelity": {s: {w: self.fidelity(s, w) for w in f if w != LIVE} for s, f in self.outcomes.items()},
            "printed": paper.CHANGES,
            "versions": versions(),
        }


def check(part: Part) -> list[Job]:
    """Refuse what can't be run before anything is started; the jobs."""
    jobs = mix(part.jobs, part.seed)
    if not part.interval_s >= 0.2:
        raise RunError(f"--interval must be at least 0.2 s, got {part.interval_s:g}")
    for text in part.policies:
        policy_named(text)
    reason = Lab.missing(database=True)
    if reason:
        raise SlurmError(reason)
    return jobs


def run(part: Part, progress: Progress = lambda done, total: None) -> Study:
    """Run it: each scheduler on a cluster that is fresh, and in the simulator."""
    jobs = check(part)
    schedulers = {SLURM: SIMULATED_SLURM} | {text: text for text in part.policies}
    live = [(scheduler, LIVE) for scheduler in schedulers] + [(SLURM, AGAIN)] * part.again
    outcomes: dict[str, dict[str, Outcome]] = {scheduler: {} for scheduler in schedulers}
    handovers = []
    for done, (scheduler, where) in enumerate(live):
        tell = partial(_tell, progress, done * len(jobs), len(live) * len(jobs))
        with fresh_lab() as lab, ExitStack() as stack:
            if scheduler != SLURM:
                stack.enter_context(controlled(lab, scheduler, part.interval_s))
            handovers.append(warm_up(lab))
            outcomes[scheduler][where] = play(lab, jobs, tell)
    handover_s = handovers[0]  # before anything else was run
    for scheduler, policy in schedulers.items():
        outcomes[scheduler][SIMULATED] = predicted(jobs, policy)
        outcomes[scheduler][WITH_HANDOVER] = predicted(jobs, policy, handover_s)
    return Study(part, jobs, outcomes, handover_s)


def _tell(progress: Progress, before: int, total: int, ended: int) -> None:
    progress(before + ended, total)

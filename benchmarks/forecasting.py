"""How good start forecasts are: ``python -m benchmarks.forecasting``.

A trace is simulated under first come, first served with EASY backfilling.  At many instants it is stopped; what waits
is forecast from what a live cluster could know then (the queue, what runs and since when, what has ended before); then
it goes on, with all jobs that come later, and what really happens is compared.  Told the true run times, or who will
come, forecasts show what is lost by not knowing that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from shunter import clusters, registry
from shunter import world as w
from shunter.cluster import Cluster
from shunter.files import data_folder
from shunter.model import Trace
from shunter.scenes import read_trace
from shunter.sim.engine import Simulator
from shunter.slurm.forecast import Outlook
from shunter.slurm.run_times import RunTimes
from shunter.slurm.snapshot import Job
from shunter.testing.live import coming_to, ended_in, habitual, snapshot_of
from shunter.world import F64, I64

COMING_MS = 3 * 86_400_000  # how far ahead a forecast is told who will come, where it is
CHOSEN_BEFORE = 1_541_030_400.0  # 1 November 2018: how run times are drawn was chosen on what came before


@dataclass(frozen=True)
class Told:
    """What a forecast is told beyond the queue: its history, or what nobody could know."""

    history: bool = True
    run_times: bool = False
    arrivals: bool = False

    def __str__(self) -> str:
        drawn = "own history" if self.history else "default run times"
        return ("true run times" if self.run_times else drawn) + (", true arrivals" if self.arrivals else "")

    def outlook(self, simulator: Simulator, samples: int) -> Outlook:
        """What it goes by at this instant."""
        present = snapshot_of(simulator)
        if self.arrivals:
            present = replace(present, jobs=(*present.jobs, *coming_to(simulator, COMING_MS)))
        if self.run_times:
            return Outlook(present, run_times=Truth(durations=simulator.trace.duration), samples=1)
        known = RunTimes.of(ended_in(simulator), "what ended before") if self.history else RunTimes()
        return Outlook(present, run_times=known, samples=samples)


@dataclass(frozen=True)
class Truth(RunTimes):
    """Run times that are no secret."""

    durations: I64 | None = None

    def draw(self, job: Job, levels: F64) -> F64:
        """What the job will take."""
        assert self.durations is not None
        return np.full(len(levels), float(self.durations[int(job.id)]))


@dataclass(frozen=True, eq=False)
class Checked:
    """Forecasts beside what happened, one entry for each waiting job and instant."""

    instant: F64  # seconds since 1970
    p50: F64  # seconds from then
    p90: F64
    truth: F64

    def shares(self) -> tuple[float, float]:
        """The share of jobs that had started by P50 and by P90."""
        return float(np.mean(self.truth <= self.p50)), float(np.mean(self.truth <= self.p90))

    def where(self, chosen: Any) -> Checked:
        """Some of the entries."""
        return Checked(*(getattr(self, each.name)[chosen] for each in fields(self)))


def check(trace: Trace, cluster: Cluster, instants: int, told: Told, samples: int = 100, most: int = 25) -> Checked:
    """Stop a simulation at so many instants of the trace's latter part; forecast at most so many jobs at each."""
    policy = registry.policy("fifo:backfill=easy")
    simulator = Simulator(trace, cluster)
    first, last = (int(trace.submit[int(share * (len(trace) - 1))]) for share in (0.3, 1.0))
    memory, asked = None, []
    for instant in np.linspace(first, last, instants).astype(np.int64).tolist():
        memory = simulator.run(policy, until=instant, memory=memory)
        waiting = [job for job in snapshot_of(simulator).jobs if job.state == "PENDING"]
        if not waiting:
            continue
        chosen = waiting[:: -(-len(waiting) // most)]
        found = told.outlook(simulator, samples).of(*chosen)
        asked += [(simulator.now, int(job.id), each) for job, each in zip(chosen, found, strict=True)]
    simulator.run(policy, memory=memory)
    started = simulator.world.jobs[w.STARTED]
    rows = [(now, each.at(0.5) or np.inf, each.at(0.9) or np.inf, started[job]) for now, job, each in asked]
    now, p50, p90, truth = np.array(rows, np.float64).T
    return Checked(now / 1000, (p50 - now) / 1000, (p90 - now) / 1000, (truth - now) / 1000)


def line(name: str, found: Checked) -> str:
    """One line about a trace."""
    by50, by90 = found.shares()
    error = np.median(np.abs(found.p50 - found.truth)) / 3600
    wait = np.median(found.truth) / 3600
    instants = len(np.unique(found.instant))
    return (
        f"{name:46} {len(found.truth):5,} jobs at {instants:3} instants; median wait to come {wait:5.2f} h, "
        f"median error of P50 {error:5.2f} h; started by P50 {by50:.0%}, by P90 {by90:.0%}"
    )


def cases() -> Iterator[tuple[str, Trace, Cluster, float]]:
    """Traces with their clusters, and the time (s) before which settings were chosen on them."""
    yield "made up", habitual(20_000, 128, 0.95), clusters.load("16x8"), 0.0
    data = data_folder()
    if data is not None:
        aaic = read_trace(str(data / "aaic" / "aaicwl-201807-201812.csv.gz"), None, "skip")
        yield "AAIC", aaic, clusters.load("36x8"), CHOSEN_BEFORE


def main(instants: int = 300) -> None:
    """Check the forecasts on a synthetic trace and on AAIC's, and what is lost by not knowing more."""
    tried = (Told(), Told(history=False), Told(arrivals=True), Told(run_times=True))
    for name, trace, cluster, chosen_before in cases():
        for told in tried:
            begun = time.perf_counter()
            found = check(trace, cluster, instants, told)
            earlier = found.instant < chosen_before
            for when, some in (("to October, chosen on", earlier), ("after", ~earlier)):
                if some.any():
                    part = f" ({when})" if earlier.any() else ""
                    sys.stdout.write(line(f"{name}{part}, {told}", found.where(some)) + "\n")
            sys.stdout.write(f"  {time.perf_counter() - begun:.0f} s\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

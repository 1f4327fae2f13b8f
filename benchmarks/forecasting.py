"""How good start forecasts are: ``python -m benchmarks.forecasting``.

A trace is simulated under first come, first served with EASY backfilling.  At many instants it is stopped; what waits
is forecast from what a live cluster could know then (the queue, what runs and since when, what has ended before); then
it goes on, with all jobs that come later, and what really happens is compared.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

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
from shunter.testing.live import ended_in, habitual, snapshot_of
from shunter.world import F64


@dataclass(frozen=True, eq=False)
class Checked:
    """Forecasts beside what happened, one entry for each waiting job and instant."""

    instant: F64
    p50: F64  # seconds from then
    p90: F64
    truth: F64

    def shares(self) -> tuple[float, float]:
        """The share of jobs that had started by P50 and by P90."""
        return float(np.mean(self.truth <= self.p50)), float(np.mean(self.truth <= self.p90))


def check(trace: Trace, cluster: Cluster, instants: int, history: bool, samples: int = 100, most: int = 25) -> Checked:
    """Stop a simulation at so many instants of the trace's latter half; forecast at most so many jobs at each."""
    policy = registry.policy("fifo:backfill=easy")
    simulator = Simulator(trace, cluster)
    first, last = (int(trace.submit[int(share * (len(trace) - 1))]) for share in (0.3, 1.0))
    memory, asked = None, []
    for instant in np.linspace(first, last, instants).astype(np.int64).tolist():
        memory = simulator.run(policy, until=instant, memory=memory)
        present = snapshot_of(simulator)
        waiting = [job for job in present.jobs if job.state == "PENDING"]
        if not waiting:
            continue
        chosen = waiting[:: -(-len(waiting) // most)]
        known = RunTimes.of(ended_in(simulator), "what ended before") if history else RunTimes()
        found = Outlook(present, run_times=known, samples=samples).of(*chosen)
        asked += [
            (present.now, int(job.id), each.at(0.5), each.at(0.9)) for job, each in zip(chosen, found, strict=True)
        ]
    simulator.run(policy, memory=memory)
    started = simulator.world.jobs[w.STARTED]
    rows = np.array([(now, p50 or np.inf, p90 or np.inf, started[job]) for now, job, p50, p90 in asked], np.float64)
    now, p50, p90, truth = rows.T
    return Checked(now / 1000, (p50 - now) / 1000, (p90 - now) / 1000, (truth - now) / 1000)


def told(name: str, found: Checked, seconds: float) -> str:
    """One line about a trace."""
    by50, by90 = found.shares()
    error = np.median(np.abs(found.p50 - found.truth)) / 3600
    wait = np.median(found.truth) / 3600
    instants = len(np.unique(found.instant))
    return (
        f"{name:34} {len(found.truth):6,} jobs at {instants:3} instants; median wait to come {wait:5.2f} h, "
        f"median error of P50 {error:5.2f} h; started by P50 {by50:.0%}, by P90 {by90:.0%} ({seconds:.0f} s)"
    )


def main(instants: int = 300) -> None:
    """Check the forecasts on a synthetic trace and on AAIC's."""
    cases = [("synthetic", habitual(20_000, 128, 0.95), clusters.load("16x8"))]
    data = data_folder()
    if data is not None:
        aaic = read_trace(str(data / "aaic" / "aaicwl-201807-201812.csv.gz"), None, "skip")
        cases.append(("AAIC", aaic, clusters.load("36x8")))
    for name, trace, cluster in cases:
        for history in (True, False):
            begun = time.perf_counter()
            found = check(trace, cluster, instants, history)
            label = f"{name}, {'its own history' if history else 'default run times'}"
            sys.stdout.write(told(label, found, time.perf_counter() - begun) + "\n")


if __name__ == "__main__":
    main()

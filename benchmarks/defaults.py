"""Whether one setting beats the default everywhere: ``python -m benchmarks.defaults [POLICY ...]``.

One setting of a policy is searched on two early weeks of four traces at once, by the mean of log(mean JCT / that of the
default), in 60 evaluations.  It is then judged once on later weeks of each trace, beside the default: how many times
as short the mean JCT is, with a 95 % interval over stretches of the jobs, P99, and jobs with rho <= 1.  A stop costs
62 s.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shunter import registry, traces
from shunter.adapting.abandoning import most_decisions
from shunter.adapting.controller import AdaptedRun, plain_run
from shunter.adapting.objectives import run_value
from shunter.clusters.stop_costs import USUAL
from shunter.errors import AbandonedError, PolicyError
from shunter.protocols import Memory
from shunter.report.bootstrap import drawn_means, draws_of
from shunter.report.intervals import bounds
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up
from shunter.sim.engine import Simulator
from shunter.simulation import Draw, simulator_for, taught
from shunter.tuning.sampling import sampled, search_named
from shunter.tuning.spaces import spaces_of

BUDGET = 60


class Site(NamedTuple):
    """Weeks of a trace to choose on and to judge on, in days from its beginning."""

    file: str
    format: str
    cluster: str
    load: str
    early: tuple[float, float]
    late: tuple[float, float]

    def setup(self, days: tuple[float, float]) -> Setup:
        """A part of it."""
        folder = data_folder(self.file)
        if folder is None:
            raise SystemExit(f"{self.file} is needed; SHUNTER_DATA names the folder")
        trace = traces.read(folder / self.file, self.format)
        since, until = (f"+{each:g}" for each in days)
        return set_up(trace, self.cluster, ["tiresias"], since=since, until=until, overhead=USUAL, load=self.load)


SITES = {  # clusters as in benchmarks/evidence.py
    "Philly": Site("philly/philly_jobs.csv.gz", "philly", "52x8", "0.95", (14, 28), (56, 84)),
    "Venus": Site("helios/venus_gpu_jobs.csv.gz", "helios", "70x8", "", (63, 77), (98, 126)),
    "AAIC": Site("aaic/aaicwl-201807-201812.csv.gz", "aaic", "24x8", "", (31, 45), (100, 128)),
    "PAI": Site("pai/pai_tasks_sample.csv.gz", "pai", "52x8", "", (7, 14), (28, 42)),
}


def begun_on(setup: Setup, policy: str) -> tuple[Simulator, Memory | None]:
    """A run before its first event, and what a policy that learns has learned from the days before."""
    made = registry.policy(policy)
    return simulator_for(Draw(setup, 0), made)[0], taught(made, setup, setup.trace)


def searched(policy: str, early: dict[str, Setup]) -> str:
    """The setting with the least mean of log(JCT / default's) on all early weeks."""
    begun = {name: begun_on(setup, policy) for name, setup in early.items()}
    base: dict[str, float] = {}

    def value(text: str) -> float:
        made, ratios = registry.policy(text), []
        for name, (simulator, memory) in begun.items():
            twin = simulator.fork()
            try:
                twin.run(made, memory=made.start(twin.cluster, memory), budget=most_decisions(len(twin.trace)))
            except (AbandonedError, PolicyError):
                return math.inf
            if twin.exhausted:
                return math.inf
            found = run_value(twin, "jct")
            ratios.append(math.log(found / base.setdefault(name, found)))
        return float(np.mean(ratios)) + 10  # searches expect positive values

    def values(texts: Sequence[str]) -> list[float]:
        return [value(text) for text in texts]

    search = search_named("random", spaces_of(policy), BUDGET, 0)
    best = sampled(search, [policy], values)
    print(f"{policy}: {best}, {math.exp(10 - search.seen[best]):.2f} times as short on the early weeks")  # noqa: T201
    return best


def judged(setup: Setup, policies: Sequence[str]) -> list[AdaptedRun]:
    """Runs on later weeks; all of them begin with what the first policy has learned."""
    simulator, memory = begun_on(setup, policies[0])
    return [plain_run(simulator.fork(), text, registry.policy(text).start(setup.cluster, memory)) for text in policies]


def row(name: str, default: AdaptedRun, best: AdaptedRun) -> str:
    """How many times as short, and what else changes."""
    draws = draws_of([len(default.jct)], False, 0)
    first, other = (drawn_means(draws, [each.jct]) for each in (default, best))
    drawn = first / other
    between: Any = bounds(drawn, float(drawn[0]), draws.parts) or {"low": math.nan, "high": math.nan}
    tail = np.nanpercentile(default.jct, 99) / np.nanpercentile(best.jct, 99)
    return (
        f"  {name:8}{len(default.jct):8,} jobs  mean {drawn[0]:.2f} ({between['low']:.2f} to {between['high']:.2f})"
        f"  p99 {tail:.2f}  rho <= 1: {100 * default.fair:.1f} to {100 * best.fair:.1f} %"
        f"  stops {default.preemptions:,} to {best.preemptions:,}"
    )


def main(policies: Sequence[str]) -> None:
    """Print a table per policy."""
    for policy in policies or ("tiresias", "themis"):
        begun = time.process_time()
        best = searched(policy, {name: site.setup(site.early) for name, site in SITES.items()})
        for name, site in SITES.items():
            print(row(name, *judged(site.setup(site.late), (policy, best))), flush=True)  # noqa: T201
        print(f"  {time.process_time() - begun:.0f} s of CPU time", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])

"""What is run: windows of three traces, three schedulers, and how settings are searched."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shunter import traces
from shunter.adapting.controller import SearchTimes
from shunter.adapting.study import AdaptingOptions
from shunter.clusters.stop_costs import USUAL
from shunter.generating.arrivals import LAST_HOUR
from shunter.generating.known_jobs import HOUR, MINUTE
from shunter.model import Trace
from shunter.reproduce.standin import begin_of, stand_in
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up

DAYS, REPEATS, BUDGET = 14, 3, 40
QUICK_DAYS, QUICK_BUDGET, QUICK_DATA = 1, 8, ("venus",)
QUICK_CLUSTER = "40x8"  # a day begins with an empty cluster, so that fewer GPUs are needed for jobs to wait
SHORT_DAYS, SHORT_BUDGET, SHORT_POLICIES = 2, 10, ("tiresias",)
RECHECK = 5 * MINUTE
GENERATOR, PREDICTOR = "fft-manhattan-itself", "lightgbm"  # as published, but for XGBoost


@dataclass(frozen=True)
class TraceWindow:
    """A part of a public trace on a cluster on which it queues."""

    title: str
    file: str
    format: str
    since: str  # a date, or days from the beginning
    cluster: str
    small: str  # a cluster on which two days queue, though it is empty at first

    def until(self, days: float) -> str:
        """The end of this many days."""
        if self.since.startswith("+"):
            return f"+{float(self.since) + days:g}"
        return f"{datetime.fromisoformat(self.since).replace(tzinfo=UTC) + timedelta(days=days):%Y-%m-%dT%H:%M:%S}"


DATA = {
    "philly": TraceWindow("Philly", "philly/philly_jobs.csv.gz", "philly", "2017-10-13", "52x8", "24x8"),
    "venus": TraceWindow("Venus (Helios)", "helios/venus_gpu_jobs.csv.gz", "helios", "2020-07-26", "70x8", "48x8"),
    "pai": TraceWindow("PAI, a sample", "pai/pai_tasks_sample.csv.gz", "", "+28", "56x8", "40x8"),
}
CAUSAL_TUNER, AGGREGATOR, BOTH_PARTS = "with causal tuner", "with aggregator", "with both parts"
QUARTER = "a quarter of the evaluations"
ABLATIONS: dict[str, dict[str, Any]] = {  # what differs from AutoSched here, where parts that save nothing are off
    "no generator: the hour before": {"generator": LAST_HOUR.name},  # with other run times it would be SelfTune
    CAUSAL_TUNER: {"causal": "layers"},
    AGGREGATOR: {"aggregate": True},
    BOTH_PARTS: {"causal": "layers", "aggregate": True},
    QUARTER: {},
}
OBJECTIVES = {"tiresias": "jct", "themis": "rho", "lucid": "jct"}  # of each scheduler
# A model that is fitted again on the way would be fitted in every run of a search for fixed settings
AS_GIVEN = {"lucid": "lucid:refit=0"}


@dataclass(frozen=True)
class AutoschedPart:
    """Which part of it is run."""

    data: tuple[str, ...] = tuple(DATA)
    policies: tuple[str, ...] = tuple(OBJECTIVES)
    days: float = DAYS
    repeat: int = REPEATS
    budget: int = BUDGET
    recheck: int = 0  # ms
    fixed: int = 0  # evaluations for fixed settings; 0: as many as an adapting run has
    search: str = "random"  # of all that adapt; the paper's is bluefin
    generator: str = GENERATOR
    seed: int = 0
    threads: int = 1
    cluster: str = ""  # in place of that of each trace
    ablations: bool = True  # AutoSched with other parts, too
    short: bool = False  # on the small cluster of each trace

    def machines(self, data: str) -> str:
        """In place of a trace's usual cluster; "": that one."""
        return self.cluster or (DATA[data].small if self.short else "")

    def options(self, policy: str) -> AdaptingOptions:
        """How a scheduler adapts."""
        times = SearchTimes(HOUR, self.recheck)
        return AdaptingOptions(
            AS_GIVEN.get(policy, policy), self.budget, self.search, OBJECTIVES[policy], times, self.generator,
            PREDICTOR, self.fixed, self.seed, self.threads,
        )  # fmt: skip

    def ablated(self, policy: str) -> dict[str, AdaptingOptions]:
        """AutoSched with and without parts; Lucid learns, so its jobs can't be merged."""
        options = self.options(policy)
        found = {name: dataclasses.replace(options, **more) for name, more in ABLATIONS.items()}
        found[QUARTER] = dataclasses.replace(options, budget=max(self.budget // 4, 2))
        return {name: each for name, each in found.items() if policy != "lucid" or not each.aggregate}


def trace_of(name: str, seed: int) -> tuple[Trace, bool]:
    """The public trace, or a made-up one where its file is missing, and True."""
    about = DATA[name]
    folder = data_folder(about.file)
    if folder is None:
        made = stand_in(seed)
        return dataclasses.replace(made, vc=made.vc * 0 - 1, vcs=()), True
    return traces.read(Path(folder) / about.file, about.format or None), False


def setup_of(name: str, days: float, seed: int, machines: str = "") -> tuple[Setup, bool]:
    """What is simulated, on other ``machines`` if any are named, and whether it is made up."""
    about, (trace, made_up) = DATA[name], trace_of(name, seed)
    since, until, cluster = (
        (begin_of(trace), "", "10x8") if made_up else (about.since, about.until(days), machines or about.cluster)
    )
    fits = [*OBJECTIVES]
    return set_up(trace, cluster, fits, since=since, until=until, overhead=USUAL), made_up

"""What is run: workloads x cluster sizes x schedulers, and the same under other readings, networks and settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shunter import simulation, traces
from shunter.errors import RunError
from shunter.model import Trace
from shunter.reproduce.dally.standin import standin
from shunter.reproduce.trials import Scheduler, TrialCase, TrialExtras, with_settings
from shunter.safe_files import data_folder

FILES = {
    "batch": "dally/sense_500jobs_0start0arrival-withBert.json.gz",
    "poisson": "dally/sense_500jobs_poisson_1proc-week.json.gz",
}
RACKS = (2, 4, 8, 16)
REPEATS = 10
SHOWN = 8  # racks of Tables II and III, and of the figures over time
HOUR = 3600
WORDS = {"batch": "Batch arrivals", "poisson": "Poisson arrivals"}


DALLY = Scheduler("Dally", "dally", 0)
TIRESIAS = Scheduler("Tiresias", "tiresias", 1)  # queues that end at 18,000 GPU s, as its ports have it
GANDIVA = Scheduler("Gandiva", "gandiva", 6)
MANUAL = Scheduler("Dally-manual", "dally:timers=manual", 2)
NO_WAIT = Scheduler("Dally-noWait", "dally:timers=none", 4)
CONSOLIDATED = Scheduler("Dally-fullyConsolidated", "dally:timers=infinite", 5)
PAPERS = (GANDIVA, TIRESIAS, DALLY, MANUAL, NO_WAIT, CONSOLIDATED)
OURS = Scheduler("Marshal", "marshal", 3)
UNDECLARED = Scheduler("Marshal without declared iterations", "marshal:order=attained", 3)
SCHEDULERS = (*PAPERS, OURS)
FREE_STYLES = (7, 8, 9)  # of any other
EXPLAINED = (DALLY, MANUAL, CONSOLIDATED, TIRESIAS)  # for which the reasons for waiting are recorded


@dataclass(frozen=True)
class NetworkSetting:
    """How the network is modelled."""

    title: str
    network: str
    contention: bool
    description: str


TABLE_I = NetworkSetting("Table I", "dally", False, "the network that was fitted to Table I")
WORLDS = (
    NetworkSetting(
        "Profiled network", "profiled", False, "compute as measured and links as specified, instead of Table I"
    ),
    NetworkSetting("Contention", "profiled", True, "the profiled network, and jobs that share its links"),
)


@dataclass(frozen=True)
class Reading:
    """One way to understand what the paper leaves open: settings for the policies that have them, or a network."""

    title: str
    settings: Mapping[str, object]
    only: tuple[str, ...] = ()  # the policies that it is about; none: all
    network: str = ""  # "": that of Table I
    restart: float = 0.0  # seconds that a job needs to start again; the paper neglects it
    headline: bool = False  # it stands beside the main result: what Dally is compared with is another scheduler

    def of(self, policy: str) -> str:
        """A policy's text under this reading; its own where that changes nothing."""
        asked = self.settings if not self.only or policy.partition(":")[0] in self.only else {}
        return with_settings(policy, asked)


LEASING = ("dally", "gandiva", "marshal")  # policies that always give GPUs for a time
WITH_LEASES = {"lease": HOUR, "limits": "none", "fit": "first", "spread": "list"}
SIMULATOR = {**WITH_LEASES, "ties": "assignment", "clamps": "true"}
RESTART_S = 62.0  # measured by Tiresias' authors, whose scheduler spares no job for it: min_run=0
PACKED = Reading("Dally takes GPUs of a rack from few machines", {"spread": "pack"}, ("dally",))
READINGS = (
    Reading("Tiresias without queues", {"limits": "none"}, ("tiresias",), headline=True),
    Reading("Tiresias with leases, as in the authors' simulator", WITH_LEASES, ("tiresias",), headline=True),
    Reading("the same, ties and clamps as there", SIMULATOR, ("dally", "tiresias"), headline=True),
    Reading("restarts cost 62 s", {"min_run": 0}, ("tiresias",), restart=RESTART_S, headline=True),
    Reading("restarts cost 62 s, Tiresias with leases", WITH_LEASES, ("tiresias",), restart=RESTART_S, headline=True),
    Reading("lease of 20 minutes", {"lease": 1200}, LEASING),
    Reading("lease of 2 hours", {"lease": 7200}, LEASING),
    Reading("a job that wins again keeps its GPUs", {"renewal": "keep"}, LEASING),
    Reading("in a queue of Tiresias running jobs come first", {"inside": "running"}, ("tiresias",)),
    Reading("Tiresias consolidates no job strictly", {"skewed": "tiers"}),
    Reading("Tiresias scatters jobs of low skew", {"loose": "scatter"}),
    Reading("Tiresias puts jobs of low skew in list order", {"loose": "list"}),
    Reading("Gandiva takes GPUs in list order", {"draw": "list"}),
    Reading("Gandiva never moves a running job", {"migration": "false"}, ("gandiva",)),
    PACKED,
    Reading("uneven placements charged as even ones", {}, network="dally-even"),
    Reading("waits count for 12 hours", {"history": 12}),
    Reading("waits count for 48 hours", {"history": 48}),
    Reading("timers are mean waits", {"deviations": 0}),
    Reading("timers within the bounds of the authors' simulator", {"clamps": "true"}),
    Reading("waits count for longer on smaller clusters", {"window": "size"}),
    Reading("sensitivity relative to a single GPU", {"sensitivity": "single"}),
    Reading("Dally's ties by oldest assignment", {"ties": "assignment"}, ("dally",)),
)
TIMERS_H = (0, 1, 3, 6, 12, 24, 48)  # of a machine; that of a rack is twice as long, as with 12 and 24 hours
LEASES_S = (1200, 1800, 3600, 7200, 14400)
ABLATIONS = (  # what our own policy is without its parts
    Reading("never waits for a better place", {"patience": 0}, ("marshal",)),
    Reading("does not try out places", {"probe": 0}, ("marshal",)),
    Reading("least GPU time so far first", {"order": "attained"}, ("marshal",)),
    Reading("every lease is given again", {"renewal": "again"}, ("marshal",)),
    Reading("uneven placements", {"spread": "pack"}, ("marshal",)),
    Reading("first machine that has room", {"fit": "first"}, ("marshal",)),
)
HELD_OUT = " (held out)"  # every other job: the settings of our own policy were chosen on the rest


@dataclass(frozen=True)
class Design:
    """Which part of the experiment is run."""

    workloads: tuple[str, ...] = tuple(FILES)
    racks: tuple[int, ...] = RACKS
    schedulers: tuple[Scheduler, ...] = SCHEDULERS
    repeats: int = REPEATS
    seed: int = 0

    @property
    def shown(self) -> int:
        """The cluster size that single figures show."""
        return SHOWN if SHOWN in self.racks else max(self.racks)

    @property
    def styles(self) -> dict[str, int]:
        """Colours by label."""
        return {scheduler.label: scheduler.style for scheduler in self.schedulers}

    def has(self, *wanted: Scheduler) -> bool:
        """Whether all these take part."""
        return set(wanted) <= set(self.schedulers)

    def case(self, workload: str, racks: int, policy: str, world: NetworkSetting = TABLE_I) -> TrialCase:
        """One cell."""
        text = with_settings(policy, {})
        return TrialCase(workload, f"dally-{racks}rack", text, world.network, world.contention)

    def read(self, reading: Reading, workload: str, scheduler: Scheduler, racks: int = 0) -> TrialCase:
        """A cell under another reading; the same as without where that changes nothing. 0 racks: the shown size."""
        world = dataclasses.replace(TABLE_I, network=reading.network or TABLE_I.network)
        found = self.case(workload, racks or self.shown, reading.of(scheduler.policy), world)
        return dataclasses.replace(found, restart=reading.restart)

    def readings(self) -> list[Reading]:
        """Those that change anything for the schedulers that take part."""
        plain = {s: self.case("", self.shown, s.policy) for s in self.schedulers}
        return [r for r in READINGS if any(self.read(r, "", s) != case for s, case in plain.items())]

    def timed(self, workload: str, hours: float) -> TrialCase:
        """Dally with timers of a length set by hand, on the shown size."""
        timers = {"machine_timer": hours * HOUR, "rack_timer": 2 * hours * HOUR}
        return self.case(workload, self.shown, with_settings(MANUAL.policy, timers))

    def leased(self, workload: str, scheduler: Scheduler, seconds: float) -> TrialCase:
        """A scheduler with another lease, on the shown size."""
        return self.case(workload, self.shown, with_settings(scheduler.policy, {"lease": seconds}))

    def with_leases(self) -> list[Scheduler]:
        """Schedulers whose lease is varied: one of each kind, but for Gandiva, which would take too long."""
        leased = Scheduler("Tiresias with leases", with_settings(TIRESIAS.policy, WITH_LEASES), TIRESIAS.style)
        return [leased if s == TIRESIAS else s for s in self.schedulers if s in (TIRESIAS, DALLY, OURS)]

    def cases(self) -> Iterator[TrialCase]:
        """Everything that is run; some of it more than once on the list."""
        for workload in self.workloads:
            for scheduler in self.schedulers:
                for racks in self.racks:
                    for world in (TABLE_I, *WORLDS):
                        yield self.case(workload, racks, scheduler.policy, world)
                for reading in self.readings():
                    for racks in self.racks if scheduler in (DALLY, TIRESIAS) else (self.shown,):
                        yield self.read(reading, workload, scheduler, racks)
            yield from self._varied(workload)

    def _varied(self, workload: str) -> Iterator[TrialCase]:
        """Other lengths of timers and leases, and our own policy in parts and on jobs that it was not made with."""
        if self.has(MANUAL):
            yield from (self.timed(workload, hours) for hours in TIMERS_H)
        for scheduler in self.with_leases():
            yield from (self.leased(workload, scheduler, seconds) for seconds in LEASES_S)
        if self.has(OURS, DALLY):
            compared = (OURS.policy, DALLY.policy, PACKED.of(DALLY.policy))
            yield from (self.case(workload + HELD_OUT, n, policy) for n in self.racks for policy in compared)
        if self.has(OURS, DALLY, TIRESIAS):
            for racks in self.racks:
                yield from (self.case(workload, racks, part.of(OURS.policy)) for part in ABLATIONS)
                yield from (self.case(workload, racks, UNDECLARED.policy, world) for world in WORLDS)
                for scheduler in (UNDECLARED, TIRESIAS):
                    yield self.case(workload + HELD_OUT, racks, scheduler.policy)

    @property
    def watch(self) -> TrialExtras:
        """What else is seen of the runs."""
        return TrialExtras(self.keeps_course, self.explains)

    def explains(self, case: TrialCase) -> bool:
        """Whether the reasons for waiting are recorded."""
        policies = [s.policy for s in EXPLAINED if s in self.schedulers]
        return case in [self.case(case.workload, n, policy) for policy in policies for n in self.racks]

    def keeps_course(self, case: TrialCase) -> bool:
        """Whether the page shows a run over time: all schedulers on the shown size, and Dally's timers on all."""
        sizes = {s.policy: (self.racks if s == DALLY else (self.shown,)) for s in self.schedulers}
        return case in [self.case(case.workload, n, policy) for policy, racks in sizes.items() for n in racks]


def chosen(policies: Sequence[str]) -> tuple[Scheduler, ...]:
    """Schedulers by the paper's names, or any policies by their texts; if none is given the paper's and ours."""
    known = {name.lower(): s for s in reversed(SCHEDULERS) for name in (s.label, s.policy)}
    styles = iter(FREE_STYLES * len(policies))
    found = [known.get(text.lower()) or Scheduler(text, _known(text), next(styles)) for text in policies]
    for scheduler in found:
        if found.count(scheduler) > 1:
            raise RunError(f"scheduler '{scheduler.label}' is given more than once; leave one out")
    return tuple(found) or SCHEDULERS


def _known(text: str) -> str:
    simulation.resolve(text)  # a mistake in it is reported at once
    return text


def check_racks(racks: Sequence[int]) -> tuple[int, ...]:
    """The cluster sizes, in order; there is a ready-made cluster for each that the paper has."""
    for size in racks:
        if size not in RACKS:
            raise RunError(
                f"there is no cluster of {size} racks in the paper; choose from {', '.join(map(str, RACKS))}"
            )
    return tuple(sorted(set(racks))) or RACKS


def workloads(names: Sequence[str]) -> tuple[dict[str, Trace], bool]:
    """The published workloads, whole and their held-out half; or, where files are missing, stand-ins, and True."""
    folder = data_folder(*(FILES[name] for name in names))
    found = {name: traces.read(folder / FILES[name], "dally") if folder else standin(name) for name in names}
    halves = {name + HELD_OUT: trace.select(np.arange(len(trace)) % 2 == 1) for name, trace in found.items()}
    return found | halves, folder is None

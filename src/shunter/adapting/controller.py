"""The loop of a scheduler that adapts: every hour it searches on an outlook and takes the best settings found.

In between, it looks again every few minutes and switches early where that is worth it.  A new configuration takes
over the memory of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.adapting.causal import CausalModel
from shunter.adapting.objectives import BETWEEN, jct_of, rho_of
from shunter.adapting.outlooks import OutlookSource
from shunter.adapting.rejecting import TriedSettings, coordinates
from shunter.adapting.searching import FoundSettings, SettingSpace, search_on
from shunter.generating.known_jobs import HOUR
from shunter.protocols import Memory
from shunter.report.finish_fairness import share_of_fair
from shunter.sim.engine import Simulator
from shunter.world import F64

EARLY = 1.1  # times as good must settings be to switch before the hour is over


@dataclass(frozen=True)
class SearchTimes:
    """When it searches."""

    every: int = HOUR  # ms
    recheck: int = 0  # ms between looks in between; 0: none
    hourly_gain: float = 1.0  # times as good must settings be to switch at the end of an hour

    @property
    def step(self) -> int:
        """From one search to the next (ms)."""
        return self.recheck or self.every


@dataclass(frozen=True)
class Switch:
    """A change of settings."""

    at: int  # ms
    before: str
    policy: str
    gain: float  # how many times as good as the settings before, on the same outlook; infinite: no ratio says it
    early: bool

    def as_dict(self, begin: int) -> dict[str, Any]:
        """For scripts, times in hours from ``begin``."""
        hours = (self.at - begin) / HOUR
        gain = self.gain if math.isfinite(self.gain) else None
        return {"hour": hours, "before": self.before, "policy": self.policy, "gain": gain, "early": self.early}


@dataclass(frozen=True, eq=False)
class AdaptedRun:
    """What came of a run."""

    policy: str  # at the beginning
    switches: tuple[Switch, ...]
    searches: tuple[FoundSettings, ...]
    jct: F64  # seconds, per job
    rho: F64
    preemptions: int
    digest: str
    causal: CausalModel | None = None  # what was learned from all evaluations
    unplayed: int = 0  # generated jobs that were left out, because none of the run asks for the same

    @property
    def evaluations(self) -> int:
        """Of all searches."""
        return sum(each.evaluations for each in self.searches)

    @property
    def fair(self) -> float:
        """The share of jobs with rho of at most 1."""
        return share_of_fair(self.rho)


@dataclass
class AdaptingScheduler:
    """A policy whose settings change; ``run`` plays all jobs of a simulator."""

    source: OutlookSource
    space: SettingSpace
    times: SearchTimes = field(default_factory=SearchTimes)
    anchors: Sequence[str] = ()  # settings that every search tries
    seed: int = 0
    tried: TriedSettings = field(default_factory=TriedSettings)  # what a causal model learns from

    def __post_init__(self) -> None:
        self.tried.method = self.space.causal or self.tried.method

    def run(
        self, simulator: Simulator, policy: str, memory: Memory, progress: Callable[[int], None] = lambda ms: None
    ) -> AdaptedRun:
        """Play all jobs; settings change until the last one has arrived."""
        first, text, made = simulator.now, policy, registry.policy(policy)
        switches: list[Switch] = []
        searches: list[FoundSettings] = []
        for at, early in self._instants(simulator):
            memory = simulator.run(made, until=at, memory=memory)
            found = self._searched(simulator, at, text, memory)
            searches.append(found)
            gain = found.present / found.value if found.value else math.inf
            if found.policy != text and gain >= (EARLY if early else self.times.hourly_gain):
                switches.append(Switch(at, text, found.policy, gain, early))
                text, made = found.policy, registry.policy(found.policy)
                memory = made.start(simulator.cluster, memory)
            progress(at - first)
        simulator.run(made, memory=memory)
        preemptions = int(simulator.world.jobs[w.PREEMPTIONS].sum())
        done = (jct_of(simulator), rho_of(simulator), preemptions, simulator.digest)
        return AdaptedRun(policy, tuple(switches), tuple(searches), *done, self._causal())

    def _causal(self) -> CausalModel | None:
        return self.tried.model(coordinates(self.space.spaces[0]), BETWEEN) if self.space.causal else None

    def _instants(self, simulator: Simulator) -> list[tuple[int, bool]]:
        """When it searches, and whether that is before the end of an hour."""
        begin, end, times = int(simulator.trace.submit[0]), int(simulator.trace.submit[-1]), self.times
        return [(begin + ago, bool(ago % times.every)) for ago in range(times.step, end - begin, times.step)]

    def _searched(self, simulator: Simulator, at: int, text: str, memory: Memory) -> FoundSettings:
        outlook = self.source.outlook(simulator, at)
        candidates = list(dict.fromkeys((text, *self.anchors)))
        seed = int(np.random.SeedSequence([self.seed, at // 1000]).generate_state(1)[0])
        tried = self.tried if self.space.causal else None
        return search_on(outlook, at, memory, self.space, candidates, seed, tried)


def plain_run(simulator: Simulator, policy: str, memory: Memory) -> AdaptedRun:
    """The same without any change of settings."""
    simulator.run(registry.policy(policy), memory=memory)
    preemptions = int(simulator.world.jobs[w.PREEMPTIONS].sum())
    done = (jct_of(simulator), rho_of(simulator), preemptions, simulator.digest)
    return AdaptedRun(policy, (), (), *done)

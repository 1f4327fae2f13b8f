"""What a sweep will cost, estimated from short runs before anything of it starts."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from shunter.setup import Setup
from shunter.simulation import NamedPolicy, run
from shunter.sweeps.places import Ground, Places
from shunter.sweeps.plan import Place, RunSpec, SweepPlan
from shunter.sweeps.running import BATCH_S
from shunter.sweeps.work import numbers

SHORT = 500  # jobs of a short run
MOST_SHORT = 24  # short runs; of more kinds some are taken evenly
MOST_DRAWN = 4  # places whose jobs are drawn
START_S = 1.2  # CPU time of a process before its first run, and to load kernels for it (benchmarks.sweeping)
ROW_BYTES = 600  # of one run in a file, and ...
FILE_BYTES = 30_000  # ... what a file has besides, as 1,200 runs in 66 files took

Kind = TypeVar("Kind", bound=Hashable)


@dataclass(frozen=True)
class Cost:
    """What the runs that are to be done take."""

    runs: int = 0
    simulating_s: float = 0.0  # CPU time of runs, ...
    drawing_s: float = 0.0  # ... of making jobs again for other seeds, once for all policies ...
    starting_s: float = 0.0  # ... and of starting workers
    disk_bytes: int = 0
    tried: int = 0  # short runs that this is estimated from
    kinds: int = 0  # combinations of place and policy

    @property
    def cpu_s(self) -> float:
        """All of it."""
        return self.simulating_s + self.drawing_s + self.starting_s


def estimate(
    plan: SweepPlan,
    keys: Sequence[str],
    there: set[str],
    ground: Ground,
    workers: int,
    progress: Callable[[int, int], None],
) -> Cost:
    """Run the first jobs of some kinds of runs, draw some jobs, and scale both."""
    todo = [run for run, key in zip(plan.runs, keys, strict=True) if key not in there]
    if not todo:
        return Cost()
    kinds = Counter((run.place, run.policy) for run in todo)
    places, tried = Places(ground), _some(kinds, MOST_SHORT)
    seconds = {}
    for number, kind in enumerate(tried):
        seconds[kind] = _cpu_of(places.setup(kind[0]), places.policy(*kind))
        progress(number + 1, len(tried))
    simulating = _scaled(kinds, seconds)
    files = 1 + min(len(todo), simulating / BATCH_S)
    disk = round(len(todo) * ROW_BYTES + files * FILE_BYTES)
    starting = min(workers, len(todo)) * START_S
    return Cost(len(todo), simulating, _drawing_s(todo, places), starting, disk, len(tried), len(kinds))


def _some(kinds: Mapping[Kind, int], most: int) -> list[Kind]:
    """Up to this many of them, taken evenly."""
    return [list(kinds)[at] for at in np.unique(np.linspace(0, len(kinds) - 1, most).astype(int))]


def _scaled(kinds: Counter[Any], seconds: Mapping[Any, float]) -> float:
    """What all take, if others take as long as those that were tried."""
    return sum(kinds[kind] * each for kind, each in seconds.items()) * kinds.total() / sum(kinds[k] for k in seconds)


def _drawing_s(todo: Sequence[RunSpec], places: Places) -> float:
    """CPU seconds to make the jobs of all seeds but 0, which is the trace itself."""
    draws: Counter[Place] = Counter(place for place, _ in {(run.place, run.seed) for run in todo if run.seed})
    if not draws:
        return 0.0
    return _scaled(draws, {place: _drawn_in(places.setup(place)) for place in _some(draws, MOST_DRAWN)})


def _drawn_in(setup: Setup) -> float:
    before = time.process_time()
    setup.repeat(0, 1)
    return time.process_time() - before


def _cpu_of(setup: Setup, policy: NamedPolicy) -> float:
    """CPU seconds of a run, from one of its first jobs; kernels are loaded before."""
    first = setup.trace.select(np.arange(min(SHORT, len(setup.trace))))
    short = dataclasses.replace(setup, trace=first)
    numbers(run(short, policy))
    before = time.process_time()
    numbers(run(short, policy))
    return (time.process_time() - before) * len(setup.trace) / len(first)

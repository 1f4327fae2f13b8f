"""What a sweep will cost, estimated from short runs before anything of it starts."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shunter.setup import Setup
from shunter.simulation import NamedPolicy, run
from shunter.sweeps.places import Ground, Places
from shunter.sweeps.plan import SweepPlan
from shunter.sweeps.running import BATCH_S
from shunter.sweeps.work import numbers

SHORT = 500  # jobs of a short run
MOST_SHORT = 24  # short runs; of more kinds some are taken evenly
ROW_BYTES = 600  # of one run in a file, and ...
FILE_BYTES = 30_000  # ... what a file has besides, as 1,200 runs in 66 files took


@dataclass(frozen=True)
class Cost:
    """What the runs that are to be done take."""

    runs: int
    cpu_s: float
    disk_bytes: int
    tried: int  # short runs that this is estimated from
    kinds: int  # combinations of place and policy


def estimate(
    plan: SweepPlan, keys: Sequence[str], there: set[str], ground: Ground, progress: Callable[[int, int], None]
) -> Cost:
    """Run the first jobs of some kinds of runs, and scale by the number of jobs."""
    kinds = Counter((run.place, run.policy) for run, key in zip(plan.runs, keys, strict=True) if key not in there)
    if not kinds:
        return Cost(0, 0.0, 0, 0, 0)
    tried = [list(kinds)[at] for at in np.unique(np.linspace(0, len(kinds) - 1, MOST_SHORT).astype(int))]
    places, seconds = Places(ground), 0.0
    for number, kind in enumerate(tried):
        seconds += kinds[kind] * _cpu_of(places.setup(kind[0]), places.policy(*kind))
        progress(number + 1, len(tried))
    runs = kinds.total()
    cpu = seconds * runs / sum(kinds[kind] for kind in tried)
    files = 1 + min(runs, cpu / BATCH_S)
    return Cost(runs, cpu, round(runs * ROW_BYTES + files * FILE_BYTES), len(tried), len(kinds))


def _cpu_of(setup: Setup, policy: NamedPolicy) -> float:
    """CPU seconds of a run, from one of its first jobs; kernels are loaded before."""
    first = setup.trace.select(np.arange(min(SHORT, len(setup.trace))))
    short = dataclasses.replace(setup, trace=first)
    numbers(run(short, policy))
    before = time.process_time()
    numbers(run(short, policy))
    return (time.process_time() - before) * len(setup.trace) / len(first)

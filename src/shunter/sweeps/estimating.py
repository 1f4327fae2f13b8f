"""What a sweep will cost, estimated from short runs before anything of it starts."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shunter.sweeps.places import Ground, Places
from shunter.sweeps.plan import Plan
from shunter.sweeps.store import frame_of
from shunter.sweeps.work import about, numbers

SHORT = 500  # jobs of a short run
MOST_SHORT = 24  # short runs; of more kinds some are taken evenly
BYTES_OF_FILE = 30_000  # that a file of runs takes besides its rows


@dataclass(frozen=True)
class Cost:
    """What the runs that are to be done take."""

    runs: int
    cpu_s: float
    disk_bytes: int
    tried: int  # short runs that this is estimated from
    kinds: int  # combinations of place and policy


def estimate(
    plan: Plan, keys: Sequence[str], there: set[str], ground: Ground, progress: Callable[[int, int], None]
) -> Cost:
    """Run the first jobs of some kinds of runs, and scale by the number of jobs."""
    todo = [run for run, key in zip(plan.runs, keys, strict=True) if key not in there]
    kinds = Counter((run.place, run.policy) for run in todo)
    picked = [list(kinds)[at] for at in np.unique(np.linspace(0, max(len(kinds) - 1, 0), MOST_SHORT).astype(int))]
    places, seconds, rows = Places(ground), 0.0, []
    tried = picked if kinds else []
    for number, (place, policy) in enumerate(tried):
        setup, chosen = places.setup(place), places.policy(place, policy)
        jobs = len(setup.trace)
        short = dataclasses.replace(setup, trace=setup.trace.select(np.arange(min(SHORT, jobs))))
        seconds += kinds[place, policy] * _timed(short, chosen) * jobs / len(short.trace)
        progress(number + 1, len(tried))
    counted = sum(kinds[kind] for kind in tried)
    cpu = seconds * len(todo) / counted if counted else 0.0
    rows = [about(todo[0], keys[0], ground)] if todo else []
    bytes_of_row = frame_of(rows).estimated_size() if rows else 0
    files = max(1.0, cpu / 2.0) if todo else 0
    return Cost(len(todo), cpu, round(len(todo) * bytes_of_row / 2 + files * BYTES_OF_FILE), len(tried), len(kinds))


def _timed(short: object, policy: object) -> float:
    """CPU seconds of a short run, its kernels loaded before."""
    from shunter.simulation import run

    numbers(run(short, policy))  # type: ignore[arg-type]
    before = time.process_time()
    numbers(run(short, policy))  # type: ignore[arg-type]
    return time.process_time() - before

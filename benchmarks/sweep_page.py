"""How long a sweep of 100,000 runs takes to open, and how large its page is: ``python -m benchmarks.sweep_page``."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shunter.sweeps.analysis import rank
from shunter.sweeps.page import report
from shunter.sweeps.store import Store
from shunter.sweeps.work import METRICS, Row

BATCH = 500  # runs per file


class Shape(NamedTuple):
    """The sides of a sweep."""

    policies: int  # names
    settings: int  # of two parameters each, so that each name has the square of this
    traces: int
    loads: int
    seeds: int

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return self.policies * self.settings**2 * self.traces * self.loads * self.seeds


SHAPES = {
    "12 policies, 100 traces": Shape(12, 1, 100, 5, 17),
    "400 settings": Shape(4, 10, 5, 5, 10),
    "a year of days": Shape(7, 2, 365, 1, 10),
}


def rows(shape: Shape) -> Iterator[Row]:
    """Runs that were never run, with numbers of a likely size."""
    draw = np.random.default_rng(0)
    axes = (
        range(shape.traces),
        range(shape.loads),
        range(shape.policies),
        range(shape.settings),
        range(shape.settings),
    )
    for trace, load, policy, first, second in itertools.product(*axes):
        text = f"policy{policy}:first={first},second={second}" if shape.settings > 1 else f"policy{policy}"
        settings = json.dumps({"first": str(first), "second": str(second), "third": "0"})
        level = 3600 * (1 + load) * (1 + 0.1 * policy + 0.05 * first + 0.02 * second)
        for seed in range(shape.seeds):
            values = level * draw.lognormal(0, 0.3, len(METRICS))
            yield {
                "key": f"{trace}.{load}.{text}.{seed}", "trace": f"trace{trace}", "window": "", "cluster": "64x8",
                "load": 0.5 + 0.2 * load, "network": "", "overhead": "usual", "policy": text, "settings": settings,
                "seed": seed, "base_seed": 0, "version": "0.1.0+made-up", "host": "host", "digest": f"{seed:032x}",
                "begun": 1e9 + seed, "seconds": 1.0, "cpu_s": 1.0, "engine_s": 0.5,
                **dict(zip(METRICS, values.tolist(), strict=True)),
            }  # fmt: skip


def filled(folder: Path, shape: Shape) -> Store:
    """A store with these runs."""
    store = Store.open(folder, "0.1.0")
    some = rows(shape)
    while batch := list(itertools.islice(some, BATCH)):
        store.add(batch)
    return store


def main() -> None:
    """Print a row per shape: what is on disk, seconds to read, rank and report, and the size of the page."""
    print_row("sweep", "runs", "disk MB", "read s", "rank s", "page s", "page MB")
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            store = filled(Path(folder) / "runs", shape)
            disk = sum(file.stat().st_size for file in store.files()) / 1e6
            times = [time.perf_counter()]
            runs = store.read()
            times.append(time.perf_counter())
            rank(runs)
            times.append(time.perf_counter())
            page = report(runs, store="runs")
            times.append(time.perf_counter())
        print_row(
            name,
            f"{runs.height:,}",
            f"{disk:.0f}",
            *(f"{each:.1f}" for each in np.diff(times)),
            f"{len(page.encode()) / 1e6:.2f}",
        )


def print_row(name: str, *cells: str) -> None:
    """One line of the table."""
    sys.stdout.write(f"{name:26}" + "".join(f"{cell:>10}" for cell in cells) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

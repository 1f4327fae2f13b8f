"""What it is worth that jobs can be stopped: ``python -m benchmarks.checkpointing [TRACE ...]``.

Windows of four published traces are run under ``saf:backfill=easy`` and, with more and more jobs that may be stopped,
under ``srsf:backfill=easy``, or what ``--policy`` names.  Both have the same jobs, machines, load and estimates.  Rows
are changes of the mean wait over all windows; a wait counts checkpoints, restarts and work done again.  Each share is
drawn several times.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster
from shunter.clusters import load as load_cluster
from shunter.model import Trace
from shunter.report.metrics import wait_ms
from shunter.safe_files import data_folder
from shunter.seeding import rng
from shunter.setup import read_trace, set_up
from shunter.simulation import run
from shunter.world import F64

SHARES = ("none", "10%", "25%", "50%", "all")
COSTS = ("30,30", "120,120")
DRAWS = 3  # of each share
RESAMPLES = 10_000  # of the windows
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Source:
    """A trace, and how it is cut and loaded."""

    file: str
    days: int  # of a window
    load: float  # at which jobs queue


SOURCES = {
    "Philly": Source("philly/philly_jobs.csv.gz", 14, 0.7),
    "Venus": Source("helios/venus_gpu_jobs.csv.gz", 14, 0.8),
    "AAIC": Source("aaic/aaicwl-201807-201812.csv.gz", 14, 0.7),
    "PAI": Source("pai/pai_tasks_sample.csv.gz", 7, 0.8),
}


@dataclass(frozen=True)
class Outcome:
    """Sums over the jobs of each window."""

    wait_s: F64
    jobs: F64
    stops: F64


def windows(trace: Trace, days: int) -> list[Trace]:
    """Whole windows of so many days, as traces of their own."""
    at = (trace.submit - trace.submit[0]) // (days * DAY_MS)
    whole = int((trace.submit[-1] - trace.submit[0]) // (days * DAY_MS))
    return [trace.select(at == number) for number in range(max(whole, 1))]


def outcome(parts: list[Trace], machines: Cluster, load: float, policy: str, overhead: str, which: str) -> Outcome:
    """Run a policy on each window."""
    rows = []
    for part in parts:
        setup = set_up(part, machines, ["saf"], overhead=overhead, load=load, checkpointable=which)
        table = run(setup, policy).table
        rows.append((wait_ms(table).sum() / 1000, len(setup.trace), table[w.PREEMPTIONS].sum()))
    return Outcome(*np.array(rows, np.float64).T)


def change(before: Outcome, after: list[Outcome]) -> tuple[float, float, float]:
    """The relative change of the mean wait over all windows and draws, and its 95 % interval over windows."""
    waits = np.mean([one.wait_s for one in after], axis=0)
    drawn = rng(0, "windows").integers(0, len(waits), (RESAMPLES, len(waits)))
    changes = waits[drawn].sum(axis=1) / np.maximum(before.wait_s[drawn].sum(axis=1), 1e-9) - 1
    low, high = np.percentile(changes, (2.5, 97.5))
    return float(waits.sum() / before.wait_s.sum() - 1), float(low), float(high)


def measured(name: str, trace: Trace, policy: str, estimate: str) -> list[str]:
    """The rows of one trace."""
    source, setting = SOURCES[name], f"backfill=easy,estimate={estimate}"
    machines, parts = load_cluster("auto", trace), windows(trace, source.days)
    before = outcome(parts, machines, source.load, f"saf:{setting}", "0", "")
    mean = before.wait_s.sum() / before.jobs.sum()
    lines = []
    for which in SHARES:
        draws = [f"{which},seed={seed}" for seed in range(DRAWS)] if which.endswith("%") else [which]
        cells = []
        for costs in COSTS:
            after = [outcome(parts, machines, source.load, f"{policy}:{setting}", costs, draw) for draw in draws]
            value, low, high = change(before, after)
            stops = sum(one.stops.sum() for one in after) / sum(one.jobs.sum() for one in after)
            cells += [f"{value:+.0%} ({low:+.0%} .. {high:+.0%})", f"{stops:.2f}"]
        about = f"{name} ({len(parts)} windows of {source.days} days, {machines.gpus} GPUs, load {source.load:g})"
        lines.append(f"| {about} | {mean / 60:,.0f} min | {which} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Print the table, one trace after the other."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("traces", nargs="*", default=list(SOURCES), help="some of " + ", ".join(SOURCES))
    asked.add_argument("--policy", default="srsf", help="which stops jobs: srsf, express, ...")
    asked.add_argument("--estimate", default="history", help="of both policies")
    given = asked.parse_args()
    folder = data_folder(*(SOURCES[name].file for name in given.traces))
    if folder is None:
        raise SystemExit("the published traces are needed; SHUNTER_DATA names their folder")
    head = "| trace | mean wait of saf | may be stopped | 30 + 30 s | stops per job | 120 + 120 s | stops per job |"
    sys.stdout.write(head + "\n|---|---|---|---|---|---|---|\n")
    for name in given.traces:
        for line in measured(name, read_trace(str(folder / SOURCES[name].file)), given.policy, given.estimate):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

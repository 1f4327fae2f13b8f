"""How often the 95 % intervals of a comparison hold the mean over many seeds: ``python -m benchmarks.coverage``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from shunter.report.bootstrap import draws_of, mean_difference
from shunter.simulation import simulate
from shunter.world import F64

POLICIES = ("fifo", "fifo:backfill=easy", "las", "saf:backfill=easy")
TRACES = ((1000, 1.0), (1000, 1.2), (2000, 0.9))  # jobs, load
SEEDS = 100


def completion_times(jobs: int, load: float, seed: int) -> list[F64]:
    """The completion times (s) under each policy on 64 GPUs."""
    text = f"synthetic:jobs={jobs},gpus=64,load={load},seed={seed}"
    return [simulate(text, "8x8", policy).jobs["jct"].to_numpy() for policy in POLICIES]


def held(first: Sequence[F64], other: Sequence[F64], repeats: int) -> float:
    """Which share of intervals, each of this many repeats, holds the mean difference over all seeds."""
    truth = float(np.mean([(b - a).mean() for a, b in zip(first, other, strict=True)]))
    groups = [slice(at, at + repeats) for at in range(0, len(first) - repeats + 1, repeats)]
    draws = draws_of([len(one) for one in first[:repeats]], redrawn=True)
    found = [mean_difference(first[group], other[group], draws) for group in groups]
    return float(np.mean([one["low_s"] <= truth <= one["high_s"] for one in found]))


def main() -> None:
    """Print a row per trace and policy."""
    sys.stdout.write("| jobs | load | policy against fifo | one run | 5 repeats |\n|---|---|---|---|---|\n")
    for jobs, load in TRACES:
        runs = [completion_times(jobs, load, seed) for seed in range(SEEDS)]
        columns = list(zip(*runs, strict=True))
        for policy, other in zip(POLICIES[1:], columns[1:], strict=True):
            shares = (held(columns[0], other, repeats) for repeats in (1, 5))
            cells = " | ".join(f"{100 * share:.0f} %" for share in shares)
            sys.stdout.write(f"| {jobs:,} | {load:g} | `{policy}` | {cells} |\n")


if __name__ == "__main__":
    main()

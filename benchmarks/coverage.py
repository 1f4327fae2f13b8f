"""How often the 95 % intervals of a comparison hold the mean over many seeds: ``python -m benchmarks.coverage``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shunter.report.bootstrap import draws_of, mean_difference
from shunter.simulation import simulate
from shunter.world import F64

POLICIES = ("fifo", "fifo:backfill=easy", "las", "saf:backfill=easy", "easypp")
PAIRS = ((0, 1), (0, 2), (0, 3), (3, 4))  # of these policies
TRACES = ((1000, 1.0), (1000, 1.2), (2000, 0.9))  # jobs, load
REPEATS = (1, 5, 10)


class Shares(NamedTuple):
    """Of intervals: how many hold the mean over all seeds, and how many leave out 0 on the wrong side of it."""

    held: float
    wrong: float


def completion_times(jobs: int, load: float, seed: int) -> list[F64]:
    """The completion times (s) under each policy on 64 GPUs."""
    text = f"synthetic:jobs={jobs},gpus=64,load={load},seed={seed}"
    return [simulate(text, "8x8", policy).jobs["jct"].to_numpy() for policy in POLICIES]


def shares(first: Sequence[F64], other: Sequence[F64], repeats: int) -> Shares:
    """What becomes of intervals of this many repeats each, one after the other."""
    truth = float(np.mean([(b - a).mean() for a, b in zip(first, other, strict=True)]))
    groups = [slice(at, at + repeats) for at in range(0, len(first) - repeats + 1, repeats)]
    draws = draws_of([len(one) for one in first[:repeats]], redrawn=True)
    found = [mean_difference(first[group], other[group], draws) for group in groups]
    held = [one["low_s"] <= truth <= one["high_s"] for one in found]
    wrong = [one["high_s"] < 0 if truth > 0 else one["low_s"] > 0 for one in found]
    return Shares(float(np.mean(held)), float(np.mean(wrong)))


def main() -> None:
    """Print a row per trace and pair of policies: intervals that hold, and those that are on the wrong side."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__.partition(":")[0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=400)
    chosen = parser.parse_args()
    sys.stdout.write("| jobs | load | policies | one run | 5 repeats | 10 repeats |\n|---|---|---|---|---|---|\n")
    for jobs, load in TRACES:
        runs = [completion_times(jobs, load, chosen.first_seed + number) for number in range(chosen.seeds)]
        columns = list(zip(*runs, strict=True))
        for one, other in PAIRS:
            found = (shares(columns[one], columns[other], repeats) for repeats in REPEATS)
            cells = " | ".join(f"{100 * share.held:.0f} % ({100 * share.wrong:.0f})" for share in found)
            pair = f"`{POLICIES[one]}`, `{POLICIES[other]}`"
            sys.stdout.write(f"| {jobs:,} | {load:g} | {pair} | {cells} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

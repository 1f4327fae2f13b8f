"""How far too long a day must be to count at its end: ``python -m benchmarks.at_once [TRACE ...] [--seed N ...]``.

On every two weeks of ``benchmarks.autopilot_weeks`` the candidate that autopilots prefer runs without a guard.  Five
shadows of the site's policy judge each day when it ends, and a day later, when more run times are known.  A line is a
rule: the allowed excess counts a day later, and so many times as much at once.  Of each are printed the days that were
in truth too long, how many of these it misses, and how many days it takes for too long that were not.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

import numpy as np

from benchmarks.autopilot_bounds import AIM, BASE
from benchmarks.autopilot_weeks import SITES, Terms, Window, all_windows, setup_of
from benchmarks.judged_later import judged
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.outcome import ReplayOptions
from shunter.adapting.autopilot.replay import PilotReplay
from shunter.processes import run_tasks, usable_cores
from shunter.world import F64

TIMES = (1.0, 2.0, 3.0, 4.0, 6.0, math.inf)


def days_of(_: None, window: Window, __: Any) -> F64:
    """Each day over the longest of its shadows, a row each: in truth, as judged at its end, and a day later."""
    candidates = Candidates.of((), BASE)
    setup = setup_of(window, Terms(1.0, 1, "none"), candidates.first)
    true, seen = judged(PilotReplay(setup, ReplayOptions(candidates)), candidates.preferred, {"a guess": 1})
    found = seen["a guess"]
    return np.stack([true[:-1], np.diag(found)[:-1], np.diag(found, -1)])


def line(days: list[F64], times: float) -> str:
    """What a rule finds."""
    true, at_end, later = np.concatenate(days, axis=1)
    bad, taken = true > AIM, (at_end > 1 + times * (AIM - 1)) | (later > AIM)
    name = "never" if math.isinf(times) else f"beyond {1 + times * (AIM - 1):.2f}"
    return f"| {name} | {len(true)} | {bad.sum()} | {(bad & ~taken).sum()} | {(taken & ~bad).sum()} |"


def main(*words: str) -> None:
    """A row per rule."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("traces", nargs="*", default=[*SITES], metavar="TRACE", help=", ".join((*SITES, "twins")))
    asked.add_argument(
        "--seed", type=int, nargs="+", default=[1], metavar="N", help="of each twin this one and the next two"
    )
    options = asked.parse_args(words)
    weeks = all_windows(options.traces, options.seed)
    days = run_tasks(days_of, None, weeks, [1] * len(weeks), usable_cores(), lambda done, total: None)
    print("| counts at its end | days | too long | missed | falsely taken |", "|---" * 5 + "|", sep="\n")  # noqa: T201
    for times in TIMES:
        print(line(days, times))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

"""How much of an autopilot's first aim is chance: ``python -m benchmarks.chance_of_aims [TRACE ...]``.

On every two weeks of ``benchmarks.autopilot_weeks``, ``saf:backfill=easy`` runs on copies of the jobs with run times
1 % apart (``--copies``, 20).  Copies differ by chance alone.  So a copy stands for an autopilot that is as good as
Fixed, and decides otherwise from the beginning; one that seldom decides otherwise is left to chance less.  A row shows
the least and the greatest mean JCT, its deviation, and how often a copy is less than 0.98 times as good as another.

The last lines: on how many windows such an autopilot can be expected to reach 0.98, and how likely it does on all, if
each window is judged by one run, or by the mean of several copies.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from benchmarks.autopilot_weeks import BASE, SITES, Terms, Window, all_windows, setup_of
from shunter import registry
from shunter.adapting.autopilot.candidates import USUAL, Candidates
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.autopilot.outcome import AIM_FIXED
from shunter.adapting.controller import plain_run
from shunter.processes import run_tasks, usable_cores
from shunter.report.terminal.tables import duration
from shunter.seeding import rng
from shunter.simulation import Draw, simulator_for
from shunter.world import F64

CHOICE = USUAL[0]
JUDGED_BY = (1, 5, 10, 20)  # copies
DRAWS = 10_000


class Chance(NamedTuple):
    """The mean JCT of each copy of a window, in seconds."""

    window: Window
    means: F64

    def missed(self, runs: int = 1) -> float:
        """How often the mean of some copies is less than 0.98 times as good as that of others."""
        if runs == 1:
            ratios = self.means[:, None] / self.means[None, :]  # of a copy as Fixed, over one as the autopilot
            return float((ratios[~np.eye(len(self.means), dtype=np.bool_)] < AIM_FIXED).mean())
        draws = rng(0, f"chance {self.window}")
        fixed, pilot = (draws.choice(self.means, (DRAWS, runs)).mean(axis=1) for _ in range(2))
        return float((fixed / pilot < AIM_FIXED).mean())

    def line(self) -> str:
        """In Markdown."""
        spread = float(np.log(self.means).std(ddof=1))
        cells = [f"{self.window.site} from {self.window.since}", duration(self.means.min()), duration(self.means.max())]
        return "| " + " | ".join([*cells, f"{100 * spread:.1f} %", f"{100 * self.missed():.0f} %"]) + " |"


def played(copies: int, window: Window, _: Any) -> Chance:
    """All copies of a window."""
    setup = setup_of(window, Terms(1.0, copies, "none"), Candidates.of((), BASE).first)
    first = simulator_for(Draw(setup), registry.policy(CHOICE))[0]
    twins = [first.fork_with(near_times(first.durations, first.trace.limit, copy)) for copy in range(copies)]
    runs = [plain_run(twin, CHOICE, registry.policy(CHOICE).start(setup.cluster)) for twin in twins]
    return Chance(window, np.array([np.nanmean(run.jct) for run in runs]))


def main(*words: str) -> None:
    """A row per window."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("traces", nargs="*", default=[*SITES], metavar="TRACE", help=", ".join((*SITES, "twins")))
    asked.add_argument("--seed", type=int, nargs="+", default=[1], metavar="N", help="of each twin, and the next two")
    asked.add_argument("--copies", type=int, default=20, metavar="N")
    options = asked.parse_args(words)
    weeks = all_windows(options.traces, options.seed)
    rows = run_tasks(played, options.copies, weeks, [1] * len(weeks), usable_cores(), lambda done, total: None)
    print("| two weeks | mean JCT, least | greatest | deviation | less than 0.98 times as good as another |")  # noqa: T201
    print("|---" * 5 + "|", *(row.line() for row in rows), sep="\n")  # noqa: T201
    for runs in JUDGED_BY:
        reached = [1 - row.missed(runs) for row in rows]
        by = f"the mean of {runs} copies" if runs > 1 else "one run"
        print(  # noqa: T201
            f"by {by}: one as good as Fixed can be expected to reach {AIM_FIXED:g} on {sum(reached):.1f} of {len(rows)}"
            f" windows, and reaches it on all in {100 * math.prod(reached):.2g} % of cases"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

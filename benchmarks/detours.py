"""Whether detours help: ``python -m benchmarks.detours [TRACE ...] [--look 3] [--copies N] [--always]``.

On every two weeks of ``benchmarks.autopilot_weeks``, ``saf:backfill=easy`` runs alone, and with detours from it: every
few hours, ``benchmarks.looking_ahead`` tries other policies from the present queue.  A row shows the mean JCT of the
choice, how many times as good it is with detours, the looks, the detours made, and the gain that the detours found
would have brought on the jobs that came, with how many of them are judged.  ``--always`` makes every detour that is
found, even if the last ones would not have helped.  With ``--copies``, a row is the mean of runs with run times 1 %
apart.  No job may be stopped.  Intervals are 95 %, over the windows.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.autopilot_weeks import BASE, SITES, Terms, Window, all_windows, setup_of
from benchmarks.looking_ahead import Lookout
from shunter import registry
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import jct_of
from shunter.generating.known_jobs import HOUR
from shunter.processes import run_tasks, usable_cores
from shunter.report.bootstrap import estimate, means_of_repeats
from shunter.report.terminal.tables import duration
from shunter.setup import Setup
from shunter.sim.engine import Simulator
from shunter.simulation import Draw, simulator_for


class DetourTerms(NamedTuple):
    """How all windows are run."""

    look: float  # hours
    copies: int
    always: bool


class Row(NamedTuple):
    """A window."""

    window: Window
    alone: list[float]  # mean JCT in seconds of the choice, by copy
    led: list[float]  # and with detours
    looks: int
    detours: int
    gains: list[float]  # of what was found, as logarithms

    @property
    def over(self) -> float:
        """How many times as good it is with detours."""
        return float(np.exp(np.mean(np.log(np.array(self.alone) / np.array(self.led)))))

    @property
    def about(self) -> str:
        """The window, in words."""
        return f"{self.window.site} from {self.window.since}" + f", seed {self.window.seed}" * bool(self.window.seed)

    def line(self) -> str:
        """In Markdown."""
        found = f"{math.exp(float(np.mean(self.gains))):.3f} ({len(self.gains)})" if self.gains else ""
        cells = [self.about, duration(float(np.mean(self.alone)))]
        return "| " + " | ".join([*cells, f"{self.over:.3f}", f"{self.looks}", f"{self.detours}", found]) + " |"


def studied(terms: DetourTerms, window: Window, _: Any) -> Row:
    """A window: the choice alone, and with detours."""
    candidates = Candidates.of((), BASE)
    setup = setup_of(window, Terms(1.0, terms.copies, "none"), candidates.first)
    row = Row(window, [], [], 0, 0, [])
    for copy in range(terms.copies):
        row.alone.append(_mean_jct(_alone(setup, candidates.preferred, copy)))
        simulator = _simulator(setup, copy)
        lookout = Lookout(SiteKnowledge(simulator.trace, setup.history), candidates, terms.look, terms.always)
        looks, detours = with_detours(simulator, lookout)
        row.led.append(_mean_jct(simulator))
        row.gains.extend(lookout.gains)
        row = row._replace(looks=row.looks + looks, detours=row.detours + detours)
    return row


def with_detours(simulator: Simulator, lookout: Lookout) -> tuple[int, int]:
    """Run to the end: how many looks there were, and detours."""
    choice = text = lookout.candidates.preferred
    memory, looks, detours = registry.policy(choice).start(simulator.cluster), 0, 0
    begin, end, step = int(simulator.trace.submit[0]), int(simulator.trace.submit[-1]), round(lookout.hours * HOUR)
    for now in range(begin + step, end, step):
        memory = simulator.run(registry.policy(text), until=now, memory=memory)
        found = lookout.look(simulator, now, choice, text, memory)
        looks, detours = looks + 1, detours + (found.policy != choice)
        if found.policy != text:
            text, memory = found.policy, registry.policy(found.policy).start(simulator.cluster, memory)
    simulator.run(registry.policy(choice), memory=registry.policy(choice).start(simulator.cluster, memory))
    return looks, detours


def _simulator(setup: Setup, copy: int) -> Simulator:
    made = simulator_for(Draw(setup), registry.policy(BASE))[0]
    return made.fork_with(near_times(made.durations, made.trace.limit, copy))


def _alone(setup: Setup, choice: str, copy: int) -> Simulator:
    simulator = _simulator(setup, copy)
    simulator.run(registry.policy(choice), memory=registry.policy(choice).start(simulator.cluster))
    return simulator


def _mean_jct(simulator: Simulator) -> float:
    return float(np.nanmean(jct_of(simulator)))


def summary(rows: Sequence[Row]) -> str:
    """Over all windows."""
    factors = np.log([row.over for row in rows])
    mean, low, high = map(math.exp, estimate(means_of_repeats(factors), len(rows)))
    worse = ", ".join(f"{row.about} {row.over:.3f}" for row in rows if row.over < 0.98)
    interval = f" ({low:.3f} to {high:.3f})" * math.isfinite(low)
    spread = f"{math.exp(factors.min()):.3f} to {math.exp(factors.max()):.3f}"
    return f"{mean:.3f}{interval} in the mean of {len(rows)}; {spread}; below 0.98: {worse or 'none'}"


def main(*words: str) -> None:
    """A row per window."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("traces", nargs="*", default=[*SITES], metavar="TRACE", help=", ".join((*SITES, "twins")))
    asked.add_argument("--seed", type=int, nargs="+", default=[1], metavar="N", help="of each twin, and the next two")
    asked.add_argument("--look", type=float, default=3.0, metavar="HOURS")
    asked.add_argument("--copies", type=int, default=1, metavar="N")
    asked.add_argument("--always", action="store_true")
    asked.add_argument("--only", nargs="*", default=[], metavar="SINCE", help="windows that begin then")
    asked.add_argument("--save", default="", metavar="FILE", help="the rows, as JSON")
    options = asked.parse_args(words)
    weeks = [
        each for each in all_windows(options.traces, options.seed) if not options.only or each.since in options.only
    ]
    terms = DetourTerms(options.look, options.copies, options.always)
    rows = run_tasks(studied, terms, weeks, [1] * len(weeks), usable_cores(), lambda done, total: None)
    if options.save:
        Path(options.save).write_text(json.dumps([row._asdict() for row in rows]), encoding="utf-8")
    print("| two weeks | choice | with detours, over it | looks | detours | gain of those found, in truth |")  # noqa: T201
    print("|---" * 6 + "|")  # noqa: T201
    for row in rows:
        print(row.line())  # noqa: T201
    print(summary(rows))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

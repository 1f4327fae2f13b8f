"""Whether leaving a first choice helps: ``python -m benchmarks.later_choices [TRACE ...]``.

For every two weeks of ``benchmarks.autopilot_weeks``, the autopilot's first choice runs.  On each of nine days the rule
looks for something better on the days before, and the rest of the weeks is simulated twice: with the first choice, and
with what the rule found.  Nothing is handed back.  Windows on which nothing was better than the site's policy at first
are left out: any gain suffices to leave that one.

The table puts what was promised beside what came: how many times less time the jobs spent in the system from then on,
in the geometric mean with 95 % intervals over the windows, and on what shares of the days it was less and more.  Days
on which the evidence is doubtful (not on every copy, or not in the last days) are left out, as in the rule.  No job may
be stopped.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.autopilot_weeks import BASE, LIMITS, SITES, Terms, Window, all_windows, setup_of
from shunter import registry
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.outcome import ReplayOptions
from shunter.adapting.autopilot.replay import PilotReplay
from shunter.adapting.autopilot.rule import Autopilot, AutopilotLimits, PastDays, PastTrial
from shunter.generating.known_jobs import DAY
from shunter.processes import run_tasks, usable_cores
from shunter.protocols import Memory
from shunter.report.bootstrap import estimate, means_of_repeats
from shunter.report.so_far import JobsBetween
from shunter.sim.engine import Simulator

ASKED = range(1, 10)  # days; later ones leave little that could come true
PROMISES = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, math.inf)  # bounds of the rows


class Leaving(NamedTuple):
    """What would have come of leaving the first choice on a day, in times as good as keeping it."""

    window: str
    day: int
    choice: str
    best: str
    promised: float
    came: float


def better(replay: PilotReplay, past: PastDays, choice: str) -> tuple[str, float]:
    """What the rule finds better than a choice beyond doubt, and how many times as good; the choice: nothing."""
    pilot, base = replay.pilot, replay.options.candidates.baseline
    window = past.last(pilot.limits.days)
    if pilot.unknown(past):
        return choice, 1.0
    found = PastTrial(window, pilot).searched((choice,), pilot.limits.budget)
    final = PastTrial(window, pilot, pilot.limits.copies)
    best = final.best((choice, base, *found))
    sure = best != choice and final.gain(best, choice) > 1 and not final.doubt(best, choice, 1.0)
    return (best, final.gain(best, choice)) if sure else (choice, 1.0)


def rest(simulator: Simulator, text: str, memory: Memory | None, now: int) -> float:
    """Seconds that all jobs spend in the system from now on."""
    twin = simulator.fork()
    twin.run(registry.policy(text), memory=copy.deepcopy(memory))
    return JobsBetween(twin, now, sys.maxsize).seconds


def leavings(machines: float, window: Window, _: Any) -> list[Leaving]:
    """On each day on which the rule finds something better."""
    candidates, about = Candidates.of((), BASE), f"{window.site} from {window.since}, seed {window.seed}"
    setup = setup_of(window, Terms(machines, 1, "none"), candidates.first)
    limits = AutopilotLimits.of(f"{LIMITS},again=1,prefer=1")
    replay = PilotReplay(setup, ReplayOptions(candidates, limits))
    simulator, found = replay._simulator(), list[Leaving]()  # noqa: SLF001
    first = Autopilot(candidates, AutopilotLimits.of(LIMITS))
    choice = first.best_fixed(replay.past(simulator, replay.begin), replay.budget)
    if choice == candidates.baseline:
        return found
    memory = registry.policy(choice).start(setup.cluster)
    for day in ASKED:
        now = replay.begin + day * DAY
        memory = simulator.run(registry.policy(choice), until=now, memory=memory)
        best, promised = better(replay, replay.past(simulator, now), choice)
        if best == choice:
            continue
        kept = rest(simulator, choice, memory, now)
        left = rest(simulator, best, registry.policy(best).start(simulator.cluster, copy.deepcopy(memory)), now)
        found.append(Leaving(about, day, choice, best, promised, kept / left))
    return found


def line(found: Sequence[Leaving], low: float, high: float) -> str:
    """What came of promises between two bounds; means of each window, so that one with many days counts once."""
    asked = [each for each in found if low <= each.promised < high]
    label = f"{low:g} to {high:g}" if math.isfinite(high) else f"{low:g} and more"
    by_window = [
        np.log([(each.promised, each.came) for each in group]).mean(axis=0)
        for _, group in itertools.groupby(asked, key=lambda each: each.window)
    ]
    if not by_window:
        return f"| {label} | 0 | 0 |  |  |  |  |  |"
    promised, came = np.exp(np.mean(by_window, axis=0))
    _, least, most = map(math.exp, estimate(means_of_repeats(np.array(by_window)[:, 1]), len(by_window)))
    interval = f" ({least:.3f} to {most:.3f})" * math.isfinite(least)
    factors = np.array([each.came for each in asked])
    shares = f"{100 * (factors > 1).mean():.0f} % | {100 * (factors < 1).mean():.0f} %"
    return (
        f"| {label} | {len(asked)} | {len(by_window)} | {promised:.3f} | {came:.3f}{interval} | {factors.min():.3f} |"
        f" {shares} |"
    )


def main(*words: str) -> None:
    """A row per range of promises."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("traces", nargs="*", default=[*SITES], metavar="TRACE", help=", ".join((*SITES, "twins")))
    asked.add_argument("--machines", type=float, default=1.0, metavar="X", help="this share of each site's machines")
    asked.add_argument(
        "--seed", type=int, nargs="+", default=[1], metavar="N", help="of each twin this one and the next two"
    )
    asked.add_argument("--save", default="", metavar="FILE", help="each of them, as JSON")
    options = asked.parse_args(words)
    weeks = all_windows(options.traces, options.seed)
    made = run_tasks(leavings, options.machines, weeks, [1] * len(weeks), usable_cores(), lambda done, total: None)
    found = [each for some in made for each in some]
    if options.save:
        Path(options.save).write_text(json.dumps([each._asdict() for each in found]), encoding="utf-8")
    print("| promised | days | windows | promised, mean | came, mean | at worst | better on | worse on |")  # noqa: T201
    print("|---" * 8 + "|")  # noqa: T201
    for low, high in itertools.pairwise(PROMISES):
        print(line(found, low, high))  # noqa: T201
    print(line(found, PROMISES[0], PROMISES[-1]))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

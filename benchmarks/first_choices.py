"""What an autopilot's first choice should go by: ``python -m benchmarks.first_choices [TRACE ...] [--machines X]``.

For every two weeks of ``benchmarks.autopilot_weeks``, a policy is chosen by the days before and then stays.  A row is
a way to choose: a candidate always, the best of 48 runs on the last 14, 28 or 42 days, and the autopilot's own, which
prefers the candidate named first.  The numbers are how many times as good as the site's policy the choices were, in the
geometric mean and at worst, on how many windows they were more than 1 % worse than it, and on how many they broke a
limit in the mean of two copies.  Windows of which too little is known are left out.  No job may be stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

import numpy as np

from benchmarks.autopilot_weeks import BASE, SITES, Terms, Window, setup_of, windows
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.outcome import ReplayOptions
from shunter.adapting.autopilot.replay import PilotReplay
from shunter.adapting.autopilot.rule import Autopilot, AutopilotLimits, PastDays, PastTrial
from shunter.processes import run_tasks, usable_cores

SPANS = (14, 28, 42)  # days
BEST, PREFERRED = "best of the last {} days", "autopilot, the last {} days"
COPIES = 2  # of what came


def choices(replay: PilotReplay, past: PastDays) -> dict[str, str]:
    """What each way chooses."""
    candidates, found = replay.options.candidates, {}
    for days in SPANS:
        limits = dataclasses.replace(replay.options.limits, days=float(days))
        pilot, window = Autopilot(candidates, limits), past.last(days)
        if pilot.unknown(past):
            found[BEST.format(days)] = found[PREFERRED.format(days)] = BASE
            continue
        few = (BASE, *PastTrial(window, pilot).searched((BASE,), limits.budget))
        final = PastTrial(window, pilot, limits.copies)
        found[BEST.format(days)], found[PREFERRED.format(days)] = final.best(few), final.first_choice(few, 1.0)
    return {**{f"always {text}": text for text in candidates.texts}, **found}


def studied(machines: float, window: Window, _: Any) -> dict[str, tuple[float, bool]]:
    """For each way: how many times as good as the site's policy its choice was, and whether it broke a limit."""
    candidates = Candidates.of((), BASE)
    setup = setup_of(window, Terms(machines, COPIES, "none"), candidates.first)
    options = ReplayOptions(candidates, AutopilotLimits())
    replays = [PilotReplay(setup, dataclasses.replace(options, copy=copy)) for copy in range(COPIES)]
    past, limits = replays[0].past(replays[0]._simulator(), replays[0].begin), options.limits  # noqa: SLF001
    if past.days < limits.least_days or past.last(limits.days).ended.sum() < limits.least_jobs:
        return {}
    ways = choices(replays[0], past)
    runs = {text: [replay._plain(text) for replay in replays] for text in {BASE, *ways.values()}}  # noqa: SLF001
    mean, p99, fair = (
        {text: np.array([getattr(run, name) for run in made]) for text, made in runs.items()}
        for name in ("mean", "p99", "fair")
    )
    return {
        way: (
            float(np.exp(np.log(mean[BASE] / mean[text]).mean())),
            bool(
                (p99[text] / p99[BASE]).mean() > limits.worst_p99
                or (fair[text] / fair[BASE]).mean() < limits.worst_fairness
            ),
        )
        for way, text in ways.items()
    }


def main(*words: str) -> None:
    """A row per way to choose."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("traces", nargs="*", default=[*SITES], metavar="TRACE", help=", ".join((*SITES, "twins")))
    asked.add_argument("--machines", type=float, default=1.0, help="share of each site's machines")
    asked.add_argument("--seed", type=int, default=1, help="the first of three seeds of each twin")
    options = asked.parse_args(words)
    found = [window for name in options.traces for window in windows(name, options.seed)]
    made = run_tasks(studied, options.machines, found, [1] * len(found), usable_cores(), lambda done, total: None)
    rows = [row for row in made if row]
    print(f"{len(rows)} of {len(made)} windows, in times as good as the site's policy")  # noqa: T201
    print(f"{'choice':36}{'mean':>8}{'least':>8}{'below 0.99':>12}{'limits broken':>15}")  # noqa: T201
    for way in rows[0]:
        factors = np.array([row[way][0] for row in rows])
        mean, broken = np.exp(np.log(factors).mean()), sum(row[way][1] for row in rows)
        print(f"{way:36}{mean:8.3f}{factors.min():8.3f}{(factors < 0.99).sum():12d}{broken:15d}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

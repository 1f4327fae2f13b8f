"""An autopilot on every two weeks of every trace: ``python -m benchmarks.autopilot_weeks [TRACE ...] [--machines X]``.

Each row is what ``shunter autopilot --limits budget=16`` prints of two weeks: mean JCTs, how many times as good the
autopilot is, and whether it reached its aims.  The last lines are means over all weeks on which it searched, with 95 %
intervals over the weeks.  No job may be stopped, as on a live cluster; ``--stops`` allows it.  ``--machines 0.9`` takes
a tenth of the machines away.  With ``--copies``, each row is the mean of runs with run times 1 % apart.  ``twins`` are
made-up traces like the published ones.  ``--limits`` sets others for the autopilot and for Fixed.  ``--keep FILE``
keeps rows as they come, so that a run can go on; ``--against FILE`` compares with the Fixed of another version's rows.
``--whole`` has one row for each trace: all its windows in one run, in which the autopilot goes on for months.

``--next-hour`` prints another table: one that knows the next hour, chooses anew every hour among 40 candidates and
keeps no limits, which is Optimal of ``shunter adapt``, and whether the autopilot gains half of what that one gains.
Where that is much, the table also has one that knows which jobs come in the next hour, and must predict run times.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shunter import registry
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.outcome import (
    AIM_FIXED,
    AIM_SHARE,
    BASELINE,
    FIXED,
    OPTIMAL,
    PILOT,
    WORTH,
    ReplayOptions,
    repeated,
)
from shunter.adapting.autopilot.replay import PilotReplay
from shunter.adapting.autopilot.rule import AutopilotLimits
from shunter.adapting.controller import AdaptingScheduler
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.outlooks import TrueHour
from shunter.adapting.searching import SettingSpace
from shunter.clusters.stop_costs import USUAL
from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import HOUR, UNKNOWN, KnownJobs, joined
from shunter.model import Trace
from shunter.processes import run_tasks, usable_cores
from shunter.report.bootstrap import estimate, means_of_repeats
from shunter.report.terminal.tables import duration
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up
from shunter.sim.engine import Simulator
from shunter.simulation import Draw, simulator_for
from shunter.traces.synthetic import synthetic

BASE, LIMITS, DAYS = "fifo:backfill=easy", "budget=16", 14


class Site(NamedTuple):
    """A trace on a cluster on which its jobs queue; all are recorded but Lublin's."""

    file: str
    format: str
    cluster: str
    first: str  # the first window: a date, or days from the beginning; there are 13 days or more before it
    windows: int


# Thinned traces (Supercloud) and those without times (OpenB) don't queue as their sites did.
SITES = {
    "philly": Site("philly/philly_jobs.csv.gz", "philly", "52x8", "2017-09-18", 6),
    "venus": Site("helios/venus_gpu_jobs.csv.gz", "helios", "70x8", "2020-04-05", 11),
    "aaic": Site("aaic/aaicwl-201807-201812.csv.gz", "aaic", "36x8", "2018-07-15", 12),
    "pai": Site("pai/pai_tasks_sample.csv.gz", "", "56x8", "+14", 2),
    "lublin": Site("swf/lublin_256.swf.gz", "swf", "256x1", "+14", 5),
    "nasa": Site("swf/NASA-iPSC-1993-3.1-cln.swf.gz", "swf", "128x1", "+14", 5),
}
# Jobs of some 30 days at this load on this cluster, by the trace that they are like.
TWINS = {
    "helios-earth": 26_000, "helios-saturn": 15_000, "helios-uranus": 9_000, "helios-venus": 8_000, "philly": 9_000,
    "pai": 16_000,
}  # fmt: skip
TWINS_ON, TWINS_LOAD, OF_EACH = "32x8", 0.95, 3


class Window(NamedTuple):
    """Two weeks of a site, or all its weeks in one."""

    site: str
    since: str
    until: str
    seed: int = 0  # of a twin; 0: a recorded trace


def windows(name: str, seed: int = 1, whole: bool = False) -> Iterator[Window]:
    """One after the other to the end of the trace, or all in one; of twins one of each seed from this one on."""
    if name == "twins":
        seeds = range(seed, seed + OF_EACH)
        yield from (Window(like, f"+{DAYS}", f"+{2 * DAYS}", each) for like in TWINS for each in seeds)
        return
    site = SITES[name]

    def begin(at: int) -> str:
        if site.first.startswith("+"):
            return f"+{int(site.first) + at * DAYS}"
        return f"{datetime.fromisoformat(site.first).replace(tzinfo=UTC) + timedelta(days=at * DAYS):%Y-%m-%d}"

    if whole:
        yield Window(name, begin(0), begin(site.windows))
        return
    for at in range(site.windows):
        yield Window(name, begin(at), begin(at + 1))


def all_windows(names: Sequence[str], seeds: Sequence[int]) -> list[Window]:
    """Those of several traces; of twins the seeds that begin with each of these."""
    return [window for name in names for seed in (seeds if name == "twins" else [0]) for window in windows(name, seed)]


class Terms(NamedTuple):
    """How all windows are run."""

    machines: float  # share of the site's
    copies: int
    stops: str  # which jobs may be stopped
    limits: str = LIMITS


def setup_of(window: Window, terms: Terms, fits: Sequence[str]) -> Setup:
    """What is simulated."""
    kind = None
    if window.seed:
        jobs, cluster = TWINS[window.site], TWINS_ON
        gpus = math.prod(map(int, cluster.split("x")))
        trace: Trace | str = synthetic(jobs, window.seed, gpus, TWINS_LOAD, window.site)
    else:
        site = SITES[window.site]
        trace, kind, cluster = f"{data_folder(site.file)}/{site.file}", site.format or None, site.cluster
    nodes, gpus_each = map(int, cluster.split("x"))
    return set_up(
        trace, f"{round(terms.machines * nodes)}x{gpus_each}", fits, kind,
        since=window.since, until=window.until, overhead=USUAL, checkpointable=terms.stops,
    )  # fmt: skip


def replayed(window: Window, terms: Terms) -> dict[str, Any]:
    """What came of a window, see ``PilotStudy.as_dict``."""
    candidates = Candidates.of((), BASE)
    setup = setup_of(window, terms, candidates.first)
    options = ReplayOptions(candidates, AutopilotLimits.of(terms.limits))
    return repeated([PilotReplay(setup, dataclasses.replace(options, copy=copy)).run() for copy in range(terms.copies)])


class ComingJobs:
    """The jobs that come within an hour, with predicted run times."""

    def __init__(self, knowledge: SiteKnowledge) -> None:
        self.knowledge, self.predictor = knowledge, DurationPredictor()

    def outlook(self, simulator: Simulator, now: int) -> Simulator:
        """The arrivals of the trace; run times are known of jobs that have ended alone."""
        trace, rows = simulator.trace, simulator.coming
        rows = rows[trace.submit[rows] <= now + HOUR]
        here, never = self.knowledge.at(simulator, now), np.full(len(rows), UNKNOWN)
        jobs = trace.select(rows)
        coming = KnownJobs(jobs.submit, never, never, 0 * never, jobs.gpus, jobs.user, jobs.vc, jobs.gpu_type)
        found = self.predictor.of_all(joined(here, coming), now)
        durations = np.ones(len(trace), np.int64)  # of later jobs, which are not simulated
        durations[: len(here) - self.knowledge.offset] = found[self.knowledge.offset : len(here)]
        durations[rows] = found[len(here) :]
        return simulator.excerpt(rows, durations=durations)


def hourly(window: Window, terms: Terms, fixed: str, know_times: bool) -> float:
    """Mean JCT in seconds of one that knows which jobs come in the next hour, and begins with the choice of Fixed."""
    candidates = Candidates.of((), BASE)
    setup = setup_of(window, terms, candidates.first)
    simulator = simulator_for(Draw(setup), registry.policy(BASE))[0]
    source = TrueHour() if know_times else ComingJobs(SiteKnowledge(simulator.trace, setup.history))
    scheduler = AdaptingScheduler(source, SettingSpace(candidates.spaces), anchors=(fixed, *candidates.first))
    made = scheduler.run(simulator, fixed, registry.policy(fixed).start(setup.cluster))
    return float(np.nanmean(made.jct))


class Row(NamedTuple):
    """A window, in numbers."""

    window: Window
    jct: dict[str, float]  # mean JCT in seconds, by run
    aims: dict[str, bool | None]
    broken: bool  # a limit of the operator, by the autopilot
    back: int  # times that jobs were handed back
    undecided: str  # why it never searched; "": it did
    jobs: int
    allowed: bool  # Fixed was a choice and kept the operator's limits, so that the aims relative to it apply

    @classmethod
    def of(cls, window: Window, found: Mapping[str, Any]) -> Row:
        """From the record of a window."""
        runs, means = found["runs"], found.get("means")
        jct = {name: means[name]["jct_s"] if means else run["jct_s"]["mean"] for name, run in runs.items()}
        kept = means[PILOT]["within_limits_by_copy"] if means else [runs[PILOT]["within_limits"]]
        back = sum(day["handed_back"] for day in found["days"])
        allowed = not (found["undecided"] or found["fixed_unknown"]) and all(
            means[FIXED]["within_limits_by_copy"] if means else [runs[FIXED]["within_limits"]]
        )
        return cls(window, jct, found["aims"], not all(kept), back, found["undecided"], found["jobs"], allowed)

    def over(self, base: str, name: str = PILOT) -> float:
        """How many times as good a run is as another."""
        return self.jct[base] / self.jct[name]

    @property
    def about(self) -> str:
        """The window, in words."""
        seed = f", seed {self.window.seed}" * bool(self.window.seed)
        return f"{self.window.site} from {self.window.since}{seed}"

    def line(self) -> str:
        """In Markdown."""
        times = [duration(self.jct[name]) for name in (BASELINE, FIXED, PILOT, OPTIMAL)]
        factors = [self.over(FIXED), self.over(BASELINE), self.over(FIXED, OPTIMAL)]
        reached = [REACHED[each] for each in self.aims.values()]
        notes = [str(self.back), "**broken**" * self.broken, "never searched" * bool(self.undecided)]
        return "| " + " | ".join([self.about, *times, *(f"{each:.3f}" for each in factors), *reached, *notes]) + " |"


NEXT_HOUR, ARRIVALS = "knows the next hour", "knows its arrivals alone"
REACHED = {True: "yes", False: "**no**", None: ""}  # an aim
HEADS = (
    "window", "site's policy", "Fixed", "autopilot", "Optimal", "over Fixed", "over the site's",
    "Optimal over Fixed", "0.98 of Fixed", "half of Optimal - Fixed", "handed back after a bad day", "hand-backs",
    "limits", "",
)  # fmt: skip


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Over all weeks on which it searched."""
    decided = [row for row in rows if not row.undecided]
    yield f"{len(decided)} windows on which it searched; limits broken on {sum(row.broken for row in decided)}"
    for label, base, name in (
        ("the autopilot over the site's policy", BASELINE, PILOT),
        ("Fixed over the site's policy", BASELINE, FIXED),
        ("the autopilot over Fixed", FIXED, PILOT),
        ("Optimal over Fixed", FIXED, OPTIMAL),
    ):
        factors = np.array([row.over(base, name) for row in decided])
        mean, low, high = map(math.exp, estimate(means_of_repeats(np.log(factors)), len(decided)))
        interval = f" ({low:.3f} to {high:.3f})" * math.isfinite(low)
        spread = f"least {factors.min():.3f}, most {factors.max():.3f}"
        yield f"  {label}: {mean:.3f}{interval} in the geometric mean; {spread}"
    for aim in rows[0].aims:
        asked = [reached for row in decided if (reached := row.aims[aim]) is not None]
        yield f"  {aim}: reached on {sum(asked)} of {len(asked)}"


def by_trace(rows: Sequence[Row]) -> Iterator[str]:
    """Sums over all weeks of each trace on which it searched: one good window can make up for several bad ones."""
    yield (
        "| all weeks | windows | over Fixed | at worst | over the site's | at worst | Optimal over Fixed |"
        " 0.98 of Fixed | half of Optimal - Fixed |"
    )
    yield "|---" * 9 + "|"
    for site in dict.fromkeys(row.window.site for row in rows):
        weeks = [row for row in rows if row.window.site == site and not row.undecided]
        if not weeks:
            continue
        total = {name: sum(row.jct[name] * row.jobs for row in weeks) for name in weeks[0].jct}
        worst = [min(row.over(base) for row in weeks) for base in (FIXED, BASELINE)]
        factors = f"{total[FIXED] / total[PILOT]:.3f} | {worst[0]:.3f} | {total[BASELINE] / total[PILOT]:.3f}"
        reached, room = total[FIXED] / total[PILOT], total[FIXED] / total[OPTIMAL] - 1
        half = reached - 1 >= AIM_SHARE * room if room > WORTH else None
        aims = f"{REACHED[reached >= AIM_FIXED]} | {REACHED[half]}"
        yield f"| {site} | {len(weeks)} | {factors} | {worst[1]:.3f} | {1 + room:.3f} | {aims} |"


def against(rows: Sequence[Row], keep: str, terms: Terms) -> str:
    """The autopilot beside the Fixed that another version chose, where both searched."""
    pairs = [(row, Row.of(row.window, found)) for row in rows if (found := kept(keep, row.window, terms))]
    pairs = [(row, other) for row, other in pairs if not row.undecided]
    factors = [other.jct[FIXED] / row.jct[PILOT] for row, other in pairs]
    asked = [(row, found) for (row, other), found in zip(pairs, factors, strict=True) if other.allowed]
    missed = ", ".join(f"{row.about} {found:.3f}" for row, found in asked if found < AIM_FIXED)
    reached = sum(found >= AIM_FIXED for _, found in asked)
    mean = math.exp(float(np.mean(np.log(factors))))
    return (
        f"over the Fixed of {keep}: {mean:.3f} in the geometric mean of {len(pairs)} windows; {AIM_FIXED:g} times as"
        f" good on {reached} of {len(asked)} where that one kept the limits; missed: {missed}"
    )


def next_hour_table(rows: Sequence[Row], found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What one that knows the next hour gains on Fixed, and whether the autopilot gains half of it where that is much.

    As for the other Optimal, this is not asked where Fixed breaks a limit, or where the autopilot never searched.
    """
    heads = (
        "window",
        "Fixed",
        NEXT_HOUR,
        "over Fixed",
        "autopilot over Fixed",
        "half of it",
        f"{ARRIVALS} over Fixed",
        "half of it",
    )
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    asked: list[tuple[bool, bool]] = []
    for row, record in zip(rows, found, strict=True):
        fixed, room = row.jct[FIXED], row.jct[FIXED] / record[NEXT_HOUR] - 1
        cells = [duration(fixed), duration(record[NEXT_HOUR]), f"{1 + room:.3f}", f"{row.over(FIXED):.3f}", "", "", ""]
        if ARRIVALS in record:
            reached = row.over(FIXED), fixed / record[ARRIVALS]
            cells[5] = f"{reached[1]:.3f}"
            if row.allowed:
                one, two = (each - 1 >= AIM_SHARE * room for each in reached)
                asked.append((one, two))
                cells[4], cells[6] = REACHED[one], REACHED[two]
        yield f"| {' | '.join((row.about, *cells))} |"
    counts = [sum(column) for column in zip(*asked, strict=True)] or [0, 0]
    yield f"\nhalf of what the next hour gains: reached on {counts[0]} of {len(asked)}; {ARRIVALS}: on {counts[1]}"


def _work(shared: tuple[Terms, str, bool], window: Window, _: Any) -> dict[str, Any]:
    terms, keep, next_hour = shared
    found = kept(keep, window, terms)
    known = set(found)
    if not found:
        found = replayed(window, terms)
        print(Row.of(window, found).line(), file=sys.stderr, flush=True)  # noqa: T201
    fixed = found["runs"][FIXED]
    if next_hour and NEXT_HOUR not in found:
        found[NEXT_HOUR] = hourly(window, terms, fixed["policy"], know_times=True)
    if next_hour and ARRIVALS not in found and fixed["jct_s"]["mean"] / found[NEXT_HOUR] - 1 > WORTH:
        found[ARRIVALS] = hourly(window, terms, fixed["policy"], know_times=False)
    if keep and known != set(found):
        with Path(keep).open("a", encoding="utf-8") as file:
            file.write(json.dumps([[*window, *terms], found]) + "\n")
    return found


def kept(keep: str, window: Window, terms: Terms) -> dict[str, Any]:
    """What earlier runs kept of a window, the last of them; empty: nothing."""
    if not keep or not Path(keep).exists():
        return {}
    with Path(keep).open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return next((found for key, found in reversed(lines) if key == [*window, *terms]), {})


def main(*words: str) -> None:
    """A row per window, then the means."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("traces", nargs="*", default=list(SITES), metavar="TRACE", help=", ".join((*SITES, "twins")))
    asked.add_argument("--machines", type=float, default=1.0, metavar="X", help="this share of the machines")
    asked.add_argument("--seed", type=int, default=1, metavar="N", help="the first of three seeds of each twin")
    asked.add_argument("--whole", action="store_true", help="all windows of a trace in one run")
    asked.add_argument("--copies", type=int, default=1)
    asked.add_argument("--stops", action="store_true")
    asked.add_argument("--limits", default=LIMITS)
    asked.add_argument("--next-hour", action="store_true", help="beside one that knows the next hour")
    asked.add_argument("--keep", default="", metavar="FILE")
    asked.add_argument("--against", default="", metavar="FILE", help="rows that another version has kept")
    options = asked.parse_args(words)
    if options.next_hour and options.copies > 1:
        asked.error("--next-hour has one run of each window; leave --copies out")
    found = [window for name in options.traces for window in windows(name, options.seed, options.whole)]
    terms = Terms(options.machines, options.copies, "all" if options.stops else "none", options.limits)
    shared = terms, options.keep, options.next_hour
    records = run_tasks(_work, shared, found, [1] * len(found), usable_cores(), lambda done, total: None)
    rows = [Row.of(window, record) for window, record in zip(found, records, strict=True)]
    print("| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|", *(row.line() for row in rows), sep="\n")  # noqa: T201
    print("", *summary(rows), "", *by_trace(rows), sep="\n")  # noqa: T201
    if options.against:
        print("", against(rows, options.against, terms), sep="\n")  # noqa: T201
    if options.next_hour:
        print("", *next_hour_table(rows, records), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

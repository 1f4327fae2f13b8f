"""How Lucid's settings were chosen: ``python -m benchmarks.lucid_search``, or with ``--quick``.

Venus from 15 July to 31 August, before the window of ``shunter reproduce lucid``, under its three rules for virtual
clusters, on machines where a stop costs 62 s.  One setting at a time differs from the defaults.  Settings are ranked by
the geometric mean of the three mean completion times, relative to that with the defaults: below 1, they are better.
Lucid's were tried about twice as often as this, in part with code that was not kept.  So Tiresias gets two stages on
the same jobs: first its queues, and all else with two of these; then as many combinations of what was best there.
``--again N`` runs the N best of each once more, in one draw more.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from shunter import traces
from shunter.report.bootstrap import Estimate
from shunter.reproduce import venus
from shunter.reproduce.lucid.design import COSTS, DEARER, RULES
from shunter.reproduce.standin import NODES, begin_of, stand_in
from shunter.reproduce.trials import TrialCase, Trials, run_cases, teach
from shunter.reproduce.venus import assigned, divided, drawn, nodes_in
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up

SINCE, UNTIL = "2020-07-15", "2020-09-01"
LUCID, TIRESIAS = "lucid:refit=0", "tiresias"  # with their defaults
TRIED: Mapping[str, tuple[object, ...]] = {  # settings of Lucid, and values besides its defaults
    "blocking": ("skip", "strict"),
    "profile_time": (200, 600, 1200, 4800),
    "profile_nodes": (2, 6, 8),
    "profile_gpus": (8, 64),
    "profile_when": ("always",),
    "profile_growth": (4,),
    "profile_queue": (8,),
    "profiling": ("false",),
    "packing": ("false",),
    "pack_when": ("always",),
    "capacity": (2, 3),
    "ratio": (1000,),
    "certainty": (0.5, 0.95),
    "estimate": ("gbm", "rolling", "none"),
}
FIVE = "limits=3600/18000/72000/288000"  # queues of Tiresias
TRIED_TIRESIAS = (  # settings of Tiresias; it has fewer than Lucid, and the queues matter most
    "limits=none", FIVE, "limits=3600", "limits=72000", "limits=288000", "limits=3600/72000", "limits=18000/288000",
    "limits=3600/18000/72000", "limits=18000/72000/288000/1152000", "limits=900/3600/18000/72000/288000/1152000",
    f"{FIVE},inside=running", f"{FIVE},promote=8", f"{FIVE},starve=86400", f"{FIVE},look_again=600",
    f"{FIVE},lease=3600", f"{FIVE},min_run=0", f"{FIVE},min_run=30", f"{FIVE},backfill=easy", f"{FIVE},order=gittins",
    f"{FIVE},order=time", "order=time,limits=none", "order=gittins,limits=none", "limits=none,min_run=3",
    "limits=none,min_run=30", "limits=none,backfill=easy",
)  # fmt: skip
LATER, SEVEN = "limits=18000/72000/288000/1152000", "limits=900/3600/18000/72000/288000/1152000"
COMBINED_TIRESIAS = (  # the second stage: the best of the first with one another, and Gittins' horizon
    f"{FIVE},order=gittins,min_run=30", f"{FIVE},order=gittins,min_run=100", f"{FIVE},order=gittins,horizon=900",
    f"{FIVE},order=gittins,horizon=18000", f"{FIVE},order=gittins,horizon=72000", f"{LATER},order=gittins",
    f"{SEVEN},order=gittins", "limits=18000/288000,order=gittins", f"{LATER},order=gittins,min_run=30",
    f"{SEVEN},order=gittins,min_run=30", "limits=none,order=gittins,min_run=30",
    "limits=none,order=gittins,horizon=72000", "limits=none,order=gittins,min_run=30,horizon=18000",
    f"{FIVE},order=gittins,min_run=30,horizon=18000", f"{FIVE},order=gittins,min_run=30,look_again=600",
    f"{FIVE},order=gittins,backfill=easy", f"{FIVE},order=gittins,promote=64",
    f"{FIVE},order=gittins,min_run=30,starve=604800", f"{LATER},min_run=30", f"{LATER},inside=running",
    f"{LATER},inside=running,min_run=30", f"{SEVEN},min_run=30", f"{SEVEN},inside=running",
    f"{FIVE},inside=running,min_run=30", "limits=none,min_run=100",
)  # fmt: skip


class Candidate(NamedTuple):
    """A policy that is tried, and the one with defaults that it is compared with."""

    policy: str
    base: str


def candidates(texts: Sequence[str] = ()) -> list[Candidate]:
    """All that is tried, defaults first; if any texts are given, the defaults and policies that contain one of them."""
    return [one for one in _candidates() if not texts or one.policy == one.base or any(t in one.policy for t in texts)]


def _candidates() -> Iterator[Candidate]:
    yield Candidate(LUCID, LUCID)
    for name, values in TRIED.items():
        yield from (Candidate(f"{LUCID},{name}={value}", LUCID) for value in values)
    yield Candidate(TIRESIAS, TIRESIAS)
    yield from (Candidate(f"{TIRESIAS}:{settings}", TIRESIAS) for settings in (*TRIED_TIRESIAS, *COMBINED_TIRESIAS))


def setups(made_up: bool, seed: int = 0) -> dict[str, Setup]:
    """The jobs under each rule; made up where files are missing."""
    folder = None if made_up else data_folder(venus.JOBS, venus.NODES)
    nodes = NODES if folder is None else nodes_in(folder / venus.NODES)
    jobs = stand_in(seed) if folder is None else traces.read(folder / venus.JOBS, "helios")
    since, until = (begin_of(jobs), "") if folder is None else (SINCE, UNTIL)
    found: dict[str, Setup] = {}
    for name, rule in RULES.items():
        put = assigned(jobs, nodes, seed, rule)
        there = set_up(put, divided(name, nodes, COSTS[DEARER]), since=since, until=until)
        found[name] = drawn(there, rule, nodes)
    return found


def run(found: Mapping[str, Setup], tried: Sequence[Candidate], draws: int, workers: int | None = None) -> Trials:
    """Run every candidate under every rule, with models from the past."""
    cases = [TrialCase(name, "", one.policy) for one in tried for name in found]
    teach(found, cases)
    return run_cases(found, cases, draws, workers=workers)


def score(trials: Trials, rules: Sequence[str], one: Candidate) -> Estimate:
    """The geometric mean over the rules of mean completion times relative to those with the defaults."""
    pairs = [[trials.means(TrialCase(name, "", policy), "jct_mean_s") for policy in one] for name in rules]
    return trials.estimate(np.exp(np.mean([np.log(mean / base) for mean, base in pairs], axis=0)))


def ranked(trials: Trials, rules: Sequence[str], tried: Sequence[Candidate]) -> list[Candidate]:
    """The best first, Lucid's before those of Tiresias."""
    return sorted(tried, key=lambda one: (one.base != LUCID, score(trials, rules, one).value))


def best(ranking: Sequence[Candidate], count: int) -> list[Candidate]:
    """The policies with defaults, and the best of each."""
    bases = [one for one in ranking if one.policy == one.base]
    first = [[one for one in ranking if one.base == base.base][:count] for base in bases]
    return list(dict.fromkeys(one for each in (bases, *first) for one in each))


def table(trials: Trials, rules: Sequence[str], tried: Sequence[Candidate]) -> Table:
    """The candidates, ranked."""
    made = Table("policy", *(f"{name},\nJCT, h" for name in rules), "over the\ndefaults'")
    for one in ranked(trials, rules, tried):
        times = (trials.of(TrialCase(name, "", one.policy), "jct_mean_s").value / 3600 for name in rules)
        found = score(trials, rules, one)
        interval = "" if np.isnan(found.low) else f" ({found.low:.2f} .. {found.high:.2f})"
        made.add_row(one.policy, *(f"{hours:.2f}" for hours in times), f"{found.value:.3f}{interval}")
    return made


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lucid_search", description=__doc__.partition(":")[0])
    parser.add_argument(
        "--only", action="append", help="policies whose text contains this, such as capacity= or tiresias; else all"
    )
    parser.add_argument("--draws", type=int, default=1, help="draws of the virtual clusters")
    parser.add_argument("--again", type=int, default=0, help="run this many of the best again, in one draw more")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="a made-up trace")
    chosen = parser.parse_args()
    found, tried, console = setups(chosen.quick), candidates(chosen.only or ()), Console(width=120)
    trials = run(found, tried, chosen.draws, chosen.workers)
    console.print(table(trials, tuple(found), tried))
    if chosen.again:
        few = best(ranked(trials, tuple(found), tried), chosen.again)
        console.print(table(run(found, few, chosen.draws + 1, chosen.workers), tuple(found), few))


if __name__ == "__main__":
    main()

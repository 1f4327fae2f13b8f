"""What EASY backfilling does to an order: ``python -m benchmarks.backfilling``, or with ``--quick``.

Every month of the traces at hand is run under each order without backfilling and with EASY, with the estimates that the
order goes by.  EASY should not make the mean completion time more than 5 % longer.  The default of ``bound`` was chosen
on the early months (``--months early``); the late ones are for judging.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from shunter import traces
from shunter.report.bootstrap import estimate, means_of_repeats
from shunter.reproduce import venus
from shunter.reproduce.qssf.data import AAIC, PHILLY, PHILLY_NODES, fewer
from shunter.reproduce.qssf.design import LOAD, RESTART
from shunter.reproduce.standin import NODES, begin_of, stand_in, with_loose_limits
from shunter.reproduce.trials import Case, Trials, run_cases, teach, with_settings
from shunter.reproduce.venus import divided, nodes_in
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up, window_of

ORDERS = (
    "fifo:estimate=history", "fifo:estimate=limit", "sjf:estimate=history", "sjf:estimate=limit",
    "sjf:estimate=gbm,refit=0", "saf:estimate=history", "saf:estimate=limit", "saf:estimate=rolling", "qssf:refit=0",
)  # fmt: skip
AAIC_NODES = (24, 32)  # of 40: with all of them hardly anybody waits
MONTHS = {  # where each begins, and where the last one ends; early ones before the bar
    "aaic": (("2018-08-01", "2018-09-01", "2018-10-01"), ("2018-11-01", "2018-12-01", "")),
    "venus": (("2020-04-01", "2020-05-01", "2020-06-01"), ("2020-07-01", "2020-08-01", "2020-09-01", "")),
    "philly": (("2017-10-01",), ("2017-11-01", "2017-12-01", "")),
}
WORST = 0.05
WAITING = 0.1  # of the completion time; an order under which jobs wait less is left out


def windows(name: str, months: str) -> Iterator[tuple[str, str]]:
    """The beginnings and ends of the months of a trace: early, late or all."""
    early, late = MONTHS[name]
    edges = {"early": (*early, late[0]), "late": late, "all": (*early, *late)}[months]
    yield from pairwise(edges)


def setups(months: str, seed: int = 0) -> dict[str, Setup]:
    """What is simulated, by name; made up where files are missing."""
    folder = data_folder(AAIC, PHILLY, PHILLY_NODES, venus.JOBS, venus.NODES)
    if folder is None or months == "made-up":
        made = with_loose_limits(stand_in(seed, users=True), seed)
        return {"stand-in": set_up(made, divided("stand-in", NODES, RESTART), since=begin_of(made))}
    found: dict[str, Setup] = {}
    aaic = traces.read(folder / AAIC, "aaic")
    for nodes in AAIC_NODES:
        cluster = divided("aaic", {"": nodes}, RESTART)
        found |= {f"aaic/{nodes} {a[:7]}": set_up(aaic, cluster, since=a, until=b) for a, b in windows("aaic", months)}
    cluster = divided("venus", nodes_in(folder / venus.NODES), RESTART)
    jobs = venus.venus(folder, seed)
    found |= {f"venus {a[:7]}": set_up(jobs, cluster, since=a, until=b) for a, b in windows("venus", months)}
    nodes_of = nodes_in(folder / PHILLY_NODES)
    philly = traces.read(folder / PHILLY, "philly")
    philly = philly.select(np.isin(philly.vc, [code for code, vc in enumerate(philly.vcs) if vc in nodes_of]))
    nodes_of = {vc: nodes_of[vc] for vc in philly.vcs if vc in nodes_of}
    cluster = divided("philly", fewer(nodes_of, window_of(philly, "2017-10-01", "2017-12-01")[1], LOAD), RESTART)
    found |= {f"philly {a[:7]}": set_up(philly, cluster, since=a, until=b) for a, b in windows("philly", months)}
    return found


def cases(found: dict[str, Setup], orders: Sequence[str]) -> list[tuple[Case, Case]]:
    """Every order on every setup that has what it needs, without backfilling and with EASY."""
    plain = [
        Case(name, "", order)
        for name, one in found.items()
        for order in orders
        if "estimate=limit" not in order or (one.trace.limit > 0).any()
    ]
    easy = [dataclasses.replace(case, policy=with_settings(case.policy, {"backfill": "easy"})) for case in plain]
    return list(zip(plain, easy, strict=True))


def table(trials: Trials, pairs: Sequence[tuple[Case, Case]]) -> tuple[Table, dict[str, list[float]]]:
    """A row for every order and month in which jobs wait, and the changes by order."""
    made = Table("trace", "order", "JCT, h", "EASY, h", "change", "of the wait")
    changes: dict[str, list[float]] = {}
    for plain, easy in pairs:
        jct, wait = (trials.means(plain, f"{name}_mean_s") for name in ("jct", "wait"))
        if wait[0] < WAITING * jct[0]:
            continue
        change = trials.changes(easy, plain, "jct_mean_s")
        changes.setdefault(plain.policy, []).append(float(change[0]))
        hours = [f"{trials.means(case, 'jct_mean_s')[0] / 3600:.2f}" for case in (plain, easy)]
        waited = trials.changes(easy, plain, "wait_mean_s")[0]
        made.add_row(plain.workload, plain.policy, *hours, f"{100 * change[0]:+.1f} %", f"{100 * waited:+.0f} %")
    return made, changes


def summary(changes: dict[str, list[float]], seed: int = 0) -> Table:
    """Over the months, by order: the mean change, its interval over drawn months, the worst, and how many fail."""
    made = Table("order", "months", "mean change", "interval over months", "worst", f"above {WORST:.0%}")
    for order, some in changes.items():
        found = estimate(np.expm1(means_of_repeats(np.log1p(some), seed)), len(some))
        interval = "" if np.isnan(found.low) else f"{100 * found.low:+.1f} .. {100 * found.high:+.1f} %"
        failing = str(sum(change > WORST for change in some))
        made.add_row(
            order, str(len(some)), f"{100 * found.value:+.1f} %", interval, f"{100 * max(some):+.1f} %", failing
        )
    return made


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backfilling", description=__doc__.partition(":")[0])
    parser.add_argument("--months", choices=("early", "late", "all"), default="all")
    parser.add_argument("--order", action="append", help="a policy without backfilling; once for each; else all")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, with arrivals moved by up to 30 s")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="a made-up trace and one run of each")
    chosen = parser.parse_args()
    found = setups("made-up" if chosen.quick else chosen.months)
    pairs = cases(found, chosen.order or ORDERS)
    both = [case for pair in pairs for case in pair]
    teach(found, both)
    trials = run_cases(found, both, 1 if chosen.quick else chosen.repeat, workers=chosen.workers)
    console = Console(width=100)
    rows, changes = table(trials, pairs)
    console.print(rows)
    console.print(summary(changes))


if __name__ == "__main__":
    main()

"""What EASY backfilling does to an order: ``python -m benchmarks.backfilling``, or with ``--quick``.

Every month of the traces at hand is run under each order without backfilling and with EASY, with the estimates that the
order goes by.  EASY should not make the mean completion time more than 5 % longer.  The default of ``bound`` was chosen
on the early months (``--months early``); the late ones are for judging.

Reservations go by bounds (``bound=0.9``), by the estimates (``bound=0``), or, where no order or estimate reads limits,
by limits that are the true run times: what is lost then, no better bound can win back.  With ``--p90`` also by the P90
of the model, as it is calibrated, where the order goes by one; such an order goes by it, too.  One month is one draw of
a few long jobs, so every repeat leaves out another twentieth of the jobs; with ``--all-jobs`` there is one run with all
of them.  With ``--moved HOURS`` no job is left out; in every repeat those that are larger than a node come up to so
many hours later.  What is above 5 % comes again at the end, by the size of the jobs, with the mean completion times
without backfilling that are the least and the most over the repeats.

With ``--itself`` each order without backfilling is also compared with itself as the jobs came: how often a change that
means nothing exceeds 5 %.  Every job comes up to half a minute later, drawn anew for each repeat, or large ones are
moved, if ``--moved`` says so.  With ``--passing 8`` also EASY that lets only jobs pass which are short for the rest.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from shunter import registry, traces
from shunter import world as w
from shunter.capabilities import Learns, capability
from shunter.cluster import NodeGroup
from shunter.model import GPU, Trace
from shunter.report.bootstrap import Estimate, estimate, means_of_repeats
from shunter.reproduce import venus
from shunter.reproduce.numbers import by_size
from shunter.reproduce.qssf.data import AAIC, PHILLY, PHILLY_NODES, fewer
from shunter.reproduce.qssf.design import LOAD, RESTART
from shunter.reproduce.standin import NODES, begin_of, stand_in, with_loose_limits
from shunter.reproduce.trials import TrialCase, Trials, run_cases, teach, with_settings
from shunter.reproduce.venus import divided, nodes_in
from shunter.safe_files import data_folder
from shunter.seeding import rng
from shunter.setup import Setup, set_up, window_of
from shunter.simulation import Result
from shunter.world import F64, I64

ORDERS = (
    "fifo:estimate=history", "fifo:estimate=limit", "sjf:estimate=history", "sjf:estimate=limit",
    "sjf:estimate=gbm,refit=0", "saf:estimate=history", "saf:estimate=limit", "saf:estimate=rolling",
    "saf:estimate=gbm,refit=0", "qssf:refit=0",
)  # fmt: skip
BOUND, ESTIMATE, TRUTH, P90 = "bound=0.9", "bound=0", "truth", "P90"  # what reservations go by
SETTINGS: Mapping[str, Mapping[str, object]] = {
    BOUND: {"bound": 0.9},
    ESTIMATE: {"bound": 0.0},
    TRUTH: {"bound": 0.99},
    P90: {"bound": 0.0, "quantile": "p90"},
}
BOUNDS = (BOUND, ESTIMATE, TRUTH)  # unless others are asked for
LEFT_OUT = 0.05  # of the jobs, others in every repeat
LATER = 30.0  # seconds by which jobs come later to see what is chance
AAIC_NODES = (24, 32)  # of 40: with all of them hardly anybody waits
MONTHS = {  # where each begins, and where the last one ends; early ones before the bar
    "aaic": (("2018-08-01", "2018-09-01", "2018-10-01"), ("2018-11-01", "2018-12-01", "")),
    "venus": (("2020-04-01", "2020-05-01", "2020-06-01"), ("2020-07-01", "2020-08-01", "2020-09-01", "")),
    "philly": (("2017-10-01",), ("2017-11-01", "2017-12-01", "")),
}
WORST = 0.05
LOSSES = {
    "all jobs": "jct_mean_s", "up to 8 GPUs": "small jct_mean_s", "above": "large jct_mean_s", "P50": "jct_p50_s",
    "P99": "jct_p99_s",
}  # fmt: skip
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


class Row(NamedTuple):
    """An order on a setup without backfilling, and with EASY by what reservations go by."""

    plain: TrialCase
    easy: Mapping[str, TrialCase]


def rows(found: dict[str, Setup], orders: Sequence[str], ways: Sequence[str] = BOUNDS) -> list[Row]:
    """Every order on every setup that has what it needs."""
    return [
        Row(TrialCase(name, "", order), dict(_easy(name, order, limited, ways)))
        for name, limited in ((name, bool((one.trace.limit > 0).any())) for name, one in found.items())
        for order in orders
        if limited or "estimate=limit" not in order
    ]


def _easy(name: str, order: str, limited: bool, ways: Sequence[str]) -> Iterator[tuple[str, TrialCase]]:
    learner = capability(Learns, registry.policy(order))
    possible = {
        TRUTH: not limited or "estimate=history" in order,
        P90: learner is not None and bool(learner.predictor),
    }
    for by in ways:
        if possible.get(by, True):
            policy = with_settings(order, {"backfill": "easy", **settings_of(by)})
            yield by, TrialCase(f"{name}{TRUTH if by == TRUTH else ''}", "", policy)


def settings_of(way: str) -> Mapping[str, object]:
    """The settings of EASY by its name; ``passing=8`` goes by bounds, too."""
    name, _, value = way.partition("=")
    return {**SETTINGS[BOUND], name: float(value)} if name == "passing" else SETTINGS[way]


def knowing(found: Mapping[str, Setup]) -> dict[str, Setup]:
    """The same setups, and each once more with limits that are the true run times."""
    exact = {
        f"{name}{TRUTH}": dataclasses.replace(one, trace=dataclasses.replace(one.trace, limit=one.trace.duration))
        for name, one in found.items()
    }
    return {**found, **exact}


def thinned(found: Mapping[str, Setup], repeat: int, left_out: float = LEFT_OUT) -> dict[str, Setup]:
    """The same setups without some of the jobs; the first one stays, so that all repeats share their models."""
    made = {}
    for name, one in found.items():
        stays = rng(repeat, "left out").random(len(one.trace)) >= left_out
        stays[0] = True
        made[name] = dataclasses.replace(one, trace=one.trace.select(stays))
    return made


def moved(found: Mapping[str, Setup], repeat: int, hours: float) -> dict[str, Setup]:
    """The same setups with jobs that are larger than a node submitted later, but for the first job."""
    made = {}
    for name, one in found.items():
        trace, largest = one.trace, max(group.gpus for group in one.cluster.groups) * GPU
        later = rng(repeat, "moved").random(len(trace)) * hours * 3.6e6 * (trace.gpus > largest)
        later[:1] = 0
        made[name] = dataclasses.replace(one, trace=_submitted(trace, trace.submit + later.astype(np.int64)))
    return made


def submitted_later(found: Mapping[str, Setup], repeat: int, seconds: float) -> dict[str, Setup]:
    """The same setups with every job submitted a little later, but for the first one."""
    made = {}
    for name, one in found.items():
        later = rng(repeat, "later").random(len(one.trace)) * seconds * 1000
        later[:1] = 0
        made[name] = dataclasses.replace(one, trace=_submitted(one.trace, one.trace.submit + later.astype(np.int64)))
    return made


def _submitted(trace: Trace, submit: I64) -> Trace:
    """A trace whose jobs are submitted at these times, in their order."""
    return dataclasses.replace(trace, submit=submit).select(np.argsort(submit, kind="stable"))


def sizes(result: Result) -> dict[str, float]:
    """Means of jobs that are larger than a node and of the others, and how long the large ones leave nothing free."""
    return {**by_size(result), "full_h": sum(_full(result, group) for group in result.cluster.groups)}


def _full(result: Result, group: NodeGroup) -> float:
    """The hours in which jobs that are larger than a node hold all GPUs of a virtual cluster."""
    jobs, vcs = result.table, ("", *result.trace.vcs)
    large = (result.trace.vc == vcs.index(group.vc) - 1) & (result.trace.gpus > group.gpus * GPU)
    gpus, begin, end = (column[large] for column in (result.trace.gpus, jobs[w.STARTED], jobs[w.ENDED_AT]))
    times = np.concatenate((begin, end))
    order = np.argsort(times)
    held = np.cumsum(np.concatenate((gpus, -gpus))[order])[:-1]
    return float(np.diff(times[order])[held == group.count * group.gpus * GPU].sum() / 3.6e6)


def run_rows(
    found: Mapping[str, Setup],
    made: Sequence[Row],
    repeats: int,
    workers: int | None = None,
    left_out: float = LEFT_OUT,
    hours: float = 0.0,
) -> Trials:
    """Run all of it, with models from the past; where ``hours`` are given, large jobs are moved."""
    cases = [case for row in made for case in (row.plain, *row.easy.values())]
    teach(found, [row.plain for row in made])
    known = knowing(found)
    draws = [moved(known, repeat, hours) if hours else thinned(known, repeat, left_out) for repeat in range(repeats)]
    runs = [run_cases(draw, cases, 1, workers=workers, more=sizes) for draw in draws]
    return Trials(repeats, 0, {case: [one.outcomes[case][0] for one in runs] for case in runs[0].outcomes})


Changes = dict[tuple[str, str], list[float]]  # by order and by what reservations go by


def table(trials: Trials, made: Sequence[Row]) -> tuple[Table, Changes]:
    """A row for every order and month in which jobs wait: changes of the mean completion time, and all of them."""
    ways = tuple(dict.fromkeys(by for row in made for by in row.easy))
    shown = Table("trace", "order", "JCT, h", *ways)
    changes: Changes = {}
    for plain, easy in made:
        jct, wait = (trials.of(plain, f"{name}_mean_s").value for name in ("jct", "wait"))
        if wait < WAITING * jct:
            continue
        found = {by: trials.change(case, plain, "jct_mean_s") for by, case in easy.items()}
        for by, change in found.items():
            changes.setdefault((plain.policy, by), []).append(change.value)
        cells = [in_percent(found[by]) if by in found else "" for by in ways]
        shown.add_row(plain.workload, plain.policy, f"{jct / 3600:.2f}", *cells)
    return shown, changes


def in_percent(change: Estimate) -> str:
    """A change, and its interval where there is one."""
    interval = "" if np.isnan(change.low) else f" ({100 * change.low:+.0f} .. {100 * change.high:+.0f})"
    return f"{100 * change.value:+.1f} %{interval}"


def losses(trials: Trials, made: Sequence[Row]) -> Table:
    """The rows that lose too much by bounds: which jobs do, and how far the repeats of the order itself are apart.

    And the hours in which jobs above 8 GPUs hold a whole virtual cluster, without backfilling and with it.
    """
    shown = Table("trace", "order", "JCT, h", *LOSSES, "full of large jobs, h")
    for plain, easy in made:
        if BOUND in easy and trials.change(easy[BOUND], plain, "jct_mean_s").value > WORST:
            hours = [outcome.numbers["jct_mean_s"] / 3600 for outcome in trials.outcomes[plain]]
            known = trials.outcomes[plain][0].numbers
            found = [trials.change(easy[BOUND], plain, name) if name in known else None for name in LOSSES.values()]
            cells = [in_percent(one) if one else "" for one in found]
            full = " -> ".join(f"{trials.of(case, 'full_h').value:.0f}" for case in (plain, easy[BOUND]))
            shown.add_row(plain.workload, plain.policy, f"{min(hours):.2f} to {max(hours):.2f}", *cells, full)
    return shown


class Draws(NamedTuple):
    """Mean completion times of the rows in which jobs wait, a line for the jobs as they came and one for each draw."""

    rows: list[TrialCase]
    plain: F64
    easy: dict[str, F64]


def run_draws(
    found: Mapping[str, Setup], made: Sequence[Row], draws: Sequence[Mapping[str, Setup]], workers: int | None = None
) -> Draws:
    """Run each order without backfilling and with EASY as the jobs came, and with other draws of them."""
    ways = list(made[0].easy)
    plain, easy = [row.plain for row in made], [[row.easy[by] for row in made] for by in ways]
    teach(found, plain)
    cases = [*plain, *(case for some in easy for case in some)]
    runs = [run_cases(draw, cases, 1, workers=workers) for draw in (found, *draws)]
    waits = [runs[0].of(case, "wait_mean_s").value >= WAITING * runs[0].of(case, "jct_mean_s").value for case in plain]
    means = [
        np.array([[run.of(case, "jct_mean_s").value for case in some] for run in runs])[:, waits]
        for some in (plain, *easy)
    ]
    return Draws(list(compress(plain, waits)), means[0], dict(zip(ways, means[1:], strict=True)))


def by_chance(draws: Draws) -> tuple[Table, Table]:
    """How many rows exceed 5 % in each draw, orders against themselves and EASY; and those that do so in the mean."""
    changes = {"order against itself": np.log(draws.plain / draws.plain[0])}
    changes |= {f"EASY, {by}": np.log(easy / draws.plain) for by, easy in draws.easy.items()}
    shown = Table("draw", *changes, title="rows above 5 %; mean and worst change")
    names = ["as the jobs came", *map(str, range(1, len(draws.plain))), "mean of the draws"]
    for at, name in enumerate(names):
        if at < len(draws.plain):
            shown.add_row(name, *(_above(some[at]) for some in changes.values()))
        else:  # an order against itself has no mean: the luck of the jobs as they came is in every draw of it
            shown.add_row(name, "", *(_above(some[1:].mean(axis=0)) for some in list(changes.values())[1:]))
    losing = Table("trace", "order", *list(changes)[1:], title="rows above 5 % in the mean of the draws")
    for at, case in enumerate(draws.rows):
        found = [
            estimate(np.expm1(means_of_repeats(some[1:, at], 0)), len(some) - 1) for some in list(changes.values())[1:]
        ]
        if any(change.value > WORST for change in found):
            losing.add_row(case.workload, case.policy, *map(in_percent, found))
    return shown, losing


def _above(logs: F64) -> str:
    mean, worst = (f"{100 * np.expm1(value):+.1f} %" for value in (logs.mean(), logs.max()))
    return f"{(np.expm1(logs) > WORST).sum()} of {len(logs)}; {mean}, {worst}"


def summary(changes: Changes, seed: int = 0) -> Table:
    """Over the months: the mean change, its interval over drawn months, the worst, and how many fail."""
    made = Table("order", "by", "months", "mean change", "worst", f"above {WORST:.0%}")
    for (order, by), some in changes.items():
        found = estimate(np.expm1(means_of_repeats(np.log1p(some), seed)), len(some))
        failing = str(sum(change > WORST for change in some))
        made.add_row(order, by, str(len(some)), in_percent(found), f"{100 * max(some):+.1f} %", failing)
    return made


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backfilling", description=__doc__.partition(":")[0])
    parser.add_argument("--months", choices=("early", "late", "all"), default="all")
    parser.add_argument(
        "--only", default="", help="traces and months whose names contain this, such as 'philly 2017-11'"
    )
    parser.add_argument("--order", action="append", help="a policy without backfilling; once for each; else all")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each, without another twentieth of the jobs")
    parser.add_argument("--all-jobs", action="store_true", help="one run of each that leaves out no job")
    parser.add_argument(
        "--moved", type=float, default=0.0, metavar="HOURS", help="large jobs come up to this much later"
    )
    parser.add_argument("--itself", action="store_true", help="compare orders with themselves, too; see above")
    parser.add_argument("--passing", action="append", default=[], metavar="N", help="EASY with passing=N; repeatable")
    parser.add_argument("--p90", action="store_true", help="reservations also by the model's calibrated P90")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="a made-up trace and one run of each")
    chosen = parser.parse_args()
    every = setups("made-up" if chosen.quick else chosen.months)
    found = {name: one for name, one in every.items() if chosen.only in name}
    passing = [f"passing={each}" for each in chosen.passing]
    console = Console(width=120)
    if chosen.itself:
        made = rows(found, chosen.order or ORDERS, (BOUND, *passing))
        draws = [
            moved(found, repeat, chosen.moved) if chosen.moved else submitted_later(found, repeat, LATER)
            for repeat in range(chosen.repeat)
        ]
        for part in by_chance(run_draws(found, made, draws, chosen.workers)):
            console.print(part)
        return
    made = rows(found, chosen.order or ORDERS, (*BOUNDS, *([P90] if chosen.p90 else []), *passing))
    repeats = 1 if chosen.quick or chosen.all_jobs else chosen.repeat
    left_out = 0.0 if chosen.all_jobs else LEFT_OUT
    trials = run_rows(found, made, repeats, chosen.workers, left_out, chosen.moved)
    shown, changes = table(trials, made)
    console.print(shown)
    console.print(summary(changes))
    console.print(losses(trials, made))


if __name__ == "__main__":
    main()

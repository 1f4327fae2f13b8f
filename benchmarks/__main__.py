"""Print the table of aims with what this machine reaches."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from benchmarks import measures, predicting, workload
from benchmarks.measures import QUICK, Row, Size
from shunter.model import Trace

GROUPS: dict[str, Callable[[Trace, Size], Iterator[Row]]] = {
    "speeds": measures.speeds,
    "turns": measures.turns,
    "resizing": measures.resizing,
    "sharing": measures.sharing,
    "decisions": measures.decisions,
    "plain-python": measures.plain_python,
    "threads": measures.threads,
    "growth": lambda _, size: measures.growth(size),
    "memory": lambda _, size: measures.memory(size),
    "reading": lambda _, size: measures.reading(size),
    "starts": lambda _, size: measures.starts(size),
    "answers": lambda _, size: measures.answers(size),
    "looking-ahead": measures.looking_ahead,
    "placements": lambda _, size: measures.placements(size),
    "shared-links": measures.shared_links,
    "large-cluster": lambda _, size: measures.large_cluster(size),
    "predictors": lambda _, size: predicting.predictors(size),
    "correctness": lambda _, size: measures.correctness(size),
    "peers": measures.peer_rows,
}


def rows(size: Size, groups: Sequence[str] = tuple(GROUPS)) -> Iterator[Row]:
    """Every row of these groups, in the order of the table."""
    trace, _ = workload.jobs(size.jobs)
    for group, measure in GROUPS.items():
        if group in groups:
            yield from measure(trace, size)


def watched(size: Size, groups: Sequence[str]) -> list[Row]:
    """All rows of these groups; on a terminal with a word on what is going on."""
    found: list[Row] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        for row in rows(size, groups):
            found.append(row)
            progress.update(task, description=f"measured {row.what}")
    return found


def number(value: float, unit: str) -> str:
    """A measured value as people read it."""
    digits = 0 if value >= 100 or unit.startswith("of") else 2
    return f"{value:,.{digits}f} {unit}"


def table(found: list[Row], title: str) -> Table:
    """The rows as a table."""
    made = Table("what", "measure", "aim", "measured", "verdict", title=title, title_justify="left")
    for row in found:
        aim = "-" if row.aim is None else f"{'<=' if row.at_most else '>='} {row.aim:,g}"
        style = "" if row.aim is None else "green" if row.met else "red"
        made.add_row(row.what, row.measure, aim, number(row.measured, row.unit), Text(row.verdict, style))
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to try the benchmark; the numbers mean nothing"
    )
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), help="measure these rows only")
    chosen = parser.parse_args()
    size = QUICK if chosen.quick else Size()
    trace, source = workload.jobs(size.jobs)
    about = f"{len(trace):,} jobs of {source}, {workload.NODES} nodes of {workload.GPUS_PER_NODE} GPUs"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = f"best of {size.repeats}, on one of {cores} cores ({platform.machine()}), kernels warm"
    found = watched(size, chosen.only)
    if chosen.json:
        lines = [{**dataclasses.asdict(row), "met": row.met, "verdict": row.verdict} for row in found]
        Console().print_json(json.dumps({"about": about, "machine": machine, "quick": chosen.quick, "rows": lines}))
        return
    console = Console()
    console.print(table(found, f"{about}; {machine}"))
    short = [row.what for row in found if not row.met]
    console.print(f"{len(short)} rows fall short: {'; '.join(short)}" if short else "Every row is met.")


if __name__ == "__main__":
    main()

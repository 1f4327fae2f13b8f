"""Print the table of aims with what this machine reaches."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
from collections.abc import Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from benchmarks import measures, predicting, workload
from benchmarks.measures import QUICK, Row, Size


def rows(size: Size) -> Iterator[Row]:
    """Every row, in the order of the table."""
    trace, _ = workload.jobs(size.jobs)
    yield from measures.speeds(trace, size)
    yield from measures.turns(trace, size)
    yield from measures.decisions(trace, size)
    yield from measures.plain_python(trace, size)
    yield from measures.threads(trace, size)
    yield from measures.growth(size)
    yield from measures.memory(size)
    yield from measures.reading(size)
    yield from measures.starts(size)
    yield from measures.placements(size)
    yield from measures.shared_links(trace, size)
    yield from measures.large_cluster(size)
    yield from predicting.predictors(size)
    yield from measures.correctness(size)
    yield from measures.peer_rows(trace, size)


def watched(size: Size) -> list[Row]:
    """All rows; on a terminal with a word on what is going on."""
    found: list[Row] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        for row in rows(size):
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
    chosen = parser.parse_args()
    size = QUICK if chosen.quick else Size()
    trace, source = workload.jobs(size.jobs)
    about = f"{len(trace):,} jobs of {source}, {workload.NODES} nodes of {workload.GPUS_PER_NODE} GPUs"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = f"best of {size.repeats}, on one of {cores} cores ({platform.machine()}), kernels warm"
    found = watched(size)
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

"""What ``--report`` does, for every command that has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from shunter.cli.console import note, progress

if TYPE_CHECKING:
    from shunter.folders import Run

ReportOption: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a page for a browser, with charts.")
]


def write_report(file: Path, runs: Sequence[Run], rows: Sequence[dict[str, Any]] = ()) -> None:
    """Make the report of runs, and say where it is."""
    from shunter.report.html.files import write_file
    from shunter.report.html.report import report

    with progress("making the report") as tell:
        page = report(runs, rows, tell)
    write_file(file, page)
    note(f"{file} (open it in a browser)", "report")

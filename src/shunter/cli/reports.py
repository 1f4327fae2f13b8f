"""Where results are written: checked before any work is done, and reported when they are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from shunter.cli.console import check_free, note, progress
from shunter.errors import RunError

if TYPE_CHECKING:
    from shunter.run_folder import Run

ReportOption: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a page for a browser, with charts.")
]
FiguresOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--figures", metavar="DIR", help="Write figures for a paper to this folder: PDF, SVG, and CSV."),
]


def check_page(file: Path | None, force: bool) -> None:
    """Refuse a place where a page can't be written."""
    if file is not None:
        from shunter.report.html.files import check_file

        check_file(file, force)


def check_figures(folder: Path | None, force: bool) -> None:
    """Refuse a place where figures can't be put, or to draw them without matplotlib."""
    if folder is not None:
        from shunter.report.figures import check

        check(folder, force)


def say_figures(folder: Path, files: Sequence[Path]) -> None:
    """Say where figures are."""
    note(f"{len(files) // 3} in {folder}, each as PDF, SVG and CSV", "figures")


def check_places(
    force: bool,
    decisions: bool,
    out: Path | None,
    report: Path | None,
    *files: Path | None,
    figures: Path | None = None,
) -> None:
    """Refuse places where nothing can be kept, and options that are about none."""
    given = [file for file in files if file is not None]
    if force and out is None and report is None and figures is None and not given:
        raise RunError("--force replaces what --out, --report and the like name; give one of these")
    if decisions and out is None and report is None:
        raise RunError("--decisions keeps why jobs waited in the folder of --out; give that too")
    if out is not None:
        from shunter.run_folder import check_folder

        check_folder(out, force)
    check_page(report, force)
    check_figures(figures, force)
    for file in given:
        check_free(file, force)


def write_page(file: Path, page: str, label: str = "page") -> None:
    """Write a page, and say where it is."""
    from shunter.report.html.files import write_file

    write_file(file, page)
    note(f"{file} (open it in a browser)", label)


def write_report(
    file: Path,
    runs: Sequence[Run],
    rows: Sequence[dict[str, Any]] = (),
    about: str = "",
    sections: Sequence[str] = (),
    measures: Sequence[str] = (),
) -> None:
    """Make the report of runs, and say where it is."""
    from shunter.report.html.report import report

    with progress("making the report") as on_progress:
        page = report(runs, rows, on_progress, about, sections, measures)
    write_page(file, page, "report")

"""Pages as files: never over something else, and whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from shunter.errors import RunError
from shunter.report.html.page import GENERATOR
from shunter.safe_files import check_output, opened, whole


def check_file(file: Path, force: bool) -> None:
    """Refuse a name under which a page can't be written; with ``force`` only a page of shunter is replaced."""
    check_output(file, RunError)
    if file.is_dir() or not file.name:
        raise RunError(f"{file}: is a folder; give the name of a file, such as {file / 'report.html'}")
    if not file.parent.is_dir():
        raise RunError(f"{file}: there is no folder {file.parent}; make it, or choose another place")
    if not os.access(file.parent, os.W_OK):
        raise RunError(f"{file}: can't be written: no permission in {file.parent.resolve()}; choose another place")
    if file.exists() and not force:
        raise RunError(
            f"{file}: exists already; choose another name, or replace it with --force (in Python: force=True)"
        )
    if file.exists() and not is_page(file):
        raise RunError(f"{file}: is not a page of shunter, so --force does not replace it; choose another name")


def is_page(file: Path) -> bool:
    """Whether it is a page that shunter wrote."""
    try:
        with opened(file) as page:
            return GENERATOR.encode() in page.read(500)
    except ValueError:  # a pipe, or too large
        return False


def write_file(file: Path, page: str) -> None:
    """Write a page; what is there under that name is replaced when all is written."""
    with whole(file, RunError) as made:
        made.write_text(page, encoding="utf-8")

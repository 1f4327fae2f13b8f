"""``shunter slurm audit``, ``dashboard`` and ``watchdog``: around a controller that runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import JsonOption, note, print_json, show

if TYPE_CHECKING:
    from rich.table import Table

    from shunter.live.audit import Entry

EXAMPLES = """Examples:

shunter slurm audit --since 2h              # which jobs were changed or left alone, and why

shunter slurm audit --job 4711 --json
"""
JOURNAL = Path("shunter-slurm.db")
MOST_ROWS = 1000
MOST_TEXT = 1000  # characters of a cell
JournalOption = Annotated[Path, typer.Option("--journal", metavar="FILE", help="The controller's journal.")]


def audit(
    journal: JournalOption = JOURNAL,
    job: Annotated[str, typer.Option(metavar="ID", help="Only this job.")] = "",
    since: Annotated[str, typer.Option(metavar="T", help="Start: 30m, 2h, 1d ago, or a date.")] = "",
    json: JsonOption = False,
) -> None:
    """Show which jobs a controller changed or left alone, when, and why. Only reads the journal."""
    from contextlib import closing

    from shunter.live import audit as audit_trail
    from shunter.live.journal import Journal

    check_journal(journal)
    begin = audit_trail.since_when(since, time.time()) if since else 0.0
    with closing(Journal.reading(journal)) as book:
        found = audit_trail.entries(book, job, begin)
    if json:
        print_json([vars(entry) | {"at": audit_trail.moment(entry.at)} for entry in found])
    elif found:
        show(_table(found[-MOST_ROWS:]))
        if len(found) > MOST_ROWS:
            note(
                f"these are the last {MOST_ROWS:,} of {len(found):,} entries; see others with --since, --job or --json"
            )
    else:
        note(_nothing(job, since))


def _nothing(job: str, since: str) -> str:
    """What is said where no entry is found."""
    if not job and not since:
        return "the journal is empty: nothing was changed"
    return f"nothing{f' about job {job}' if job else ''}{f' since {since}' if since else ''} in this journal"


def _table(entries: list[Entry]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from shunter.live.audit import moment

    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, collapse_padding=True)
    for heading, width in (("time", 19), ("job", 10), ("what", 9), ("before -> now", 17), ("state", 9), ("why", 29)):
        made.add_column(heading, max_width=width, overflow="fold")
    for entry in entries:
        cells = (moment(entry.at)[:19].replace("T", " "), entry.job, entry.kind, entry.change, entry.state, entry.why)
        made.add_row(*(Text(cell if len(cell) <= MOST_TEXT else f"{cell[:MOST_TEXT]}...") for cell in cells))
    return made


def dashboard() -> None:
    """Print a dashboard for Grafana, as JSON, to be imported there: shunter slurm dashboard > shunter.json."""
    from importlib.resources import files

    sys.stdout.write(files("shunter").joinpath("live", "dashboard.json").read_text("utf-8"))


def watchdog(journal: JournalOption = JOURNAL, json: JsonOption = False) -> None:
    """Watch over the controller of a journal, and lift what could strand a job when it is gone or silent.

    [bold]run[/bold] starts one automatically when needed. This one ends with its controller; a service that outlives
    controllers runs [bold]python -m shunter.slurm.watchdog --stay JOURNAL[/bold].
    """
    from shunter.live.watchdog import watch
    from shunter.slurm.watchdog import manager

    check_journal(journal)
    watch(journal, manager(), _print_message if json else lambda text: note(text, "watchdog", "yellow"))


def _print_message(text: str) -> None:
    """Print a message of the watchdog as JSON, at once: it may run for weeks."""
    from shunter.live.audit import moment

    print_json({"at": moment(time.time()), "message": text})
    sys.stdout.flush()


def check_journal(journal: Path) -> None:
    """Refuse to make a new journal where one should be."""
    from shunter.errors import LiveError
    from shunter.live.journal_file import damaged

    if not journal.is_file():
        raise LiveError(
            f"{journal}: there is no such journal; name the one that 'shunter slurm run' wrote (--journal);"
            " if it is lost, 'shunter slurm release --from-marks' gives the jobs back"
        )
    if not journal.stat().st_size and not journal.with_name(f"{journal.name}-wal").exists():
        raise damaged(journal, "it is empty")

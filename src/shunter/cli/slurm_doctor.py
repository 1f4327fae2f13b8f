"""``shunter slurm doctor``: whether account, machine and Slurm are fit for a controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import JsonOption, print_json, show
from shunter.cli.slurm_audit import JOURNAL, JournalOption

if TYPE_CHECKING:
    from rich.table import Table

    from shunter.slurm.doctor import CheckResult

EXAMPLES = """Examples:

shunter slurm doctor                                # may this account watch?

sudo -u shunter shunter slurm doctor --mode act --journal /var/lib/shunter/journal.db
"""
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    mode: Annotated[str, typer.Option(metavar="watch|dry-run|act", help="The mode to check for.")] = "watch",
    journal: JournalOption = JOURNAL,
    metrics_port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Check which account serves this port.")
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Check this account, this machine and Slurm before a controller runs; nothing is changed.

    The exit code is 1 if a check fails. With [bold]--mode act[/bold] all that acting requires is checked.
    """
    from shunter.cli.slurm_run import mode_named
    from shunter.live.controller import Mode
    from shunter.slurm.client import Client
    from shunter.slurm.doctor import CheckStatus, examine

    found = examine(Client(), journal, mode_named(mode) is Mode.ACT, metrics_port)
    if json:
        print_json([vars(finding) for finding in found])
    else:
        show(_table(found))
    if any(finding.verdict is CheckStatus.FAIL for finding in found):
        raise typer.Exit(1)


def _table(findings: list[CheckResult]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, collapse_padding=True)
    for heading, width in (("", 4), ("check", 12), ("found", 46), ("what to do", 34)):
        made.add_column(heading, max_width=width, overflow="fold")
    for each in findings:
        verdict = Text(each.verdict, STYLES[each.verdict])
        made.add_row(verdict, *(Text(cell) for cell in (each.check, each.text, each.remedy)))
    return made

"""All tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import Below, table
from shunter.reproduce.rltune import paper
from shunter.reproduce.rltune.listing import LEGEND, WordTable, listings
from shunter.reproduce.rltune.study import RLTuneStudy


def view(study: RLTuneStudy) -> RenderableType:
    """The tables, what can't be run, and what follows."""
    return Group(
        *(_table(listing) for listing in listings(study)),
        Below(LEGEND, style="dim"),
        *(Text(f" can't be run: {text}", style="dim") for text in paper.CANNOT),
        *(Below(sentence, style="bold") for sentence in study.sentences()),
    )


def _table(listing: WordTable) -> RenderableType:
    made = table(f"{listing.title}\n{listing.heads[0]}", *listing.heads[1:])
    for row in listing.rows:
        made.add_row(*(Text(cell.replace(" (", "\n(")) for cell in row))
    return made

"""Tables fit the terminal: wide ones are split by columns, and nothing is cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, Group
from rich.text import Text

from shunter.report.terminal.fitting import fitted
from shunter.report.terminal.tables import table


def printed(what, width):
    console = Console(file=io.StringIO(), width=width, markup=False)
    console.print(fitted(what, width), crop=False)
    return console.file.getvalue()


def wide():
    made = table("policy", *(f"number\n{at}" for at in range(12)))
    made.add_row(Text("saf:backfill=easy"), *(f"{at:03d}.25 h" for at in range(12)))
    return Group(made, Text("legend " * 20))


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal_and_every_number_is_there(width):
    text = printed(wide(), width)
    assert max(map(len, text.splitlines())) <= width
    assert all(f"{at:03d}.25 h" in text for at in range(12))
    assert text.count("saf:backfill=easy") > 1


def test_what_fits_is_left_as_it_is():
    assert printed(wide(), 200).count("saf:backfill=easy") == 1


def test_brackets_in_a_name_are_no_markup():
    made = table("policy", "number")
    made.add_row(Text("[/bold]"), "[/red]")
    assert "[/bold]" in printed(made, 80)

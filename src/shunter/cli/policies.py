"""``shunter policies``: the policies and their parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli.console import JsonOption, policy_names, print_json, show

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

EXAMPLES = """Examples:

shunter policies

shunter policies sjf   # its parameters, their ranges and meaning

shunter policies mylab.sched.Mine   # a class of your own
"""


def policies(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One policy.", autocompletion=policy_names)
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the policies, or the parameters of one."""
    from shunter import registry

    names = [name] if name else registry.names()
    found = [registry.about(each) for each in names]
    if json:
        print_json(found[0] if name else found)
    else:
        show(_one(found[0]) if name else _all(found))


def _all(found: list[dict[str, Any]]) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("policy", "what it does", box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for about in found:
        table.add_row(Text(about["name"], style="bold"), _plain(about["meaning"].partition("\n")[0]))
    hint = " Write name or name:key=value,key=value; 'shunter policies NAME' lists what can be set."
    return Group(table, Text(hint, style="dim"))


def _plain(docstring: str) -> Text:
    """A docstring as text for a terminal: names are quoted, and the terminal breaks the lines of a paragraph."""
    from rich.text import Text

    paragraphs = re.sub(r"(?<!\n)\n(?![\s*-])", " ", docstring)
    return Text(re.sub(r"``(.+?)``", r"'\1'", paragraphs, flags=re.DOTALL))


def _written(value: Any) -> str:
    """A value as it is written in a policy's text."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _one(about: dict[str, Any]) -> RenderableType:
    from inspect import cleandoc

    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("parameter", "default", "range", "meaning", box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for one in about["parameters"]:
        table.add_row(
            Text(one["name"], style="bold"), Text(_written(one["default"])), Text(one["range"]), _plain(one["meaning"])
        )
    head = Text.assemble((about["name"], "bold"), "  ", _plain(cleandoc(about["meaning"])))
    return Group(head, table if about["parameters"] else Text("It has no parameters."))

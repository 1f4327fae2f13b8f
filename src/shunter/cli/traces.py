"""``shunter trace``: look at traces, make them, change them."""

from __future__ import annotations

import typer

from shunter.cli import synth

app = typer.Typer(no_args_is_help=True, help="Make traces.")


@app.callback()
def trace() -> None:
    """Make traces."""


app.command("synth", epilog=synth.EXAMPLES)(synth.synth)

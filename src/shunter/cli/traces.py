"""``shunter trace``: look at traces, make them, change them."""

from __future__ import annotations

import typer

from shunter.cli import changing, looking, synth

app = typer.Typer(no_args_is_help=True, help="Look at traces, make them, change them.")


@app.callback()
def trace() -> None:
    """Look at traces, make them, change them."""


app.command("describe", epilog=looking.DESCRIBE_EXAMPLES)(looking.describe)
app.command("validate", epilog=looking.VALIDATE_EXAMPLES)(looking.validate)
app.command("convert", epilog=changing.CONVERT_EXAMPLES)(changing.convert)
app.command("slice", epilog=changing.SLICE_EXAMPLES)(changing.slice_trace)
app.command("merge", epilog=changing.MERGE_EXAMPLES)(changing.merge)
app.command("synth", epilog=synth.EXAMPLES)(synth.synth)

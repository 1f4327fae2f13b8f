"""``shunter trace``: describe, check, convert and generate traces."""

from __future__ import annotations

import typer

from shunter.cli import trace_convert, trace_describe, trace_synth

app = typer.Typer(no_args_is_help=True, help="Describe, check, convert and generate traces.")


@app.callback()
def trace() -> None:
    """Describe, check, convert and generate traces."""


app.command("describe", epilog=trace_describe.DESCRIBE_EXAMPLES)(trace_describe.describe)
app.command("validate", epilog=trace_describe.VALIDATE_EXAMPLES)(trace_describe.validate)
app.command("convert", epilog=trace_convert.CONVERT_EXAMPLES)(trace_convert.convert)
app.command("slice", epilog=trace_convert.SLICE_EXAMPLES)(trace_convert.slice_trace)
app.command("merge", epilog=trace_convert.MERGE_EXAMPLES)(trace_convert.merge)
app.command("synth", epilog=trace_synth.EXAMPLES)(trace_synth.synth)

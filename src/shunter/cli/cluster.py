"""``shunter cluster show``: show a cluster."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from shunter.cli.console import (
    ColumnsOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    cluster_names,
    print_json,
    read,
    show,
    with_columns,
)
from shunter.errors import RunError

EXAMPLES = """Examples:

shunter cluster show 16x8:v100+16x2:p100

shunter cluster show philly --toml   # as a file to start from

shunter cluster show auto --trace jobs.csv
"""

app = typer.Typer(no_args_is_help=True, help="Show clusters.")


@app.callback()
def cluster() -> None:
    """Show clusters."""


@app.command("show", epilog=EXAMPLES)
def show_cluster(
    text: Annotated[str, typer.Argument(metavar="CLUSTER", help="As for --cluster.", autocompletion=cluster_names)],
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="TRACE", help="The jobs that determine the size of auto.")
    ] = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    toml: Annotated[bool, typer.Option("--toml", help="Print a TOML file.")] = False,
    json: JsonOption = False,
) -> None:
    """Draw a cluster."""
    if text.startswith("auto") and trace is None:
        raise RunError("cluster auto is sized from a trace; give it with --trace jobs.csv")

    from shunter import clusters
    from shunter.clusters.picture import draw

    jobs = None
    if trace is not None:
        jobs = read(trace, with_columns(format, columns), on_bad_row)
    found = clusters.load(text, jobs)
    if json:
        print_json({"nodes": found.nodes, "gpus": found.gpus, **dataclasses.asdict(found)})
    elif toml:
        typer.echo(clusters.to_toml(found), nl=False)
    else:
        show(draw(found))

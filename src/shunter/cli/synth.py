"""``shunter trace synth``: make a trace up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shunter.cli.console import ForceOption, SeedOption, note
from shunter.errors import TraceError

EXAMPLES = """Examples:

shunter trace synth jobs.parquet --jobs 5000 --gpus 128 --load 1.1
"""


def synth(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The Parquet file to write.")],
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", help="How many jobs.")] = 5000,
    seed: SeedOption = 0,
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs of the cluster that it is meant for.")] = 128,
    load: Annotated[float, typer.Option("--load", metavar="X", help="GPU time asked for over what those offer.")] = 0.9,
    force: ForceOption = False,
) -> None:
    """Make up a trace that behaves like the published ones."""
    if out.exists() and not force:
        raise TraceError(f"{out}: exists already; choose another name, or replace it with --force")

    from shunter import traces
    from shunter.traces.synthetic import synthetic

    made = synthetic(jobs, seed, gpus, load)
    traces.write(made, out)
    note(f"{len(made):,} jobs written to {out}")

"""``shunter network``: what communication costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import JsonOption, print_json
from shunter.errors import NetworkError

if TYPE_CHECKING:
    from shunter.network.collectives import Dimension

ALLREDUCE_EXAMPLES = """Examples:

shunter network allreduce --bytes 1048576 --dim 8,112.5,500

shunter network allreduce --bytes 1048576 --dim 4,112.5,500,switch --dim 2,50,2000 --algorithm ring,halving-doubling

shunter network allreduce --bytes 1048576 --dim 8,112.5,500,ring --chunks 16 --json
"""

app = typer.Typer(no_args_is_help=True, help="What communication costs.")


@app.callback()
def network() -> None:
    """What communication costs: collectives, models, placements."""


@app.command("allreduce", epilog=ALLREDUCE_EXAMPLES)
def allreduce(
    size: Annotated[int, typer.Option("--bytes", min=0, metavar="N", help="What every GPU contributes.")],
    dim: Annotated[
        list[str],
        typer.Option(
            "--dim",
            metavar="UNITS,GB/s,ns[,TOPOLOGY]",
            help="A dimension, innermost first: units, decimal GB/s per GPU, ns per message, switch (default), ring or "
            "full. Once for each.",
        ),
    ],
    algorithm: Annotated[
        str, typer.Option(metavar="A[,A...]", help="ring or halving-doubling: one for all dimensions, or one for each.")
    ] = "ring",
    scheme: Annotated[str, typer.Option(metavar="S", help="hierarchical or baseline.")] = "hierarchical",
    chunks: Annotated[int, typer.Option(min=1, max=100_000, metavar="K", help="Parts that it is cut into.")] = 1,
    json: JsonOption = False,
) -> None:
    """How long one all-reduce takes."""
    from shunter.network.collectives import allreduce_ns

    algorithms = algorithm.split(",")
    if len(algorithms) not in (1, len(dim)):
        raise NetworkError(
            f"--algorithm {algorithm}: must name one algorithm, or one for each of the {len(dim)} dimensions, "
            f"got {len(algorithms)}"
        )
    if len(algorithms) == 1:
        algorithms *= len(dim)
    dimensions = [_dimension(text, way) for text, way in zip(dim, algorithms, strict=True)]
    us = allreduce_ns(dimensions, size, scheme, chunks) / 1000
    if json:
        print_json({"us": us})
    else:
        typer.echo(f"{us:,.3f} us")


def _dimension(text: str, algorithm: str) -> Dimension:
    """``4,112.5,500,switch``."""
    from shunter.network.collectives import Dimension

    names = ("units", "bandwidth", "latency", "topology")
    fields = dict(zip(names, (part.strip() for part in text.split(",")), strict=False))
    missing = [name for name in names[:3] if not fields.get(name)]
    if missing or text.count(",") > 3:
        what = f"{missing[0]} is missing" if missing else "there is too much"
        raise NetworkError(f"--dim {text}: {what}; write units,GB/s,ns[,topology] as in 4,112.5,500,switch")
    try:
        units, bandwidth, latency = int(fields["units"]), float(fields["bandwidth"]), float(fields["latency"])
    except ValueError:
        raise NetworkError(f"--dim {text}: must be a whole number, GB/s and ns, as in 4,112.5,500,switch") from None
    way = algorithm.strip().lower().replace("_", "-").replace("halvingdoubling", "halving-doubling")
    try:
        return Dimension(units, bandwidth, latency, fields.get("topology", "switch").lower(), way)
    except NetworkError as error:
        raise NetworkError(f"--dim {text}: {error}") from None

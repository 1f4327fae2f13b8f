"""``shunter network``: what communication costs."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from shunter.cli.console import JsonOption, ModelsOption, cluster_names, note, print_json, show
from shunter.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.network.collectives import Dimension
    from shunter.network.models import CatalogueModel

ALLREDUCE_EXAMPLES = """Examples:

shunter network allreduce --bytes 1048576 --dim 8,112.5,500

shunter network allreduce --bytes 1048576 --dim 4,112.5,500,switch --dim 2,50,2000 --algorithm ring,halving-doubling

shunter network allreduce --bytes 1048576 --dim 8,112.5,500,ring --chunks 16 --json
"""

MODELS_EXAMPLES = """Examples:

shunter network models

shunter network models resnet50   # its layers

shunter network models --models mine.toml
"""

TABLE_EXAMPLES = """Examples:

shunter network table   # as in the paper

shunter network table --calibration profiled   # with compute as measured
"""

SLOWDOWN_EXAMPLES = """Examples:

shunter network slowdown resnet50 --gpus 8   # every way to place it

shunter network slowdown resnet50 --placement 4+4   # two machines of a rack

shunter network slowdown bert --placement 4/4 --cluster dally-2rack   # two racks
"""


def _model_names(incomplete: str) -> list[str]:
    import tomllib
    from importlib.resources import files

    text = files("shunter").joinpath("network", "models.toml").read_text("utf-8")  # what checks it is slow to import
    names = [model["name"] for model in tomllib.loads(text)["model"]]
    return [name for name in names if name.startswith(incomplete)]


def _calibrations(incomplete: str) -> list[str]:
    return [name for name in ("paper", "profiled") if name.startswith(incomplete)]


CalibrationOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--calibration", metavar="paper|profiled", autocompletion=_calibrations,
        help="Compute times: scaled down as in Dally's paper, or as measured.",
    ),
]  # fmt: skip
DataOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="Has dally/layers; default: SHUNTER_DATA or ../shared/data."),
]

app = typer.Typer(no_args_is_help=True, help="Compute what communication costs.")


@app.callback()
def network() -> None:
    """Compute what communication costs: collectives, models, placements."""


@app.command("allreduce", epilog=ALLREDUCE_EXAMPLES)
def allreduce(
    size: Annotated[int, typer.Option("--bytes", min=0, metavar="N", help="Bytes per GPU.")],
    dim: Annotated[
        list[str],
        typer.Option(
            "--dim",
            metavar="UNITS,GB/s,ns[,TOPOLOGY]",
            help="A dimension, innermost first: units, decimal GB/s per GPU, ns per message, switch (default), ring or "
            "full. Repeatable.",
        ),
    ],
    algorithm: Annotated[
        str, typer.Option(metavar="A[,A...]", help="ring or halving-doubling: one for all dimensions, or one for each.")
    ] = "ring",
    scheme: Annotated[str, typer.Option(metavar="S", help="hierarchical or baseline.")] = "hierarchical",
    chunks: Annotated[int, typer.Option(min=1, max=100_000, metavar="K", help="Number of chunks.")] = 1,
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


@app.command("models", epilog=MODELS_EXAMPLES)
def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One model.", autocompletion=_model_names)
    ] = None,
    file: ModelsOption = None,
    json: JsonOption = False,
) -> None:
    """List the models, or the layers of one."""
    from shunter.network.models import find
    from shunter.report.terminal import network as view

    known = _catalogue(file)
    found = [find(name, known)] if name else list(known.values())
    if json:
        print_json(view.model_record(found[0], layers=True) if name else [view.model_record(each) for each in found])
    else:
        show(view.layers_view(found[0]) if name else view.models_view(found))


@app.command("table", epilog=TABLE_EXAMPLES)
def table(calibration: CalibrationOption = "paper", data: DataOption = None, json: JsonOption = False) -> None:
    """Dally's Table I beside the printed one: communication as % of compute, 8 GPUs as 2 x 4."""
    from shunter.network import paper
    from shunter.report.terminal.network import table_view

    rows = paper.table(calibration, _folder(data))
    if json:
        print_json({"calibration": calibration, "rows": rows})
    else:
        show(table_view(rows, calibration))


@app.command("slowdown", epilog=SLOWDOWN_EXAMPLES)
def slowdown(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="See 'shunter network models'.", autocompletion=_model_names)
    ],
    gpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="GPUs of the job; shows every placement.")
    ] = None,
    placement: Annotated[
        str | None, typer.Option(metavar="P", help="GPUs per machine joined by +, racks by /, pods by //: 4+4, 4+4/8.")
    ] = None,
    cluster: Annotated[
        str, typer.Option("--cluster", "-c", metavar="C", help="A cluster with tiers.", autocompletion=cluster_names)
    ] = "dally-8rack",
    calibration: CalibrationOption = "profiled",
    file: ModelsOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """What placements cost a model: how many times longer an iteration takes than its computing."""
    from shunter import clusters
    from shunter.network.placing import Costs, TierNetwork, placed, possible_shapes, room
    from shunter.report.terminal import network as view

    found = clusters.with_tiers(clusters.load(cluster))
    costs = Costs(TierNetwork.of(found), calibration, _catalogue(file), _folder(data))
    if placement is not None:
        shapes = [placed(placement, found)]
        if gpus not in (None, prod(shapes[0])):
            raise NetworkError(f"--placement {placement} has {prod(shapes[0])} GPUs, but --gpus says {gpus}")
    elif gpus is not None:
        if gpus > found.gpus:
            raise NetworkError(
                f"--gpus {gpus}: must be at most {found.gpus:,}, the GPUs of cluster '{found.name}'; choose another"
            )
        shapes = possible_shapes(gpus, room(found))
    else:
        raise NetworkError("say where: --gpus 8 for every way to place them, or --placement 4+4 for one")
    rows = [view.cost_record(costs, model, shape, found) for shape in shapes]
    if json:
        print_json(rows[0] if placement is not None else rows)
    else:
        show(view.costs_view(rows))


def _catalogue(file: Path | None) -> Mapping[str, CatalogueModel]:
    """Shunter's models and those of a file, after reporting names that they share."""
    from shunter.network.models import catalogue, remarks

    for remark in remarks(file):
        note(remark)
    return catalogue(file)


def _folder(given: Path | None) -> Path | None:
    """The data folder: the given one must be there."""
    from shunter.safe_files import data_folder

    if given is not None and not given.is_dir():
        raise NetworkError(f"--data {given}: is not a folder; name the one that has dally/layers")
    return given or data_folder()

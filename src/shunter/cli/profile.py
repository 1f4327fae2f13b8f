"""``shunter profile``: measure how workloads share a GPU, and show the measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shunter.cli.console import ForceOption, JsonOption, answer, check_free, note, print_json, show
from shunter.errors import SharingError

EXAMPLES = """Examples:

shunter profile --list   # the workloads

shunter profile --out mygpu   # about 16 minutes on an idle GPU

shunter profile --out mygpu --minutes 9   # the same command goes on later

shunter profile show mygpu
"""

SHOW_EXAMPLES = """Examples:

shunter profile show   # what comes with shunter

shunter profile show --sharing mps --map speeds.svg

shunter profile show mygpu --tree tree.svg   # .json: for another program, or as tree.json in the folder
"""

app = typer.Typer(invoke_without_command=True, help="Measure how workloads share a GPU.", epilog=EXAMPLES)


@app.callback(epilog=EXAMPLES)
def profile(  # noqa: PLR0913, PLR0917  one argument per option
    context: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Output folder; an interrupted measurement continues."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, metavar="S", help="Seconds per measurement.")] = 1.5,
    minutes: Annotated[float | None, typer.Option(min=0, metavar="M", help="Stop after this time.")] = None,
    only: Annotated[str, typer.Option(metavar="NAME,NAME", help="Measure only these workloads.")] = "",
    partners: Annotated[int, typer.Option(min=1, metavar="N", help="Neighbours of each workload.")] = 12,
    gpu: Annotated[int, typer.Option(min=0, metavar="N", help="GPU index, as in nvidia-smi.")] = 0,
    device: Annotated[str, typer.Option(hidden=True)] = "cuda",
    names: Annotated[bool, typer.Option("--list", help="Print the workloads.")] = False,
    json: JsonOption = False,
) -> None:
    """Measure how workloads share a GPU: small training loops, alone and in pairs, watched through NVML.

    Jobs share the GPU through MPS if its daemon runs (nvidia-cuda-mps-control -d), else in turns.
    """
    from shunter.sharing import measuring

    if context.invoked_subcommand is not None:
        return
    if names:
        _list(json)
        return
    if out is None:
        raise SharingError("say where the tables go: --out FOLDER; or see 'shunter profile show' for those that exist")
    chosen = tuple(name for name in only.split(",") if name)
    try:
        missing = measuring.measure(measuring.BenchSettings(out, seconds, minutes, chosen, partners, device, gpu))
    except measuring.MeasuringError as error:
        raise SharingError(str(error)) from None
    if json:
        print_json({"folder": str(out), "missing": missing})
    elif not missing:
        note(f"see it with: shunter profile show {out}")


def _list(json: bool) -> None:
    from shunter.report.terminal.tables import table
    from shunter.sharing.measuring import CONFIGURATIONS

    if json:
        keys = ("name", "kind", "batch", "amp")
        print_json([{key: getattr(each, key) for key in keys} for each in CONFIGURATIONS])
        return
    made = table("workload", "kind", "batch", "mixed precision")
    for each in CONFIGURATIONS:
        made.add_row(each.name, each.kind, f"{each.batch:,}", "yes" if each.amp else "")
    show(made)


@app.command("show", epilog=SHOW_EXAMPLES)
def show_tables(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", help="Output of 'shunter profile'; default: the measurements in the package."
        ),
    ] = None,
    sharing: Annotated[
        str, typer.Option("--sharing", metavar="WAY", help="Which built-in tables: time-slice or mps.")
    ] = "time-slice",
    drawing: Annotated[
        Path | None, typer.Option("--tree", metavar="FILE", help="Write the tree of sharing scores: .svg or .json.")
    ] = None,
    speeds: Annotated[Path | None, typer.Option("--map", metavar="FILE", help="Draw all speeds: .svg.")] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Show what was measured, the interference model and the sharing scores."""
    from shunter.cluster import SHARING
    from shunter.report.terminal.sharing import record, view
    from shunter.sharing import map_svg, profiles, score, tree_svg

    if sharing not in SHARING:
        raise SharingError(f"--sharing must be one of {', '.join(SHARING)}, got '{sharing}'")
    _check_drawing("--tree", drawing, (".svg", ".json"), force)
    _check_drawing("--map", speeds, (".svg",), force)
    found = profiles.read(folder) if folder else profiles.measured(sharing)
    tree = score.of_folder(folder, found) if folder else score.shipped_tree(sharing)
    if drawing is not None:
        _write(drawing, tree_svg.drawn(tree) if drawing.suffix == ".svg" else tree.as_json())
    if speeds is not None:
        _write(speeds, map_svg.drawn(found))
    answer(record(found, tree), view, json)


def _check_drawing(option: str, file: Path | None, ends: tuple[str, ...], force: bool) -> None:
    if file is None:
        return
    if file.suffix not in ends:
        raise SharingError(f"{option} {file}: must end in {' or '.join(ends)}")
    check_free(file, force)


def _write(file: Path, text: str) -> None:
    from shunter.safe_files import whole

    with whole(file, SharingError) as made:
        made.write_text(text, "utf-8")

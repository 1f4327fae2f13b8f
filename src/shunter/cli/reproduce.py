"""``shunter reproduce``: published experiments, run again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from shunter.cli.console import ForceOption, JsonOption, SeedOption, note, policy_names, print_json, progress, show
from shunter.errors import RunError

DALLY_EXAMPLES = """Examples:

shunter reproduce dally   # all of it, into the folder dally-reproduced

shunter reproduce dally --quick --racks 8 --workload batch   # a look

shunter reproduce dally -p dally -p tiresias -p las --repeat 5 --out las-too
"""
OUT = Path("dally-reproduced")
QUICK_REPEATS, QUICK_RACKS = 2, (4, 8)

app = typer.Typer(no_args_is_help=True, help="Run published experiments again, beside what is printed.")


@app.command("dally", epilog=DALLY_EXAMPLES)
def dally(  # noqa: PLR0913, PLR0917  one argument per option
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="W", help="batch or poisson; else both.")
    ] = None,
    racks: Annotated[str, typer.Option("--racks", metavar="N,N", help="Cluster sizes; else 2,4,8,16.")] = "",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", metavar="P", autocompletion=policy_names,
            help="A scheduler by the paper's name, or any policy; once for each; else the paper's and ours.",
        ),
    ] = None,
    repeat: Annotated[int | None, typer.Option("--repeat", metavar="N", help="Runs of each; else 10.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="For a look: 2 repeats of each, on 4 and 8 racks.")] = False,
    seed: SeedOption = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help=f"Keep all here; else {OUT}.")] = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="Processes; else one per core.")] = None,
) -> None:  # fmt: skip
    """Run Dally's evaluation again: its six schedulers and ours, two workloads, four cluster sizes, ten repeats.

    The folder has a page for a browser, which puts the paper's figures and ours side by side (page.html), all numbers
    for scripts (reproduction.json), and one row per run (results.parquet). With --json it is written only where --out
    says.
    """
    for name, value in (("--repeat", repeat), ("--workers", workers)):
        if value is not None and value < 1:
            raise RunError(f"{name} must be >= 1, got {value}")

    from shunter import folders
    from shunter.reproduce.dally import design, page, study, view
    from shunter.reproduce.writing import save

    folder = out or (None if json else OUT)
    if folder is not None:
        folders.check_folder(folder, force)
    wanted = design.Design(
        design.check_workloads(workload or ()),
        design.check_racks(_numbers(racks) or (QUICK_RACKS if quick else ())),
        design.chosen(policy or ()),
        repeat or (QUICK_REPEATS if quick else design.REPEATS),
        seed,
    )
    with progress("reproducing") as tell:
        found = study.run(wanted, workers, tell)
    if found.stands_in:
        note(study.STAND_IN, "stand-in", "bold yellow")
    told = study.summary(found)
    if folder is not None:
        command = shlex.join(["shunter", *sys.argv[1:]])
        save(folder, force, found.trials.table, told, page.dally_page(found, command))
        note(f"{folder / 'page.html'} (open it in a browser)", "page")
    if json:
        print_json(told)
    else:
        show(view.view(found))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise RunError(f"--racks must be whole numbers such as 4,8, got '{text}'") from None

"""``shunter reproduce``: published experiments, run again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli.console import (
    ForceOption,
    JsonOption,
    SeedOption,
    learn,
    note,
    policy_names,
    print_json,
    progress,
    show,
)
from shunter.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from rich.console import RenderableType

    from shunter.reproduce.study import Experiment, Study

DALLY_EXAMPLES = """Examples:

shunter reproduce dally   # all of it, into the folder dally-reproduced

shunter reproduce dally --quick --racks 8 --workload batch   # a look

shunter reproduce dally -p dally -p tiresias -p las --repeat 5 --out las-too
"""
QSSF_EXAMPLES = """Examples:

shunter reproduce qssf   # all of it, into the folder qssf-reproduced

shunter reproduce qssf --quick   # a look: one run of each, two data sets

shunter reproduce qssf --data aaic --repeat 10 --json > aaic.json
"""
LUCID_EXAMPLES = """Examples:

shunter reproduce lucid   # all of it, into the folder lucid-reproduced

shunter reproduce lucid --quick   # a look: one run of each, under one rule

shunter reproduce lucid --data venus-apart --repeat 10 --out apart
"""
SLURM_EXAMPLES = """Examples:

shunter reproduce slurm   # six live runs of some six minutes each, into the folder slurm-reproduced

shunter reproduce slurm --quick   # a look: 64 jobs, Slurm and one policy

shunter reproduce slurm -p f1:backfill=easy -p fifo --jobs 128 --out f1
"""
QUICK_REPEATS, QUICK_RACKS = 2, (4, 8)
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Keep all here; else in NAME-reproduced.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", metavar="N", help="Processes; else one per core.")]

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
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: WorkersOption = None,
) -> None:  # fmt: skip
    """Run Dally's evaluation again: its six schedulers and ours, two workloads, four cluster sizes, ten repeats.

    The folder has a page for a browser, which puts the paper's figures and ours side by side (page.html), all numbers
    for scripts (reproduction.json), and one row per run (results.parquet). With --json it is written only where --out
    says.
    """
    _check_positive(repeat, workers)

    from shunter.reproduce.dally import design, page, study, view

    folder = _folder("dally", out, force, json)
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
        _save(folder, force, found.trials.table, told, page.dally_page(found, _command()))
    _tell(told, view.view(found), json)


@app.command("qssf", epilog=QSSF_EXAMPLES)
def qssf(
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="D", help="philly, philly-fewer, venus or aaic; once for each; else all."),
    ] = None,
    repeat: Annotated[int | None, typer.Option("--repeat", metavar="N", help="Runs of each; else 5.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="For a look: one run of each, on philly-fewer and venus.")
    ] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: WorkersOption = None,
) -> None:  # fmt: skip
    """Run Helios' QSSF again: against FIFO, SJF and SRTF, on Philly, Venus and AAIC, with several kinds of estimates.

    The folder has a page for a browser, which puts what is printed and ours side by side (page.html), all numbers for
    scripts (reproduction.json), and one row per run (results.parquet). With --json it is written only where --out says.
    """
    from shunter.reproduce.qssf import page, view
    from shunter.reproduce.qssf.experiment import EXPERIMENT

    _reproduce(EXPERIMENT, (page.page, view.view), (data or (), repeat, quick, seed), (out, force, json), workers)


@app.command("lucid", epilog=LUCID_EXAMPLES)
def lucid(
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="D", help="venus or venus-apart; once for each; else both.")
    ] = None,
    repeat: Annotated[int | None, typer.Option("--repeat", metavar="N", help="Runs of each; else 5.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="For a look: one run of each, on venus.")] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: WorkersOption = None,
) -> None:
    """Run Lucid's evaluation on Venus again: FIFO, SJF, EASY, QSSF, Tiresias, Lucid, and Lucid without each part.

    The folder has a page for a browser, which puts what is printed and ours side by side (page.html), all numbers for
    scripts (reproduction.json), and one row per run (results.parquet). With --json it is written only where --out says.
    """
    from shunter.reproduce.lucid import page, view
    from shunter.reproduce.lucid.experiment import EXPERIMENT

    _reproduce(EXPERIMENT, (page.page, view.view), (data or (), repeat, quick, seed), (out, force, json), workers)


@app.command("slurm", epilog=SLURM_EXAMPLES)
def slurm(  # noqa: PLR0913, PLR0917  one argument per option
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", help="Jobs of the mix; else 256.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", metavar="P", autocompletion=policy_names,
            help="Who orders the queue in the controller; once for each; else wfp3 and sjf, with backfill=easy.",
        ),
    ] = None,
    interval: Annotated[float, typer.Option("--interval", metavar="S", help="Of the controller, in seconds.")] = 1.0,
    repeat: Annotated[
        int | None, typer.Option("--repeat", metavar="N", help="Live runs of each; else 2, with --quick 1.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="For a look: 64 jobs, and one policy.")] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Run RLTune's experiment on a live Slurm cluster, in small: Slurm's multifactor against our controller.

    It starts a real Slurm with 13 virtual GPUs on this machine (as root; see docs/reference/slurm-lab.md), plays the
    same jobs under each scheduler, and says how far the simulator is off. The folder has a page for a browser
    (page.html), all numbers (reproduction.json), and one row per job and run (results.parquet). With --json it is
    written only where --out says.
    """
    from shunter.reproduce.slurm import design, page, study, view

    folder = _folder("slurm", out, force, json)
    policies = tuple(policy or (study.POLICIES[:1] if quick else study.POLICIES))
    if jobs is None:
        jobs = design.QUICK_JOBS if quick else design.JOBS
    part = study.Part(jobs, policies, interval, seed, (1 if quick else 2) if repeat is None else repeat)
    study.check(part)
    with progress("playing") as tell:
        found = study.run(part, tell)
    told = found.summary()
    if folder is not None:
        _save(folder, force, found.table, told, page.page(found, _command()))
    _tell(told, view.view(found), json)


def _reproduce(
    experiment: Experiment,
    shown: tuple[Callable[[Study, str], str], Callable[[Study], RenderableType]],
    wanted: tuple[Sequence[str], int | None, bool, int],
    kept: tuple[Path | None, bool, bool],
    workers: int | None,
) -> None:
    """Run an experiment of data sets x schedulers: ``shown`` as a page and on the terminal."""
    from shunter.reproduce import study
    from shunter.reproduce.board import check_data

    (data, repeat, quick, seed), (out, force, json), (page, view) = wanted, kept, shown
    _check_positive(repeat, workers)
    folder = _folder(experiment.name, out, force, json)
    names = check_data(data or (experiment.quick if quick else ()), experiment.data)
    part = study.Part(names, repeat or (1 if quick else study.REPEATS), seed, anew=not quick)
    scenes = study.prepared(experiment, part, learn)
    if scenes[1]:
        note(study.STAND_IN, "stand-in", "bold yellow")
    with progress("reproducing") as tell:
        found = study.run(experiment, part, scenes, workers, tell)
    told = found.summary()
    if folder is not None:
        _save(folder, force, found.board.trials.table, told, page(found, _command()))
    _tell(told, view(found), json)


def _check_positive(repeat: int | None, workers: int | None) -> None:
    for name, value in (("--repeat", repeat), ("--workers", workers)):
        if value is not None and value < 1:
            raise RunError(f"{name} must be >= 1, got {value}")


def _folder(name: str, out: Path | None, force: bool, json: bool) -> Path | None:
    """Where all is kept, if that can be; None: nowhere."""
    from shunter import folders

    folder = out or (None if json else Path(f"{name}-reproduced"))
    if folder is not None:
        folders.check_folder(folder, force)
    return folder


def _command() -> str:
    return shlex.join(["shunter", *sys.argv[1:]])


def _save(folder: Path, force: bool, runs: pl.DataFrame, told: dict[str, Any], page: str) -> None:
    from shunter.reproduce.writing import save

    save(folder, force, runs, told, page)
    note(f"{folder / 'page.html'} (open it in a browser)", "page")


def _tell(told: dict[str, Any], shown: RenderableType, json: bool) -> None:
    if json:
        print_json(told)
    else:
        show(shown)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise RunError(f"--racks must be whole numbers such as 4,8, got '{text}'") from None

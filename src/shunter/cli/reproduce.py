"""``shunter reproduce``: published experiments, run again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypeVar

import typer

from shunter.cli.console import (
    DaskOption,
    DeviceOption,
    EvaluationThreadsOption,
    FixedOption,
    ForceOption,
    GeneratorOption,
    JsonOption,
    SearchOption,
    SeedOption,
    WorkersOption,
    answer,
    learn,
    note,
    policy_names,
    progress,
)
from shunter.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from shunter.reproduce.study import PublishedExperiment, Study
    from shunter.reproduce.writing import Reproduction

    T = TypeVar("T", bound=Reproduction)

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
AUTOSCHED_EXAMPLES = """Examples:

shunter reproduce autosched --quick   # a look: one day of Venus, one seed, 8 evaluations every hour

shunter reproduce autosched --data venus -p tiresias --days 7 --out venus-week

shunter reproduce autosched --short   # with ablations: two days of each trace, Tiresias, 10 evaluations every hour

shunter reproduce autosched --recheck   # all of it, with the search every five minutes: many hours

shunter reproduce autosched --short --search bluefin   # with the paper's search

shunter reproduce autosched --short --generator fft-manhattan-after   # the hour after the one that was found
"""
MODELS_EXAMPLES = """Examples:

shunter reproduce autosched-models   # all of it, into the folder autosched-models-reproduced

shunter reproduce autosched-models --quick --data philly
"""
SLURM_EXAMPLES = """Examples:

shunter reproduce slurm   # six live runs of some six minutes each, into the folder slurm-reproduced

shunter reproduce slurm --quick   # a look: 64 jobs, Slurm and one policy

shunter reproduce slurm -p f1:backfill=easy -p fifo --jobs 128 --out f1
"""
RLTUNE_EXAMPLES = """Examples:

shunter reproduce rltune   # all of it, as published: some hours of CPU, into the folder rltune-reproduced

shunter reproduce rltune --quick   # a look: Philly and Lublin, one short training of each agent

shunter reproduce rltune --data philly --table table9 --epochs 20 --episodes 32 --out philly

shunter reproduce rltune --data pai --table table9 --agent rltune --trainings 1 --out pai   # one whole training a side
"""
QOREDL_EXAMPLES = """Examples:

shunter reproduce qoredl   # all of it, into the folder qoredl-reproduced

shunter reproduce qoredl --quick   # a look: two seeds, one load

shunter reproduce qoredl --testbed gpu --repeat 20 --out gpus
"""
QUICK_REPEATS, QUICK_RACKS = 2, (4, 8)
KEPT = (
    "The folder has a page for a browser, which shows the printed results and ours side by side (page.html), all"
    " numbers for scripts (reproduction.json), and the runs as a table (results.parquet). With --json it is"
    " written only where --out says.\n\n"
)
OutOption: TypeAlias = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Output folder; default: NAME-reproduced.")
]
RepeatOption: TypeAlias = Annotated[
    int | None, typer.Option("--repeat", min=1, metavar="N", help="Runs of each case; default: 5, Dally 10.")
]

app = typer.Typer(no_args_is_help=True, help="Repeat published experiments and compare with the printed results.")


class OutputOptions(NamedTuple):
    """Where results go, and in which form."""

    folder: Path | None  # None: they are not kept
    force: bool
    json: bool


@app.command("dally", epilog=KEPT + DALLY_EXAMPLES)
def dally(  # noqa: PLR0913, PLR0917  one argument per option
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="W", help="batch or poisson; default: both.")
    ] = None,
    racks: Annotated[str, typer.Option("--racks", metavar="N,N", help="Cluster sizes; default: 2,4,8,16.")] = "",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", metavar="P", autocompletion=policy_names,
            help="A scheduler by the paper's name, or any policy; repeatable; default: the paper's and ours.",
        ),
    ] = None,
    repeat: RepeatOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Quick version: 2 repeats of each, on 4 and 8 racks.")] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: WorkersOption = None,
    dask: DaskOption = "",
) -> None:  # fmt: skip
    """Run Dally's evaluation again: its six schedulers and ours, two workloads, four cluster sizes, ten repeats."""
    from shunter.reproduce.board import check_data
    from shunter.reproduce.dally import design, page, study, view

    kept = _kept("dally", out, force, json)
    wanted = design.Design(
        check_data(workload or (), design.FILES, "workload"),
        design.check_racks(_numbers(racks) or (QUICK_RACKS if quick else ())),
        design.chosen(policy or ()),
        repeat or (QUICK_REPEATS if quick else design.REPEATS),
        seed,
    )
    with progress("reproducing", "runs") as on_progress:
        found = study.run(wanted, workers, on_progress, dask)
    _say_stand_in(found.stands_in)
    _finish(found, page.page, view.view, kept)


@app.command("qssf", epilog=KEPT + QSSF_EXAMPLES)
def qssf(  # noqa: PLR0913, PLR0917  one argument per option
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="D",
            help="philly, philly-fewer, venus, venus-august, venus-july or aaic; repeatable; default: all.",
        ),
    ] = None,
    repeat: RepeatOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Quick version: one run of each, on philly-fewer and venus.")
    ] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: WorkersOption = None,
    dask: DaskOption = "",
) -> None:  # fmt: skip
    """Run Helios' QSSF again: against FIFO, SJF and SRTF, on Philly, Venus and AAIC, with several estimates."""
    from shunter.reproduce.qssf import page, view
    from shunter.reproduce.qssf.experiment import EXPERIMENT

    kept = _kept("qssf", out, force, json)
    found = _run(EXPERIMENT, data or (), repeat, quick, seed, workers, dask)
    _finish(found, page.page, view.view, kept)


@app.command("lucid", epilog=KEPT + LUCID_EXAMPLES)
def lucid(  # noqa: PLR0913, PLR0917  one argument per option
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="D", help="venus, venus-apart, venus-counted, aaic; repeatable; default: all."),
    ] = None,
    repeat: RepeatOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Quick version: one run of each, on venus.")] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: WorkersOption = None,
    dask: DaskOption = "",
) -> None:
    """Run Lucid's evaluation again, on Venus and AAIC: six schedulers, Lucid, and Lucid without each of its parts."""
    from shunter.reproduce.lucid import page, view
    from shunter.reproduce.lucid.experiment import EXPERIMENT

    kept = _kept("lucid", out, force, json)
    found = _run(EXPERIMENT, data or (), repeat, quick, seed, workers, dask)
    _finish(found, page.page, view.view, kept)


@app.command("rltune", epilog=KEPT + RLTUNE_EXAMPLES)
def rltune(  # noqa: PLR0913, PLR0917  one argument per option
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="D", help="philly, helios, pai, aaic, lublin; repeatable; default: all."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="T",
            help="table9, figure12 (Tables 6 to 8 too), figure17, ablation, rlscheduler; repeatable; default: all.",
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="A",
            help="Which are trained: inspector, rlscheduler, rltune, rltune-naive; repeatable; default: all.",
        ),
    ] = None,
    windows: Annotated[
        int | None, typer.Option("--windows", metavar="N", help="Windows to judge on; default: 12.")
    ] = None,
    repeat: RepeatOption = None,
    trainings: Annotated[
        int | None, typer.Option("--trainings", min=1, metavar="N", help="Trainings of each agent; default: 3.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, metavar="N", help="Epochs of a training; default: 100.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", min=4, metavar="N", help="Windows of an epoch; default: 100.")
    ] = None,
    device: DeviceOption = "cpu",
    quick: Annotated[
        bool, typer.Option("--quick", help="Quick version: philly and lublin, one training of 3 short epochs each.")
    ] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    workers: WorkersOption = None,
    dask: DaskOption = "",
) -> None:  # fmt: skip
    """Run RLTune's tables again, with RLScheduler and SchedInspector, beside orders with the same information.

    Agents are trained with true run times and with estimates, and judged on windows that they have not seen.
    """
    from shunter.reproduce.board import check_data
    from shunter.reproduce.rltune import design, page, study, view

    kept = _kept("rltune", out, force, json)
    usual = design.QUICK_PART if quick else design.RLTunePart()
    part = design.RLTunePart(
        data=check_data(data or usual.data, design.DATA),
        tables=check_data(table or (), design.TABLES, "table"),
        agents=check_data(agent or (), design.AGENTS, "agent"),
        windows=windows or usual.windows,
        draws=repeat or usual.draws,
        trainings=trainings or usual.trainings,
        epochs=epochs or usual.epochs,
        episodes=episodes or usual.episodes,
        seed=seed,
        device=device,
    )
    study.check(part)
    with progress("training", "trainings") as on_training:
        prepared = study.prepare(part, workers, on_training, dask)
    _say_stand_in(prepared.grounds.stands_in)
    with progress("judging", "tables") as on_judging:
        found = study.run(prepared, on_judging)
    _finish(found, page.page, view.view, kept)


TracesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="D", help="philly, venus or pai; repeatable; default: all."),
]


@app.command("autosched", epilog=KEPT + AUTOSCHED_EXAMPLES)
def autosched(  # noqa: PLR0913, PLR0917  one argument per option
    data: TracesOption = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", metavar="P", help="tiresias, themis or lucid; repeatable; default: all."),
    ] = None,
    days: Annotated[float | None, typer.Option("--days", metavar="N", help="Days of each window; default: 14.")] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", min=2, metavar="N", help="Evaluations of each search; default: 40.")
    ] = None,
    recheck: Annotated[bool, typer.Option("--recheck", help="Search every five minutes, too, as published.")] = False,
    fixed: FixedOption = 0,
    search: SearchOption = "random",
    generator: GeneratorOption = "fft-manhattan-itself",
    cluster: Annotated[
        str, typer.Option("--cluster", "-c", metavar="C", help="Machines in place of those of each trace.")
    ] = "",
    repeat: Annotated[int | None, typer.Option("--repeat", min=1, metavar="N", help="Seeds; default: 3.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Quick version: one day of venus, one seed, 8 evaluations.")
    ] = False,
    short: Annotated[
        bool, typer.Option("--short", help="Two days of each trace on fewer machines, tiresias, 10 evaluations.")
    ] = False,
    threads: EvaluationThreadsOption = 1,
    ablations: Annotated[
        bool | None,
        typer.Option("--ablations/--no-ablations", help="AutoSched with other parts; with --quick off by default."),
    ] = None,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Run AutoSched's evaluation again: Tiresias, Themis and Lucid whose settings adapt every hour, and fixed ones."""
    from shunter.reproduce.autosched import design, page, study, view

    if quick and short:
        raise RunError("--quick and --short exclude each other")
    kept = _kept("autosched", out, force, json)
    part = study.check(
        design.AutoschedPart(
            tuple(data or (design.QUICK_DATA if quick else design.DATA)),
            tuple(policy or (design.SHORT_POLICIES if short else design.OBJECTIVES)),
            days or (design.QUICK_DAYS if quick else design.SHORT_DAYS if short else design.DAYS),
            repeat or (1 if quick else design.REPEATS),
            budget or (design.QUICK_BUDGET if quick else design.SHORT_BUDGET if short else design.BUDGET),
            design.RECHECK if recheck else 0,
            fixed,
            search,
            generator,
            seed,
            threads,
            cluster or (design.QUICK_CLUSTER if quick else ""),
            not quick if ablations is None else ablations,
            short and not quick,
        )
    )
    with progress("reproducing", "parts") as on_progress:
        found = study.run(part, on_progress)
    _say_stand_in(found.stands_in)
    _finish(found, page.page, view.view, kept)


@app.command("autosched-models", epilog=KEPT + MODELS_EXAMPLES)
def autosched_models(
    data: TracesOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Quick version: fewer jobs, three days, no runs by distance.")
    ] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Run the models of AutoSched by themselves: classes of run times, generated hours, distances between hours."""
    from shunter.reproduce.autosched import design, models, models_view
    from shunter.reproduce.board import check_data

    kept = _kept("autosched-models", out, force, json)
    part = models.ModelsPart(check_data(data or (), design.DATA), seed, quick)
    with progress("reproducing", "parts") as on_progress:
        found = models.run_models(part, on_progress)
    _say_stand_in(found.stands_in)
    _finish(found, models_view.models_page, models_view.models_view, kept)


@app.command("qoredl", epilog=KEPT + QOREDL_EXAMPLES)
def qoredl(
    testbed: Annotated[
        list[str] | None, typer.Option("--testbed", metavar="T", help="7, 24 or gpu; repeatable; default: all.")
    ] = None,
    repeat: Annotated[int | None, typer.Option("--repeat", min=1, metavar="N", help="Seeds; default: 10.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Quick version: two seeds, one load.")] = False,
    seed: SeedOption = 300,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Run Qore-DL's evaluation again: deadlines met on three testbeds under three loads, by six policies and ours."""
    from shunter.reproduce.board import check_data
    from shunter.reproduce.qoredl import design, page, study, view

    kept = _kept("qoredl", out, force, json)
    beds = check_data(testbed or (), design.TESTBEDS, "testbed")
    loads = design.QUICK_LOADS if quick else design.LOADS
    seeds = repeat or (design.QUICK_SEEDS if quick else design.SEEDS)
    part = study.QoredlPart(beds, loads, seeds, seed)
    with progress("reproducing", "runs") as on_progress:
        found = study.run(part, on_progress)
    _finish(found, page.page, view.view, kept)


@app.command("slurm", epilog=KEPT + SLURM_EXAMPLES)
def slurm(  # noqa: PLR0913, PLR0917  one argument per option
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", help="Number of jobs; default: 256.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", metavar="P", autocompletion=policy_names,
            help="Policy of the controller, repeatable; default: wfp3 and sjf, with backfill=easy.",
        ),
    ] = None,
    interval: Annotated[float, typer.Option("--interval", metavar="S", help="Seconds between rounds.")] = 1.0,
    repeat: Annotated[
        int | None, typer.Option("--repeat", metavar="N", help="Live runs of each; default: 2, with --quick 1.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Quick version: 64 jobs, and one policy.")] = False,
    seed: SeedOption = 0,
    out: OutOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Run RLTune's experiment on a live Slurm cluster, in small: Slurm's multifactor against our controller.

    It starts a real Slurm with 13 virtual GPUs on this machine, as [bold]shunter slurm lab[/bold] does (needs root),
    plays the same jobs under each scheduler, and reports the error of the simulator.
    """
    from shunter.reproduce.slurm import design, page, study, view

    kept = _kept("slurm", out, force, json)
    policies = tuple(policy or (study.POLICIES[:1] if quick else study.POLICIES))
    if jobs is None:
        jobs = design.QUICK_JOBS if quick else design.JOBS
    part = study.SlurmPart(jobs, policies, interval, seed, (1 if quick else 2) if repeat is None else repeat)
    study.check(part)
    with progress("playing") as on_progress:
        found = study.run(part, on_progress)
    _finish(found, page.page, view.view, kept)


def _run(
    experiment: PublishedExperiment,
    data: Sequence[str],
    repeat: int | None,
    quick: bool,
    seed: int,
    workers: int | None,
    dask: str,
) -> Study:
    """Run an experiment of data sets x schedulers."""
    from shunter.reproduce import study
    from shunter.reproduce.board import check_data

    names = check_data(data or (experiment.quick if quick else ()), experiment.data)
    part = study.Part(names, repeat or (1 if quick else study.REPEATS), seed, refitted=not quick)
    setups = study.prepared(experiment, part, learn)
    _say_stand_in(setups[1])
    with progress("reproducing", "runs") as on_progress:
        return study.run(experiment, part, setups, workers, on_progress, dask)


def _say_stand_in(stands_in: bool) -> None:
    from shunter.reproduce.writing import STAND_IN

    if stands_in:
        note(STAND_IN, "stand-in", "bold yellow")


def _kept(name: str, out: Path | None, force: bool, json: bool) -> OutputOptions:
    """Where all is kept, if it can be, before anything is run."""
    from shunter import run_folder

    folder = out or (None if json else Path(f"{name}-reproduced"))
    if folder is not None:
        run_folder.check_folder(folder, force)
    return OutputOptions(folder, force, json)


def _finish(found: T, page: Callable[[T, str], str], view: Callable[[T], RenderableType], kept: OutputOptions) -> None:
    """Write the results and print them."""
    from shunter.reproduce.writing import save

    summary = found.summary()
    if kept.folder is not None:
        save(kept.folder, kept.force, found.table, summary, page(found, shlex.join(["shunter", *sys.argv[1:]])))
        note(f"{kept.folder / 'page.html'} (open it in a browser)", "page")
    answer(summary, lambda _: view(found), kept.json)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise RunError(f"--racks must be whole numbers such as 4,8, got '{text}'") from None

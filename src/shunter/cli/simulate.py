"""``shunter simulate``: one policy on one trace."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import (
    CheckpointableOption,
    ClusterOption,
    ColumnsOption,
    ContentionOption,
    DecisionsOption,
    DropOption,
    ForceOption,
    FormatOption,
    JsonOption,
    LoadOption,
    LossesOption,
    ModelsOption,
    NetworkOption,
    OnBadRowOption,
    OverheadOption,
    ScalingOption,
    SharingOption,
    SinceOption,
    UntilOption,
    answer,
    learn,
    policy_names,
    progress,
    say_about,
    say_stoppable,
    with_columns,
)
from shunter.cli.reports import FiguresOption, ReportOption, check_places, say_figures, write_report
from shunter.errors import RunError
from shunter.extensions import names_module

if TYPE_CHECKING:
    from shunter.experiment import Experiment
    from shunter.simulation import Result

EXAMPLES = """Examples:

shunter simulate jobs.csv --cluster 64x8 --policy fifo

shunter simulate jobs.csv -c philly -p sjf:estimate=oracle,backfill=easy --out runs/sjf

shunter simulate jobs.csv -c 16x8 -p las --report las.html   # charts, for a browser

shunter simulate jobs.csv -c 16x8 -p las --decisions --out runs/las   # then: shunter explain runs/las

shunter simulate synthetic:jobs=2000,gpus=64,load=1.1 -c 8x8 -p las --json

shunter simulate runs/sjf/experiment.toml --set seed=3   # a saved run again, changed
"""


def simulate(  # noqa: PLR0913, PLR0917  one argument per option
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE", help="A trace file, - (standard input), synthetic[:...], or an experiment.toml."
        ),
    ],
    cluster: ClusterOption = None,
    policies: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", metavar="P", help="name or name:key=value,...", autocompletion=policy_names),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Random seed. [0]")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write the run to this folder.")
    ] = None,
    report: ReportOption = None,
    figures: FiguresOption = None,
    batsim_csv: Annotated[
        Path | None, typer.Option("--batsim-csv", metavar="FILE", help="Write the jobs in Batsim's format (jobs.csv).")
    ] = None,
    swf: Annotated[
        Path | None, typer.Option("--swf", metavar="FILE", help="Write the jobs in the Standard Workload Format.")
    ] = None,
    force: ForceOption = False,
    decisions: DecisionsOption = False,
    json: JsonOption = False,
    drop_unfit: DropOption = False,
    network: NetworkOption = None,
    contention: ContentionOption = False,
    models: ModelsOption = None,
    scaling: ScalingOption = None,
    losses: LossesOption = None,
    sharing: SharingOption = None,
    overhead: OverheadOption = None,
    load: LoadOption = None,
    checkpointable: CheckpointableOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change an experiment: policy=, trace.path= ..."),
    ] = None,
) -> None:
    """Run one policy on one trace and show the results."""
    given = {
        "policy": _only(policies), "seed": seed, "cluster.text": cluster, "trace.on_bad_row": on_bad_row,
        "trace.format": with_columns(format, columns), "drop_unfit": drop_unfit or None, "network": network,
        "contention": contention or None, "models": str(models) if models else None, "sharing": sharing,
        "overhead": overhead, "load": load, "checkpointable": checkpointable, "since": since, "until": until,
        "scaling": str(scaling) if scaling else None, "losses": str(losses) if losses else None,
    }  # fmt: skip
    record = _experiment(trace, {key: value for key, value in given.items() if value is not None}, settings or [])
    if swf is not None and not swf.name.lower().endswith((".swf", ".swf.gz")):
        raise RunError(f"--swf {swf}: must end in .swf or .swf.gz; choose another name")
    check_places(force, decisions, out, report, batsim_csv, swf, figures=figures)
    result = _simulated(record, decisions or report is not None, out, force)
    if report is not None:
        write_report(report, [result.kept])
    if figures is not None:
        say_figures(figures, result.figures(figures, force))
    _export(result, batsim_csv, swf)

    from shunter.report.terminal.tables import summary_view

    answer(result.summary, summary_view, json)
    say_stoppable(result.trace, record.checkpointable, result.summary["preemptions"])


def _simulated(record: Experiment, decisions: bool, out: Path | None, force: bool) -> Result:
    """Fit what the policy learns, run it and keep it; in the folder for its output others see how far it is."""
    from shunter import simulation
    from shunter.setup import recorded_setup
    from shunter.under_way import RunPoint, UnderWay, shown

    chosen = simulation.resolve(record.policy)
    setup = recorded_setup(record, chosen.policy)
    say_about(setup, record.cluster.text, [chosen])
    (chosen,) = learn(setup, [chosen])
    jobs, gpus = len(setup.trace), setup.cluster.gpus
    about = UnderWay("run", setup.trace.name, record.cluster.text, [record.policy], total=jobs, gpus=gpus)
    with progress("simulating") as on_progress, shown(out, about) as others:

        def count(point: RunPoint) -> None:
            on_progress(point.ended, jobs)
            others.reach(point, jobs)

        result = simulation.run(setup, chosen, record.seed, record.repeat, count, decisions)
        if out is not None:
            result.save(out, force)  # as long as it is not there, it is under way
    return result


def _only(policies: list[str] | None) -> str | None:
    if policies and len(policies) > 1:
        raise RunError(f"simulate runs one policy, got {', '.join(policies)}; use shunter compare for several")
    return policies[0] if policies else None


def _export(result: Result, batsim_csv: Path | None, swf: Path | None) -> None:
    """The jobs as others write them."""
    from shunter import traces
    from shunter.report import batsim

    if batsim_csv is not None:
        batsim.write(result.kept, batsim_csv)
    if swf is not None:
        traces.write(result.recorded, swf)


def _experiment(trace: str, given: dict[str, object], settings: list[str]) -> Experiment:
    """What is to be run: an experiment file or a trace, with the options in place of what the file says."""
    from shunter import experiment

    twice = {setting.partition("=")[0].strip() for setting in settings} & set(given)
    if twice:
        raise RunError(f"'{min(twice)}' is given by an option and by --set; leave one out")
    if trace.endswith(".toml"):
        record = experiment.read(Path(trace))
        _check_code(trace, record, {*given, *(setting.partition("=")[0].strip() for setting in settings)})
    else:
        record = dataclasses.replace(experiment.Experiment(), trace=experiment.TraceSource(trace))
    record = experiment.override(record, [f"{key}={_text(value)}" for key, value in given.items()])
    record = experiment.override(record, settings)
    if not record.policy:
        raise RunError("there is no policy; give one, such as --policy fifo ('shunter policies' lists them)")
    if not record.cluster.text and not record.cluster.definition:
        raise RunError("there is no cluster; give one, such as --cluster 64x8, or --cluster auto")
    return record


def _check_code(file: str, record: Experiment, chosen: set[str]) -> None:
    """A file may come from others: what it names is not imported unless the user names it too."""
    named = {"policy": record.policy, "trace.format": record.trace.format}
    for key, text in named.items():
        if key not in chosen and names_module(text):
            raise RunError(
                f"{file}: its {key} '{text}' is a module, which can do anything when it is run; if you trust it, name"
                f" it yourself: --set '{key}={text}'"
            )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""``shunter adapt``: settings that are searched again every hour, beside settings that stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from shunter.cli.console import (
    CheckpointableOption,
    ClusterOption,
    ColumnsOption,
    DropOption,
    EvaluationThreadsOption,
    FixedOption,
    FormatOption,
    GeneratorOption,
    JsonOption,
    LoadOption,
    OnBadRowOption,
    OverheadOption,
    SearchedPolicyOption,
    SearchOption,
    SeedOption,
    SinceOption,
    TraceArgument,
    UntilOption,
    answer,
    check_free,
    milliseconds,
    named_cluster,
    note,
    progress,
    say_about,
    say_searchable,
    say_stoppable,
    with_columns,
)
from shunter.errors import RunError

if TYPE_CHECKING:
    from shunter.adapting.controller import AdaptedRun
    from shunter.setup import Setup

EXAMPLES = """Examples:

shunter adapt jobs.csv -c 64x8 -p tiresias --since +30 --until +37   # a week, after a month to learn from

shunter adapt jobs.csv -c 64x8 -p themis --objective rho --source past --json

shunter adapt jobs.csv -c 64x8 -p tiresias --recheck 5m --generator fft-manhattan-itself --predictor lightgbm
"""


EveryOption: TypeAlias = Annotated[
    str, typer.Option("--every", metavar="T", help="Time between searches: 30m, 1h, 4h.")
]
RecheckOption: TypeAlias = Annotated[
    str, typer.Option("--recheck", metavar="T", help="Search in between, and switch at 1.1x: 5m; 0: never.")
]
SourceOption: TypeAlias = Annotated[
    str, typer.Option("--source", metavar="past|generated|truth", help="Whose switches are shown; all are run.")
]
SearchBudgetOption: TypeAlias = Annotated[
    int, typer.Option("--budget", min=2, metavar="N", help="Evaluations of each search.")
]
ObjectiveOption: TypeAlias = Annotated[
    str, typer.Option("--objective", metavar="jct|rho", help="Mean JCT, or the share of jobs with rho above 1.")
]
GainOption: TypeAlias = Annotated[
    float, typer.Option("--gain", min=1, metavar="X", help="Switch only to settings at least X times as good.")
]
PredictorOption: TypeAlias = Annotated[
    str, typer.Option("--predictor", metavar="M", help="Run times of unfinished jobs: past, lightgbm, forest ...")
]
CausalOption: TypeAlias = Annotated[
    str,
    typer.Option("--causal", metavar="layers|fci", help="Use a causal model to skip settings without running them."),
]
AggregateOption: TypeAlias = Annotated[
    bool, typer.Option("--aggregate", help="Merge waiting jobs that are alike before settings are tried.")
]
GraphOption: TypeAlias = Annotated[
    Path | None, typer.Option("--graph", metavar="FILE", help="Draw the causal model (with --causal): .html or .svg.")
]
RepositoryOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--repository", metavar="DIR", help="Ended jobs by hour: read as more past, then added to."),
]


def adapt(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    cluster: ClusterOption = None,
    policy: SearchedPolicyOption = "tiresias",
    every: EveryOption = "1h",
    recheck: RecheckOption = "0",
    source: SourceOption = "generated",
    budget: SearchBudgetOption = 40,
    search: SearchOption = "random",
    objective: ObjectiveOption = "jct",
    gain: GainOption = 1.0,
    generator: GeneratorOption = "auto",
    predictor: PredictorOption = "past",
    fixed: FixedOption = 0,
    causal: CausalOption = "",
    aggregate: AggregateOption = False,
    graph: GraphOption = None,
    threads: EvaluationThreadsOption = 1,
    repository: RepositoryOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    seed: SeedOption = 0,
    overhead: OverheadOption = None,
    load: LoadOption = None,
    checkpointable: CheckpointableOption = None,
    json: JsonOption = False,
    drop_unfit: DropOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Search the settings of a policy again every hour while it runs, and compare with settings that stay.

    Side by side: the policy as given; Fixed, the best settings on the jobs before, and in hindsight; SelfTune, which
    searches on the hour before; AutoSched, on an hour that it generates; Optimal, on the hour that comes. All adapting
    ones begin with Fixed, and Fixed is searched in up to as many evaluations as they have.
    """
    format = with_columns(format, columns)  # noqa: A001
    cluster = named_cluster(cluster)

    from shunter.adapting.controller import SearchTimes
    from shunter.adapting.study import SOURCES, Adapting, AdaptingOptions, checked
    from shunter.clusters.stop_costs import USUAL
    from shunter.errors import did_you_mean
    from shunter.generating.repository import WorkloadRepository
    from shunter.report.terminal.adapting import adapting_view
    from shunter.setup import set_up

    if graph is not None:
        if not causal or graph.suffix not in (".html", ".svg"):
            raise RunError("--graph draws a causal model; add --causal layers, and name a file ending in .html or .svg")
        check_free(graph, force=True)
    if source not in SOURCES:
        raise RunError(f"there is no source '{source}'; {did_you_mean(source, SOURCES)}")
    times = SearchTimes(milliseconds("--every", every), milliseconds("--recheck", recheck, 0), gain)
    options = checked(
        AdaptingOptions(
            policy, budget, search, objective, times, generator, predictor, fixed, seed, threads, causal, aggregate
        )
    )
    if repository is not None and load:
        raise RunError("--load changes when jobs come, and --repository keeps when they came; leave one of the two out")
    setup = set_up(
        trace, cluster, [policy] if drop_unfit else (), format, on_bad_row or "fail", since=since or "",
        until=until or "", overhead=USUAL if overhead is None else overhead, load=load or "",
        checkpointable=checkpointable or "",
    )  # fmt: skip
    setup = _with_repository(setup, repository)
    work = Adapting(setup, options)
    say_about(setup, cluster, [work.given])
    say_searchable(policy)
    with progress("adapting", "searches") as on_progress:
        found = work.run(on_progress)
    say_stoppable(setup.trace, checkpointable or "", max(run.preemptions for run in found.runs.values()))
    answer(found.as_dict(), lambda study: adapting_view(study, SOURCES[source]), json)
    if repository is not None:
        kept = WorkloadRepository(repository)
        kept.add(setup.trace)
        for problem in kept.problems:
            note(problem, "left out", "bold yellow")
    if graph is not None:
        _draw(found.runs[SOURCES[source]], found.options.policy, graph)


def _draw(run: AdaptedRun, policy: str, file: Path) -> None:
    """Write the causal model of a run."""
    from shunter.adapting.graph_drawing import page, svg
    from shunter.adapting.rejecting import FEWEST_RUNS
    from shunter.safe_files import whole

    if run.causal is None:
        raise RunError(
            f"{file}: not drawn, because a causal model needs {FEWEST_RUNS} evaluations; choose a later --until, or a"
            " larger --budget"
        )
    reasons = [reason for each in run.searches for reason in each.reasons]
    with whole(file, RunError) as made:
        made.write_text(svg(run.causal) if file.suffix == ".svg" else page(run.causal, policy, reasons), "utf-8")


def _with_repository(setup: Setup, folder: Path | None) -> Setup:
    """The same with the jobs of a repository as more past."""
    if folder is None:
        return setup

    from shunter.generating.repository import WorkloadRepository, check_folder, with_past

    kept = WorkloadRepository(check_folder(folder))
    more = kept.read(setup.trace, int(setup.trace.submit[0]))
    for problem in kept.problems:
        note(problem, "left out", "bold yellow")
    return replace(setup, history=with_past(setup.history, more))

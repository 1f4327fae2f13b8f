"""``shunter tune``: settings of a policy, chosen by simulating the past."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from shunter.cli.console import (
    CheckpointableOption,
    ClusterOption,
    ColumnsOption,
    DaskOption,
    DropOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    OverheadOption,
    SearchedPolicyOption,
    SeedOption,
    TraceArgument,
    UntilOption,
    WorkersOption,
    answer,
    learn,
    named_cluster,
    note,
    progress,
    say_about,
    say_searchable,
    say_stoppable,
    with_columns,
)
from shunter.errors import RunError

EXAMPLES = """Examples:

shunter tune jobs.csv -c 64x8 -p lucid --since +30   # evaluated after the first month, learned from that month

shunter tune jobs.csv -c 64x8 -p lucid --try profile_time=60/200/500 --try profile_nodes=1/2/4 --repeat 5

shunter tune jobs.csv -c 64x8 -p any --budget 200    # the best policy and its settings for this site

shunter tune jobs.csv -c 16x8 -p dally --try lease=600/1800/3600 --objective jct --objective tail --json
"""


TryOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--try", metavar="KEY=V/V", help="Values to try, once per parameter; default: settings are drawn."),
]
ObjectivesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--objective",
        metavar="jct|wait|tail|deadlines",
        help="Mean JCT (default), mean wait, P99 of the wait, or deadlines missed; repeatable: a Pareto front.",
    ),
]
LearnedSinceOption: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="T", help="Start of the evaluation; earlier jobs are learned from.")
]
ValidateOption: TypeAlias = Annotated[
    str,
    typer.Option("--validate", metavar="T|none", help="Judge on jobs from T on; default: the last third."),
]
BudgetOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--budget",
        min=1,
        metavar="N",
        show_default=False,
        help="Settings to draw from declared ranges; default: 40; any: 200.",
    ),
]
TuningSearchOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--search", metavar="S", help="How settings are drawn: random, halving, bluefin, bluefin-one, tpe or cmaes."
    ),
]
AgainstOption: TypeAlias = Annotated[
    str, typer.Option("--against", metavar="P", help="Compare with this policy; default: as given; any: tiresias.")
]
RepeatOption: TypeAlias = Annotated[
    int, typer.Option("--repeat", min=1, metavar="N", help="Runs of each setting, by seeds.")
]


def tune(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    cluster: ClusterOption = None,
    policy: SearchedPolicyOption = "",
    tries: TryOption = None,
    objective: ObjectivesOption = None,
    since: LearnedSinceOption = None,
    until: UntilOption = None,
    validate: ValidateOption = "",
    budget: BudgetOption = None,
    search: TuningSearchOption = "random",
    against: AgainstOption = "",
    repeat: RepeatOption = 1,
    overhead: OverheadOption = None,
    checkpointable: CheckpointableOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    drop_unfit: DropOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    workers: WorkersOption = None,
    dask: DaskOption = "",
) -> None:
    """Simulate past jobs with different settings of a policy, and report the best.

    Settings are drawn from the ranges that the policy declares; with --policy any, policies are, too. With --try, one
    parameter is tried after another.

    The last third of the jobs (for a synthetic trace: another draw) is kept for validation: the best settings and the
    policy as given are run there once, and the output says whether the gain is seen again. Finished runs are cached for
    a month: the same command continues where it was stopped.
    """
    format = with_columns(format, columns)  # noqa: A001
    if not policy:
        raise RunError("there is no policy; give one, such as --policy tiresias, or draw from all with --policy any")
    cluster = named_cluster(cluster)

    from shunter.clusters.stop_costs import USUAL, text_of
    from shunter.report.terminal.tuning import tuning_view
    from shunter.simulation import resolve
    from shunter.tuning.spaces import ANY
    from shunter.tuning.tuning import prepared, tuned

    task = prepared(
        trace, cluster, policy, tries or (), objective or ("jct",), since or "", until or "", validate, seed,
        drop_unfit, format, on_bad_row or "fail", budget or 0, search, against,
        text_of(USUAL if overhead is None else overhead), checkpointable or "",
    )  # fmt: skip
    named = resolve(task.policy)
    say_about(task.ground.setup(task.place), cluster, [named])
    if task.spaces:
        say_searchable(policy)
    if policy == ANY and not against:
        note(f"gains are over the default {named.text}; name your site's present policy with --against")
    for place in filter(None, (task.place, task.later)):
        learn(task.ground.setup(place), [named])
    with progress("tuning", "runs") as on_progress:
        found = tuned(task, repeat, workers, dask, on_progress)
    stops = int(found.best.numbers["preemptions"])
    say_stoppable(task.ground.setup(task.place).trace, checkpointable or "", stops)
    answer(found.as_dict(), tuning_view, json)

"""``shunter tune``: settings of a policy, chosen by simulating the past."""

from __future__ import annotations

from typing import Annotated

import typer

from shunter.cli.console import (
    ClusterOption,
    ColumnsOption,
    DropOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    SeedOption,
    TraceArgument,
    UntilOption,
    learn,
    policy_names,
    print_json,
    progress,
    say_about,
    show,
    with_columns,
)
from shunter.errors import RunError

EXAMPLES = """Examples:

shunter tune jobs.csv -c 64x8 -p lucid --since +30   # on what came after the first month, learned from that month

shunter tune jobs.csv -c 64x8 -p lucid --try profile_time=60/200/500 --try profile_nodes=1/2/4

shunter tune jobs.csv -c 16x8 -p dally --try lease=600/1800/3600 --objective tail --json
"""


def tune(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    cluster: ClusterOption = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="P", autocompletion=policy_names, help="name or name:key=value,...")
    ] = "",
    tries: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="KEY=V/V", help="Values to try, once per parameter; default: as declared."),
    ] = None,
    objective: Annotated[
        str, typer.Option("--objective", metavar="jct|wait|tail", help="Mean JCT, mean wait, or P99 of the wait.")
    ] = "jct",
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Start of the evaluation; earlier jobs are learned from.")
    ] = None,
    until: UntilOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    drop_unfit: DropOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Try settings of a policy in simulations of the past, one parameter after the other, and report the best.

    Tune on jobs that you don't evaluate on: settings look better on the jobs that they were chosen on than they will on
    others.
    """
    format = with_columns(format, columns)  # noqa: A001
    if not policy:
        raise RunError("there is no policy; give one, such as --policy lucid")
    if cluster is None:
        raise RunError("there is no cluster; give one, such as --cluster 64x8, or --cluster auto")

    from shunter.clusters.stop_costs import USUAL
    from shunter.errors import did_you_mean
    from shunter.report.terminal.tuning import tuning_view
    from shunter.setup import set_up
    from shunter.simulation import resolve
    from shunter.tune import search

    if objective not in search.OBJECTIVES:
        raise RunError(f"there is no objective '{objective}'; {did_you_mean(objective, search.OBJECTIVES)}")
    grid = search.grid_of(policy, tries or ())
    named = resolve(policy)
    must_fit = [named.policy] if drop_unfit else ()
    setup = set_up(
        trace, cluster, must_fit, format, on_bad_row or "fail", since=since or "", until=until or "", overhead=USUAL
    )
    say_about(setup, cluster, [named])
    learn(setup, [named])
    with progress("tuning") as on_progress:
        tried = search.tune(setup, policy, grid, objective, seed, on_progress)
    if json:
        rows = [{"policy": each.policy, "value_s": each.value, **_numbers(each.summary)} for each in tried]
        print_json({"objective": objective, "best": tried[0].policy, "tried": rows})
    else:
        show(tuning_view([(each.policy, each.summary) for each in tried], objective))


def _numbers(summary: dict[str, object]) -> dict[str, object]:
    return {key: summary[key] for key in ("jct_s", "wait_s")}
